"""Measures the error of numerical derivatives of an entry against the step size.

The error of a difference is the sum of truncation, which falls with the step, and of rounding,
which grows as the step falls. Between them is a best step. A complex step subtracts nothing, so its
error stays as small as rounding.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from grads.check.evaluate import Array

STEPS = 10.0 ** -np.arange(16)


class StepErrors(NamedTuple):
    """Relative errors of three numerical derivatives of an entry; (steps,) each."""

    steps: Array
    complex: Array
    central: Array
    forward: Array


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
