"""Batched evaluation of perturbed copies: a function runs once for many versions of its inputs.

A lane is one perturbed copy. `in_lanes` calls the function, unchanged, on arrays that hold all
copies side by side (`grads.check.lanes.array`). It serves the kernels, which find the array module
`lanes` through `backend`, and a user's own NumPy function. What it cannot do raises LanesError, and
the caller runs the copies one by one.

This package handles shapes and axes only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

import backend
from backend.workspace import Workspace
from grads.check.continuation.namespace import Namespace
from grads.check.lanes.array import FUNCTIONS, LaneArray
from grads.check.lanes.creation import created
from grads.check.lanes.functions import astype
from grads.check.lanes.memory import Array, LanesError, Spots, drawing_from
from grads.check.lanes.operands import as_lanes
from grads.check.lanes.ufuncs import apply

__all__ = ["LaneArray", "LanesError", "in_lanes", "lanes"]

Function = Callable[[dict[str, Any]], Mapping[str, Any]]  # inputs by name -> outputs by name


class LaneUfunc:
    """A ufunc that calls the lanes' implementation directly, without NumPy's slower dispatch."""

    def __init__(self, ufunc: np.ufunc) -> None:
        self.ufunc = ufunc

    def __call__(self, *inputs: Any, out: Any = None, **kwargs: Any) -> Any:
        return apply(self.ufunc, inputs, out, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.ufunc, name)


class Lanes:
    """The array module of arrays in lanes: NumPy's functions, and arrays that can be widened."""

    __name__ = "lanes"
    ndarray = LaneArray

    def __getattr__(self, name: str) -> Any:
        found: Any = getattr(np, name)
        found = LaneUfunc(found) if isinstance(found, np.ufunc) else FUNCTIONS.get(found, found)
        setattr(self, name, found)  # cached
        return found

    @staticmethod
    def asarray(a: Any, dtype: Any = None) -> LaneArray:
        """The same array in all lanes."""
        made = as_lanes(a)
        return made if dtype is None else astype(made, dtype, copy=False)

    @staticmethod
    def array(a: Any, dtype: Any = None) -> LaneArray:
        """A copy, the same in all lanes."""
        return Lanes.asarray(a, dtype).copy()

    @staticmethod
    def ascontiguousarray(a: Any) -> LaneArray:
        """np.ascontiguousarray."""
        made = as_lanes(a)
        return made.derived(np.ascontiguousarray(made.values))

    @staticmethod
    def asnumpy(a: Any) -> Array:
        """The values on the host, if all lanes have the same."""
        return np.array(a)


def _creation(function: Any) -> Callable[..., LaneArray]:
    """np.zeros and the like: one value for all lanes, until different lanes are written into it."""
    return staticmethod(lambda *args, **kwargs: LaneArray(function(*args, **kwargs)[..., None]))


for _name in ("empty", "zeros", "ones", "full", "arange", "eye", "linspace"):
    setattr(Lanes, _name, _creation(getattr(np, _name)))

lanes: Any = Lanes()
backend.register(LaneArray, lanes)


def in_lanes(
    f: Function, inputs: Mapping[str, Array], changed: Mapping[str, Array],
    workspace: Workspace | None = None, namespaces: list[Namespace] | None = None,
) -> dict[str, Array]:
    """The outputs of P versions of the inputs, by one call of `f`.

    Arguments: f, inputs by name -> outputs by name; inputs by name, NumPy; changed, (P, *shape)
    by name, the P versions of those that differ, of any dtype; workspace, whose buffers successive
    calls share (a third faster); namespaces, of a user's modules, in which array creation is
    replaced. f gets copies. What all versions have in common is computed once. Returns
    (P, *shape of the output) by name, read-only where all versions gave one result. Raises
    LanesError if f uses something that lanes do not support, or fails otherwise; ValueError if
    `changed` does not fit the inputs.
    """
    P = _versions(inputs, changed)
    arguments = {name: _argument(value, changed.get(name)) for name, value in inputs.items()}
    with _installed(), drawing_from(workspace or Workspace()), (
            created(namespaces or [])):
        try:
            outputs = {name: as_lanes(out).values for name, out in f(arguments).items()}
            if any(out.dtype.kind == "O" for out in outputs.values()):
                raise LanesError("an object array holds numbers one by one")
        except LanesError:
            raise
        except Exception as error:  # f's own, or what lanes led to: a run alone will tell
            raise LanesError(f"{type(error).__name__} in lanes: {error}") from error
    return {name: np.moveaxis(np.broadcast_to(out, (*out.shape[:-1], P)), -1, 0)
            for name, out in outputs.items()}


def _versions(inputs: Mapping[str, Array], changed: Mapping[str, Array]) -> int:
    """P, once `changed` is known to fit the inputs."""
    counts = {len(value) if np.ndim(value) else 0 for value in changed.values()}
    if len(counts) != 1 or 0 in counts:
        raise ValueError(f"changed: expected one number of versions, 1 or more, got "
                         f"{ {name: np.shape(value) for name, value in changed.items()} }")
    for name, value in changed.items():
        if name not in inputs:
            raise ValueError(f"changed: expected names of inputs, got {name!r}")
        if value.shape[1:] != np.shape(inputs[name]):
            raise ValueError(f"changed: expected {name!r} of shape "
                             f"(P, *{np.shape(inputs[name])}), got {value.shape}")
    return counts.pop()


def _argument(value: Any, versions: Array | None) -> Any:
    """An argument of f: an array in lanes, the same in all lanes, or unchanged if it is no
    number."""
    if versions is not None:
        values = np.array(np.moveaxis(versions, 0, -1), order="C")
        return LaneArray(values, _spots(np.asarray(value), values))
    if not isinstance(value, np.ndarray):
        return value
    return LaneArray(np.array(value[..., None])) if value.dtype.kind in "fc" else value.copy()


def _spots(base: Array, values: Array) -> Spots | None:
    """The entries in which lanes of a matrix differ from `base`, if at most one in each lane; else
    None."""
    if base.ndim != 2:
        return None
    different = values != base[..., None]                                  # (*shape, P)
    P = values.shape[-1]
    if np.count_nonzero(different) > P:
        return None
    entries, which = np.nonzero(different.reshape(-1, P))
    change = values.reshape(-1, P)[entries, which] - base.reshape(-1)[entries]
    if len(np.unique(which)) < len(which) or not np.isfinite(change).all():
        return None
    return Spots(np.array(base, values.dtype, order="C"), entries, which, change)


@contextmanager
def _installed() -> Iterator[None]:
    """Context: `backend` makes arrays in lanes, and treats plain ones as equal in all lanes."""
    if backend.module() is not np:
        raise LanesError(f"lanes run on NumPy only, not within {backend.module().__name__}")
    backend.register(np.ndarray, lanes)
    try:
        with backend.using(lanes):
            yield
    finally:
        backend.register(np.ndarray, np)
