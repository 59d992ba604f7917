"""Random directions: one derivative that depends on all entries of a tensor.

The derivative along a direction v is the sum of gradient * v, so that a wrong entry shows in nearly
every direction. A tensor is checked along a few of them and for one entry; a wrong direction is
bisected until one entry is left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from grads.check.case import Case
from grads.check.comparison import (
    FLOOR,
    FLOOR_ALL,
    NOISY,
    SAFETY,
    index_of,
    largest_of,
)
from grads.check.diagnosis.places import place
from grads.check.differentiate import along
from grads.check.evaluate import Evaluator, length
from grads.check.precision import allowance
from grads.check.report import Row

DIRECTIONS = 2  # a tensor
COARSE = 1e-5  # relative to sum |gradient * v|: with a larger error nothing is decided
APART = 1e8  # ratio of entries too different for one common step
ALIKE = 64  # share of the entries' rounding that may have one sign
TOGETHER = "all tensors"  # the name of rows for directions over all tensors

Arrays = Mapping[str, np.ndarray]
Analytic = Mapping[str, Arrays]  # upstream choice -> input -> analytic gradient


class Slope(NamedTuple):
    """A derivative along a direction."""

    analytic: float
    numeric: float
    status: str  # "ok", "wrong", or "inconclusive" if the numerical error is too large
    error: float  # relative to the sum of |gradient * v|, which may cancel


class Line(NamedTuple):
    """A direction, and which row of the report it belongs to."""

    row: str  # a tensor's name, or TOGETHER
    direction: Arrays
    entry: int | None = None  # flat position, of a direction along one entry


def slopes(
    evaluate: Evaluator, analytic: Analytic, upstream: Arrays, directions: Sequence[Arrays],
    method: str,
) -> dict[str, list[Slope]]:
    """For every choice of upstream gradients, the derivatives along each direction."""
    numeric = along(evaluate, evaluate.inputs, upstream, directions, method)
    found = {}
    for choice, gradients in analytic.items():
        rows = [k for k, output in enumerate(upstream) if choice in ("all", output)]
        parts = [part[rows].sum(axis=0) for part in numeric]  # value, error, scale
        own = {name: largest_of(gradient) for name, gradient in gradients.items()}
        found[choice] = [_slope(evaluate, gradients, own, direction,
                                *(float(part[k]) for part in parts))
                         for k, direction in enumerate(directions)]
    return found


@np.errstate(all="ignore")  # a gradient that is not finite is wrong
def _slope(
    evaluate: Evaluator, gradients: Arrays, own: Mapping[str, float], direction: Arrays,
    value: float, error: float, scale: float,
) -> Slope:
    """The limit is that of `compare`, summed over the entries; where the sum overflows, only the
    entries can be right."""
    products = [gradients[name].astype(np.float64) * v for name, v in direction.items()]
    analytic, largest = sum(float(product.sum()) for product in products), max(own.values())
    lengths = {name: float(np.abs(v).sum()) for name, v in direction.items()}
    terms = sum(_terms(evaluate, gradients[name], name, v, own[name], largest)
                for name, v in direction.items())
    floor = sum(n * (FLOOR * own[name] + FLOOR_ALL * largest) for name, n in lengths.items())
    eps = max(evaluate.eps, *(float(np.finfo(gradients[name].dtype).eps) for name in direction))
    may = allowance(eps, max((evaluate.rounding[name] for name in direction
                              if name in evaluate.rounding), default=None))
    size = max(abs(analytic), abs(value))
    spread = max(sum(float(np.abs(product).sum()) for product in products), size)
    limit = eps * may.relative * size + eps * may.tensor * scale + terms + SAFETY * error
    limit += evaluate.rtol * spread
    gap = 0.0 if analytic == value else abs(analytic - value)
    coarse = error > max((NOISY if evaluate.noise else COARSE) * spread, terms)
    right = gap <= limit and spread < np.inf
    status = "wrong" if not right else "inconclusive" if coarse else "ok"
    return Slope(analytic, value, status, gap / (max(spread, floor) or 1.0))


def _terms(
    evaluate: Evaluator, gradient: np.ndarray, name: str, v: np.ndarray, own: float, largest: float
) -> float:
    """The limit along a direction for the entries' rounding, mostly independent errors."""
    eps = max(evaluate.eps, float(np.finfo(gradient.dtype).eps))
    may = allowance(eps, evaluate.rounding.get(name))
    one = eps * may.tensor * own + eps * may.all * largest + may.absolute
    return one * max(3 * length([v]), float(np.abs(v).sum()) / ALIKE)


# --- checks along directions ----------------------------------------------------------------------


def lines_of(gradients: Arrays, names: Sequence[str], rng: np.random.Generator) -> list[Line]:
    """One entry and DIRECTIONS random directions of each tensor; all entries of a tiny one."""
    found = []
    for name in names:
        gradient = gradients[name].reshape(-1)
        few = gradient.size <= 1 + DIRECTIONS
        for entry in range(gradient.size) if few else [_one(gradient, rng)]:
            unit = np.zeros(gradient.size)
            unit[entry] = 1.0
            found.append(Line(name, {name: unit.reshape(gradients[name].shape)}, entry))
        found += [Line(name, {name: rng.normal(size=gradients[name].shape)})
                  for _ in range(0 if few else DIRECTIONS)]
    return found


