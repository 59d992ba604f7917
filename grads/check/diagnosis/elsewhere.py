"""Evaluates a function with a wrong gradient again: at which other inputs is the gradient right?"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, combinations
from types import FunctionType, ModuleType
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np

from grads.check.case import Case
from grads.check.comparison import Check
from grads.check.continuation.namespace import EMPTY, is_users_module
from grads.check.copies import deep_copy
from grads.check.diagnosis.evidence import Array
from grads.check.evaluate import Evaluator, Line
from grads.check.other_inputs import derivatives_at

NEAR = 1e-2  # relative distance to other points, beyond the kinks at this one
POINTS = 3
ELSEWHERE = (  # least and largest factor of the inputs, and whether their entries are exchanged
    *[(0.98, 1.02, False), (0.3, 1.0, False)] * 3, (0.01, 0.1, False), (2.0, 10.0, False),
    *[(0.9, 1.1, True)] * 4)
TIED = 6  # most axes of one length that are changed alone or in twos
LARGEST = 10_000  # entries of an array that is exchanged
SCALE = 0.9  # of the arrays in a module
LARGE = 8.0  # times the upstream gradient, which may be compared with other numbers by mistake
UNLIKE = 1e6  # ratio of derivatives, of which one is saturated or beyond all bounds
UNSURE = 1e-3  # relative error up to which a derivative confirms
CLOSE = 1e-6  # relative difference of two derivatives that count as equal

Arrays = Mapping[str, Array]
Constant = tuple[dict[str, Any], str, Any]  # variables of a module, a name and its value


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
    arrays = {id(a): a for a in held if _may_change(a)}
    constants = _constants(held)
    in_modules = {id(a): a for *_, a in constants if type(a) is not float}
    arrays |= in_modules
    changes = _changes(held, arrays)
    order = sorted({*range(len(changes))} - probe.unfit, key=lambda k: (k != probe.telling, k))
    for k in order:
        if time.process_time() > stop:
            return not probe.doubted
        change, rng = changes[k], np.random.default_rng(k)
        others = spaces | {key: _other_data(a, rng, key in in_modules) for key, a in arrays.items()}
        for key, axis in change.axes:
            others[key] = _doubled(others[key], axis, rng)
        for key, other in [(key, others[key]) for key, a in arrays.items() if _is_symmetric(a)]:
            if other.shape == other.T.shape:
                others[key] = (other + other.T) / 2
        with _other_constants(constants, others), patch.multiple(
                np, empty=partial(_not_set, np.empty),
                empty_like=partial(_not_set, np.empty_like)):
            try:
                for x in sorted(held, key=lambda x: not isinstance(x, FunctionType)):
                    _change_settings(x, others, {
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


def _not_set(make: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """A new array with NaN where it is not set."""
    made = make(*arguments, **options)
    if made.dtype.kind in "fc":
        made.fill(np.nan)
    return made


def _constants(held: Sequence[Any]) -> list[Constant]:
    """The floating numbers, arrays and lists in the modules of a user's functions."""
    spaces = {id(f.__globals__): f.__globals__ for f in held
              if isinstance(f, FunctionType) and is_users_module(f.__module__)}
    return [(space, name, value) for space in spaces.values() for name, value in space.items()
            if type(value) is float or (_may_change(value) and np.asarray(value).dtype.kind == "f")]


@contextmanager
def _other_constants(constants: Sequence[Constant], others: Mapping[int, Any]) -> Iterator[None]:
    """Context: the numbers in modules have other values, and the arrays are those in `others`."""
    try:
        for space, name, value in constants:
            space[name] = other_number(value) if type(value) is float else others[id(value)]
        yield
    finally:
        for space, name, value in constants:
            space[name] = value


class _Change(NamedTuple):
    """A change of sizes and whole numbers."""

    axes: Sequence[tuple[int, int]] = ()  # that are doubled: the id() of an array, and the axis
    settings: Sequence[tuple[Any, Any, int]] = ()  # objects with a key and the new number


def _changes(held: Sequence[Any], arrays: Mapping[int, Any]) -> list[_Change]:
    """The changes that are tried. Equal arrays are copies, which change together."""
    equal: dict[Any, list[int]] = {}
    for key, a in arrays.items():
        equal.setdefault((np.shape(a), np.asarray(a).tobytes()), []).append(key)
    axes: dict[int, list[Any]] = {}  # by length
    for (shape, _), keys in equal.items():
        for axis, n in enumerate(shape):
            axes.setdefault(n, []).append([(key, axis) for key in keys])
    settings = [(x, *pair) for x in held for pair in _settings(x) if type(pair[1]) is int]
    changes = [_Change()]
    for length, tied in axes.items():
        few = tied[:TIED]
        changes += [_Change([*chain(*chosen)]) for chosen in (
            *combinations(few, 1), *combinations(few, 2), *[tied] * (len(tied) > 2))]
        alike = [(x, key, 2 * n) for x, key, n in settings if n == length > 1]
        changes += [_Change([*chain(*tied)], alike)] * bool(alike)
    return changes + [_Change(settings=[(x, key, n + 1)]) for x, key, n in settings]


