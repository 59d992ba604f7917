"""Evaluates a function with a wrong gradient again: at which other inputs is the gradient right?"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from grads.check.case import Case
from grads.check.comparison import Check
from grads.check.copies import deep_copy
from grads.check.diagnosis.evidence import Array
from grads.check.diagnosis.other_data import (
    change_settings,
    changes_of,
    constants_of,
    may_change,
    nothing_is_set,
    other_arrays,
    other_constants,
)
from grads.check.evaluate import Evaluator, Line
from grads.check.other_inputs import derivatives_at

NEAR = 1e-2  # relative distance to other points, beyond the kinks at this one
POINTS = 3
ELSEWHERE = (  # least and largest factor of the inputs, and whether their entries are exchanged
    *[(0.98, 1.02, False), (0.3, 1.0, False)] * 3, (0.01, 0.1, False), (2.0, 10.0, False),
    *[(0.9, 1.1, True)] * 4)
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
    unfit: set[int] = field(default_factory=set)  # those that the function does not take
    stop: float | None = None  # CPU seconds at which `paths` ends; None: it has not begun


def right_beside(check: Check, upstream: Arrays, name: str) -> bool:
    """Whether a function has a slope at points close by, and a gradient is right there, by Ridders'
    differences."""
    probe, rng = Probe(check.case, check.evaluate, "ridders"), np.random.default_rng(2)
    for _ in range(POINTS):
        inputs = {key: a + NEAR * np.maximum(1, np.abs(a)) * rng.normal(size=a.shape)
                  for key, a in probe.evaluate.inputs.items()}
        if not _right_at(probe, upstream, name, inputs, rng, True):
            return False
    return True


def right_elsewhere(probe: Probe, upstream: Arrays, name: str, usual: float) -> bool:
    """Whether a gradient is right at close, smaller, larger and exchanged inputs, with other
    upstream gradients, as far as the function takes them.

    Arguments: usual, an entry of the gradient.
    """
    rng = np.random.default_rng(3)
    for low, high, exchanged in ELSEWHERE:
        inputs = {key: a * rng.uniform(low, high, size=a.shape)
                  for key, a in probe.evaluate.inputs.items()}
        if exchanged:
            inputs = {key: rng.permutation(a.ravel()).reshape(a.shape)
                      for key, a in inputs.items()}
        d = upstream if probe.case.cacheless else {
            key: LARGE * rng.normal(size=np.shape(a)) for key, a in upstream.items()}
        if _right_at(probe, d, name, inputs, rng, usual=usual) is False:
            return False
    return True


def right_in_general(
    probe: Probe, upstream: Arrays, name: str, stop: float,
    unchanged: Callable[[], AbstractContextManager[Any]], sound: Collection[str],
) -> bool:
    """Whether a gradient is right with other data and settings, as far as the function takes them.

    There are twice as many entries along one axis, along two or all axes that are as long, or an
    integer that is a setting is larger. With all axes of a length, the settings that are this
    length change, too. The function does not take them if its outputs have entries that were never
    set, or if the gradients that were right are wrong. After the CPU seconds `stop`, whether no
    coincidence was found before.

    Arguments: unchanged, a context in which the user's functions are as they were: a gradient that
    fails only with a change of them is not right; sound, the gradients that are right without it.
    """
    spaces = {id(m.__dict__): m.__dict__ for m in [*sys.modules.values()] if type(m) is ModuleType}
    originals: dict[int, Any] = dict(spaces)  # they are shared
    deep_copy(probe.case, originals)
    held = originals[id(originals)]
    arrays = {id(a): a for a in held if may_change(a)}
    constants = constants_of(held)
    in_modules = {id(a): a for *_, a in constants if type(a) is not float}
    arrays |= in_modules
    changes = changes_of(held, arrays)
    order = sorted({*range(len(changes))} - probe.unfit, key=lambda k: (k != probe.telling, k))
    for k in order:
        if time.process_time() > stop:
            return not probe.doubted
        change, rng = changes[k], np.random.default_rng(k)
        others = spaces | other_arrays(change, arrays, in_modules, rng)
        with other_constants(constants, others), nothing_is_set():
            try:
                for x in sorted(held, key=lambda x: not isinstance(x, FunctionType)):
                    change_settings(x, others, {
                        key: number for owner, key, number in change.settings if owner is x})
                case = deep_copy(probe.case, others)
                outputs = case.outputs({key: a.copy() for key, a in case.inputs.items()})
            except Exception:  # they do not fit
                continue
            if not all(np.isfinite(out).all() for out in outputs.values()):
                continue
            d = upstream if case.cacheless else {
                key: rng.normal(size=np.shape(outputs[key])) for key in upstream}
            there = replace(probe, case=case)
            right = _right_at(there, d, name, case.inputs, rng)
            if not right and time.process_time() <= stop:
                at = partial(_right_at, there, d, inputs=case.inputs, rng=rng)
                with unchanged():
                    if (right is None and at(name) is None) or any(
                            at(other) is False for other in sound):
                        probe.unfit.add(k)
                        continue
                probe.telling = k
                return False
    return True


def _right_at(
    probe: Probe, upstream: Arrays, name: str, inputs: Arrays, rng: np.random.Generator,
    sloping: bool = False, usual: float | None = None,
) -> bool | None:
    """Whether a gradient is right along a random direction at some inputs; None if it is not finite
    or the function has no slope there, the slope zero if it should be `sloping`, or one unlike the
    `usual`."""
    v = rng.normal(size=inputs[name].shape)
    there = derivatives_at(
        probe.case, probe.evaluate, upstream, inputs, [Line({name: v})], probe.method)
    slope = float(there[1].value.sum()) if there else 0.0
    if not there or not np.isfinite(slope) or (sloping and not slope):
        return None
    terms, numeric = there[0][name] * v, there[1]
    size = max(float(np.abs(terms).sum()), abs(slope))
    if not np.isfinite(size):
        return None
    if usual is not None and not usual / UNLIKE <= size <= usual * UNLIKE:
        return None
    error = min(10 * float(numeric.error.sum()), UNSURE * size)
    return bool(abs(float(terms.sum()) - slope) <= CLOSE * size + error)
