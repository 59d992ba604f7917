"""How precise an analytic gradient can be: what is observed of its rounding, and what is allowed.

In float64 the allowance is generous and still far below any mistake. A gradient in float32 or
float16 is computed again from inputs that differ in their last bit: what changes is rounding, as
this code at this place brings it about.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from grads.check.analytic import dense
from grads.check.case import Case

HALF = 1e-4  # eps above it is float16's
EXACT = 1e-12  # eps of a dtype that needs no observation
RUNS = 3  # gradients that are computed again
SAFETY = 10  # rounding may be this much larger than observed

Arrays = Mapping[str, np.ndarray]


class Allowance(NamedTuple):
    """What rounding may change: multiples of eps, and an absolute part."""

    relative: float  # of the entry
    tensor: float  # of the terms that were summed, and of the largest entry of the tensor
    all: float  # of the largest entry of all tensors
    absolute: float


def allowance(eps: float, rounding: float | None) -> Allowance:
    """What is allowed. Arguments: eps of the dtype; rounding, as observed, None where it was not.

    A gradient that is only given, and not computed here, is allowed 0.02% of itself in float32,
    1.6% in float16.
    """
    if eps < EXACT:
        return Allowance(8192, 512, 8, 0.0)
    half = eps > HALF  # float16's own roundings are so large that few of them may pass
    if rounding is None:
        return Allowance(16, 8, 1, 0.0) if half else Allowance(2048, 256, 8, 0.0)
    return Allowance(*((8, 4, 1) if half else (64, 32, 1)), SAFETY * rounding)


def rounding_of(case: Case, upstream: Arrays, gradients: Arrays) -> dict[str, float]:
    """The largest rounding of each tensor's gradient, observed; nothing where there is no need to,
    or where the gradient does not depend on the inputs, as one that is given."""
    dtype = next(iter(case.inputs.values())).dtype
    if np.finfo(dtype).eps < EXACT:
        return {}
    rng, changes = np.random.default_rng(0), dict.fromkeys(gradients, 0.0)
    given = {name: np.array(d, dtype) for name, d in upstream.items()}
    for _ in range(RUNS):
        inputs = {name: _neighbour(value, rng) for name, value in case.inputs.items()}
        for name, d in case.gradients(inputs, given).items():
            gap = np.abs(dense(d, name, case.inputs).astype(float) - gradients[name])
            changes[name] = max(changes[name], float(gap[np.isfinite(gap)].max(initial=0.0)))
    return changes if any(changes.values()) else {}


def _neighbour(value: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The next number up, down or the same, at random."""
    towards = rng.choice([-np.inf, np.inf], value.shape).astype(value.dtype)
    moved = np.nextafter(value, towards)
    return np.array(np.where((rng.random(value.shape) < 0.75) & (value != 0), moved, value),
                    value.dtype)
