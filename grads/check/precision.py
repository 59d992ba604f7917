"""The precision of an analytic gradient: its observed rounding, and the allowed difference.

In float64 the allowance is generous and still far below any mistake. A gradient in float32 or
float16 is computed again from inputs that differ in their last bit: the change is the rounding of
this code at these values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from grads.check.analytic import dense
from grads.check.case import Case

HALF = 1e-4  # eps above it is float16's
EXACT = 1e-12  # eps of a dtype that needs no observation
RUNS = 3  # number of repeated computations
SAFETY = 10  # factor by which rounding may exceed the observed one

Arrays = Mapping[str, np.ndarray]


class Allowance(NamedTuple):
    """What rounding may change: multiples of eps, and an absolute part."""

    relative: float  # of the entry
    tensor: float  # of the terms that were summed, and of the largest entry of the tensor
    all: float  # of the largest entry of all tensors
    absolute: float


def allowance(eps: float, rounding: float | None) -> Allowance:
    """The allowance for a gradient. Arguments: eps of the dtype; rounding, as observed, or None.

    A gradient given as an array, which cannot be computed again, is allowed a relative error of
    0.02% in float32, 1.6% in float16.
    """
    if eps < EXACT:
        return Allowance(8192, 512, 8, 0.0)
    half = eps > HALF  # float16's own roundings are so large that few of them may pass
    if rounding is None:
        return Allowance(16, 8, 1, 0.0) if half else Allowance(2048, 256, 8, 0.0)
    return Allowance(*((8, 4, 1) if half else (64, 32, 1)), SAFETY * rounding)


def rounding_of(case: Case, upstream: Arrays, gradients: Arrays) -> dict[str, float]:
    """The largest observed rounding of each tensor's gradient; empty in float64, or if the
    gradients do not depend on the inputs, because they are given as arrays."""
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
