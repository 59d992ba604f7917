"""Whether a backward is linear in its upstream gradient, as any derivative is.

It is run with multiples of the upstream gradient. What it returns for them says how it is not
linear.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any

import numpy as np

from grads.check.analytic import copies, differing, gradients_at, unequal
from grads.check.case import Case
from grads.check.result import Finding

CONSTANT = 1e-4  # fraction of the largest gradient that may not depend on the upstream gradient
# Factors of the upstream gradient
SCALES = (-(2.0**6), 2.0**-6)
SCALES_OF_HALF = (-(2.0**4), 2.0**-4)  # the same in float16
ENDING = -(2.0**2)  # of a backward that may iterate to an absolute tolerance: with larger factors
# that may be below one rounding, and it would not end
FURTHER = (2.0**-30, -(2.0**-31), -(2.0**6), 2.0**7)  # factors that show how it is not linear

Arrays = Mapping[str, np.ndarray]


@np.errstate(all="ignore")
def linearity_findings(case: Case, upstream: Arrays, gradients: Arrays) -> list[Finding]:
    """Faults of a backward that show with other upstream gradients: it must be linear in them, and
    two runs must give the same. Small and large ones show what is dropped and what is clipped."""
    large, small = SCALES_OF_HALF if case.dtype == np.float16 else SCALES
    if differing(_scaled(case, upstream, gradients, small), gradients):
        return _faults_of_scaling(case, upstream, gradients, (ENDING, small))
    if differing(_scaled(case, upstream, gradients, large), gradients):
        return _faults_of_scaling(case, upstream, gradients, (large, small))
    return []


def _faults_of_scaling(
    case: Case, upstream: Arrays, gradients: Arrays, scales: tuple[float, float]
) -> list[Finding]:
    """What makes gradients differ from those for multiples of the upstream gradients."""
    again = _scaled(case, upstream, gradients, 1.0)
    if random := unequal(again, gradients):
        return [Finding("random", f"d{name}", "two runs of the backward differ") for name in random]
    dtype = None
    if case.dtype != np.float64:  # where little underflows
        try:
            gradients, dtype = _scaled(case, upstream, gradients, 1.0, np.float64), np.float64
        except Exception:  # the code may insist on its dtype
            pass

    @cache
    def at(factors: tuple[float, ...]) -> list[Arrays]:
        return [_scaled(case, upstream, gradients, factor, dtype) for factor in factors]

    def of_tensor(name: str, factors: tuple[float, ...]) -> list[np.ndarray]:
        return [there[name] for there in at(factors)]

    said: dict[str, list[str]] = {}
    for name, gradient in gradients.items():
        message = _nonlinear(gradient, of_tensor(name, (*scales, -0.5, 0.0)),
                             partial(of_tensor, name, FURTHER))
        said.setdefault(message, []).append(f"d{name}")
    return [Finding("upstream", ", ".join(tensors), message)
            for message, tensors in said.items() if message]


def _scaled(
    case: Case, upstream: Arrays, gradients: Arrays, factor: float, dtype: Any = None
) -> Arrays:
    """The gradients for `factor` times the upstream gradients, divided by `factor`, a power of 2,
    so that rounding does not change."""
    d_outputs = {name: factor * d
                 for name, d in copies(upstream, case.dtype).items()}
    again = gradients_at(case, case.inputs, d_outputs, dtype)
    return {name: again[name] / (factor or 1.0) if name in again
            else np.zeros_like(gradient)  # a gradient may be missing at zero upstream
            for name, gradient in gradients.items()}


def _nonlinear(
    gradient: np.ndarray, scaled: Sequence[np.ndarray], further: Callable[[], list[np.ndarray]]
) -> str:
    """How a gradient depends on the upstream gradient; "" if linearly.

    Arguments: gradient; scaled, the gradients from SCALES, -1/2 and 0 times the upstream gradient,
    divided by these factors; further, which makes those from FURTHER.
    """
    large, small, half, zero = scaled
    largest = np.abs(gradient).max(initial=0.0)

    def alike(a: np.ndarray, b: np.ndarray | float) -> bool:
        return bool((np.abs(a - b) <= CONSTANT * largest).all())

    if not np.isfinite(zero).all():  # a right backward may divide by its upstream
        zero = np.zeros_like(zero)
    finite = [there for there in (large, small, half) if np.isfinite(there).all()]
    if not np.isfinite(gradient).all() or (
            all(alike(there, gradient) for there in finite) and alike(zero, 0.0)):
        return ""
    if alike(zero, gradient):
        return "it ignores the upstream gradient"
    tiny, tinier, large, larger = further()
    if alike(half + 3 * zero, gradient) and not alike(zero, 0.0):
        return "something is added to it that does not depend on the upstream gradient"
    if alike(half, 1.5 * tiny - gradient / 2) and not alike(half, gradient):
        return ("it is quadratic in the upstream gradient: is that squared, or a gradient used "
                "where a value belongs?")
    if alike(-half, gradient):
        return "it loses the sign of the upstream gradient"
    if alike(zero, 0.0) and alike(tiny, tinier) and not alike(tiny, 0.0) and not (
            alike(larger, gradient)):
        return (f"the backward {_clipping(FURTHER[-1] * larger)}; a gradient is linear in the "
                "upstream gradient")
    if alike(large, larger) and not alike(large, 0.0):
        return ("the backward drops small upstream gradients, or small gradients, or iterates to "
                "an absolute tolerance")
    return "it is not linear in the upstream gradient, as any gradient is"


def _clipping(gradient: np.ndarray) -> str:
    """What a backward does to large gradients. Arguments: a gradient for a large upstream."""
    sizes, counts = np.unique(np.abs(gradient), return_counts=True)
    if len(sizes) and counts[-1] > max(1, gradient.size // 2):  # they are equal
        return f"clips this gradient at {sizes[-1]:.6g}"
    return "clips or squashes its upstream gradient, or this gradient"
