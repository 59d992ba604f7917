"""Compares a gradient at other inputs than those that are checked: is it right there, too?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from grads.check.analytic import copies, gradients_at, validate_gradients
from grads.check.case import Case
from grads.check.comparison import COARSE, Check, Compared
from grads.check.differentiate import Numeric, derivatives
from grads.check.evaluate import Evaluator, Line, entry_line

FAR, NEAR = 1e-3, 1e-8  # relative distances of points where errors are compared
POINTS = 4  # in each distance
FIRST = 4  # entries that are examined before the others
MIXED = 0.3  # errors that spread by more than this fraction of their mean are rounding
OUTLYING = 8.0  # an error of 8 times the largest error nearby is not rounding
ROUNDINGS = 8.0  # an error may be so many roundings of a number of size 1
GROWN = 100.0  # ratio of slopes: how much more a function changes where it is not saturated
DOUBTED = ("wrong", "disagree")  # the status of entries
CLOSE = 0.3  # relative error up to which rounding may be the cause

Arrays = Mapping[str, np.ndarray]


def moved(inputs: Arrays, distance: float, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Other inputs in this relative distance."""
    return {name: x * (1 + distance * rng.normal(size=x.shape)) for name, x in inputs.items()}


@np.errstate(all="ignore")
def derivatives_at(
    case: Case, evaluate: Evaluator, upstream: Arrays, inputs: Arrays, lines: Iterable[Line],
    method: str = "", dtype: Any = np.float64,
) -> tuple[Arrays, Numeric] | None:
    """The analytic gradients at other inputs, and the numerical derivatives along lines there; None
    if the code fails there, or they are outside of its domain: an output is not finite.

    Arguments: evaluate, which counts the evaluations; method, by default the complex step, or
    Ridders' differences where that does not suit; dtype of the inputs and upstream gradients that
    the backward gets, None for their own.
    """
    evaluator, method = None, method or ("complex" if evaluate.complex_step else "ridders")
    try:
        gradients = gradients_at(case, inputs, upstream, dtype)
        validate_gradients(inputs, gradients)
        evaluator = Evaluator(case.outputs, inputs)
        if not all(np.isfinite(out).all() for out in evaluator.outputs.values()):
            return None
        return gradients, derivatives(evaluator, upstream, lines, method)
    except Exception:  # the code may not take these inputs
        return None
    finally:
        evaluate.evaluations += evaluator.evaluations if evaluator else 0


@np.errstate(all="ignore")
def rounding_alone(
    check: Check, choice: str, name: str, compared: Compared, where: np.ndarray,
    status: dict[int, str],
) -> bool:
    """Clear entries whose only error is the rounding of the gradient.

    At points nearby, errors by rounding differ, and errors by a mistake are about the same. The
    rounding of a saturated function differs only at points so far away that the errors of a mistake
    may differ, too. Such points count only for errors of a few roundings of a number of size 1. If
    these errors are all alike, the function may be saturated so far that they are 100%: then half
    the inputs decide.

    Arguments: compared, the derivatives at the flat positions `where`. Updates `status`. Returns
    whether some cleared entries have fewer than three digits.
    """
    gap = np.abs(compared.analytic - compared.numeric)
    bad = np.array([status[int(k)] in DOUBTED for k in where], bool)
    worst = np.argsort(-compared.excess, kind="stable")
    eps = max(check.eps, float(np.finfo(np.float64).eps))
    d = max(float(np.abs(d).max(initial=0.0)) for d in check.weights(choice).values())
    few = gap < ROUNDINGS * eps * d
    slight = few | (gap < CLOSE * np.abs(compared.numeric))
    wrong = worst[bad[worst]] if slight[bad].all() and not check.case.fixed else worst[:0]
    unsure = False
    for chosen in (wrong[:FIRST], wrong[FIRST:]):
        errors = _errors_beside(check, choice, name, where[chosen]) if len(chosen) else None
        if errors is None:
            break
        errors_here = (compared.analytic / compared.numeric - 1)[chosen]
        mixed = np.zeros(len(chosen), bool)
        for beside, counts in zip(errors, (few[chosen], True), strict=True):  # far, near
            every = np.vstack([beside, errors_here])
            mixed |= counts & (np.abs(errors_here) < OUTLYING * np.abs(beside).max(axis=0)) & (
                every.std(axis=0) > MIXED * np.abs(every.mean(axis=0)))
        if chosen[0] == wrong[0] and not mixed.all():
            break
        for k, largest in zip(chosen[mixed], np.abs(errors).max(axis=(0, 1))[mixed], strict=True):
            status[int(where[k])] = "ok" if largest < COARSE else "inconclusive"
            unsure |= bool(largest >= COARSE)
    left = np.array([k for k in wrong if few[k] and status[int(where[k])] in DOUBTED], np.int64)
    if len(left):
        saturated = _saturated(check, choice, name, where[left], compared.numeric[left])
        status |= dict.fromkeys(where[left[saturated]].tolist(), "inconclusive")
        unsure |= bool(saturated.any())
    return unsure


def _errors_beside(check: Check, choice: str, name: str, where: np.ndarray) -> np.ndarray | None:
    """The relative errors (2, POINTS, n) of entries at far and near points; None if the code fails
    there."""
    rng, errors = np.random.default_rng(5), []
    for distance in np.repeat([FAR, NEAR], POINTS):
        near = max(distance, ROUNDINGS * check.eps)
        there = _errors_at(check, choice, name, where, moved(check.evaluate.inputs, near, rng))
        if there is None:
            return None
        errors.append(there[0])
    return np.reshape(errors, (2, POINTS, -1))


def _saturated(
    check: Check, choice: str, name: str, where: np.ndarray, slopes: np.ndarray
) -> np.ndarray:
    """Whether entries are right at half the inputs, where their slopes are much larger; (n,) bool.

    Then a function is saturated: what is left of its gradient is less than a rounding of the terms
    that are subtracted. A mistake would show at half the inputs, too.
    """
    halves = {key: x / 2 for key, x in check.evaluate.inputs.items()}
    there = _errors_at(check, choice, name, where, halves)
    if there is None:
        return np.zeros(len(where), bool)
    errors, larger = there
    return (np.abs(errors) < COARSE) & (np.abs(larger) > GROWN * np.abs(slopes))


def _errors_at(
    check: Check, choice: str, name: str, where: np.ndarray, inputs: Arrays
) -> tuple[np.ndarray, np.ndarray] | None:
    """The relative errors (n,) of entries at other inputs, and their slopes there; None if the code
    fails there."""
    case, upstream = check.case, copies(check.weights(choice), check.case.dtype)
    there = derivatives_at(
        case, check.evaluate, upstream,
        {key: np.array(x, case.inputs[key].dtype) for key, x in inputs.items()},
        [entry_line(inputs, name, int(k)) for k in where], dtype=None)
    if there is None:
        return None
    gradients, numeric = there
    slope = numeric.value.sum(axis=0)
    return gradients[name].reshape(-1)[where].astype(float) / slope - 1, slope
