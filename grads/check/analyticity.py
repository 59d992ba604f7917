"""Tests whether a function is analytic, so that the complex step suits it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from grads.check.differentiate import AMPLIFIES, EPS, ROUNDINGS, Numeric, Probe, largest_step
from grads.check.evaluate import Evaluator, Line
from grads.check.kinks import find_kink_along
from grads.check.precision import observe_noise

SECOND = (2.0**-17, 2.0**-24, 2.0**-31, 2.0**-38)  # steps h in a second direction; one must agree.
# The last is for inputs with a large offset, such as epoch seconds
CLOSER_WITHIN = (2.0**-5, 2.0**-8)  # fractions of the largest step that stays in the domain
STRETCH = 2.0**10  # times h: largest relative change of small inputs by these steps
CLEAR = 1e-2  # fraction of the derivative that rounding must stay below at the last step
ALIKE = 1e-4  # relative difference of the derivatives in two directions
QUIET = 2.0**6  # rounding, in eps of float64, that is more than usual
DIFFERS = ("f: the derivative is not the same in all directions of the complex plane: something is "
           "not analytic (a complex conjugate, an absolute value outside of NumPy)")
CHAOTIC = 2.0**20  # ratio of relative changes, outputs to inputs, that amplifies rounding
LOST = ("f: a small complex step is lost: real and imaginary parts are mixed, each with the "
        "other's rounding (a Fourier transform outside of NumPy)")


def second_direction(
    evaluate: Evaluator, upstream: Mapping[str, Any], line: Line, by_complex_step: Numeric
) -> str:
    """Check for analyticity by steps in a second direction of the complex plane.

    The derivative of an analytic function is the same in all directions. Here t = (1 + i) h: the
    real and the imaginary part of a difference must agree with each other and, except at a kink,
    with the derivative `by_complex_step`. Returns "" if they agree at one of four step sizes, or
    if rounding is too large to decide. Otherwise returns why the complex step cannot be used.
    """
    probe = Probe(evaluate, upstream, line)
    if not _agree_within(probe, 1 + 1j, None):
        known = dict(evaluate.noise)
        observe_noise(evaluate, line, QUIET)  # as of 1 - sigm(10), which is rounded to 11 digits
        probe = Probe(evaluate, upstream, line)
        if not _agree_within(probe, 1 + 1j, None):
            evaluate.noise = known
            size = sum(float(np.abs(weight * base).sum())
                       for weight, base in zip(probe.weights, probe.base, strict=True))
            change = probe.unit * float(by_complex_step.scale.sum())
            return AMPLIFIES if change > CHAOTIC * size else DIFFERS
    if _agree_within(probe, 1 + 1j, by_complex_step) or (
            find_kink_along(evaluate, upstream, line.direction) is not None):
        return ""
    return LOST


def real_direction(
    evaluate: Evaluator, upstream: Mapping[str, Any], line: Line, by_complex_step: Numeric
) -> str:
    """As `second_direction`, by real steps: their differences must agree with `by_complex_step`."""
    probe = Probe(evaluate, upstream, line)
    if _agree_within(probe, 1.0, by_complex_step):
        return ""
    return "f: real differences say otherwise: it computes something else with complex numbers"


@np.errstate(all="ignore")
def _agree_within(probe: Probe, turn: complex, expected: Numeric | None) -> bool:
    """As `_agree`, with shorter steps if real steps leave the domain."""
    steps = [h * min(probe.unit, STRETCH * probe.near) for h in SECOND]
    if _agree(probe, steps, turn, expected):
        return True
    domain = largest_step(probe, steps[0])
    return 0.0 < domain < steps[0] and _agree(
        probe, [fraction * domain for fraction in CLOSER_WITHIN], turn, expected)


def _agree(
    probe: Probe, steps: Sequence[float], turn: complex, expected: Numeric | None
) -> bool:
    """Whether the real parts of central differences along `turn` are the expected slopes, at one of
    the steps. Without expected slopes: whether they are the imaginary parts."""
    for h in steps:
        t = h * turn
        apart = size = noise = 0.0
        for k, (ahead, behind) in enumerate(probe(np.array([t, -t]))):
            base, weight = probe.base[k], probe.weights[k]
            change = (ahead - behind) * turn / (2 * t)
            slope = change.imag @ weight if expected is None else expected.value[k, 0]
            apart += abs(float(change.real @ weight) - float(slope))
            noise += ROUNDINGS * EPS * float(np.abs(weight * base).sum()) / abs(t)
            noise += float(np.abs(weight * probe.noise[k]).sum()) / abs(t)
            noise += EPS * probe.coarse * float(np.abs(change) @ np.abs(weight)) / abs(t)
            size += float(np.abs(change) @ np.abs(weight))
        allowed = ALIKE * size + 16 * noise
        clear = allowed < CLEAR * size or h not in steps[len(SECOND) - 1:]
        if np.isfinite(apart) and apart <= allowed and clear:
            return True
    return False
