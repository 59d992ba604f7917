"""Arrays that a user's function makes, in lanes: `np.zeros(n)` can then hold lanes.

NumPy makes plain arrays there, and nothing can intercept a write into one. So NumPy's names are
replaced in the namespaces of the user's functions during a run.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from grads.check.continuation.array import Continued
from grads.check.continuation.namespace import Replacements, substituted
from grads.stepper.lanes.array import Complex, LaneArray
from grads.stepper.lanes.functions import copy


def created(function: Callable[..., Any]) -> Callable[..., Any]:
    """np.zeros and the like, whose floating arrays are in lanes."""

    @functools.wraps(function)
    def make(*args: Any, **kwargs: Any) -> Any:
        array = function(*args, **kwargs)
        if type(array) is not np.ndarray or array.dtype.kind != "f":
            return array
        is_plain = Complex.kind is np.ndarray
        return LaneArray((array if is_plain else array.astype(complex))[..., None])

    return make


def array(function: Callable[..., Any]) -> Callable[..., Any]:
    """np.array and np.asarray, of lists that hold arrays in lanes, too."""
    of_plain = created(function)

    @functools.wraps(function)
    def make(a: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(a, LaneArray):
            return copy(a) if function is np.array else a
        if holds_lanes(a):
            return np.stack([make(entry) for entry in a])
        return function(a, *args, **kwargs) if function is np.asarray and isinstance(
            a, np.ndarray) else of_plain(a, *args, **kwargs)

    return make


def holds_lanes(value: Any) -> bool:
    """Whether a value is an array in lanes, or a list with one inside."""
    if isinstance(value, (list, tuple)):
        return any(map(holds_lanes, value))
    return isinstance(value, LaneArray)


FUNCTIONS = {
    **{name: created(getattr(np, name)) for name in (
        "zeros", "ones", "empty", "full", "eye", "identity", "copy",
        "zeros_like", "ones_like", "empty_like", "full_like")},
    "array": array(np.array), "asarray": array(np.asarray)}
NUMPY = types.ModuleType(np.__name__)
vars(NUMPY).update(vars(np) | FUNCTIONS)
REPLACED: Replacements = {
    id(np): (np, NUMPY),
    **{id(getattr(np, name)): (getattr(np, name), made) for name, made in FUNCTIONS.items()}}


@contextmanager
def making_lanes(namespaces: list[dict[str, Any]], are_complex: bool = False) -> Iterator[None]:
    """Context: in these namespaces NumPy makes arrays in lanes; `are_complex`, which hold complex
    steps of real numbers."""
    Complex.kind = Continued if are_complex else np.ndarray
    try:
        with substituted(namespaces, REPLACED):
            yield
    finally:
        Complex.kind = np.ndarray
