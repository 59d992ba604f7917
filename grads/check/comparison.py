"""Comparison of analytic and numerical gradients: which differences are rounding.

Per entry, with eps of the dtype of the analytic gradient a, and a numerical derivative v with its
estimated error,

    |a - v| <= eps (8192 max(|a|, |v|) + 512 (terms + largest of the tensor) + 8 largest of all)
               + 10 error

is right; in float32 with fewer eps and 10 times the observed rounding (`precision`). `terms` is the
sum of |upstream * derivative| over the outputs, whose cancellation leaves v. A wrong entry is
examined for a kink, where there is no derivative; the report says so.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

import numpy as np

from grads.check.case import Case
from grads.check.diagnosis.diagnose import diagnose
from grads.check.diagnosis.elsewhere import right_nearby, right_where_symmetric
from grads.check.diagnosis.evidence import Evidence
from grads.check.diagnosis.places import place
from grads.check.differentiate import Numeric
from grads.check.evaluate import Evaluator
from grads.check.kinks import closest_slope, find_kink, find_kink_along
from grads.check.precision import allowance
from grads.check.report import BAD, ErrorMap, Row
from grads.check.stopped import UNSURE, uncovered
from grads.check.watch import TimeUp

EPS = float(np.finfo(np.float64).eps)  # eps of the numerical derivatives
SAFETY = 10  # factor by which an error estimate may be too small
COARSE = 1e-3  # a method with a larger relative error confirms nothing
NOISY = 0.02  # likewise where the function itself is computed in less than float64
FLOOR, FLOOR_ALL = 1e-4, 1e-8  # floors of relative errors, as parts of the largest gradients
TINY = 1e-6  # part of the largest gradient below which uncertainty is ignored
SLACK = 1e-6  # relative error of a kink's slopes
MEET = "several kinks in one place; beside it the gradient is right"
KINKS = 64  # entries of a tensor that are examined for a kink

Arrays = Mapping[str, np.ndarray]


class Numbers(NamedTuple):
    """All gradients and derivatives computed for a case."""

    analytic: Mapping[str, Arrays]  # upstream choice -> input -> analytic gradient
    places: Mapping[str, Arrays]  # method -> input -> flat positions
    estimates: Mapping[str, Mapping[str, Numeric]]  # method -> input -> derivatives there
    upstream: Arrays


class Estimate(NamedTuple):
    """One method on one tensor for one choice of upstream gradients; (n,) each."""

    where: np.ndarray  # flat positions
    value: np.ndarray
    error: np.ndarray
    scale: np.ndarray


def estimates_of(numbers: Numbers, name: str, choice: str) -> dict[str, Estimate]:
    """The estimate of each method for a tensor, for all outputs together or for one of them."""
    found = {}
    for method, tensors in numbers.estimates.items():
        numeric, where = tensors[name], numbers.places[method][name]
        rows = [k for k, output in enumerate(numbers.upstream) if choice in ("all", output)]
        value, error, scale = (np.asarray(a)[rows].sum(axis=0) for a in numeric)
        found[method] = Estimate(where, value, error, scale)
    return found


def compare_case(case: Case, evaluate: Evaluator, numbers: Numbers) -> list[Row]:
    """A row for every tensor, and one for every tensor that is wrong for one output alone."""
    rows = []
    for choice, gradients in numbers.analytic.items():
        largest = max((largest_of(gradients[name]) for name in _names(numbers)), default=0.0)
        for name in _names(numbers):
            row = _row(case, evaluate, numbers, choice, name, largest)
            if choice == "all" or row.status not in ("ok", "inconclusive", "unfinished"):
                rows.append(row)
    return rows


def _row(
    case: Case, evaluate: Evaluator, numbers: Numbers, choice: str, name: str, largest: float
) -> Row:
    """The row of a tensor for one choice; undecided if the time ends before kinks are ruled out."""
    shape = numbers.analytic[choice][name].shape
    checked = len(next(iter(numbers.places.values()))[name])
    if evaluate.watch.stopped and not checked:
        return uncovered(name, choice, shape)
    try:
        return _compare_tensor(case, evaluate, numbers, choice, name, largest)
    except TimeUp:
        return uncovered(name, choice, shape, checked, (UNSURE,))


def _names(numbers: Numbers) -> list[str]:
    return list(next(iter(numbers.places.values())))


def index_of(position: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The index of a flat position."""
    return tuple(int(i) for i in np.unravel_index(position, shape))


