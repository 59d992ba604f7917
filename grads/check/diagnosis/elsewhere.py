"""Evaluates a function with a wrong gradient again: at which other inputs is the gradient right?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from grads.check.analytic import dense
from grads.check.case import Case
from grads.check.diagnosis.evidence import Array
from grads.check.evaluate import Evaluator
from grads.check.other_inputs import slopes_at

NEAR = 1e-2  # relative distance to other points, beyond the kinks at this one
POINTS = 3
ELSEWHERE = (  # least and largest factor of the inputs, and whether their entries are exchanged
    *[(0.3, 1.0, False)] * 3, (0.01, 0.1, False), (2.0, 10.0, False), *[(0.9, 1.1, True)] * 4)
LARGE = 8.0  # times the upstream gradient, which may be compared with other numbers by mistake
UNLIKE = 1e6  # ratio of derivatives, of which one is saturated or beyond all bounds
UNSURE = 1e-3  # relative error up to which a derivative confirms
CLOSE = 1e-6  # relative difference of two derivatives that count as equal

Arrays = Mapping[str, Array]


@dataclass
class Probe:
    """What can be evaluated again: the case, its function, and the method that suits it. All
    tensors of a check share one, with what was tried in the user's code."""

    case: Case
    evaluate: Evaluator
    method: str
    mended: dict[str, str] | None = None  # phrases of `edits` by tensor; None: nothing was tried
    stop: float | None = None  # CPU seconds at which `paths` ends; None: it has not begun

    def gradients_at(self, inputs: Arrays, upstream: Arrays) -> dict[str, Array]:
        """The analytic gradients at other inputs."""
        gradients: Any = self.case.gradients({key: a.copy() for key, a in inputs.items()},
                                             {key: np.array(d) for key, d in upstream.items()})
        return {key: np.asarray(dense(d, key, inputs), float) for key, d in gradients.items()}


def right_beside(probe: Probe, upstream: Arrays, name: str, everywhere: bool = False) -> bool:
    """Whether a gradient is right at points close by, as far as the function takes them.

    Arguments: everywhere, whether zeros are moved, too. Then the function must take the points, and
    have a slope there.
    """
    rng = np.random.default_rng(2)
    for _ in range(POINTS):
        inputs = {key: a + NEAR * np.maximum(everywhere, np.abs(a)) * rng.normal(size=a.shape)
                  if a.dtype.kind == "f" else a for key, a in probe.evaluate.inputs.items()}
        right = _right_at(probe, upstream, name, inputs, rng, everywhere)
        if not right and (everywhere or right is not None):
            return False
    return True


def right_elsewhere(probe: Probe, upstream: Arrays, name: str, usual: float) -> bool:
    """Whether a gradient is right at smaller, larger and exchanged inputs with other upstream
    gradients, as far as the function takes them. Arguments: usual, an entry of the gradient."""
    rng = np.random.default_rng(3)
    for low, high, exchanged in ELSEWHERE:
        inputs = {key: a * rng.uniform(low, high, size=a.shape) if a.dtype.kind == "f" else a
                  for key, a in probe.evaluate.inputs.items()}
        if exchanged:
            inputs = {key: rng.permutation(a.ravel()).reshape(a.shape) if a.dtype.kind == "f" else a
                      for key, a in inputs.items()}
        d = upstream if probe.case.cacheless else {
            key: LARGE * rng.normal(size=np.shape(a)) for key, a in upstream.items()}
        if _right_at(probe, d, name, inputs, rng, usual=usual) is False:
            return False
    return True


def _right_at(
    probe: Probe, upstream: Arrays, name: str, inputs: Arrays, rng: np.random.Generator,
    sloping: bool = False, usual: float | None = None,
) -> bool | None:
    """Whether a gradient is right along a random direction at some inputs; None if the function has
    no slope there, the slope zero if it should be `sloping`, or one unlike the `usual`."""
    v = rng.normal(size=inputs[name].shape)
    slopes = slopes_at(probe.case, probe.evaluate, upstream, inputs, {name: v}, probe.method)
    slope = float(slopes[1].value.sum()) if slopes else 0.0
    if not slopes or not np.isfinite(slope) or (sloping and not slope):
        return None
    terms, numeric = slopes
    size = max(float(np.abs(terms).sum()), abs(slope))
    if usual is not None and not usual / UNLIKE <= size <= usual * UNLIKE:
        return None
    error = min(10 * float(numeric.error.sum()), UNSURE * size)
    return bool(abs(float(terms.sum()) - slope) <= CLOSE * size + error)
