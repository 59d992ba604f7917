"""Random directions: a look at all entries of tensors too large to differentiate one by one.

The derivative along a direction v is the sum of gradient * v. One that is wrong is halved, and the
worse half again, until one entry is left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from grads.case import Case
from grads.checking.differentiate import along
from grads.checking.evaluate import Evaluator
from grads.checking.judge import ALL, RELATIVE, SAFETY, TENSOR, Numbers, largest_of
from grads.diagnosis.places import place
from grads.report import Row

DIRECTIONS = 2  # per sampled tensor, and over all tensors together

Arrays = Mapping[str, np.ndarray]


def check_directions(
    case: Case, evaluate: Evaluator, numbers: Numbers, rows: list[Row], rng: np.random.Generator
) -> list[Row]:
    """The rows, with what random directions said of every tensor that was only sampled.

    A wrong direction, over one tensor or over all, makes a row of its own: of the entry it led to.
    """
    places = next(iter(numbers.places.values()))
    part = [name for name in places if len(places[name]) < evaluate.inputs[name].size]
    if not part:
        return rows
    together = [list(places)] if len(places) > 1 else []
    over = [names for names in [*([name] for name in part), *together] for _ in range(DIRECTIONS)]
    directions = [{name: rng.normal(size=evaluate.inputs[name].shape) for name in names}
                  for names in over]
    slopes = compare_slopes(evaluate, numbers, directions)
    wrong = [_wrong_row(case, evaluate, numbers, direction, slope)
             for direction, slope in zip(directions, slopes, strict=True) if not slope.fine]
    method = next(iter(numbers.opinions))
    told = []
    for row in rows:
        along_it = [slope.error for names, slope in zip(over, slopes, strict=True)
                    if names == [row.name] and slope.fine and row.upstream == "all"]
        error = max([row.errors[method], *along_it])
        told.append(replace(row, directions=len(along_it),
                            errors={**row.errors, method: error}) if along_it else row)
    return [*told, *wrong]


class Slope(NamedTuple):
    """A derivative along a direction."""

    analytic: float
    numeric: float
    fine: bool
    error: float  # relative to the sum of |gradient * v|, which may cancel


def compare_slopes(
    evaluate: Evaluator, numbers: Numbers, directions: Sequence[Arrays]
) -> list[Slope]:
    """The analytic and the numerical derivative along each direction."""
    gradients = numbers.claims["all"]
    numeric = along(evaluate, evaluate.inputs, numbers.upstream, directions,
                    next(iter(numbers.opinions)))
    own = {name: largest_of(gradient) for name, gradient in gradients.items()}
    largest = max(own.values())
    found = []
    for k, direction in enumerate(directions):
        products = [gradients[name].astype(np.float64) * v for name, v in direction.items()]
        analytic = sum(float(product.sum()) for product in products)
        terms = sum(float(np.abs(v).sum()) * (TENSOR * own[name] + ALL * largest)
                    for name, v in direction.items())
        value, error, scale = (float(part[:, k].sum()) for part in numeric)
        eps = max(float(np.finfo(gradients[name].dtype).eps) for name in direction)
        size = max(abs(analytic), abs(value))
        limit = eps * (RELATIVE * size + TENSOR * scale + terms) + SAFETY * error
        gap, spread = abs(analytic - value), sum(float(np.abs(p).sum()) for p in products)
        found.append(Slope(analytic, value, gap <= limit, gap / (max(size, spread) or 1.0)))
    return found


def _wrong_row(
    case: Case, evaluate: Evaluator, numbers: Numbers, direction: Arrays, slope: Slope
) -> Row:
    """The row of a direction that is wrong."""
    name, at = bisect(evaluate, numbers, direction)
    return Row(
        name, "direction", evaluate.inputs[name].shape, 0, 1, 0,
        {next(iter(numbers.opinions)): slope.error}, "wrong", at, place(case.labels.get(name), at),
        slope.analytic, slope.numeric,
        ("a random direction is wrong; halving it led to this entry",),
    )


def bisect(
    evaluate: Evaluator, numbers: Numbers, direction: Arrays
) -> tuple[str, tuple[int, ...]]:
    """An entry at which a direction's derivative goes wrong: name and index."""
    ends = np.cumsum([v.size for v in direction.values()])
    low, high = 0, int(ends[-1])
    while high - low > 1:
        middle = (low + high) // 2
        halves = [_between(direction, low, middle), _between(direction, middle, high)]
        gaps = [abs(slope.analytic - slope.numeric)
                for slope in compare_slopes(evaluate, numbers, halves)]
        low, high = (low, middle) if gaps[0] >= gaps[1] else (middle, high)
    k = int(np.searchsorted(ends, low, side="right"))
    name, v = list(direction.items())[k]
    flat = low - (int(ends[k - 1]) if k else 0)
    return name, tuple(int(i) for i in np.unravel_index(flat, v.shape))


def _between(direction: Arrays, low: int, high: int) -> dict[str, np.ndarray]:
    """The direction, zero but for entries low to high of all its tensors laid end to end."""
    part, start = {}, 0
    for name, v in direction.items():
        here = np.zeros_like(v)
        where = slice(max(low - start, 0), max(high - start, 0))
        here.reshape(-1)[where] = v.reshape(-1)[where]
        part[name] = here
        start += v.size
    return part
