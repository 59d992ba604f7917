"""The data on one wrong gradient, and the criterion by which an explanation is accepted.

An explanation such as "it is the transpose" is tested by a repair of the analytic gradient. It is
accepted if the repaired gradient is right wherever the numerical one is known, and if that is
significant: an entry that was wrong by d and is now right to within r counts log10(d / r) digits,
and the wrong entries together must have DIGITS, not counting the best one for each fitted number.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from grads.check.case import Labels

DIGITS = 7.0  # a chance of 1e-7 each, for a few hundred explanations that are tried
CLEAR = 100  # times the allowed difference: from this size on an entry is significant
NONE: Mapping[str, Any] = MappingProxyType({})

Array = np.ndarray


class Evidence(NamedTuple):
    """About one tensor whose gradient is wrong; NaN where the numerical one was not computed."""

    name: str
    analytic: Array
    numeric: Array  # same shape
    allowed: Array  # same shape: the allowed absolute difference
    labels: Labels | None = None
    alone: Mapping[str, tuple[Array, Array]] = NONE  # output -> analytic, numeric through it alone
    inputs: Mapping[str, Array] = NONE  # of the whole case, like the next two
    all_labels: Mapping[str, Labels] = NONE
    facts: Mapping[str, Any] = NONE  # "ids", "lengths", "padding"
    others: Mapping[str, Array] = NONE  # numerical gradients of the other tensors
    upstream: Mapping[str, Array] = NONE  # upstream gradients by output
    outputs: Mapping[str, Array] = NONE

    @property
    def pair(self) -> Pair:
        """The two gradients, all outputs together."""
        return make_pair(self.analytic, self.numeric, self.allowed)

    def pair_alone(self, output: str) -> Pair:
        """The two gradients through one output."""
        analytic, numeric = self.alone[output]
        return make_pair(analytic, numeric, self.allowed)


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
        """Whether `repaired` (NaN: not compared) is right, and significantly so.

        stretch: the factor by which the repair amplifies the rounding of the analytic gradient;
        fitted: how many numbers the repair fits.
        """
        both = self.known & np.isfinite(repaired)
        limit = (self.allowed * (1 + stretch))[both]
        if not both.any() or (np.abs(repaired[both] - self.numeric[both]) > limit).any():
            return False
        if 2 * (self.wrong & both).sum() < self.wrong.sum():
            return False
        return digits(self.gap[both], limit, fitted) >= DIGITS


def make_pair(analytic: Array, numeric: Array, allowed: Array) -> Pair:
    """A pair in float64; the allowed difference is at least the rounding of the largest entry."""
    a, n = (np.asarray(part).real.astype(np.float64) for part in (analytic, numeric))
    if a.shape != n.shape:
        raise ValueError(f"analytic: expected the shape of numeric, {n.shape}, got {a.shape}")
    finite = np.concatenate([part[np.isfinite(part)] for part in (a, n)])
    least = max(np.finfo(np.float64).eps * np.abs(finite).max(initial=0.0), 1e-300)
    slack = np.broadcast_to(np.asarray(allowed, np.float64), a.shape)
    usual = float(slack[np.isfinite(slack)].max(initial=0.0))
    return Pair(a, n, np.maximum(np.where(np.isfinite(slack), slack, usual), least))


def digits(before: Array, after: Array, fitted: int = 0) -> float:
    """The decimal digits gained over all entries, not counting the best `fitted` of them."""
    gained = np.sort(np.log10(np.maximum(before / after, 1.0)), axis=None)
    return float(gained[: max(gained.size - fitted, 0)].sum())


def sizes(evidence: Evidence) -> list[tuple[str, float]]:
    """Names and values of the factors that a wrong mean or sum causes."""
    letters = {"time": "T", "batch": "B", "position": "S", "row": "rows"}
    found: dict[str, set[int]] = {letter: set() for letter in letters.values()}
    labelled = dict(evidence.all_labels) | (
        {evidence.name: evidence.labels} if evidence.labels is not None else {})
    for name, labels in labelled.items():
        shape = np.shape(evidence.inputs.get(name, evidence.analytic))
        for label, size in zip(labels.axes, shape, strict=False):
            if label in letters:
                found[letters[label]].add(size)
    if "lengths" in evidence.facts:
        lengths = np.asarray(evidence.facts["lengths"])
        found["B"].add(lengths.size)
        found["the number of real steps"] = {int(lengths.sum())}
    named = [(name, value) for name, values in found.items() for value in sorted(values)]
    named += [(f"B*{letter}", b * t) for letter in "TS" for b in sorted(found["B"])
              for t in sorted(found[letter])]
    if not labelled:  # the axes have no labels
        lengths_of: dict[int, str] = {}
        for name, value in evidence.inputs.items():
            for axis, length in enumerate(np.shape(value)):
                lengths_of.setdefault(int(length), f"the length of axis {axis} of {name}")
        for name, out in evidence.outputs.items():
            lengths_of.setdefault(out.size, f"the size of output {name}")
            for axis, length in enumerate(out.shape):
                lengths_of.setdefault(out.size // max(length, 1),
                                      f"the size of output {name} without axis {axis}")
        named += [(name, length) for length, name in lengths_of.items() if length > 2]
    both = [pair for name, value in named if value > 1
            for pair in ((name, float(value)), (f"1/({name})" if " " in name or "*" in name
                                                else f"1/{name}", 1 / value))]
    for name, upstream in evidence.upstream.items():
        if np.size(upstream) == 1 and 1e-3 < abs(u := float(np.sum(upstream))) < 1e3:
            both += [(f"1/(upstream gradient of {name})", 1 / u),
                     (f"the upstream gradient of {name}", u)]
    return list(dict.fromkeys(both))
