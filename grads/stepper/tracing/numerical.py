"""Computes the derivative of a user's function by two methods, and tells whether they agree.

A derivation is written for complex steps. A user's function may write into real arrays or take
absolute values, where a complex step is invalid. So the derivative is also computed by real
differences. Both methods are the checker's (`grads.check.differentiate`). Here they run along
entries of a variable inside the function.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from grads.check.differentiate import Numeric, Probe, complex_step, ridders
from grads.check.evaluate import Line
from grads.stepper.trace import Trace
from grads.stepper.tracing.replay import Bumps, Runs, singles
from grads.stepper.tracing.values import is_array

AGREE = 1e-5  # relative difference of two methods that agree
EPS = float(np.finfo(np.float64).eps)
NOISE = 1  # roundings of a loss, in units of its precision
SURE = 1e-4  # relative error estimate above which differences are undecided
EXACT = 1e-8  # relative error of a gradient verified by complex step
EPSILONS = 2.0**10  # likewise in float32, in units of its precision
ROUGH = 1e-6  # relative error of one verified by differences, where they are no worse
BESIDE = 2.0**-20 * np.arange(8)  # steps that show rounding to float32, and no curvature
JUMPS = 64  # roundings in float64: third differences that are larger show a coarser rounding


class Derivative(NamedTuple):
    """The derivative d loss / d entry for some entries of a variable, by two methods."""

    complex_step: np.ndarray  # NaN where the function cannot be run with complex numbers
    real: np.ndarray
    estimate: float  # estimated absolute error of `real`; large at a kink
    is_analytic: bool = False  # whether the complex step is known to suit the function

    def scale(self, floor: float) -> float:
        """The size of the derivative. Errors are relative to it."""
        return max(float(np.nan_to_num(np.abs(self.real)).max(initial=0.0)), floor)

    def agree(self, floor: float) -> bool:
        """Whether the complex step decides: both methods gave a result and agree, or the
        differences do not converge for a function that the complex step suits."""
        if not self.sure(floor):
            return self.is_analytic and bool(np.isfinite(self.complex_step).all())
        allowed = AGREE * self.scale(floor) + 10 * self.estimate
        return bool(np.all(np.abs(self.complex_step - self.real) <= allowed))

    def sure(self, floor: float) -> bool:
        """Whether the differences have converged. At a kink they do not."""
        return self.estimate <= SURE * self.scale(floor)

    def verdict(self, analytic: np.ndarray, floor: float, precision: float) -> tuple[str, float]:
        """The status (verified, wrong or undecided) and the relative error of a gradient.

        Arguments: analytic, the gradient of the same entries; floor, the size below which errors
        are not relative any more; precision, the relative precision of the numbers in the
        computation. The status is undecided if the differences do not converge, as at a kink.
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


class Wanted(Exception):
    """Raised with the steps at which a method needs losses that are not known yet."""


class Losses(Probe):
    """The losses along one entry of a variable, in the form that the checker's methods take.

    Arguments: size, the value of the entry; largest, of the variable's entries; base, the loss
    without a step; precision, that the loss is rounded to. Attribute: known, the losses (m,) by
    step, to be filled by the caller. Raises `Wanted` when it is called with steps that are not in
    `known`.
    """

    def __init__(self, size: float, largest: float, base: float, precision: float) -> None:
        self.alone, self.known = False, dict[bytes, np.ndarray]()
        self.weights, self.base = [np.ones(1)], [np.array([base])]
        self.coarse, self.unit, self.near = Line({"entry": np.ones(1)}).scales(
            {"entry": np.array([size]), "largest": np.array([largest])})
        self.noise = [np.array([NOISE * abs(base) * precision])]

    def __call__(self, t: np.ndarray) -> list[np.ndarray]:
        """The losses (m, 1) at the steps t (m,)."""
        if t.tobytes() not in self.known:
            raise Wanted(t)
        return [self.known[t.tobytes()][:, None]]


