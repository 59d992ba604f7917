"""NumPy's functions on arrays in lanes: reductions, shapes, copies, and the corresponding methods.

Each is NumPy's own, called on values whose last axis counts lanes; what is not here raises
LanesError. Axes given by the user count from the front, so they mean the same axes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from grads.stepper.lanes.array import FUNCTIONS, LaneArray, check_cast, lanes_of, operand
from grads.stepper.lanes.memory import LanesError
from grads.stepper.lanes.operands import as_lanes, axes, deliver, one_axis, writable
from grads.stepper.lanes.products import dot, einsum, inner, outer
from grads.stepper.lanes.ufuncs import apply

# --- axes, reductions ---------------------------------------------------------------------------


def flat(a: LaneArray, axis: int | None) -> tuple[LaneArray, int]:
    """The array and its axis; flattened if the axis is None."""
    return (reshape(a, -1), 0) if axis is None else (a, one_axis(a, axis))


def reduction(function: Any) -> Callable[..., Any]:
    """np.sum and the like."""

    def reduce(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, **kwargs: Any) -> Any:
        a = as_lanes(a)
        kwargs = {name: operand(value) for name, value in kwargs.items()}
        if dtype is not None:
            kwargs["dtype"] = dtype
        over = axes(a, axis)
        reduced = function(operand(a), axis=over[0] if len(over) == 1 else over, **kwargs)
        return deliver(LaneArray(np.asarray(reduced)), out)

    return reduce


def extremum(ufunc: np.ufunc) -> Callable[..., Any]:
    """np.max and the like, which take no dtype."""
    reduce = reduction(ufunc.reduce)
    return lambda a, axis=None, out=None, **kwargs: reduce(a, axis, None, out, **kwargs)


def along(function: Any, axis: int | None) -> Callable[..., LaneArray]:
    """A function (a, axis) with this default axis."""
    default = axis

    def run(a: LaneArray, axis: int | None = default, **kwargs: Any) -> LaneArray:
        a, axis = flat(as_lanes(a), axis)
        return LaneArray(function(operand(a), axis=axis, **_no_out(kwargs)))

    return run


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> LaneArray:
    """np.linalg.norm of vectors."""
    if np.ndim(axis) or (axis is None and (keepdims or (ord is not None and np.ndim(x) != 1))):
        raise LanesError("np.linalg.norm of matrices is not known in lanes")
    a, axis = flat(as_lanes(x), axis)
    return LaneArray(np.linalg.norm(operand(a), ord, axis, keepdims))


def along_with(function: Any, axis: int | None) -> Callable[..., LaneArray]:
    """A function (a, number, axis) with this default axis."""
    default = axis

    def run(a: LaneArray, n: Any, axis: int | None = default, **kwargs: Any) -> LaneArray:
        shape = np.shape(a)
        a, where = flat(as_lanes(a), axis)
        n = as_lanes(n).agreed(function.__name__)
        result = LaneArray(function(a.values, n, axis=where, **_no_out(kwargs)))
        return reshape(result, shape) if axis is None and function is np.roll else result

    return run


def _no_out(kwargs: dict[str, Any]) -> dict[str, Any]:
    if kwargs.get("out") is not None:
        raise LanesError("out= of this function is not known in lanes")
    return kwargs


def take(a: Any, indices: Any, axis: int | None = None, out: Any = None, mode: str = "raise"
         ) -> Any:
    """np.take; the indices must be the same in all lanes."""
    a, axis = flat(as_lanes(a), axis)
    ids = as_lanes(indices).agreed("indices of np.take")
    return deliver(LaneArray(np.take(a.values, ids, axis=axis, mode=mode)), out)  # type: ignore[call-overload]


def take_along_axis(arr: Any, indices: Any, axis: int | None = -1) -> LaneArray:
    """np.take_along_axis; each lane may have indices of its own."""
    a, axis = flat(as_lanes(arr), axis)
    return LaneArray(np.take_along_axis(a.values, as_lanes(indices).values, axis))


# --- shapes: views where NumPy gives views ------------------------------------------------------


def reshape(a: Any, shape: Any, order: str = "C") -> LaneArray:
    """np.reshape, in C order."""
    if order != "C":
        raise LanesError("np.reshape in another order than C is not known in lanes")
    a, shape = as_lanes(a), tuple(np.atleast_1d(shape).tolist())
    if -1 in shape:  # not left to NumPy, which cannot tell for an empty array
        rest = -int(np.prod(shape))
        shape = tuple(a.size // rest if rest and n == -1 else n for n in shape)
    return a.derived(a.values.reshape(*shape, a.values.shape[-1]))


def transpose(a: Any, order: Any = None) -> LaneArray:
    """np.transpose."""
    a = as_lanes(a)
    return a.T if order is None else a.derived(a.values.transpose(*axes(a, tuple(order)), a.ndim))


def moving(function: Any) -> Callable[..., LaneArray]:
    """np.swapaxes and np.moveaxis."""

    def move(a: Any, *where: Any) -> LaneArray:
        a = as_lanes(a)
        front = [axes(a, k) if np.ndim(k) else one_axis(a, k) for k in where]
        return a.derived(function(a.values, *front))

    return move


def expand_dims(a: Any, axis: int) -> LaneArray:
    """np.expand_dims, one axis."""
    a = as_lanes(a)
    return a.derived(np.expand_dims(a.values, one_axis(a, axis, 1)))


def squeeze(a: Any, axis: Any = None) -> LaneArray:
    """np.squeeze."""
    a = as_lanes(a)
    single = tuple(k for k, n in enumerate(a.shape) if n == 1) if axis is None else axes(a, axis)
    return a.derived(np.squeeze(a.values, single))


def broadcast_to(array: Any, shape: Any) -> LaneArray:
    """np.broadcast_to."""
    a = as_lanes(array)
    wanted = tuple(np.atleast_1d(shape).tolist())
    return a.derived(np.broadcast_to(a.values, (*wanted, a.values.shape[-1])))


def flip(m: Any, axis: Any = None) -> LaneArray:
    """np.flip."""
    a = as_lanes(m)
    return a.derived(np.flip(a.values, axes(a, axis)))


def split(ary: Any, parts: Any, axis: int = 0) -> list[LaneArray]:
    """np.split."""
    a = as_lanes(ary)
    return [a.derived(part) for part in np.split(a.values, parts, one_axis(a, axis))]


def concatenate(arrays: Sequence[Any], axis: int | None = 0, out: Any = None, **kwargs: Any) -> Any:
    """np.concatenate."""
    parts = [flat(as_lanes(a), axis) for a in arrays]
    lanes = lanes_of(*(a for a, _ in parts))
    wide = [np.broadcast_to(a.values, (*a.shape, lanes)) for a, _ in parts]
    return deliver(LaneArray(np.concatenate(wide, axis=parts[0][1], **kwargs)), out)


def stack(arrays: Sequence[Any], axis: int = 0, out: Any = None) -> Any:
    """np.stack."""
    return concatenate([expand_dims(a, axis) for a in arrays],
                       one_axis(as_lanes(arrays[0]), axis, 1), out)


def hstack(tup: Sequence[Any]) -> Any:
    """np.hstack."""
    tup = [as_lanes(a) if np.ndim(a) else reshape(a, 1) for a in tup]
    return concatenate(tup, 0 if tup[0].ndim == 1 else 1)


def vstack(tup: Sequence[Any]) -> Any:
    """np.vstack."""
    return concatenate([reshape(a, (1, -1)) if np.ndim(a) < 2 else a for a in tup], 0)


# --- the rest -----------------------------------------------------------------------------------


def where(condition: Any, *choices: Any) -> LaneArray:
    """np.where with three arguments."""
    if len(choices) != 2:
        raise LanesError("np.where with one argument is not known in lanes")
    condition, x, y = (a if np.isscalar(a) else operand(as_lanes(a))
                       for a in (condition, *choices))
    return LaneArray(np.where(condition, x, y))


def copyto(dst: Any, src: Any, casting: Any = "same_kind", where: Any = True) -> None:
    """np.copyto."""
    target = writable(dst, lanes_of(src, where))
    np.copyto(target, operand(src), casting=casting, where=operand(where))


def clip(a: Any, a_min: Any = None, a_max: Any = None, out: Any = None, **kwargs: Any) -> Any:
    """np.clip."""
    kwargs = {name: operand(value) for name, value in kwargs.items()}
    clipped = LaneArray(np.clip(operand(as_lanes(a)), operand(a_min), operand(a_max), **kwargs))
    return deliver(clipped, out)


def like(function: Any) -> Callable[..., LaneArray]:
    """np.zeros_like and the like: one value for all lanes, until different lanes are written into
    it."""

    def make(prototype: Any, *args: Any, dtype: Any = None, shape: Any = None) -> LaneArray:
        shape = np.shape(prototype) if shape is None else tuple(np.atleast_1d(shape).tolist())
        return LaneArray(function((*shape, 1), *args, dtype=dtype or prototype.dtype))

    return make


def copy(a: LaneArray, order: str = "C") -> LaneArray:
    """np.copy."""
    return LaneArray(a.values.copy())


def astype(a: LaneArray, dtype: Any, copy: bool = True, **kwargs: Any) -> LaneArray:
    """ndarray.astype."""
    if np.dtype(dtype).kind != "b":
        check_cast(a.values, np.dtype(dtype))
    return LaneArray(a.values.astype(dtype)) if copy or a.dtype != dtype else a


FUNCTIONS.update({
    np.sum: reduction(np.add.reduce), np.prod: reduction(np.multiply.reduce),
    np.any: extremum(np.logical_or), np.all: extremum(np.logical_and),
    np.max: extremum(np.maximum), np.min: extremum(np.minimum),
    np.amax: extremum(np.maximum), np.amin: extremum(np.minimum),
    np.mean: reduction(np.mean), np.std: reduction(np.std), np.var: reduction(np.var),
    np.linalg.norm: norm,
    np.argmax: along(np.argmax, None), np.argmin: along(np.argmin, None),
    np.cumsum: along(np.cumsum, None), np.cumprod: along(np.cumprod, None),
    np.sort: along(np.sort, -1), np.argsort: along(np.argsort, -1),
    np.roll: along_with(np.roll, None), np.repeat: along_with(np.repeat, None),
    np.take: take, np.take_along_axis: take_along_axis,
    np.dot: dot, np.inner: inner, np.outer: outer, np.einsum: einsum,
    np.reshape: reshape, np.ravel: lambda a, order="C": reshape(a, -1, order),
    np.transpose: transpose, np.swapaxes: moving(np.swapaxes), np.moveaxis: moving(np.moveaxis),
    np.expand_dims: expand_dims, np.squeeze: squeeze, np.broadcast_to: broadcast_to,
    np.flip: flip, np.split: split,
    np.concatenate: concatenate, np.stack: stack, np.hstack: hstack, np.vstack: vstack,
    np.where: where, np.copyto: copyto, np.clip: clip, np.copy: copy,
    np.zeros_like: like(np.zeros), np.ones_like: like(np.ones), np.empty_like: like(np.empty),
    np.full_like: like(np.full),
    np.real: lambda val: val.real, np.imag: lambda val: val.imag,
    np.shape: lambda a: as_lanes(a).shape, np.ndim: lambda a: as_lanes(a).ndim,
    np.iscomplexobj: lambda x: as_lanes(x).dtype.kind == "c",
})

# --- methods and operators ----------------------------------------------------------------------


def _unpacked(arguments: tuple[Any, ...]) -> Any:
    """A shape or an order of axes, given to a method as one argument or as several."""
    return arguments[0] if len(arguments) == 1 else arguments


for _name in ("sum", "prod", "any", "all", "max", "min", "mean", "std", "var", "argmax", "argmin",
              "cumsum", "cumprod", "argsort", "repeat", "take", "dot", "ravel", "swapaxes",
              "squeeze", "clip", "copy"):
    setattr(LaneArray, _name, FUNCTIONS[getattr(np, _name)])
for _name, _method in {"reshape": lambda a, *shape, **how: reshape(a, _unpacked(shape), **how),
                       "transpose": lambda a, *order: transpose(a, _unpacked(order) or None),
                       "astype": astype, "__copy__": copy, "__deepcopy__": lambda a, memo: copy(a),
                       "flatten": lambda a: copy(reshape(a, -1)),
                       "conj": lambda a: apply(np.conjugate, (a,)),
                       "conjugate": lambda a: apply(np.conjugate, (a,)),
                       "fill": lambda a, value: a.__setitem__(..., value)}.items():
    setattr(LaneArray, _name, _method)
