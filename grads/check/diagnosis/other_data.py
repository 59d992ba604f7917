"""Gives other numbers and sizes to the data and settings of a user's functions."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain, combinations
from types import FunctionType
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np

from grads.check.continuation.namespace import EMPTY, is_users_module
from grads.check.copies import deep_copy

TIED = 6  # most axes of one length that are changed alone or in twos
LARGEST = 10_000  # entries of an array that is exchanged
SCALE = 0.9  # of the arrays in a module
Constant = tuple[dict[str, Any], str, Any]  # variables of a module, a name and its value


@contextmanager
def nothing_is_set() -> Iterator[None]:
    """Context: arrays from np.empty have NaN where they are not set."""
    with patch.multiple(np, empty=partial(_not_set, np.empty),
                        empty_like=partial(_not_set, np.empty_like)):
        yield


def _not_set(make: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """A new array with NaN where it is not set."""
    made = make(*arguments, **options)
    if made.dtype.kind in "fc":
        made.fill(np.nan)
    return made


def constants_of(held: Sequence[Any]) -> list[Constant]:
    """The floating numbers, arrays and lists in the modules of a user's functions."""
    spaces = {id(f.__globals__): f.__globals__ for f in held
              if isinstance(f, FunctionType) and is_users_module(f.__module__)}
    return [(space, name, value) for space in spaces.values() for name, value in space.items()
            if type(value) is float or (may_change(value) and np.asarray(value).dtype.kind == "f")]


@contextmanager
def other_constants(constants: Sequence[Constant], others: Mapping[int, Any]) -> Iterator[None]:
    """Context: the numbers in modules have other values, and the arrays are those in `others`."""
    try:
        for space, name, value in constants:
            space[name] = other_number(value) if type(value) is float else others[id(value)]
        yield
    finally:
        for space, name, value in constants:
            space[name] = value


class Change(NamedTuple):
    """A change of sizes and whole numbers."""

    axes: Sequence[tuple[int, int]] = ()  # that are doubled: the id() of an array, and the axis
    settings: Sequence[tuple[Any, Any, int]] = ()  # objects with a key and the new number


def changes_of(held: Sequence[Any], arrays: Mapping[int, Any]) -> list[Change]:
    """The changes that are tried. Equal arrays are copies, which change together."""
    equal: dict[Any, list[int]] = {}
    for key, a in arrays.items():
        equal.setdefault((np.shape(a), np.asarray(a).tobytes()), []).append(key)
    axes: dict[int, list[Any]] = {}  # by length
    for (shape, _), keys in equal.items():
        for axis, n in enumerate(shape):
            axes.setdefault(n, []).append([(key, axis) for key in keys])
    settings = [(x, *pair) for x in held for pair in _settings(x) if type(pair[1]) is int]
    changes = [Change()]
    for length, tied in axes.items():
        few = tied[:TIED]
        changes += [Change([*chain(*chosen)]) for chosen in (
            *combinations(few, 1), *combinations(few, 2), *[tied] * (len(tied) > 2))]
        alike = [(x, key, 2 * n) for x, key, n in settings if n == length > 1]
        changes += [Change([*chain(*tied)], alike)] * bool(alike)
    return changes + [Change(settings=[(x, key, n + 1)]) for x, key, n in settings]


def _settings(x: Any) -> list[tuple[Any, Any]]:
    """The values of a user's among which numbers may be settings, with their keys: arguments beside
    arrays, defaults and outer variables of functions, attributes of objects."""
    if type(x) is tuple and any(type(value) is np.ndarray for value in x):
        return [*enumerate(x)]
    if isinstance(x, FunctionType) and is_users_module(x.__module__):
        return [*enumerate([*(x.__defaults__ or ()), *(
            None if cell == EMPTY else cell.cell_contents for cell in x.__closure__ or ())])]
    return [*getattr(x, "__dict__", {}).items()] if is_users_module(type(x).__module__) else []


def change_settings(x: Any, others: dict[int, Any], integers: Mapping[Any, int]) -> None:
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


def may_change(a: Any) -> bool:
    """Whether it is an array, or a list of numbers, with more than one entry and not very many."""
    return (type(a) is np.ndarray and 1 < a.size < LARGEST) or (
        isinstance(a, list) and len(a) > 1 and all(type(x) in (int, float) for x in a))


def other_arrays(
    change: Change, arrays: Mapping[int, Any], constant: Container[int], rng: np.random.Generator
) -> dict[int, Any]:
    """The arrays and lists by their id() with other numbers and the sizes of a change. Those that
    are symmetric stay so. Argument: constant, those in modules."""
    others = {key: _other_data(a, rng, key in constant) for key, a in arrays.items()}
    for key, axis in change.axes:
        others[key] = _doubled(others[key], axis, rng)
    for key, other in [(key, others[key]) for key, a in arrays.items() if _is_symmetric(a)]:
        if other.shape == other.T.shape:
            others[key] = (other + other.T) / 2
    return others


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
