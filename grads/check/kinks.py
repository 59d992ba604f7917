"""Finds points where a function has no derivative: its slope jumps, or its value does.

L(t) = sum(d_out * out(x + t)) is compared at the point itself and at neighbours on both sides. The
neighbours are about as far away as the rounding of the inputs. The complex step gives their slopes
exactly. If the slopes agree, or differ in proportion to the distance, there is no kink, however
close the next kink is. If the complex step is impossible, two differences are examined while h is
quartered repeatedly:

    bend  L(h) - 2 L(0) + L(-h)    falls as h^2 if L is smooth, falls as h at a kink, stays at a
                                   jump
    rise  L(h) - L(-h)             falls as h if L has a slope, stays at a jump

The smallest steps at which a difference exceeds rounding decide. If L is straight on both sides
close to the point, a kink further away does not count.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from grads.check.evaluate import (
    Array,
    Evaluator,
    Function,
    Line,
    NotAnalytic,
    entry_line,
    length,
    weights_of,
)

EPS = float(np.finfo(np.float64).eps)
BESIDE = 32 * EPS  # distance of a neighbour, relative to the largest entry of its tensor
SIDES = np.array([0.0, -8.0, -1.0, 1.0, 8.0])  # the point and its neighbours, in this distance
MOST = 1e6  # times BESIDE: largest distance relative to the entry itself
STEP = 1e-30  # of the complex step
ALIKE = 1e-9  # relative difference of slopes that are equal
VISIBLE = 2.0**16  # multiple of the rounding that a jump of the value exceeds

LARGEST = 2.0**-11  # step, in units of max(1, |x|)
QUARTERS = 19  # down to 1e-14, where a kink between slopes of size 1 still exceeds rounding
MOST_SMALLER = 500  # more of them for inputs below 1
RUN = 3  # successive steps whose differences have to agree on a power of h
LIKE = 0.15  # allowed distance of this power from an integer
LOUD = 64.0  # multiple of the outputs' rounding that a difference has to exceed
SLOPES_AT = 5  # quarterings, to 5e-7, for the best one-sided slopes (rounding against curvature)


class Kink(NamedTuple):
    """A point without a derivative."""

    kind: str  # "kink": the slope jumps; "jump": the value does
    left: float  # slope on the left
    right: float
    size: float  # right minus left, of the slope or of the value


def find_kink(
    f: Function | Evaluator, inputs: Mapping[str, Any], upstream: Mapping[str, Any], name: str,
    position: int,
) -> Kink | None:
    """The kink or jump of sum(d_out * out) at an entry's value; None if there is none.

    Arguments: f, inputs and upstream as in `differentiate.at_entries`; name and flat position of
    the entry. Takes 5 complex evaluations, or about 40 real evaluations. Raises ValueError for
    arguments that do not fit.
    """
    evaluate = f if isinstance(f, Evaluator) else Evaluator(f, inputs)
    line = entry_line(evaluate.inputs, name, position)
    return find_kink_along(evaluate, upstream, line.direction)


@np.errstate(all="ignore")  # a step may leave the domain
def find_kink_along(
    evaluate: Evaluator, upstream: Mapping[str, Any], direction: Mapping[str, Any]
) -> Kink | None:
    """The kink or jump of sum(d_out * out) along a direction; None if there is none."""
    weights, line = weights_of(evaluate, upstream), Line(direction)
    if evaluate.complex_step:
        try:
            near = line.scales(evaluate.inputs)[2]
            return _by_complex_steps(evaluate, weights, direction, STEP * min(1.0, near))
        except NotAnalytic:
            pass
    return _by_differences(evaluate, weights, line)


class Values(NamedTuple):
    """L at some points, the first of which is the given point; (m,) each."""

    change: Array  # L minus its value at the first point
    slope: Array  # the imaginary part
    scale: Array  # the sum of the magnitudes of the slope's terms
    rounding: float  # of L


def _values(
    evaluate: Evaluator, weights: Mapping[str, Array], outputs: Mapping[str, Array]
) -> Values:
    parts = []
    for name, weight in weights.items():
        out = outputs[name].reshape(len(outputs[name]), -1)
        noise = EPS * np.abs(out[0].real) + evaluate.noise.get(name, 0.0)
        parts.append(((out.real - out[0].real) @ weight, out.imag @ weight,
                      np.abs(out.imag) @ np.abs(weight), length([weight * noise])))
    return Values(*(sum(sums) for sums in zip(*parts, strict=True)))


# --- by complex steps ---------------------------------------------------------------------------


def _by_complex_steps(
    evaluate: Evaluator, weights: Mapping[str, Array], direction: Mapping[str, Array], h: float
) -> Kink | None:
    """The kink or jump that the slopes or the values at the point and its neighbours show."""
    beside = {name: _spacing(evaluate.inputs, name) * v for name, v in direction.items()}
    runs = [evaluate({name: evaluate.inputs[name] + side * beside[name] + 1j * h * v
                      for name, v in direction.items()}) for side in SIDES]
    values = _values(evaluate, weights, {name: np.array([run[name].reshape(-1) for run in runs])
                                        for name in weights})
    if not np.isfinite(values.slope[1:]).all():
        return None
    (middle, _, left, right, _), scale = values.slope / h, values.scale[1:].max() / h
    rise, bend = values.change[3] - values.change[2], values.change[3] + values.change[2]
    moved = max(float(np.abs(shift).max(initial=0.0)) for shift in beside.values())
    limit = VISIBLE * (values.rounding + scale * moved) + 2 * _spread(values.change)
    if max(abs(rise), abs(bend)) > limit:
        return Kink("jump", left, right, float(rise if abs(bend) < 2 * abs(rise) else bend / 2))
    limit = ALIKE * scale + LOUD * values.rounding + _spread(values.slope / h)
    outside = abs(middle - (left + right) / 2) > abs(right - left) / 2 + limit
    return _kink(left, right) if abs(right - left) > limit or outside else None


def _spread(values: Array) -> float:
    """How much a function changes between the two neighbours on a side."""
    return float(abs(values[4] - values[3]) + abs(values[2] - values[1]))


def _spacing(inputs: Mapping[str, Array], name: str) -> Array:
    """The distance of a neighbour for each entry of a tensor. If all entries are zero, it follows
    from the size of the other tensors."""
    x, sizes = np.abs(inputs[name]), [np.abs(a).max(initial=0.0) for a in inputs.values()]
    largest = x.max(initial=0.0) or min((size for size in sizes if size), default=1.0)
    return BESIDE * np.minimum(largest, np.where(x > 0, MOST * x, largest))


# --- by real differences ------------------------------------------------------------------------


def _by_differences(
    evaluate: Evaluator, weights: Mapping[str, Array], line: Line
) -> Kink | None:
    """The kink or jump that the smallest steps show at which differences exceed rounding."""
    left, right, h, loud = _sides(evaluate, weights, line)
    bend, rise = right + left, right - left
    power, end = _power(rise, loud)
    if power == 0 and abs(bend[end]) < 2 * abs(rise[end]):  # else |t - a small offset|
        return Kink("jump", *_slopes(left, right, h, end), float(rise[end]))
    power, end = _power(bend, loud)
    if power == 0:  # only the value at x is off, by half the bend
        return Kink("jump", *_slopes(left, right, h, end), float(bend[end] / 2))
    return _kink(*_slopes(left, right, h, end)) if power == 1 else None


def _sides(
    evaluate: Evaluator, weights: Mapping[str, Array], line: Line
) -> tuple[Array, Array, Array, Array]:
    """L(-h) - L(0), L(h) - L(0), the steps h, and the size that exceeds rounding; (m,) each."""
    coarse, unit, near = line.scales(evaluate.inputs)
    smaller = int(np.log2(unit / near) / 2)
    h = LARGEST * unit * 0.25 ** np.arange(QUARTERS + min(smaller, MOST_SMALLER))
    t = np.concatenate([[0.0], -h, h])
    values = _values(evaluate, weights, evaluate.along(line, t))
    left, right = np.split(values.change[1:], 2)
    slack = values.rounding + EPS * coarse * np.abs(right - left) / h  # x + h is rounded
    return left, right, h, LOUD * slack


def _power(difference: Array, loud: Array) -> tuple[int | None, int]:
    """The power of h with which a difference falls, and the index of the smallest step at which it
    exceeds rounding. The power is None if the difference falls otherwise, or becomes zero before.
    """
    heard = np.flatnonzero(np.isfinite(difference) & (np.abs(difference) > loud))
    if len(heard) < RUN or heard[-1] - heard[-RUN] >= RUN:
        return None, 0
    end = int(heard[-1])
    powers = np.log2(difference[end - RUN + 1:end] / difference[end - RUN + 2:end + 1]) / 2
    power = round(powers.mean()) if np.isfinite(powers).all() else -1
    ends = end + 1 < len(loud) and abs(difference[end]) > 2 * 4.0**power * loud[end + 1]
    return (None, end) if ends or (np.abs(powers - power) > LIKE).any() else (power, end)


def _slopes(left: Array, right: Array, h: Array, end: int) -> tuple[float, float]:
    """The one-sided slopes, from steps that end at index `end`: between h, 4 h and 16 h."""
    k = max(2, min(SLOPES_AT, end))
    near, far = h[k - 1] - h[k], h[k - 2] - h[k - 1]

    def slope(side: Array) -> float:
        return float((4 * (side[k - 1] - side[k]) / near - (side[k - 2] - side[k - 1]) / far) / 3)

    return 0.0 - slope(left), 0.0 + slope(right)


def _kink(left: float, right: float) -> Kink:
    return Kink("kink", float(left), float(right), float(right - left))
