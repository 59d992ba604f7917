"""The data on a wrong gradient, and the criterion by which an explanation is accepted.

To test an explanation such as "it is the transpose", the analytic gradient is repaired. The
explanation is accepted if the repaired gradient is right wherever the numerical gradient is known,
and if this is significant: an entry that was wrong by d and is now right to within r counts
log10(d / r) digits, and the wrong entries together must have DIGITS. For each number that the
repair fits, the entry with the most digits does not count.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from grads.check.case import Labels

DIGITS = 7.0  # a wrong explanation passes with chance 1e-7; a few hundred are tried
CLEAR = 100  # an entry of 100 times the allowed difference is significant
NONE: Mapping[str, Any] = MappingProxyType({})

Array = np.ndarray


class Evidence(NamedTuple):
    """The data on a tensor whose gradient is wrong. Numbers not computed are NaN."""

    name: str
    analytic: Array
    numeric: Array  # same shape
    allowed: Array  # same shape: the allowed absolute difference
    labels: Labels | None = None
    inputs: Mapping[str, Array] = NONE  # of the whole case
    others: Mapping[str, Array] = NONE  # numerical gradients of the other tensors
    upstream: Mapping[str, Array] = NONE  # upstream gradients by output
    outputs: Mapping[str, Array] = NONE

    @property
    def pair(self) -> Pair:
        """The two gradients, all outputs together."""
        return make_pair(self.analytic, self.numeric, self.allowed)


class Pair(NamedTuple):
    """An analytic and a numerical gradient, and the allowed difference."""

    analytic: Array
    numeric: Array
    allowed: Array

    @property
    def known(self) -> Array:
        """Where the numerical gradient was computed."""
        return np.isfinite(self.numeric)

    @property
    def gap(self) -> Array:
        """|analytic - numeric|, zero where it is not known."""
        return np.where(self.known, np.abs(self.analytic - self.numeric), 0.0)

    @property
    def wrong(self) -> Array:
        """Where the analytic gradient is certainly wrong."""
        return ~(self.gap <= self.allowed)

    @property
    def significant(self) -> Array:
        """Where the gradient is large enough that a fault would show."""
        return self.known & (np.abs(self.numeric) > CLEAR * self.allowed)

    def at(self, where: Any) -> Pair:
        """The pair of a part of the tensor."""
        return Pair(self.analytic[where], self.numeric[where], self.allowed[where])

    def accepts(self, repaired: Array, stretch: float | Array = 1.0, fitted: int = 0) -> bool:
        """Whether the repaired gradient is right, and this is significant.

        Arguments: repaired, NaN at entries that are not compared; stretch, the factor by which the
        repair amplifies the rounding of the analytic gradient; fitted, the number of numbers that
        the repair fits.
        """
        compared = self.known & np.isfinite(repaired)
        limit = (self.allowed * (1 + stretch))[compared]
        gap = np.abs(repaired[compared] - self.numeric[compared])
        if not compared.any() or (gap > limit).any():
            return False
        if 2 * (self.wrong & compared).sum() < self.wrong.sum():
            return False
        return digits(self.gap[compared], limit, fitted) >= DIGITS


def make_pair(analytic: Array, numeric: Array, allowed: Array) -> Pair:
    """A pair in float64. The allowed difference is at least the rounding of the largest entry.

    Raises ValueError if the gradients differ in shape.
    """
    a, n = (np.asarray(array).real.astype(np.float64) for array in (analytic, numeric))
    if a.shape != n.shape:
        raise ValueError(f"analytic: expected the shape of numeric, {n.shape}, got {a.shape}")
    finite = np.concatenate([array[np.isfinite(array)] for array in (a, n)])
    least = max(np.finfo(np.float64).eps * np.abs(finite).max(initial=0.0), 1e-300)
    slack = np.broadcast_to(np.asarray(allowed, np.float64), a.shape)
    usual = float(slack[np.isfinite(slack)].max(initial=0.0))
    return Pair(a, n, np.maximum(np.where(np.isfinite(slack), slack, usual), least))


def digits(before: Array, after: Array, fitted: int = 0) -> float:
    """The decimal digits gained over all entries, except for the best `fitted` entries."""
    gained = np.sort(np.log10(np.maximum(before / after, 1.0)), axis=None)
    return float(gained[: max(gained.size - fitted, 0)].sum())
