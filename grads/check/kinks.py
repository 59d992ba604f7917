"""Finds points where a function has no derivative: its slope jumps, or its value does.

Two differences of L(t) = sum(d_out * out(x + t)) are examined while h is halved repeatedly:

    bend  L(h) - 2 L(0) + L(-h)    quarters where L is smooth, halves at a kink, stays at a jump
    rise  L(h) - L(-h)             halves where L has a slope, stays at a jump

The smallest steps at which a difference exceeds rounding decide. So a kink that is closer than the
steps of a numerical derivative is found, and a strongly curved function is not taken for one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from grads.check.evaluate import (
    Array,
    Evaluator,
    Function,
    Line,
    entry_line,
    length,
    weights_of,
)

Decisions = Callable[[dict[str, Array]], Any]  # inputs -> branch decisions: an array, or several

EPS = float(np.finfo(np.float64).eps)
LARGEST = 2.0**-11  # step, in units of max(1, |x|)
HALVINGS = 36  # down to 1e-14, where a kink between slopes of size 1 still exceeds rounding
RUN = 6  # successive halvings that have to agree: then a kink is closer than LARGEST / 256
CURVED = 4  # successive halvings that quarter a difference: it is smooth there
LIKE = 0.15  # allowed distance of a power of h from an integer
LOUD = 64.0  # multiple of the outputs' rounding that a difference has to exceed
SLOPES_AT = 8  # the halving, 2e-6, with the best one-sided slopes (rounding against curvature)


class Kink(NamedTuple):
    """A point without a derivative."""

    kind: str  # "kink": the slope jumps; "jump": the value does
    left: float  # one-sided slopes
    right: float
    size: float  # right minus left, of the slope or of the value


def find_kink(
    f: Function | Evaluator, inputs: Mapping[str, Any], upstream: Mapping[str, Any], name: str,
    position: int, decisions: Decisions | None = None,
) -> Kink | None:
    """The kink or jump of sum(d_out * out) within about 1e-6 of an entry's value; None without one.

    Arguments: f, inputs and upstream as in `differentiate.at_entries`; name and flat
    position of the entry; decisions, of inputs, the branch decisions of f (an argmax, the active
    ReLUs, the ids of a top-k), or None: if they change from one side of x to the other at the
    smallest step, different slopes are a kink without further tests.
    Takes 73 evaluations. Raises ValueError on arguments that do not fit.
    """
    evaluate = f if isinstance(f, Evaluator) else Evaluator(f, inputs)
    place = entry_line(evaluate.inputs, name, position)
    sides = _sides(evaluate, weights_of(evaluate, upstream), place)
    found = _by_halving(*sides)
    apart = LARGEST * 0.5**SLOPES_AT
    if found or decisions is None or agreeing_step(
            decisions, evaluate.inputs, name, position) >= apart:
        return found
    left, right, h, slack = sides
    found = _kink(*_slopes(left, right, h, SLOPES_AT))
    unsure = LOUD * slack[SLOPES_AT] / h[SLOPES_AT] + apart * (abs(found.left) + abs(found.right))
    return found if abs(found.size) > unsure else None


def find_kink_along(
    evaluate: Evaluator, upstream: Mapping[str, Any], direction: Mapping[str, Any]
) -> Kink | None:
    """The kink or jump of sum(d_out * out) along a direction, as `find_kink` finds an entry's."""
    return _by_halving(*_sides(evaluate, weights_of(evaluate, upstream),
                               Line(direction)))


class Sides(NamedTuple):
    """Differences of L on both sides of a point; (m,) each."""

    left: Array  # L(-h) - L(0)
    right: Array
    h: Array
    slack: Array  # their rounding error


@np.errstate(all="ignore")  # a step may leave the domain
def _sides(evaluate: Evaluator, weights: Mapping[str, Array], place: Line) -> Sides:
    coarse, unit, _ = place.scales(evaluate.inputs)
    h = LARGEST * unit * 0.5 ** np.arange(HALVINGS)
    left, right, noise = _changes(evaluate, weights, place, h)
    slack = noise + EPS * coarse * np.abs(right - left) / h  # x + h is rounded, too
    return Sides(left, right, h, slack)


