"""Measures the error of numerical derivatives of an entry against the step size.

The error of a difference is the sum of truncation, which falls with the step, and of rounding,
which grows as the step falls. Between them is a best step. A complex step subtracts nothing, so its
error stays as small as rounding.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from grads.check.comparison import Check
from grads.check.evaluate import Array, Evaluator, NotAnalytic, entry_line, weights_of
from grads.check.result import BAD, Row, StepErrors
from grads.check.step_chart import STEPS


def step_errors(real: Array, along: Array, exact: float, steps: Array = STEPS) -> StepErrors:
    """The errors, from the values of a function along an entry.

    Arguments: real, the values (2 n + 1,) at the steps, at minus the steps, and at 0; along, the
    values (n,) at i times the steps; exact, the derivative.
    """
    n = len(steps)
    right, left, middle = real[:n], real[n:-1], real[-1]

    def error(slopes: Array) -> Array:
        return np.abs(slopes - exact) / (abs(exact) or 1.0)

    return StepErrors(steps, error(along.imag / steps), error((right - left) / (2 * steps)),
                      error((right - middle) / steps))


def errors_of(
    evaluate: Evaluator, upstream: Mapping[str, Array], name: str, entry: int,
    at: tuple[int, ...], exact: float,
) -> StepErrors:
    """The errors for an entry. Arguments: entry, flat position; at, index; exact derivative."""
    weights, place = weights_of(evaluate, upstream), entry_line(evaluate.inputs, name, entry)

    def values(steps: Array) -> Array:
        outputs = evaluate.along(place, steps)
        return np.array(sum(outputs[output] @ weight for output, weight in weights.items()))

    with np.errstate(all="ignore"):
        real = values(np.concatenate([STEPS, -STEPS, [0.0]]))
        try:
            along = values(1j * STEPS)
        except NotAnalytic:
            along = np.full(len(STEPS), complex(np.nan, np.nan))
        return step_errors(real, along, exact)._replace(at=at)


def with_steps(row: Row, check: Check) -> Row:
    """The row with the errors of its worst entry, or, if it is right, of its largest gradient."""
    if row.shape is None or not row.size or row.upstream != "all":
        return row
    gradient = check.analytic["all"][row.name]
    bad = row.status in BAD and len(row.at) == len(row.shape)
    entry = (int(np.ravel_multi_index(row.at, row.shape)) if bad and row.shape
             else int(np.argmax(np.abs(gradient))))
    at = tuple(int(i) for i in np.unravel_index(entry, row.shape))
    exact = row.numeric if bad else float(gradient.reshape(-1)[entry])
    return replace(row, steps=errors_of(
        check.evaluate, check.upstream, row.name, entry, at, exact))