class OwnRuns(Runs):
    """Runs a user's forward with perturbed variables. The loss of a run that fails is NaN."""

    def derivatives(self, bumps: Sequence[Bumps], sizes: Sequence[np.ndarray], precision: float
                    ) -> list[Derivative]:
        """Compute the derivatives of the entries of each variable by both methods. All entries
        share their runs.

        Arguments: sizes, the values of the entries, which the step sizes are relative to;
        precision, of the numbers in the computation.
        """
        beside = self.beside(bumps, sizes, precision > EPS)
        parts = [lines(bump, size, float(losses[0, 0]), precision if is_rounded(losses) else EPS)
                 if len(bump.entries) else []
                 for bump, size, losses in zip(bumps, sizes, beside, strict=True)]
        together = [line for part in parts for line in part]
        along, real = (iter(self.by(method, together)) for method in (complex_step, ridders))
        return [derivative(len(bump.entries), [next(along) for _ in part], [
            next(real) for _ in part]) for bump, part in zip(bumps, parts, strict=True)]

    def beside(self, bumps: Sequence[Bumps], sizes: Sequence[np.ndarray], is_coarse: bool
               ) -> list[np.ndarray]:
        """The losses (entries, steps) with no step and with small ones. If the computation is not
        coarse, a single one without a step."""
        steps = BESIDE if is_coarse else np.zeros(1)
        entries = [bump.entries if is_coarse else bump.entries[:1] for bump in bumps]
        losses = iter(self.losses(
            [bump._replace(entries=np.repeat(some, len(steps)))
             for bump, some in zip(bumps, entries, strict=True) if len(some)],
            [np.tile(steps, len(some)) * max(1.0, float(np.nan_to_num(np.abs(size)).max()))
             for size, some in zip(sizes, entries, strict=True) if len(some)]))
        return [next(losses).reshape(-1, len(steps)) if len(some) else np.zeros((0, 1))
                for some in entries]

    def by(self, method: Callable[[Probe], Numeric], lines: Sequence[tuple[Bumps, Losses]]
           ) -> list[Numeric]:
        """The result of a method along each line. The method is called repeatedly. After each
        round, the losses that it needs next are computed for all lines in one run."""
        numerics: dict[int, Numeric] = {}
        while len(numerics) < len(lines):
            wanted: dict[int, np.ndarray] = {}
            for i, (_, known) in enumerate(lines):
                if i in numerics:
                    continue
                try:
                    with np.errstate(all="ignore"):  # the error estimate shows a left domain
                        numerics[i] = method(known)
                except Wanted as error:
                    wanted[i] = error.args[0]
            bumps = [lines[i][0]._replace(entries=np.repeat(lines[i][0].entries, len(steps)))
                     for i, steps in wanted.items()]
            for i, losses in zip(wanted, self.losses(bumps, list(wanted.values())), strict=True):
                lines[i][1].known[wanted[i].tobytes()] = losses
        return [numerics[i] for i in range(len(lines))]

    def together(self, bumps: Sequence[Bumps], steps: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The losses of one run with all bumps. If that run fails, each entry gets a run of its
        own."""
        kind = np.result_type(*steps, float)
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                return [losses.astype(kind) for losses in super().together(bumps, steps)]
        except Exception:  # whatever the user's code raises there
            alone = singles(bumps)
            if len(alone) == 1:
                return [np.full(1, np.nan, kind)]
            added = np.concatenate([np.broadcast_to(step, len(bump.entries))
                                    for bump, step in zip(bumps, steps, strict=True)])
            losses = np.concatenate([self.together([bump], [added[[k]]])[0]
                                     for k, bump in enumerate(alone)])
            return np.split(losses, np.cumsum([len(bump.entries) for bump in bumps])[:-1])


def is_rounded(losses: np.ndarray) -> bool:
    """Whether the losses (entries, steps) are rounded to less than float64: float32 can represent
    them, or they jump from step to step."""
    with np.errstate(all="ignore"):
        jumps = np.abs(np.diff(losses, 3)).max(initial=0.0)
        return bool(np.all(losses[:, 0].astype(np.float32) == losses[:, 0])
                    or jumps > JUMPS * EPS * np.abs(losses).max(initial=0.0))


def lines(bump: Bumps, size: np.ndarray, base: float, precision: float
          ) -> list[tuple[Bumps, Losses]]:
    """The lines along the entries of a variable; none if the user's code fails with a variable of
    this shape, which a loss `base` that is not finite shows."""
    size = np.where(np.isfinite(size), size, 1.0)
    return [(alone, Losses(entry, float(np.abs(size).max()), base, precision))
            for alone, entry in zip(singles([bump]), size.tolist(), strict=True)
            if np.isfinite(base)]


def derivative(count: int, along: Sequence[Numeric], real: Sequence[Numeric]) -> Derivative:
    """The derivative for so many entries by complex step and by differences; unknown if neither was
    computed."""
    if count and not real:
        return Derivative(np.full(count, np.nan), np.full(count, np.nan), math.inf)
    return Derivative(np.array([numeric.value[0] for numeric in along]),
                      np.array([numeric.value[0] for numeric in real]),
                      float(max((numeric.error[0] for numeric in real), default=0.0)))


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
