"""The derivative of a user's function by two methods, and whether they agree.

A derivation is written for complex steps; a user's function may write into arrays of real numbers,
or take absolute values, of which a complex step tells nothing. So the derivative is taken by
differences of real numbers too, extrapolated, with an estimate of their error.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from backend.errors import UserError
from grads.stepper.trace import Trace
from grads.stepper.tracing.replay import Bumps, rerun
from grads.stepper.tracing.values import is_array

COMPLEX_STEP = 1e-30
STEPS = (1e-2, 1e-3, 1e-4, 1e-5)  # of differences, relative to the entry
SMALL = (1e-3, 1e-12)  # an entry below this share of the largest is stepped as if it were as
# large; the second where the methods disagree with the first
AGREE = 1e-5  # relative difference of two methods that agree
NOISE = 64  # rounding errors of a loss, in units of its precision
SURE = 1e-4  # relative error estimate up to which differences alone decide
EXACT = 1e-8  # relative error of a gradient verified by complex step
EPSILONS = 2.0**10  # the same of one in float32, in units of its precision
ROUGH = 1e-6  # relative error of one verified by differences, where they are no worse


class Derivative(NamedTuple):
    """d loss / d entry for some entries of a variable, by two methods."""

    complex_step: np.ndarray  # NaN where the function cannot be run with complex numbers
    real: np.ndarray
    estimate: float  # of the error of `real`, absolute
    kink: bool  # whether the differences to both sides stay apart

    def scale(self, floor: float) -> float:
        """The size of the derivative, that errors are relative to."""
        return max(float(np.nan_to_num(np.abs(self.real)).max(initial=0.0)), floor)

    def agree(self, floor: float) -> bool:
        """Whether both methods were taken and say the same."""
        allowed = AGREE * self.scale(floor) + 10 * self.estimate
        return bool(np.all(np.abs(self.complex_step - self.real) <= allowed))

    def verdict(self, analytic: np.ndarray, floor: float, precision: float) -> tuple[str, float]:
        """verified, wrong or undecided, and the relative error.

        Arguments: analytic, the gradient of the same entries; floor, the size that smaller
        gradients are compared to; precision, of the numbers that were computed with.
        Undecided where the differences do not settle, as at a kink.
        """
        agree = self.agree(floor)
        exact, allowed = (self.complex_step, EXACT) if agree else (self.real, ROUGH)
        allowed = max(allowed, EPSILONS * precision)
        scale = max(self.scale(floor), float(np.abs(analytic).max(initial=0.0)))
        if not np.all(np.isfinite(exact)):
            return "undecided", float("nan")
        error = float(np.abs(analytic - exact).max(initial=0.0)) / scale
        if not agree:
            if self.kink or not self.estimate <= SURE * scale:
                return "undecided", error
            allowed = max(allowed, 100 * self.estimate / scale)
        return ("verified" if error <= allowed else "wrong"), error  # NaN is wrong


def derivative(forward: Trace, bump: Bumps, arguments: Sequence[Any], loss: Any,
               named: dict[str, Any], size: np.ndarray, precision: float,
               share: float = SMALL[0]) -> Derivative:
    """Both derivatives of the entries of one variable.

    Arguments: size, the entries themselves, that steps are relative to; precision, of the
    numbers that are computed with; share, of the largest entry, below which a step does not go.
    """
    along = attempt(forward, bump, arguments, loss, named,
                    np.full(len(bump.entries), COMPLEX_STEP * 1j)).imag / COMPLEX_STEP
    size = np.where(np.isfinite(size), np.abs(size), 1.0)
    scale = np.maximum(size, share * size.max(initial=0.0))
    scale = np.where(scale > 0, scale, 1.0)
    middle = attempt(forward, bump, arguments, loss, named, np.zeros(len(bump.entries)))
    levels, bends = [], []
    for relative in STEPS:
        h = relative * scale
        (wide, bend), (narrow, _) = (
            two_sided(attempt(forward, bump, arguments, loss, named, step), middle,
                      attempt(forward, bump, arguments, loss, named, -step), step)
            for step in (h, h / 2))
        levels.append((4 * narrow - wide) / 3)  # Richardson: the error of order h^2 cancels
        noise = NOISE * precision * np.abs(middle) / h
        bends.append(np.where(bend > noise, bend, 0.0))
    real, estimate = settled(np.array(levels))
    return Derivative(along, real, estimate, kinked(np.array(bends), real))


def two_sided(right: np.ndarray, middle: np.ndarray, left: np.ndarray, step: np.ndarray
              ) -> tuple[np.ndarray, np.ndarray]:
    """The central difference, and by how much the differences to both sides are apart."""
    return (right - left) / (2 * step), np.abs(right + left - 2 * middle) / step


def kinked(bends: np.ndarray, real: np.ndarray) -> bool:
    """Whether the differences to both sides (steps, n) stay apart as steps shrink a hundredfold."""
    if not bends.size:
        return False
    size = max(float(np.nan_to_num(np.abs(real)).max()), 1e-300)
    return bool(np.any((bends[2] > bends[0] / 4) & (bends[2] > AGREE * size)))


def settled(levels: np.ndarray) -> tuple[np.ndarray, float]:
    """Of the derivatives (steps, n) those least moved by a smaller step, and by how much."""
    if not levels.size:
        return levels.reshape(-1), 0.0
    moved = np.abs(np.diff(levels, axis=0))
    moved = np.where(np.isnan(moved), np.inf, moved)
    best = np.argmin(moved, axis=0)
    where = np.arange(levels.shape[1])
    return levels[best + 1, where], float(moved[best, where].max())


def attempt(forward: Trace, bump: Bumps, arguments: Sequence[Any], loss: Any,
            named: dict[str, Any], steps: np.ndarray) -> np.ndarray:
    """The loss with each entry perturbed; NaN where that run fails."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            found = rerun(forward, arguments, [bump], steps, named, loss)[0]
    except (UserError, ArithmeticError, ValueError, TypeError, IndexError):
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
