"""Gradients that are wrong at these values and right at others: right for symmetric matrices (W in
place of its transpose, 2 W of W + W^T), or right beside a point where several kinks meet.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from grads.check.case import Case, dense
from grads.check.differentiate import along
from grads.check.evaluate import Evaluator

NEAR = 1e-2  # relative distance to other points, beyond the kinks at this one
POINTS = 3
UNSURE = 1e-3  # relative error up to which a derivative confirms
CLOSE = 1e-6  # relative difference of two derivatives that count as equal

Arrays = Mapping[str, np.ndarray]


def square(inputs: Arrays) -> Iterator[str]:
    """The names of square matrices."""
    for name, value in inputs.items():
        if value.ndim == 2 and value.shape[0] == value.shape[1] > 1:
            yield name


def symmetric(inputs: Arrays) -> list[str]:
    """The names of symmetric matrices, but for diagonal ones and those of one number."""
    return [name for name in square(inputs) if np.array_equal(inputs[name], inputs[name].T)
            and np.ptp(inputs[name]) > 0]


def right_where_symmetric(
    case: Case, evaluate: Evaluator, upstream: Arrays, name: str
) -> list[str]:
    """A hint if the wrong gradient of `name` is right with a square input made symmetric."""
    for matrix in square(evaluate.inputs):
        value = evaluate.inputs[matrix]
        if matrix == name or np.array_equal(value, value.T):
            continue
        inputs = {key: np.array(a) for key, a in evaluate.inputs.items()}
        inputs[matrix] = (value + value.T) / 2
        if _right(case, evaluate, inputs, upstream, name):
            return [f"it is right where {matrix} is symmetric: is {matrix} used where its "
                    f"transpose, or {matrix} plus its transpose, belongs?"]
    return []


def right_nearby(case: Case, evaluate: Evaluator, upstream: Arrays, name: str) -> bool:
    """Whether the gradient of a tensor is right at some random points nearby."""
    rng = np.random.default_rng(2)
    for _ in range(POINTS):
        inputs = {key: a + NEAR * np.maximum(1.0, np.abs(a)) * rng.normal(size=a.shape)
                  for key, a in evaluate.inputs.items()}
        if not _right(case, evaluate, inputs, upstream, name):
            return False
    return True


def _right(
    case: Case, evaluate: Evaluator, inputs: dict[str, np.ndarray], upstream: Arrays, name: str
) -> bool:
    """Whether the gradient of a tensor at these inputs has the right slope along a direction."""
    v = np.random.default_rng(1).normal(size=inputs[name].shape)
    try:
        found: Any = case.gradients({key: a.copy() for key, a in inputs.items()}, dict(upstream))
        gradient = np.asarray(dense(found[name]), float)
        there = Evaluator(case.outputs, inputs)
        numeric = along(there, inputs, upstream, [{name: v}], "ridders")
    except Exception:  # the function does not take a symmetric matrix: nothing is said
        return False
    gap = abs(float((gradient * v).sum()) - float(numeric.value.sum()))
    size = float(np.abs(gradient * v).sum())
    return gap <= CLOSE * size + min(10 * float(numeric.error.sum()), UNSURE * size)
