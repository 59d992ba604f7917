"""Evaluates a function with a wrong gradient again: at which other inputs is the gradient right?"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import FunctionType
from typing import Any

import numpy as np

from grads.check.analytic import dense
from grads.check.case import Case
from grads.check.continuation.namespace import is_users_module
from grads.check.copies import deep_copy
from grads.check.diagnosis.evidence import Array
from grads.check.evaluate import Evaluator
from grads.check.other_inputs import slopes_at

NEAR = 1e-2  # relative distance to other points, beyond the kinks at this one
POINTS = 3
ELSEWHERE = (  # least and largest factor of the inputs, and whether their entries are exchanged
    *[(0.3, 1.0, False)] * 3, (0.01, 0.1, False), (2.0, 10.0, False), *[(0.9, 1.1, True)] * 4)
LARGEST = 10_000  # entries of an array that is exchanged
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
    doubted: dict[str, str] = field(default_factory=dict)  # those that may be coincidences
    telling: int = 0  # of the changed data, the one that last told a coincidence
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


def right_in_general(probe: Probe, upstream: Arrays, name: str, stop: float) -> bool:
    """Whether a gradient is right with other data and settings, as far as the function takes them:
    with twice as many entries along one axis, or along all axes that are as long, and with a larger
    integer as a setting. After the CPU seconds `stop`, whether no coincidence was found before."""
    originals: dict[int, Any] = {}
    deep_copy(probe.case, originals)
    held = originals[id(originals)]
    inputs = {id(a) for a in probe.case.inputs.values()}
    arrays = {id(a): a for a in held if (type(a) is np.ndarray and 1 < a.size < LARGEST)
              or (isinstance(a, list) and len(a) > 1 and all(type(x) is int for x in a))}
    axes = [(key, axis, n) for key, a in arrays.items() for axis, n in enumerate(np.shape(a))]
    changes: list[Any] = [[], *([(key, axis)] for key, axis, _ in axes if key in inputs)]
    changes += [[(key, axis) for key, axis, other in axes if other == n]
                for n in {n for _, _, n in axes} - {1}]
    changes += [(id(x), key) for x in held if is_users_module(type(x).__module__)
                for key, value in getattr(x, "__dict__", {}).items() if type(value) is int]
    order = sorted(range(len(changes)), key=lambda k: k != probe.telling)
    for k in order:
        if time.process_time() > stop:
            return not probe.doubted
        change, rng = changes[k], np.random.default_rng(k)
        others: dict[int, Any] = {
            id(f): FunctionType(f.__code__, f.__globals__, f.__name__,
                                tuple(map(_other_number, f.__defaults__)))
            for f in held if isinstance(f, FunctionType) and is_users_module(f.__module__)
            and f.__defaults__ and not f.__closure__}
        others |= {key: _other_data(a, rng) for key, a in arrays.items()}
        for key, axis in change if isinstance(change, list) else ():
            new = np.concatenate([others[key]] * 2, axis)
            others[key] = new.tolist() if isinstance(others[key], list) else new
        try:
            case = deep_copy(probe.case, others)
            for made in [*others.values()]:
                space = vars(made) if is_users_module(type(made).__module__) else {}
                space.update({key: _other_number(value) for key, value in space.items()})
            if isinstance(change, tuple):
                vars(others[change[0]])[change[1]] += 1
            outputs = case.outputs({key: a.copy() for key, a in case.inputs.items()})
        except Exception:  # they do not fit
            continue
        if not all(np.isfinite(out).all() for out in outputs.values()):
            continue
        d = upstream if case.cacheless else {
            key: rng.normal(size=np.shape(outputs[key])) for key in upstream}
        if _right_at(replace(probe, case=case), d, name, case.inputs, rng) is False:
            probe.telling = k
            return False
    return True


def _other_number(value: Any) -> Any:
    """A floating number with another value, the same for the same number; another value as it is.
    """
    if not isinstance(value, float) or not np.isfinite(value):
        return value
    return value * np.random.default_rng(int(abs(value) * 2**20)).uniform(0.8, 1.0)


def _other_data(a: Any, rng: np.random.Generator) -> Any:
    """An array or list with all numbers scaled if they are floats, or else with other rows of its
    own. A square matrix, and indices that are all different, stay."""
    array = np.asarray(a)
    if array.dtype.kind in "fc":
        return array * rng.uniform(0.8, 1.2)
    if len({*array.flat}) == array.size or array.shape[1:] == array.shape[:1]:
        return a
    n = len(array)
    other = array[np.sort(np.random.default_rng(n).integers(n, size=n))]
    return other.tolist() if isinstance(a, list) else other


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
