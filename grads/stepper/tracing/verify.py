"""Verifies that every gradient of a backward pass is the derivative of the loss.

The forward runs again with the forward variable perturbed right after its assignment. The change of
the loss, by complex step and by central differences, must agree with the gradient.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from grads.stepper.trace import Loops, Origin, Trace, relative_error
from grads.stepper.tracing.pairing import (
    AssignedGradient,
    Pairing,
    Pairs,
    Partner,
    loops_text,
    root_of,
)
from grads.stepper.tracing.replay import Bumps, Runs

COMPLEX_STEP = 1e-30
CENTRAL_STEP = 6e-6  # cube root of the rounding error of float64
TOLERANCE = 1e-10  # largest relative error of a verified gradient
ROUNDING = 1e-4  # of the largest gradient, or of 1, the floor of relative errors
SUMMED = 20_000  # entries of a gradient whose stages are verified where not all entries are


class Verification(NamedTuple):
    """The result of verifying one gradient variable as one step assigned it."""

    name: str  # of the gradient variable: "dh[2]"
    function: str
    line: int
    text: str
    loops: Loops
    step: int  # of the backward trace
    target: int
    status: str  # "verified" | "wrong" | "partial" | "same" | "share" | "zero" | "unpaired";
    # of a user's own function also "undecided" (methods disagree); "other" (another quantity; or
    # left out of many)
    reason: str  # why the gradient is not verified by itself
    other: Origin | None  # of a partial one where it is completed, of a "same" one the original
    partner: Partner | None  # the forward variable
    analytic: Any  # the gradient as the trace keeps it; None where nothing was compared
    complex_step: Any  # the derivative, of the same shape; NaN where it was not taken
    central: Any
    shape: tuple[int, ...]  # of the gradient in full
    checked: int  # number of entries compared
    error: float | None  # largest difference from the complex step, relative to the largest entry
    # or to `floor_of` all gradients
    central_error: float | None  # how far central differences are from the complex step, likewise
    method: str = "complex step"  # that decided, or "differences": then complex_step holds those
    expression: str = ""  # of the forward that it is compared with, where no variable holds it

    @property
    def forward(self) -> str:
        """The name of the forward variable, "" where nothing was compared."""
        return self.partner.name if self.partner else self.expression


def verify(
    pairing: Pairing, backward: Trace, runs: Runs, central: bool = True, most: int | None = None,
    gradients_most: int | None = None,
) -> list[Verification]:
    """Verify every gradient that the backward assigned, in order.

    Arguments: pairing, which gradient belongs to which variable; backward, its trace; runs, of the
    forward with perturbed variables; central, whether central differences are taken too; most, how
    many entries of each gradient are compared (None: all that the trace keeps), where a sum over
    time of more than SUMMED entries is compared at its last stage only; gradients_most, the number
    of gradients above which only the first and the last gradient of each line are compared. Returns
    one verification for each gradient.
    """
    gradients = Pairs(pairing, runs.forward, backward).gradients()
    if most is not None:
        gradients = without_stages(gradients, backward)
    if gradients_most is not None:
        gradients = of_each_line(gradients, backward, gradients_most)
    final = [(gradient, backward.target(gradient.origin)) for gradient in gradients
             if gradient.partner is not None]
    compared = [chosen(target.value, most) for _, target in final]
    bumps = [bumps_of(gradient.partner, np.shape(target.value), target.shape or (), where)
             for (gradient, target), where in zip(final, compared, strict=True)
             if gradient.partner is not None]
    exact = derivatives(runs, bumps)
    both = central_differences(runs, bumps) if central else exact
    slopes = {gradient.origin: tuple(by_method) for (gradient, _), *by_method in zip(
        final, compared, exact, both, strict=True)}
    floor = floor_of(exact)
    return [_verification(gradient, backward, slopes.get(gradient.origin), pairing, central, floor)
            for gradient in gradients]


def floor_of(exact: Iterable[np.ndarray]) -> float:
    """The scale for errors of small gradients: ROUNDING times the largest derivative or 1.

    The loss's gradient d loss / d s is p - 1 at the word to be predicted. It is rounded like the
    number 1, and so is every gradient computed from it.
    """
    return ROUNDING * max([1.0,
                           *(float(np.abs(derivative[np.isfinite(derivative)]).max(initial=0.0))
                                  for derivative in exact)])


def without_stages(
    gradients: Sequence[AssignedGradient], backward: Trace
) -> list[AssignedGradient]:
    """The gradients, with the earlier stages of each large sum marked as parts of its last
    stage."""
    def name(gradient: AssignedGradient) -> tuple[int, str]:
        return (backward.steps[gradient.origin[0]].frame, backward.target(gradient.origin).name)

    last = {name(gradient): gradient.origin
            for gradient in gradients if gradient.partner is not None}
    return [gradient._replace(status="partial", partner=None, other=last[name(gradient)])
            if gradient.partner is not None and len(gradient.partner.entries) > SUMMED
            and gradient.origin != last[name(gradient)] else gradient for gradient in gradients]


def of_each_line(
    gradients: Sequence[AssignedGradient], backward: Trace, most: int
) -> list[AssignedGradient]:
    """The gradients to compare. If more than `most` could be compared, only the first and the last
    gradient of each line remain."""
    lines: dict[tuple[int, str], list[Origin]] = defaultdict(list)
    for gradient in gradients:
        if gradient.partner is not None:
            lines[backward.steps[gradient.origin[0]].site,
                  root_of(backward.target(gradient.origin).name)].append(gradient.origin)
    if sum(map(len, lines.values())) <= most:
        return list(gradients)
    ends = {origin for origins in lines.values() for origin in (origins[0], origins[-1])}
    return [gradient if gradient.partner is None or gradient.origin in ends else gradient._replace(
        status="other", partner=None) for gradient in gradients]


def chosen(value: Any, most: int | None) -> np.ndarray:
    """The entries (flat positions in the kept value) that are compared: the largest and some
    others."""
    size = np.size(value)
    if most is None or size <= most:
        return np.arange(size)
    largest = np.argsort(-np.abs(np.ravel(value)))
    spread = np.random.default_rng(0).permutation(largest[(most + 1) // 2:])
    return np.sort(np.concatenate([largest[: (most + 1) // 2], spread[: most // 2]]))


def bumps_of(partner: Partner, kept_shape: tuple[int, ...], shape: tuple[int, ...],
             where: np.ndarray) -> Bumps:
    """The perturbations that verify chosen entries (flat positions in the kept value) of a
    gradient."""
    entries = partner.entries.reshape(shape)
    kept = entries[tuple(slice(0, n) for n in kept_shape)]
    return Bumps(partner.places, partner.shape, kept.ravel()[where])


# --- numerical derivatives ----------------------------------------------------------------------


def derivatives(runs: Runs, bumps: Sequence[Bumps]) -> list[np.ndarray]:
    """The derivatives d loss / d entry by complex step: one array (n,) for each of the bumps."""
    losses = runs.losses(bumps, [np.array(COMPLEX_STEP * 1j)] * len(bumps))
    return [perturbed.imag / COMPLEX_STEP for perturbed in losses]


def central_differences(runs: Runs, bumps: Sequence[Bumps]) -> list[np.ndarray]:
    """The derivatives d loss / d entry by central differences: one array (n,) for each of the
    bumps."""
    ends = [runs.losses(bumps, [np.array(h)] * len(bumps)) for h in (CENTRAL_STEP, -CENTRAL_STEP)]
    return [(right - left) / (2 * CENTRAL_STEP) for right, left in zip(*ends, strict=True)]


def _verification(
    gradient: AssignedGradient, backward: Trace, slopes: tuple[np.ndarray, ...] | None,
    pairing: Pairing, central: bool, floor: float,
) -> Verification:
    """The verification of a gradient whose derivatives have been computed."""
    if slopes is None:
        return unverified(backward, gradient.origin, gradient.status,
                          _reason(gradient, backward, pairing), gradient.other)
    where, exact, both = slopes
    analytic = np.asarray(backward.target(gradient.origin).value)
    error = relative_error(analytic.ravel()[where], exact, floor)
    status = "verified" if error <= TOLERANCE else "wrong"  # NaN is wrong
    return unverified(backward, gradient.origin, status, "")._replace(
        partner=gradient.partner, analytic=analytic, complex_step=placed(exact, where, analytic),
        central=placed(both, where, analytic) if central else None, checked=len(where),
        error=error, central_error=relative_error(both, exact, floor) if central else None)


def unverified(backward: Trace, origin: Origin, status: str, reason: str,
               other: Origin | None = None) -> Verification:
    """The verification of a gradient that is not compared with a derivative."""
    step, target = backward.steps[origin[0]], backward.target(origin)
    return Verification(target.name, step.function, step.line, step.text, step.loops, *origin,
                        status, reason, other, None, None, None, None, target.shape or (), 0,
                        None, None)


def placed(values: np.ndarray, where: np.ndarray, like: np.ndarray) -> np.ndarray:
    """An array of NaN with the values at their positions."""
    array = np.full(like.size, np.nan)
    array[where] = values
    return array.reshape(like.shape)


def _reason(gradient: AssignedGradient, backward: Trace, pairing: Pairing) -> str:
    """The reason why a gradient is not verified by itself."""
    if gradient.status == "share":
        function = backward.steps[gradient.origin[0]].function
        return pairing.shares[f"{function}.{root_of(backward.target(gradient.origin).name)}"]
    if gradient.status == "other":
        return "of this line the first and the last are compared: there are too many for all"
    if gradient.status == "zero":
        return "zero, before the first term of its sum"
    if gradient.other is None:
        return "no forward variable of this name is known: list it in the pairs"
    kind = "a part of" if gradient.status == "partial" else "the same array as"
    return line_of(backward, gradient.other, kind)


def line_of(backward: Trace, origin: Origin, kind: str) -> str:
    """A reason that points to another assignment and its line."""
    step = backward.steps[origin[0]]
    where = f"{kind} {step.targets[origin[1]].name}, {step.function} line {step.line}"
    return where + (f" at {loops_text(step.loops)}" if step.loops else "")