@np.errstate(all="ignore")
def _by_halving(left: Array, right: Array, h: Array, slack: Array) -> Kink | None:
    """The kink or jump shown by the smallest steps at which differences exceed rounding."""
    bend, rise = right + left, right - left
    power, end = _smallest_run(rise, LOUD * slack)
    if power == 0 and abs(bend[end - RUN]) < 2 * abs(rise[end - RUN]):  # else |t - a small offset|
        return Kink("jump", *_slopes(left, right, h, end), float(rise[end]))
    power, end = _smallest_run(bend, LOUD * slack)
    if power == 0:  # only the value at x is off, by half the bend
        return Kink("jump", *_slopes(left, right, h, end), float(bend[end] / 2))
    return _kink(*_slopes(left, right, h, end)) if power == 1 else None


def agreeing_step(
    decisions: Decisions, inputs: Mapping[str, Any], name: str, position: int
) -> float:
    """The largest of 1/16, 1/32, ... within which an entry moves and no decision changes.

    In units of max(1, |x|), like the option h of `ridders`, which stays on one side of a kink with
    this h. 0.0 if decisions at x - h, x and x + h differ for all h: the kink is at x.
    """
    evaluate = Evaluator(lambda a: _several(decisions(a)), inputs)
    place = entry_line(evaluate.inputs, name, position)
    for k in range(4, 44):
        t = np.array([-1.0, 1.0]) * 2.0**-k * place.scales(evaluate.inputs)[1]
        sides = evaluate.along(place, t)
        if all((sides[name] == now.reshape(-1)).all() for name, now in evaluate.outputs.items()):
            return 2.0**-k
    return 0.0


def _several(decisions: Any) -> dict[str, Array]:
    """One array of decisions or a sequence of them, as outputs of a function."""
    several = decisions if isinstance(decisions, list | tuple) else [decisions]
    return {str(k): np.asarray(d) for k, d in enumerate(several)}


def _changes(
    evaluate: Evaluator, weights: Mapping[str, Array], place: Line, h: Array
) -> tuple[Array, Array, float]:
    """L(-h) - L(0) and L(h) - L(0), (m,) each, and the rounding of L."""
    t = np.concatenate([-h, h, [0.0]])
    found = evaluate.along(place, t)
    total, moved, observed = np.zeros(len(t)), [], []
    for name, weight in weights.items():
        out = found[name].reshape(len(t), -1)
        change = out - out[-1]
        total += change @ weight
        moved.append((change != 0).any(axis=0) * weight * out[-1])
        observed.append(weight * evaluate.noise.get(name, 0.0))
    return total[:len(h)], total[len(h):-1], EPS * length(moved) + length(observed)


def _smallest_run(difference: Array, noise: Array) -> tuple[int | None, int]:
    """The power of h with which a difference falls, at the smallest steps where it exceeds
    rounding.

    0, 1 or 2 for a run of successive halvings, and the index of its smallest step; None if there is
    no such run.
    """
    with np.errstate(all="ignore"):
        loud = np.isfinite(difference) & (np.abs(difference) > noise)
        ratio = np.where(loud[:-1] & loud[1:], difference[:-1] / difference[1:], np.nan)
        power = np.log2(ratio)  # NaN at a change of sign: no power
    like = {0: (RUN, np.abs(power) < LIKE), 1: (RUN, np.abs(power - 1) < LIKE),
            2: (CURVED, np.abs(power - 2) < LIKE)}
    for end in range(len(power), 0, -1):  # a run's smallest step
        for p, (run, fits) in like.items():
            if end >= run and fits[end - run:end].all():
                return p, end
    return None, 0


def _slopes(left: Array, right: Array, h: Array, end: int) -> tuple[float, float]:
    """One-sided slopes from steps of a run that ends at `end`: between h and 2 h, 2 h and 4 h."""
    k = max(2, min(SLOPES_AT, end))
    near, far = h[k - 1] - h[k], h[k - 2] - h[k - 1]

    def slope(side: Array) -> float:
        return float(2 * (side[k - 1] - side[k]) / near - (side[k - 2] - side[k - 1]) / far)

    return 0.0 - slope(left), 0.0 + slope(right)


def _kink(left: float, right: float) -> Kink:
    return Kink("kink", left, right, right - left)