def largest_of(values: np.ndarray) -> float:
    """The largest finite magnitude, zero where there is none."""
    return float(np.abs(values[np.isfinite(values)]).max(initial=0.0))


def _compare_tensor(
    case: Case, evaluate: Evaluator, numbers: Numbers, choice: str, name: str, largest: float
) -> Row:
    """One tensor, one choice of upstream gradients."""
    gradient = numbers.analytic[choice][name]
    analytic = gradient.reshape(-1).astype(np.float64)
    found = estimates_of(numbers, name, choice)
    first = next(iter(found.values()))
    own = max(largest_of(analytic), largest_of(first.value))
    eps = max(evaluate.eps, float(np.finfo(gradient.dtype).eps))
    compared = {method: compare(estimate, analytic, eps, own, largest,
                                evaluate.rounding.get(name), NOISY if evaluate.noise else COARSE,
                                evaluate.rtol)
                for method, estimate in found.items()}
    status = verdicts(found, compared, contradictions(found, own, largest))
    hints = _kinks(case, evaluate, numbers, choice, name, found, compared, analytic, status)
    said = set(status.values())
    worst = next((k for k in ("wrong", "disagree", "inconclusive") if k in said), "ok")
    at = _worst_entry(found, compared, status, worst)
    if worst == "wrong":
        allowed = np.full(gradient.size, np.nan)
        allowed[first.where] = next(iter(compared.values())).limit
        kinks = [k for k, word in status.items() if word == "inconclusive"]
        hints = _diagnosis(case, evaluate, numbers, choice, name, allowed, kinks) + hints
        hints = right_where_symmetric(case, evaluate, numbers.upstream, name) + hints
    elif worst == "disagree":
        hints = [_disagreement(found, at), *hints]
    elif gradient.size and not analytic.any() and not first.value.any():
        hints = ["zero everywhere, numerically too"]
    index = () if at is None else index_of(at, gradient.shape)
    return Row(
        name, choice, gradient.shape, len(first.where), 0,
        sum(word == "inconclusive" for word in status.values()),
        {method: _largest_error(found_here.relative) for method, found_here in compared.items()},
        worst, index, place(case.labels.get(name), index), _value_at(analytic, at),
        _numeric_at(found, at), tuple(hints), _map(case, name, found, compared, status),
    )


def _map(
    case: Case, name: str, found: Mapping[str, Estimate], compared: Mapping[str, Compared],
    status: Mapping[int, str],
) -> ErrorMap:
    """The errors of the entries by the first, most exact method."""
    method, estimate = next(iter(found.items()))
    labels = case.labels.get(name)
    return ErrorMap(estimate.where, compared[method].relative,
                    np.array([status[int(k)] for k in estimate.where], object), method,
                    labels.axes if labels else ())


class Compared(NamedTuple):
    """An analytic gradient beside the derivatives of one method; (n,) each."""

    limit: np.ndarray  # the allowed absolute difference
    relative: np.ndarray  # error, relative to the larger of both or to a floor
    excess: np.ndarray  # error as a multiple of the limit
    coarse: np.ndarray  # bool: the method is too uncertain to confirm anything


def compare(
    estimate: Estimate, analytic: np.ndarray, eps: float, own: float, largest: float,
    rounding: float | None = None, unsure: float = COARSE, rtol: float = 0.0,
) -> Compared:
    """The difference of an estimate from the analytic gradient, flat, and the limit for it.

    Arguments: eps of the analytic gradient's dtype; own and largest, the largest gradients of the
    tensor and of all tensors; rounding of the analytic gradient, if observed; unsure, the relative
    error from which a method confirms nothing; rtol, the relative error tolerated beside rounding.
    """
    may = allowance(eps, rounding)
    a, (_, value, error, scale) = analytic[estimate.where], estimate
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        size = np.maximum(np.abs(a), np.abs(value))
        limit = eps * may.relative * size + eps * may.tensor * scale  # eps first: no overflow
        limit += eps * may.tensor * own + eps * may.all * largest
        limit += may.absolute + SAFETY * error + rtol * size
        gap = np.where(a == value, 0.0, np.abs(a - value))
        floor = FLOOR * own + FLOOR_ALL * largest
        relative = np.where(gap == 0, 0.0, gap / np.maximum(size, floor))
        excess = np.where(gap == 0, 0.0, np.where(gap < np.inf, gap / limit, np.inf))
        coarse = ~(error <= unsure * np.maximum(np.abs(value), FLOOR * own + TINY * largest))
    return Compared(limit, relative, excess, coarse)


