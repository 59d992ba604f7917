"""An array of P lanes: P perturbed copies of one array, evaluated as a batch.

The stepper's pages need about 60,000 runs of a derivation. Lanes take a few seconds for them;
single runs take minutes, because NumPy's overhead per call is then paid for every run. The lane
axis is the last one in memory and is hidden: shape, axes and indices are those of a single run.

Ufuncs, matrix products, sums and joins run on all lanes together. Any other function of NumPy is
called for one lane after another, with the lanes as views. If neither is possible, an error is
raised and the caller runs the copies one by one.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from grads.check.continuation.namespace import Namespace, replaced

Array = NDArray[Any]
BLAS = 4096  # multiplications per lane above which copying for BLAS is faster


class LanesError(Exception):
    """The function needs something that cannot be done for all lanes at once."""


class LaneArray(NDArrayOperatorsMixin):
    """An array in lanes. It behaves like an array of NumPy, or raises an error.

    Arguments: values (*shape, P), shared with this array.
    """

    __slots__ = ("values",)

    def __init__(self, values: Array) -> None:
        self.values = values

    @property
    def shape(self) -> tuple[int, ...]:
        return self.values.shape[:-1]

    @property
    def ndim(self) -> int:
        return self.values.ndim - 1

    @property
    def size(self) -> int:
        return self.values.size // self.values.shape[-1]

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.values.dtype

    @property
    def T(self) -> LaneArray:
        return LaneArray(self.values.transpose(*range(self.ndim)[::-1], -1))

    real = property(lambda self: LaneArray(self.values.real))
    imag = property(lambda self: LaneArray(self.values.imag))

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("len() of unsized object")
        return len(self.values)

    def __iter__(self) -> Iterator[LaneArray]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, key: Any) -> LaneArray:
        if type(key) in (int, slice) and self.ndim:
            return LaneArray(self.values[key])
        return LaneArray(self.values[lane_key(key)])

    def __setitem__(self, key: Any, value: Any) -> None:
        self.values[lane_key(key)] = operand(value)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("__") or not callable(getattr(np.ndarray, name, None)):
            raise AttributeError(f"an array in lanes has no attribute {name!r}")
        return functools.partial(METHODS.get(name) or by_lane(method_of(name), name in VIEWS), self)

    def __copy__(self) -> LaneArray:
        return LaneArray(self.values.copy())

    def __pow__(self, exponent: Any) -> Any:
        """A power. A square is computed as a product, as NumPy does."""
        is_square = type(exponent) in (int, float) and exponent == 2
        return np.square(self) if is_square else np.power(self, exponent)

    # --- one value for all lanes ----------------------------------------------------------------

    def agreed(self) -> Array:
        """The value that all lanes have. Raises `LanesError` if they differ."""
        values = np.asarray(self.values)
        if not (values == values[..., :1]).all():
            raise LanesError("the lanes have different values here")
        return self.values[..., 0]

    def __bool__(self) -> bool:
        return bool(self.agreed())

    def __int__(self) -> int:
        return int(self.agreed())

    def __index__(self) -> int:
        return self.agreed().__index__()

    def __float__(self) -> float:
        return float(self.agreed())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        plain = np.array(self.agreed(), dtype)
        plain.flags.writeable = copy is True  # the caller might mean to write into the lanes
        return plain

    # --- NumPy's functions ----------------------------------------------------------------------

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        known = FUNCTIONS.get(function) or by_lane(function, function.__name__ in VIEWS)
        return known(*args, **kwargs)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if not kwargs and method == "__call__" and ufunc.signature is None:
            result = ufunc(*map(operand, inputs))
            return tuple(map(LaneArray, result)) if ufunc.nout > 1 else LaneArray(result)
        out = kwargs.get("out", ())
        if not all(isinstance(target, LaneArray) for target in out):
            raise LanesError("a plain array cannot receive lanes")
        if method == "__call__" and ufunc is np.matmul and not kwargs:
            return matmul(*inputs)
        if method != "__call__" or ufunc.signature is not None:
            kwargs |= {"out": out[0]} if out else {}
            return by_lane(getattr(ufunc, method))(*inputs, **kwargs)
        kwargs |= {"out": tuple(target.values for target in out)} if out else {}
        if "where" in kwargs:
            kwargs["where"] = operand(kwargs["where"])
        result = ufunc(*map(operand, inputs), **kwargs)
        return out[0] if len(out) == 1 else out or LaneArray(result)


def operand(x: Any) -> Any:
    """An operand with a lane axis, which has length 1 for a plain array. A scalar is unchanged."""
    if isinstance(x, LaneArray):
        return x.values
    if isinstance(x, (list, tuple)):
        x = np.asarray(x)
    return x[..., None] if isinstance(x, np.ndarray) else x


def lane_key(key: Any) -> tuple[Any, ...]:
    """An index of the user's axes, for all lanes. A lane array as an index must agree in all
    lanes."""
    indices = tuple(index.agreed() if isinstance(index, LaneArray) else index
                    for index in (key if isinstance(key, tuple) else (key,)))
    has_ellipsis = any(index is Ellipsis for index in indices)
    return (*indices, slice(None)) if has_ellipsis else (*indices, Ellipsis, slice(None))


# --- one lane after another ---------------------------------------------------------------------

VIEWS = {"reshape", "transpose", "swapaxes", "moveaxis", "expand_dims", "squeeze", "flip",
         "broadcast_to", "split", "hsplit", "vsplit"}  # functions that compute nothing


def by_lane(function: Any, views: bool = False) -> Callable[..., Any]:
    """A function of NumPy, called for one lane after another.

    Argument views: whether the function only makes a view; the first lane then shows which one.
    """

    def run(*args: Any, **kwargs: Any) -> Any:
        lanes = list(arrays_in((args, kwargs)))
        results = [function(*lane_of(args, 0), **lane_of(kwargs, 0))]
        if not views or is_new(results[0], lanes):
            results += [function(*lane_of(args, p), **lane_of(kwargs, p))
                        for p in range(1, lanes[0].values.shape[-1])]
        return joined(results, lanes)

    return run


def method_of(name: str) -> Callable[..., Any]:
    """A method of arrays as a function."""
    return lambda array, *args, **kwargs: getattr(array, name)(*args, **kwargs)


def is_new(result: Any, lanes: Sequence[LaneArray]) -> bool:
    """Whether a result has memory of its own and shares none with a lane."""
    if isinstance(result, (list, tuple)):
        return any(is_new(entry, lanes) for entry in result)
    return not any(shares_memory(result, lane) for lane in lanes)


def shares_memory(result: Any, lane: LaneArray) -> bool:
    """Whether a result may be a view of a lane. A subclass of arrays may not know the question."""
    return bool(np.may_share_memory(np.asarray(result), np.asarray(lane.values)))


def arrays_in(values: Any) -> Iterator[LaneArray]:
    """The lane arrays among nested arguments."""
    if isinstance(values, LaneArray):
        yield values
    elif isinstance(values, (list, tuple, dict)):
        for value in values.values() if isinstance(values, dict) else values:
            yield from arrays_in(value)


def lane_of(values: Any, p: int) -> Any:
    """Nested arguments in lane p. Plain arrays become read-only, because they have no lanes to
    write into."""
    if isinstance(values, LaneArray):
        return values.values[..., p]
    if isinstance(values, dict):
        return {name: lane_of(value, p) for name, value in values.items()}
    if type(values) in (list, tuple):
        return type(values)(lane_of(value, p) for value in values)
    if isinstance(values, np.ndarray):
        values = values.view()
        values.flags.writeable = False
    return values


def joined(results: list[Any], lanes: Sequence[LaneArray]) -> Any:
    """The results of all lanes as one value. A view of the first lane becomes a view of all
    lanes."""
    first = results[0]
    if isinstance(first, (list, tuple)):
        entries = [joined(list(entry), lanes) for entry in zip(*results, strict=True)]
        return type(first)(*entries) if hasattr(first, "_fields") else type(first)(entries)
    if isinstance(first, np.ndarray) and not is_new(first, lanes):
        P, stride = next((lane.values.shape[-1], lane.values.strides[-1]) for lane in lanes
                         if shares_memory(first, lane))
        return LaneArray(as_strided(first, (*first.shape, P), (*first.strides, stride), subok=True,
                                    writeable=first.flags.writeable))
    if isinstance(first, (np.ndarray, np.generic, float, complex)):
        return LaneArray(np.stack(results, axis=-1))
    if any(result != first for result in results):
        raise LanesError("the lanes have different whole numbers here")
    return first


# --- all lanes together -------------------------------------------------------------------------


def matmul(a: Any, b: Any) -> LaneArray:
    """The product a @ b in each lane."""
    left, right = operand(a), operand(b)
    rows, columns = left.ndim > 2, right.ndim > 2  # whether these axes are the user's
    if min(left.ndim, right.ndim) < 2:
        raise ValueError("matmul: expected arrays of at least one axis")
    product = _product(left if rows else left[None], right if columns else right[:, None])
    product = product if rows else product[..., 0, :, :]
    return LaneArray(product if columns else product[..., 0, :])


def _product(a: Array, b: Array) -> Array:
    """The product of (..., m, k, P or 1) and (..., k, n, P or 1): (..., m, n, P), C-contiguous."""
    if b.shape[-1] == 1 < a.shape[-1]:
        return _times(b[..., 0].swapaxes(-1, -2)[..., None, :, :], a)      # n k, k P for each m
    if a.shape[-1] == 1 < b.shape[-1]:
        columns = _times(a[..., 0][..., None, :, :], b.swapaxes(-2, -3))
        return np.ascontiguousarray(columns.swapaxes(-2, -3))              # m k, k P for each n
    m, k, n = a.shape[-3], a.shape[-2], b.shape[-2]
    if n == 1:
        return np.einsum("...mkp,...knp->...mnp", a, b, order="C")
    first, second = np.moveaxis(a, -1, 0), np.moveaxis(b, -1, 0)
    if m * k * n >= BLAS:
        first, second = np.ascontiguousarray(first), np.ascontiguousarray(second)
    axes = max(first.ndim, second.ndim)
    first = first.reshape(first.shape[0], *[1] * (axes - first.ndim), *first.shape[1:])
    second = second.reshape(second.shape[0], *[1] * (axes - second.ndim), *second.shape[1:])
    return np.ascontiguousarray(np.moveaxis(np.matmul(first, second), 0, -1))


def _times(weight: Array, a: Array) -> Array:
    """The product of weight (..., n, k), which is the same in all lanes, and a (..., k, P).

    The real and imaginary parts of complex lanes are multiplied as separate lanes.
    """
    if a.dtype.kind != "c" or weight.dtype.kind == "c":
        return np.matmul(weight, a, order="C")
    a = a if a.strides[-1] == a.itemsize else np.ascontiguousarray(a)
    bare = a.view(np.ndarray)
    product = np.matmul(weight, bare.view(bare.real.dtype), order="C")
    return product.view(a.dtype).view(type(a))


def dot(a: Any, b: Any, **kwargs: Any) -> Any:
    """np.dot, computed as a matrix product for arrays of one or two axes."""
    is_product = {np.ndim(a), np.ndim(b)} <= {1, 2} and not kwargs
    return matmul(a, b) if is_product else by_lane(np.dot)(a, b, **kwargs)


def reduction(function: Any) -> Callable[..., Any]:
    """A reduction such as np.sum, for lane arrays."""

    def reduce(a: Any, axis: Any = None, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(a, LaneArray) or args or kwargs.keys() - {"keepdims"}:
            return by_lane(function)(a, axis, *args, **kwargs)
        axes = range(a.ndim) if axis is None else normalize_axis_tuple(axis, a.ndim)
        over = axes[0] if len(axes) == 1 else tuple(axes)
        return LaneArray(np.asanyarray(function(a.values, axis=over, **kwargs)))

    return reduce


def concatenate(arrays: Sequence[Any], axis: int | None = 0, **kwargs: Any) -> Any:
    """np.concatenate for lane arrays."""
    if axis is None or kwargs:
        return by_lane(np.concatenate)(arrays, axis, **kwargs)
    P = next(arrays_in(arrays)).values.shape[-1]
    wide = [np.broadcast_to(operand(a), (*np.shape(a), P)) for a in arrays]
    return LaneArray(np.concatenate(wide, normalize_axis_index(axis, wide[0].ndim - 1)))


def stack(arrays: Sequence[Any], axis: int = 0) -> Any:
    """np.stack for lane arrays."""
    return concatenate([np.expand_dims(a, axis) for a in arrays], axis)


def hstack(tup: Sequence[Any]) -> Any:
    """np.hstack for lane arrays."""
    arrays = [a if np.ndim(a) else np.reshape(a, 1) for a in tup]
    return concatenate(arrays, 0 if np.ndim(arrays[0]) == 1 else 1)


def vstack(tup: Sequence[Any]) -> Any:
    """np.vstack for lane arrays."""
    return concatenate([np.reshape(a, (1, -1)) if np.ndim(a) < 2 else a for a in tup], 0)


def where(condition: Any, *choices: Any) -> Any:
    """np.where for lane arrays."""
    if not choices:
        return by_lane(np.where)(condition)
    return LaneArray(np.where(*map(operand, (condition, *choices))))


REDUCTIONS = {name: reduction(getattr(np, name))
              for name in ("sum", "prod", "mean", "var", "max", "min", "all", "any")}
FUNCTIONS: dict[Any, Callable[..., Any]] = {
    **{getattr(np, name): reduce for name, reduce in REDUCTIONS.items()},
    np.concatenate: concatenate, np.stack: stack, np.hstack: hstack, np.vstack: vstack,
    np.dot: dot, np.where: where, np.copy: lambda a: LaneArray(a.values.copy()),
    np.ravel: lambda a: a.reshape(-1),
    np.shape: lambda a: a.shape, np.ndim: lambda a: a.ndim,
}
METHODS = REDUCTIONS | {name: FUNCTIONS[getattr(np, name)] for name in ("dot", "copy", "ravel")}


# --- arrays that a user's function makes --------------------------------------------------------


@contextmanager
def making_lanes(namespaces: list[Namespace], P: int, kind: Callable[[Array], Array]
                 ) -> Iterator[None]:
    """Context: NumPy creates arrays of P lanes in these namespaces.

    A plain `np.zeros(n)` cannot hold lanes, and a write into it cannot be intercepted. Argument
    kind: makes an array's values from real ones.
    """
    def in_lanes(array: Any) -> Any:
        if type(array) is not np.ndarray or array.dtype.kind != "f":
            return array
        return LaneArray(kind(np.repeat(array[..., None], P, axis=-1)))

    def created(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args, **kwargs: in_lanes(function(*args, **kwargs))

    def of_array(function: Callable[..., Any]) -> Callable[..., Any]:
        def make(a: Any, *args: Any, **kwargs: Any) -> Any:
            if isinstance(a, LaneArray):
                return a.copy() if function is np.array else a
            if next(arrays_in(a), None) is not None:
                return stack([make(entry) for entry in a])
            array = function(a, *args, **kwargs)
            return array if array is a else in_lanes(array)

        return make

    functions = {name: created(getattr(np, name)) for name in (
        "zeros", "ones", "empty", "full", "copy", "zeros_like", "ones_like", "empty_like",
        "full_like")} | {"array": of_array(np.array), "asarray": of_array(np.asarray)}
    numpy = types.ModuleType(np.__name__)
    vars(numpy).update(vars(np) | functions)
    with replaced(namespaces, {id(np): (np, numpy)} | {
            id(getattr(np, name)): (getattr(np, name), function)
            for name, function in functions.items()}):
        yield
