"""Compares a gradient at other inputs than those that are checked: is it right there, too?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from grads.check.analytic import dense
from grads.check.case import Case
from grads.check.comparison import COARSE, Check, Compared
from grads.check.differentiate import Numeric, along, at_entries
from grads.check.evaluate import Evaluator

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


@np.errstate(all="ignore")
def slopes_at(
    case: Case, evaluate: Evaluator, upstream: Arrays, inputs: Arrays, direction: Arrays,
    method: str, dtype: Any = np.float64,
) -> tuple[np.ndarray, Numeric] | None:
    """The analytic and the numerical derivative along a direction at other inputs.

    Arguments: evaluate, which counts the evaluations; direction, for some of the inputs; dtype of
    the floating inputs and upstream gradients that the backward gets. Returns the products of
    gradient and direction of all entries (n,), whose sum is the analytic derivative, and the
    numerical derivative; None if the code fails at these inputs, or they are outside of its domain:
    an output that is finite at the inputs of the check is not finite there.
    """
    arguments = ({name: np.array(a, dtype if np.asarray(a).dtype.kind == "f" else None)
                  for name, a in arrays.items()} for arrays in (inputs, upstream))
    evaluator = None
    try:
        gradients = case.gradients(*arguments)
        terms = [np.ravel(dense(gradients[name], name, inputs) * v)
                 for name, v in direction.items()]
        evaluator = Evaluator(case.outputs, inputs)
        if any((np.isfinite(out) & ~np.isfinite(evaluator.outputs[name])).any()
               for name, out in evaluate.outputs.items()):
            return None
        return np.concatenate(terms), along(evaluator, inputs, upstream, [direction], method)
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
        moved = {key: x * (1 + near * rng.normal(size=x.shape))
                 for key, x in check.evaluate.inputs.items()}
        errors_there, _ = _errors_at(check, choice, name, where, moved)
        if errors_there is None:
            return None
        errors.append(errors_there)
    return np.reshape(errors, (2, POINTS, -1))


def _saturated(
    check: Check, choice: str, name: str, where: np.ndarray, slopes: np.ndarray
) -> np.ndarray:
    """Whether entries are right at half the inputs, where their slopes are much larger; (n,) bool.

    Then a function is saturated: what is left of its gradient is less than a rounding of the terms
    that are subtracted. A mistake would show at half the inputs, too.
    """
    halves = {key: x / 2 for key, x in check.evaluate.inputs.items()}
    errors, slopes_there = _errors_at(check, choice, name, where, halves)
    if errors is None:
        return np.zeros(len(where), bool)
    return (np.abs(errors) < COARSE) & (np.abs(slopes_there) > GROWN * np.abs(slopes))


def _errors_at(
    check: Check, choice: str, name: str, where: np.ndarray, inputs: Arrays
) -> tuple[np.ndarray | None, np.ndarray]:
    """The relative errors (n,) of entries at other inputs, and their slopes there; no errors if the
    code fails there."""
    case, weights = check.case, check.weights(choice)
    moved = {key: np.array(x, case.inputs[key].dtype) for key, x in inputs.items()}
    upstream = {key: np.array(d, moved[name].dtype) for key, d in weights.items()}
    try:
        analytic = dense(case.gradients(dict(moved), upstream)[name], name, moved)
        evaluator = Evaluator(case.outputs, moved)
        slopes = at_entries(evaluator, moved, weights, {name: where},
                            "complex" if check.evaluate.complex_step else "ridders")[name].value
    except Exception:  # the code may not take these inputs
        return None, np.zeros(len(where))
    check.evaluate.evaluations += evaluator.evaluations
    slope = slopes.sum(axis=0)
    return analytic.reshape(-1)[where].astype(float) / slope - 1, slope