def contradictions(found: Mapping[str, Estimate], own: float, largest: float) -> set[int]:
    """The flat positions at which two methods contradict each other, whatever the gradient is."""
    first, *others = found.values()
    size = max((int(estimate.where.max(initial=-1)) + 1 for estimate in found.values()), default=0)
    apart: set[int] = set()
    for other in others:
        said, error = np.full(size, np.nan), np.zeros(size)
        said[first.where], error[first.where] = first.value, first.error
        with np.errstate(invalid="ignore"):
            both = other._replace(error=other.error + error[other.where])
        excess = compare(both, said, EPS, own, largest).excess
        apart.update(int(k) for k in other.where[excess > 1])  # False where one is unknown
    return apart


def verdicts(
    found: Mapping[str, Estimate], compared: Mapping[str, Compared], apart: Collection[int] = ()
) -> dict[int, str]:
    """Flat position -> the status by all methods together, before the search for kinks.

    Arguments: apart, the positions at which the methods contradict each other, where nothing is
    certainly wrong. An uncertain method may reject a gradient, but not confirm one. "coarse" is a
    gradient that one method confirms while another is too uncertain.
    """
    said: dict[int, list[str]] = {}
    for method, estimate in found.items():
        here = compared[method]
        for position, excess, coarse in zip(estimate.where, here.excess, here.coarse, strict=True):
            word = "wrong" if not excess <= 1 else "coarse" if coarse else "right"
            said.setdefault(int(position), []).append(word)
    names = {frozenset({"right"}): "ok", frozenset({"right", "coarse"}): "coarse",
             frozenset({"coarse"}): "inconclusive", frozenset({"right", "wrong"}): "disagree"}
    return {position: "disagree" if position in apart else names.get(frozenset(words), "wrong")
            for position, words in said.items()}


def _kinks(
    case: Case, evaluate: Evaluator, numbers: Numbers, choice: str, name: str,
    found: Mapping[str, Estimate], compared: Mapping[str, Compared], analytic: np.ndarray,
    status: dict[int, str],
) -> list[str]:
    """Search for kinks at entries that are not right; updates `status`, returns a hint for each
    kink."""
    upstream = {k: d for k, d in numbers.upstream.items() if choice in ("all", k)}
    hints: list[str] = []
    kinked: list[int] = []
    by_complex_step = verdicts(
        {"complex": found["complex"]}, {"complex": compared["complex"]}) if len(found) > 1 else {}
    suspicious = [position for position, word in status.items() if word != "ok"]
    for examined, position in enumerate(suspicious):
        if examined >= KINKS and not (kinked and evaluate.complex_step):
            break
        kink = find_kink(evaluate, evaluate.inputs, upstream, name, position)
        if kink is None:
            if len(found) == 1 or status[position] == "disagree":
                status[position] = _nearer(
                    evaluate, upstream, name, position, analytic[position], found,
                    by_complex_step) or status[position]
            continue
        index = index_of(position, evaluate.inputs[name].shape)
        status[position] = "inconclusive"
        kinked.append(position)
        if kink.kind == "jump":
            hints.append(f"{index}: the function jumps by {kink.size:.3g}")
            continue
        low, high = sorted((kink.left, kink.right))
        slack = SLACK * max(abs(low), abs(high))
        between = low - slack <= analytic[position] <= high + slack
        if not between and right_nearby(case, evaluate, upstream, name):
            hints.append(f"{index}: {MEET}")
            continue
        if not between:
            status[position] = "wrong"
        left, right = kink.left + 0.0, kink.right + 0.0  # -0.0 reads badly
        hints.append(f"{index}: a kink, slope {left:.6g} on its left and {right:.6g} on its right"
                    f"{'' if between else ', the gradient is outside of both'}")
    wrong = [position for position, word in status.items() if word in BAD]
    if wrong and _kinks_meet(case, evaluate, upstream, name):
        status.update(dict.fromkeys(wrong, "inconclusive"))
        hints.append(f"{index_of(wrong[0], evaluate.inputs[name].shape)}: {MEET}")
    for position, word in status.items():
        if word == "coarse":  # no kink: the function is merely hard for differences
            status[position] = "ok"
    more = len(hints) - 3
    return [*hints[:3], *([f"and {more} more such entries"] if more > 0 else [])]