def _one(gradient: np.ndarray, rng: np.random.Generator) -> int:
    """An entry whose gradient is not zero, if there is one."""
    significant = np.flatnonzero(gradient)
    return int(rng.choice(significant if significant.size else gradient.size))


def lines_together(
    inputs: Arrays, names: Sequence[str], rng: np.random.Generator, number: int = DIRECTIONS,
    relative: bool = False,
) -> list[Line]:
    """Directions over all tensors at once; `relative` to the entries' own sizes, so that short
    steps along them meet no kink."""
    sizes = _sizes(inputs, names)
    if relative and any(inputs[name].any() for name in names):
        sizes = {name: np.abs(inputs[name]) for name in names}
    return [Line(TOGETHER, {name: rng.normal(size=inputs[name].shape) * sizes[name]
                            for name in names}) for _ in range(number)]


def _sizes(inputs: Arrays, names: Sequence[str]) -> dict[str, np.ndarray]:
    """The scale of a direction for each entry: 1 for all, or the entry's own size where sizes
    differ so much that no common step suits all entries."""
    sizes = {name: np.abs(inputs[name]).astype(np.float64) for name in names}
    sizes = {name: np.where(size > 0, size, 1.0) for name, size in sizes.items()}
    every = np.concatenate([size.reshape(-1) for size in sizes.values()] or [np.ones(1)])
    if every.size and every.max() > APART * every.min():
        return sizes
    return {name: np.ones_like(size) for name, size in sizes.items()}


def check_lines(
    case: Case, evaluate: Evaluator, analytic: Analytic, upstream: Arrays, lines: Sequence[Line],
    method: str,
) -> list[Row]:
    """A row for every tensor, and one for every tensor that fails for one output alone."""
    if not lines:
        return []
    found = slopes(evaluate, analytic, upstream, [line.direction for line in lines], method)
    return [row for choice, every in found.items() for name in dict.fromkeys(l.row for l in lines)
            for row in [_row(case, evaluate, name, choice, method, [
                (line, slope) for line, slope in zip(lines, every, strict=True)
                if line.row == name])]
            if choice == "all" or row.status == "wrong"]


def _row(
    case: Case, evaluate: Evaluator, name: str, choice: str, method: str,
    found: Sequence[tuple[Line, Slope]],
) -> Row:
    """The row of one tensor's lines; its worst entry is that of the worst line, or of an entry if
    all are right."""
    order = ("wrong", "inconclusive", "ok")
    line, slope = min(found, key=lambda one: (order.index(one[1].status), one[0].entry is None))
    shape = evaluate.inputs[name].shape if name in evaluate.inputs else None
    at = () if line.entry is None or shape is None else index_of(line.entry, shape)
    said = place(case.labels.get(name), at) if line.entry is not None else "a random direction"
    entries = [slope.error for line, slope in found if line.entry is not None]
    others = [slope.error for line, slope in found if line.entry is None]
    size = sum(evaluate.inputs[one].size for one in line.direction)
    still = shape is not None and size > 0 and not slope.numeric and not slope.analytic
    return Row(
        name, choice, shape, len(entries), len(others),
        sum(slope.status == "inconclusive" for _, slope in found),
        {kind: float(np.max(errors)) for kind, errors in (
            (method, entries), ("directions", others)) if errors}, slope.status,
        at, said, slope.analytic, slope.numeric,
        ("zero everywhere, numerically too",) * (still and slope.status == "ok"),
    )


# --- the entry that is wrong ----------------------------------------------------------------------


def bisect(
    evaluate: Evaluator, analytic: Analytic, upstream: Arrays, choice: str, direction: Arrays,
    method: str,
) -> tuple[str, int]:
    """An entry that makes a direction's derivative wrong: name and flat position."""
    ends = np.cumsum([v.size for v in direction.values()])
    low, high = 0, int(ends[-1])
    while high - low > 1:
        middle = (low + high) // 2
        halves = [_between(direction, low, middle), _between(direction, middle, high)]
        first, second = (abs(slope.analytic - slope.numeric) for slope in slopes(
            evaluate, {choice: analytic[choice]}, upstream, halves, method)[choice])
        low, high = (middle, high) if second > first or np.isnan(second) else (low, middle)
    k = int(np.searchsorted(ends, low, side="right"))
    return list(direction)[k], low - (int(ends[k - 1]) if k else 0)


def _between(direction: Arrays, low: int, high: int) -> dict[str, np.ndarray]:
    """The direction, zero except for entries low to high of all its tensors, concatenated."""
    part, start = {}, 0
    for name, v in direction.items():
        here = np.zeros_like(v)
        where = slice(max(low - start, 0), max(high - start, 0))
        here.reshape(-1)[where] = v.reshape(-1)[where]
        part[name] = here
        start += v.size
    return part
