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

def right_nearby(case: Case, evaluate: Evaluator, upstream: Arrays, name: str) -> bool:
    """Whether the gradient of a tensor is right at POINTS random points nearby."""
    rng, probe = np.random.default_rng(2), Probe(case, evaluate, "ridders")
    for _ in range(POINTS):
        inputs = {key: a + NEAR * np.maximum(1.0, np.abs(a)) * rng.normal(size=a.shape)
                  for key, a in evaluate.inputs.items()}
        if not _error(probe, inputs, upstream, name) <= 1:
            return False
    return True


def right_beside(probe: Probe, upstream: Arrays, name: str) -> bool:
    """Whether a gradient is right at points close by, as far as the function takes them."""
    rng = np.random.default_rng(2)
    for _ in range(POINTS):
        inputs = {key: np.asarray(a + NEAR * np.abs(a) * rng.normal(size=a.shape))
                  if a.dtype.kind == "f" else a for key, a in probe.evaluate.inputs.items()}
        v = rng.normal(size=inputs[name].shape)
        slopes = slopes_at(probe.case, probe.evaluate, upstream, inputs, {name: v}, probe.method)
        if slopes is not None:
            terms, numeric = slopes
            slope = float(numeric.value.sum())
            size = max(float(np.abs(terms).sum()), abs(slope))
            error = min(10 * float(numeric.error.sum()), UNSURE * size)
            if not abs(float(terms.sum()) - slope) <= CLOSE * size + error:
                return False
    return True


def _error(probe: Probe, inputs: Arrays, upstream: Arrays, name: str) -> float:
    """The error of a tensor's gradient at these inputs along a direction, as a multiple of the
    allowed error; infinite if there is no derivative."""
    v = np.random.default_rng(1).normal(size=inputs[name].shape)
    slopes = slopes_at(probe.case, probe.evaluate, upstream, inputs, {name: v}, probe.method)
    if slopes is None:
        return np.inf
    terms, numeric = slopes
    slope, size = float(numeric.value.sum()), float(np.abs(terms).sum())
    allowed = CLOSE * size + min(10 * float(numeric.error.sum()), UNSURE * size)
    return abs(float(terms.sum()) - slope) / allowed if slope and allowed else np.inf