def _settings(x: Any) -> list[tuple[Any, Any]]:
    """The values of a user's among which numbers may be settings, with their keys: arguments beside
    arrays, defaults and outer variables of functions, attributes of objects."""
    if type(x) is tuple and any(type(value) is np.ndarray for value in x):
        return [*enumerate(x)]
    if isinstance(x, FunctionType) and is_users_module(x.__module__):
        return [*enumerate([*(x.__defaults__ or ()), *(
            None if cell == EMPTY else cell.cell_contents for cell in x.__closure__ or ())])]
    return [*getattr(x, "__dict__", {}).items()] if is_users_module(type(x).__module__) else []


def _change_settings(x: Any, others: dict[int, Any], integers: Mapping[Any, int]) -> None:
    """Put a copy with other numbers into `others`, if x has settings. Argument: integers, the new
    numbers of its keys."""
    old = dict(_settings(x))
    new = {key: other_number(value) for key, value in old.items() if type(value) is float}
    new |= integers
    if not new:
        return
    if type(x) is tuple:
        others[id(x)] = tuple(deep_copy([*(old | new).values()], others))
    elif isinstance(x, FunctionType):
        made = others[id(x)] = deep_copy(x, others) if x.__closure__ else FunctionType(
            x.__code__, x.__globals__, x.__name__)
        count = len(x.__defaults__ or ())
        made.__defaults__ = tuple([*(old | new).values()][:count])
        for key, value in new.items():
            if key >= count and made.__closure__:
                made.__closure__[key - count].cell_contents = value
    else:
        vars(deep_copy(x, others)).update(new)


def other_number(value: Any) -> Any:
    """A floating number with another value, the same for the same number; another value as it is.
    """
    if not isinstance(value, float) or not np.isfinite(value):
        return value
    return value * np.random.default_rng(int(abs(value) * 2**20)).uniform(0.8, 1.0)


def _may_change(a: Any) -> bool:
    """Whether it is an array, or a list of numbers, with more than one entry and not very many."""
    return (type(a) is np.ndarray and 1 < a.size < LARGEST) or (
        isinstance(a, list) and len(a) > 1 and all(type(x) in (int, float) for x in a))


def _is_symmetric(a: Any) -> bool:
    """Whether it is a symmetric matrix."""
    return np.ndim(a) == 2 and a.dtype.kind == "f" and a.shape == a.T.shape and np.allclose(a, a.T)


def _doubled(a: Any, axis: int, rng: np.random.Generator) -> Any:
    """An array or list with twice as many entries along an axis: the same, and others that are near
    if they are floats."""
    half = np.asarray(a)
    moved = half * rng.uniform(0.8, 1.2, half.shape) if half.dtype.kind in "fc" else half
    new = np.concatenate([half, moved], axis)  # no two points are the same
    return new.tolist() if isinstance(a, list) else new


def _other_data(a: Any, rng: np.random.Generator, constant: bool) -> Any:
    """An array or list with other numbers. Floats are scaled, equal ones each by another factor; if
    they are constants of a module, all of them by the same one: one may be computed from another.

    Where numbers repeat, as in masks and labels, the rows are others of its own, so that the counts
    change. If all whole numbers are equal, as lengths may be, the last is smaller by one, and the
    first as much larger if they are no flags. Indices that are all different stay, but one of
    ascending offsets is smaller. A square matrix stays, too, if it is of floats or symmetric.
    """
    array = np.asarray(a)
    other, n, distinct = array.copy(), len(array), len({*array.flat})
    whole = array.dtype.kind in "iub"
    steps = np.diff(array.astype(int)) if whole and array.ndim == 1 else np.zeros(1)
    square = array.shape[1:] == array.shape[:1]
    if whole and distinct == 1 and array.flat[0] > 0:
        other.flat[-1] = array.flat[0] - 1
        other.flat[0] = array.flat[0] + (array.flat[0] > 1)
    elif 1 < distinct < array.size and not (square and (
            not whole or np.array_equal(array, array.T))):
        other = array[(np.linspace(0, 1, n)**3 * (n - 1)).astype(int)]  # mostly the first
    elif steps.min() > 0 and steps.max() > 1:
        other[1 + np.argmax(steps > 1)] -= 1
    if array.dtype.kind in "fc":
        other = SCALE * array if constant else other * rng.uniform(
            0.8, 1.2, array.shape if distinct == 1 else None)
    return other.tolist() if isinstance(a, list) else other


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