def _nearer(
    evaluate: Evaluator, upstream: Arrays, name: str, position: int, analytic: float,
    found: Mapping[str, Estimate], by_complex_step: Mapping[int, str],
) -> str | None:
    """The status of an entry that Ridders' differences contradict because their steps cross kinks
    nearby; None if they do not."""
    if "ridders" not in found or evaluate.noise:
        return None
    slope, close = closest_slope(evaluate, upstream, name, position)
    ridders = found["ridders"].value[found["ridders"].where == position]
    if not (np.abs(ridders - slope) > close).any():
        return None
    return by_complex_step.get(position, "ok" if abs(analytic - slope) <= close else None)


def _kinks_meet(case: Case, evaluate: Evaluator, upstream: Arrays, name: str) -> bool:
    """Whether kinks of several entries hide each other: the median of three equal numbers changes
    with none of them alone. Then a random direction has a kink, and the gradient is right
    nearby."""
    v = np.random.default_rng(3).normal(size=evaluate.inputs[name].shape)
    return find_kink_along(evaluate, upstream, {name: v}) is not None and right_nearby(
        case, evaluate, upstream, name)


def _worst_entry(
    found: Mapping[str, Estimate], compared: Mapping[str, Compared], status: Mapping[int, str],
    worst: str,
) -> int | None:
    """The flat position with the largest error among the entries of the row's status."""
    best, chosen = -1.0, None
    for method, estimate in found.items():
        for position, excess in zip(estimate.where, compared[method].excess, strict=True):
            if status[int(position)] == worst and (excess > best or np.isnan(excess)):
                best, chosen = float(excess), int(position)
    return chosen


def _largest_error(relative: np.ndarray) -> float:
    """The largest; NaN if one of them is NaN."""
    return float(relative.max(initial=0.0))


def _value_at(flat: np.ndarray, at: int | None) -> float:
    return 0.0 if at is None else float(flat[at])


def _numeric_at(found: Mapping[str, Estimate], at: int | None) -> float:
    """The first method's value at a flat position."""
    values = [float(value) for estimate in found.values()
              for value in estimate.value[estimate.where == at]]
    return values[0] if values else 0.0


def _disagreement(found: Mapping[str, Estimate], at: int | None) -> str:
    """The sentence on the methods' disagreement about one entry."""
    said = [f"{method} {estimate.value[estimate.where == at][0]:.9g}"
            for method, estimate in found.items() if (estimate.where == at).any()]
    return (f"the methods disagree: {', '.join(said)}; the function computes something else with "
            "complex numbers, or is noisy: nothing is decided")


def _diagnosis(
    case: Case, evaluate: Evaluator, numbers: Numbers, choice: str, name: str, allowed: np.ndarray,
    kinks: list[int],
) -> list[str]:
    """The diagnosis of the mistake, without the entries at kinks."""
    shape = evaluate.inputs[name].shape

    def numeric(tensor: str, which: str) -> np.ndarray:
        full = np.full(evaluate.inputs[tensor].size, np.nan)
        estimate = next(iter(estimates_of(numbers, tensor, which).values()))
        full[estimate.where] = estimate.value
        full[kinks if tensor == name else []] = np.nan
        return full.reshape(evaluate.inputs[tensor].shape)

    alone = {output: (numbers.analytic[output][name], numeric(name, output))
             for output in numbers.upstream if output in numbers.analytic}
    others = {other: numeric(other, choice) for other in _names(numbers) if other != name}
    return diagnose(Evidence(
        name, numbers.analytic[choice][name], numeric(name, choice), allowed.reshape(shape),
        case.labels.get(name), alone if choice == "all" else {}, evaluate.inputs, case.labels,
        case.facts, others, numbers.upstream,
    ))
