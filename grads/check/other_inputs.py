"""A gradient at other inputs than those that are checked: is it right there, too?"""

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
MIXED = 0.3  # spread of errors, of their mean, from which on they are rounding
OUTLYING = 8.0  # times the largest error nearby, an error is no rounding
ROUNDINGS = 8.0  # of a number of size 1, that may be an error
CLOSE = 0.3  # relative error up to which rounding may be the cause

Arrays = Mapping[str, np.ndarray]


def slopes_at(
    case: Case, evaluate: Evaluator, upstream: Arrays, inputs: Arrays, direction: Arrays,
    method: str, dtype: Any = np.float64,
) -> tuple[np.ndarray, Numeric] | None:
    """The analytic and the numerical derivative along a direction at other inputs.

    Arguments: evaluate, whose evaluations count these, too; direction, for some of the inputs;
    dtype, in which the backward gets floating inputs and upstream gradients. Returns the products
    of gradient and direction of all entries (n,), whose sum is the derivative, and the numerical
    one; None where the code fails at these inputs.
    """
    given = ({name: np.array(a, dtype if np.asarray(a).dtype.kind == "f" else None)
              for name, a in arrays.items()} for arrays in (inputs, upstream))
    there = None
    try:
        gradients = case.gradients(*given)
        terms = [np.ravel(dense(gradients[name], name, inputs) * v)
                 for name, v in direction.items()]
        there = Evaluator(case.outputs, inputs, watch=evaluate.watch)
        return np.concatenate(terms), along(there, inputs, upstream, [direction], method)
    except Exception:  # the code may not take these inputs
        return None
    finally:
        evaluate.evaluations += there.evaluations if there else 0


@np.errstate(all="ignore")
def rounding_alone(
    check: Check, choice: str, name: str, compared: Compared, where: np.ndarray,
    status: dict[int, str],
) -> bool:
    """Clear entries that are wrong by the rounding of the gradient alone: at points nearby their
    errors differ, while those of a mistake are about the same. Updates `status`. Returns whether
    some are left with fewer than three digits.

    The rounding of a saturated function differs only at points so far away that a mistake's errors
    may differ, too: it counts for errors of a few roundings of a number of size 1.

    Arguments: compared, the derivatives at the flat positions `where`.
    """
    gap = np.abs(compared.analytic - compared.numeric)
    bad = np.array([status[int(k)] in ("wrong", "disagree") for k in where], bool)
    worst = np.argsort(-compared.excess, kind="stable")
    eps = max(check.evaluate.eps, float(np.finfo(np.float64).eps))
    d = max(float(np.abs(d).max(initial=0.0)) for d in check.weights(choice).values())
    few = gap < ROUNDINGS * eps * d
    slight = few | (gap < CLOSE * np.abs(compared.numeric))
    wrong = worst[bad[worst]] if slight[bad].all() and not check.case.fixed else worst[:0]
    unsure = False
    for some in (wrong[:FIRST], wrong[FIRST:]):
        errors = _errors_beside(check, choice, name, where[some]) if len(some) else None
        if errors is None:
            break
        here = (compared.analytic / compared.numeric - 1)[some]
        mixed = np.zeros(len(some), bool)
        for beside, counts in zip(errors, (few[some], True), strict=True):  # far, near
            every = np.vstack([beside, here])
            mixed |= counts & (np.abs(here) < OUTLYING * np.abs(beside).max(axis=0)) & (
                every.std(axis=0) > MIXED * np.abs(every.mean(axis=0)))
        if some[0] == wrong[0] and not mixed.all():
            break
        for k, largest in zip(some[mixed], np.abs(errors).max(axis=(0, 1))[mixed], strict=True):
            status[int(where[k])] = "ok" if largest < COARSE else "inconclusive"
            unsure |= bool(largest >= COARSE)
    return unsure


def _errors_beside(check: Check, choice: str, name: str, where: np.ndarray) -> np.ndarray | None:
    """The relative errors (2, POINTS, n) of entries at points far and near; None where the code
    fails there."""
    rng, evaluate, weights = np.random.default_rng(5), check.evaluate, check.weights(choice)
    errors, method = [], "complex" if evaluate.complex_step else "ridders"
    for distance in np.repeat([FAR, NEAR], POINTS):
        near = max(distance, ROUNDINGS * evaluate.eps)
        given = {key: np.array(x * (1 + near * rng.normal(size=x.shape)), check.case.inputs[
            key].dtype) for key, x in evaluate.inputs.items()}
        upstream = {key: np.array(d, given[name].dtype) for key, d in weights.items()}
        try:
            analytic = dense(check.case.gradients(dict(given), upstream)[name], name, given)
            there = Evaluator(check.case.outputs, given, watch=evaluate.watch)
            numeric = at_entries(there, given, weights, {name: where}, method)[name].value
        except Exception:  # the code may not take these inputs
            return None
        evaluate.evaluations += there.evaluations
        errors.append(analytic.reshape(-1)[where].astype(float) / numeric.sum(axis=0) - 1)
    return np.reshape(errors, (2, POINTS, -1))
