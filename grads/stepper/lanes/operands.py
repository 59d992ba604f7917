"""Arguments of functions on arrays in lanes: axes, space for results, writing to `out`."""

from __future__ import annotations

from typing import Any

import numpy as np

from grads.stepper.lanes.array import LaneArray, check_cast, lanes_of, operand
from grads.stepper.lanes.memory import PLAIN, Array, LanesError


def as_lanes(x: Any) -> LaneArray:
    """A LaneArray of anything that NumPy can convert to an array."""
    if isinstance(x, LaneArray):
        return x
    return LaneArray(np.asarray(x)[..., None], borrowed=isinstance(x, np.ndarray))


def axes(a: LaneArray, axis: Any) -> tuple[int, ...]:
    """`axis` of a reduction, None for all, counted from the front."""
    if axis is None:
        return tuple(range(a.ndim))
    return tuple(one_axis(a, k) for k in (axis if isinstance(axis, (tuple, list)) else (axis,)))


def one_axis(a: LaneArray, axis: int, added: int = 0) -> int:
    """One axis counted from the front; `more` axes are about to be added."""
    ndim = a.ndim + added
    if not -ndim <= axis < ndim:
        raise np.exceptions.AxisError(axis, ndim)
    return int(axis) % ndim


def writable(out: Any, lanes: int) -> Array:
    """The values of `out`, widened for `lanes` lanes."""
    if type(out) is LaneArray:
        out.widen(lanes)
        return out.values
    if lanes > 1:
        raise LanesError(PLAIN)
    return operand(out)


def deliver(result: LaneArray, out: Any) -> Any:
    """`found`, written into `out` if there is one."""
    if out is None:
        return result
    target = writable(out, lanes_of(result))
    check_cast(result.values, target.dtype)
    target[...] = result.values
    return out
