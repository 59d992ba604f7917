"""The derivative of a user's function by two methods, and whether they agree.

A derivation is written for complex steps; a user's function may write into real arrays, or take
absolute values, for which a complex step is invalid. So the derivative is also taken by real
differences. Both methods are the checker's (`grads.check.differentiate`); here they run along
entries of a variable inside the function.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from grads.check.differentiate import Probe, complex_step, ridders
from grads.check.evaluate import Line
from grads.stepper.trace import Trace
from grads.stepper.tracing.replay import Bumps, rerun
from grads.stepper.tracing.values import is_array

AGREE = 1e-5  # relative difference of two methods that agree
EPS = float(np.finfo(np.float64).eps)
NOISE = 1  # roundings of a loss, in units of its precision
SURE = 1e-4  # relative error estimate above which differences are undecided
EXACT = 1e-8  # relative error of a gradient verified by complex step
EPSILONS = 2.0**10  # likewise in float32, in units of its precision
ROUGH = 1e-6  # relative error of one verified by differences, where they are no worse


class Derivative(NamedTuple):
    """d loss / d entry for some entries of a variable, by two methods."""

    complex_step: np.ndarray  # NaN where the function cannot be run with complex numbers
    real: np.ndarray
    estimate: float  # estimated absolute error of `real`; large at a kink

    def scale(self, floor: float) -> float:
        """The size of the derivative, to which errors are relative."""
        return max(float(np.nan_to_num(np.abs(self.real)).max(initial=0.0)), floor)

    def agree(self, floor: float) -> bool:
        """Whether both methods could be used and agree."""
        allowed = AGREE * self.scale(floor) + 10 * self.estimate
        return self.sure(floor) and bool(np.all(
            np.abs(self.complex_step - self.real) <= allowed))

    def sure(self, floor: float) -> bool:
        """Whether the differences have converged; they do not at a kink."""
        return self.estimate <= SURE * self.scale(floor)

    def verdict(self, analytic: np.ndarray, floor: float, precision: float) -> tuple[str, float]:
        """verified, wrong or undecided, and the relative error.

        Arguments: analytic, the gradient of the same entries; floor, the size that smaller
        gradients are compared to; precision, of the numbers that were computed with.
        Undecided if the differences do not converge, as at a kink.
        """
        agree = self.agree(floor)
        exact, allowed = (self.complex_step, EXACT) if agree else (self.real, ROUGH)
        allowed = max(allowed, EPSILONS * precision)
        scale = max(self.scale(floor), float(np.abs(analytic).max(initial=0.0)))
        if not np.all(np.isfinite(exact)):
            return "undecided", float("nan")
        error = float(np.abs(analytic - exact).max(initial=0.0)) / scale
        if not agree:
            if not self.estimate <= SURE * scale:
                return "undecided", error
            allowed = max(allowed, 100 * self.estimate / scale)
        return ("verified" if error <= allowed else "wrong"), error  # NaN is wrong


class Losses(Probe):
    """The loss along one entry of a variable, for the methods of the checker.

    Arguments: run, from steps to the losses; size, the entry itself; base, the loss; precision, of
    the numbers that it is computed with. The perturbed entry is float64, so that only a loss that
    float32 can represent counts as rounded to it.
    """

    def __init__(self, run: Callable[[np.ndarray], np.ndarray], size: float, base: float,
                 precision: float) -> None:
        self.run, self.weights, self.base = run, [np.ones(1)], [np.array([base])]
        self.coarse, self.unit, self.near = Line({"": np.ones(1)}).scales({"": np.array([size])})
        with np.errstate(over="ignore"):
            held = float(np.float32(base)) == base
        self.noise = [np.array([NOISE * abs(base) * (precision if held else EPS)])]

    def __call__(self, t: np.ndarray) -> list[np.ndarray]:
        """The losses (m, 1) at steps t (m,)."""
        return [self.run(t)[:, None]]


def derivative(forward: Trace, bump: Bumps, arguments: Sequence[Any], loss: Any,
               named: dict[str, Any], size: np.ndarray, precision: float) -> Derivative:
    """Both derivatives of the entries of one variable.

    Arguments: size, the entries themselves, that steps are relative to; precision, of the
    numbers that are computed with.
    """
    def run(entry: int, steps: np.ndarray) -> np.ndarray:
        entries = np.full(len(steps), entry)
        return attempt(forward, bump._replace(entries=entries), arguments, loss, named, steps)

    if not len(bump.entries):
        return Derivative(np.zeros(0), np.zeros(0), 0.0)
    base = float(run(bump.entries[0], np.zeros(1))[0])
    every = [Losses(partial(run, entry), x, base, precision) for entry, x in zip(
        bump.entries, np.where(np.isfinite(size), size, 1.0).tolist(), strict=True)]
    with np.errstate(all="ignore"):  # a step may leave the domain: the error estimate says so
        along = [complex_step(losses).value[0] for losses in every]
        found = [ridders(losses) for losses in every]
    return Derivative(np.array(along), np.array([one.value[0] for one in found]),
                      float(max(one.error[0] for one in found)))


def attempt(forward: Trace, bump: Bumps, arguments: Sequence[Any], loss: Any,
            named: dict[str, Any], steps: np.ndarray) -> np.ndarray:
    """The loss with each entry perturbed; NaN where that run fails."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            found = rerun(forward, arguments, [bump], steps, named, loss)[0]
    except Exception:  # whatever the user's code raises there
        return np.full(len(bump.entries), np.nan, np.result_type(steps, float))
    return found.astype(np.result_type(steps, float))


def entries_of(forward: Trace, bump: Bumps) -> np.ndarray:
    """The perturbed entries as they were."""
    places = bump.places
    if places.steps:
        step = forward.steps[places.steps[0][0]]
        for target in step.targets:
            if target.place == places.steps[0][1] and is_array(target.value) and (
                    np.shape(target.value) == tuple(bump.shape)):
                return np.asarray(target.value, float).ravel()[bump.entries]
    return np.ones(len(bump.entries))
