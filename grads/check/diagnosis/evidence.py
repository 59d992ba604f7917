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

    def accepts(self, repaired: Array, stretch: float = 1.0, fitted: int = 0) -> bool:
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


def lengths_of(evidence: Evidence) -> Array | None:
    """(B,) real steps of each batch item; None if unknown."""
    lengths = evidence.facts.get("lengths")
    return None if lengths is None else np.asarray(lengths).reshape(-1)


def grid_axes(evidence: Evidence) -> tuple[int, int, Array] | None:
    """The time axis, the batch axis and the lengths, for a tensor that has all three."""
    lengths, labels = lengths_of(evidence), evidence.labels
    if lengths is None or labels is None or len(labels.axes) != evidence.analytic.ndim:
        return None
    shape = evidence.analytic.shape
    for time in ("time", "position"):
        if time in labels.axes and "batch" in labels.axes:
            t, b = labels.axes.index(time), labels.axes.index("batch")
            if shape[b] == lengths.size and lengths.size and shape[t] == lengths.max():
                return t, b, lengths
    return None


def padding_of(evidence: Evidence) -> Array | None:
    """Bool of the tensor's shape, True where padding is, or None where that is not known."""
    shape, axes = evidence.analytic.shape, grid_axes(evidence)
    padding = evidence.facts.get("padding")
    if isinstance(padding, np.ndarray) and padding.dtype == bool and padding.shape == shape:
        return padding
    if axes is None:
        return None
    t, b, lengths = axes
    grid = np.arange(shape[t])[:, None] >= lengths  # (T, B)
    wide = grid if t < b else grid.T
    order = [shape[k] if k in (t, b) else 1 for k in range(len(shape))]
    return np.broadcast_to(wide.reshape(order), shape)


def sizes(evidence: Evidence) -> list[tuple[str, float]]:
    """Names and values of the factors that a wrong mean or sum causes."""
    found: dict[str, set[int]] = {"T": set(), "B": set(), "S": set(), "rows": set()}
    letters = {"time": "T", "batch": "B", "position": "S", "row": "rows"}
    tensors = {**evidence.inputs, evidence.name: evidence.analytic}
    labelled = dict(evidence.all_labels)
    if evidence.labels is not None:
        labelled[evidence.name] = evidence.labels
    for name, labels in labelled.items():
        shape = np.shape(tensors[name]) if name in tensors else ()
        for axis, size in zip(labels.axes, shape, strict=False):
            if axis in letters:
                found[letters[axis]].add(size)
    lengths = lengths_of(evidence)
    if lengths is not None:
        found["B"].add(lengths.size)
        found["the number of real steps"] = {int(lengths.sum())}
    named = [(name, value) for name, values in found.items() for value in sorted(values)]
    if not labelled:  # the axes have no labels
        lengths_by_axis = {size: f"the length of axis {axis} of {name}"
                           for name, value in reversed(list(evidence.inputs.items()))
                           for axis, size in enumerate(np.shape(value)) if size > 2}
        named += [(name, size) for size, name in lengths_by_axis.items()]
    named += [(f"B*{letter}", b * t) for letter in "TS" for b in sorted(found["B"])
              for t in sorted(found[letter])]
    both = [pair for name, value in named if value > 1
            for pair in ((name, float(value)), (f"1/({name})" if " " in name or "*" in name
                                                else f"1/{name}", 1 / value))]
    for name, upstream in evidence.upstream.items():
        if np.size(upstream) == 1 and 1e-3 < abs(u := float(np.sum(upstream))) < 1e3:
            both += [(f"1/(upstream gradient of {name})", 1 / u),
                     (f"the upstream gradient of {name}", u)]
    return list(dict.fromkeys(both))
