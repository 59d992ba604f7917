"""Arrays that a user's function creates while it runs in lanes.

A plain `np.zeros(n)` cannot hold lanes, so names of NumPy in the globals of the user's functions
are replaced during a run, as in a continued run (`grads.check.continuation.namespace`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, wraps
from typing import Any

import numpy as np

from grads.check.continuation.namespace import Namespace, _with, substituted
from grads.check.lanes.array import LaneArray
from grads.check.lanes.functions import astype, stack


def _lanes(made: Any) -> Any:
    """An array of real numbers, to be written into: complex where the run is continued."""
    if not isinstance(made, np.ndarray) or made.dtype.kind != "f":
        return made
    return LaneArray(np.array(made[..., None], made.dtype))


def _created(function: Any) -> Callable[..., Any]:
    """np.zeros and the like."""

    @wraps(function)
    def make(*args: Any, **kwargs: Any) -> Any:
        found = function(*args, **kwargs)
        return found if isinstance(found, LaneArray) else _lanes(found)

    return make


def _array(function: Any) -> Callable[..., Any]:
    """np.array and np.asarray, of arrays in lanes and of lists of such."""

    @wraps(function)
    def make(a: Any, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
        if not _has_lanes(a):
            found = function(a, dtype, *args, **kwargs)
            return found if isinstance(a, np.ndarray) and function is not np.array else (
                _lanes(found))
        made = a if isinstance(a, LaneArray) else stack([make(one) for one in a])
        kind = made.dtype if dtype is None or np.dtype(dtype) == np.float64 else dtype
        return astype(made, kind, copy=function is np.array)

    return make


def _has_lanes(a: Any) -> bool:
    """Whether an array in lanes is among nested lists."""
    return isinstance(a, LaneArray) or (
        isinstance(a, (list, tuple)) and any(_has_lanes(one) for one in a))


@cache
def _replacements() -> dict[int, tuple[Any, Any]]:
    """The replacements for NumPy's array creation."""
    ours = {name: _created(getattr(np, name)) for name in (
        "zeros", "ones", "empty", "full", "eye", "identity", "zeros_like", "ones_like",
        "empty_like", "full_like", "linspace", "tri")}
    ours |= {name: _array(getattr(np, name)) for name in ("array", "asarray", "asanyarray")}
    pairs = [*((getattr(np, name), one) for name, one in ours.items()), (np, _with(np, ours))]
    return {id(old): (old, new) for old, new in pairs}


@contextmanager
def created(namespaces: list[Namespace]) -> Iterator[None]:
    """Context: create arrays in lanes in a user's namespaces."""
    with substituted(namespaces, _replacements()):
        yield
