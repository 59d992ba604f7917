"""An array of P lanes: P perturbed copies of one array, evaluated as a batch.

A run in lanes computes P perturbed runs for little more than the
cost of one, because NumPy's overhead per call is paid once. The lane axis is hidden: shape, axes
and indices are those of a single run. It is last in memory, so that broadcasting, slices and ids
work as without it, and inner loops run along the lanes. As long as all lanes are equal, an array is
computed and stored once; it is widened by the first write of values that differ between lanes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import numpy as np

from grads.stepper.lanes.memory import Array, LanesError, Memory

FUNCTIONS: dict[Any, Callable[..., Any]] = {}  # NumPy's function -> its form in lanes


class Complex:
    """The class of complex values in lanes: in a run of a user's function that of arrays that stand
    for real ones (`grads.check.continuation`)."""

    kind: type[np.ndarray] = np.ndarray


class MissingError(LanesError, AttributeError):
    """An attribute of NumPy's arrays that lanes do not have."""


class LaneArray:
    """An array in lanes; made by `grads.stepper.lanes`. It behaves like NumPy's arrays, or raises
    LanesError.

    Operators, functions and most methods are attached by `grads.stepper.lanes.functions`.
    """

    __slots__ = ("_memory", "_seen", "_view")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, values: Array, borrowed: bool = False) -> None:
        """values: (*shape, 1 or P), private to this array unless borrowed."""
        if values.dtype.kind == "c" and type(values) is not Complex.kind:
            values = values.view(Complex.kind)
        if values.shape[-1] == 1 and not values.flags.c_contiguous:
            values = values.copy()
        self._memory = Memory(values, borrowed)
        self._seen = self._view = values

    @property
    def values(self) -> Array:
        """(*shape, 1) if all lanes are equal, else (*shape, P): a view of the memory."""
        if self._seen is not self._memory.block:
            self._follow()
        return self._view

    def _follow(self) -> None:
        """Move this view to its memory's new block after widening."""
        old, new, view = self._seen, self._memory.block, self._view
        P, item = new.shape[-1], old.itemsize
        place, within = divmod(_address(view) - _address(old), item) if view.size else (0, 0)
        strides = (*(P * stride for stride in view.strides[:-1]), item)
        writeable = view.flags.writeable
        moved = np.ndarray((*view.shape[:-1], P), view.dtype, new,
                           P * place * item + within, strides)
        self._view = moved.view(type(view))
        self._view.flags.writeable = writeable
        self._seen = new

    def widen(self, lanes: int) -> None:
        """Before a write: make space for `lanes` different values, also in all arrays that share
        memory."""
        self._memory.widen(lanes)

    def derived(self, values: Array) -> LaneArray:
        """The LaneArray of `values`, which were computed from this array's: a view if they share
        memory."""
        is_view = _owner(values) is _owner(self._seen)
        return self._share(values) if is_view else LaneArray(values)

    def _share(self, view: Array) -> LaneArray:
        made = LaneArray.__new__(LaneArray)
        made._memory, made._seen, made._view = self._memory, self._seen, view
        return made

    def agreed(self, wanted_by: str) -> Array:
        """The common value of all lanes. Raises LanesError, naming `wanted_by`, if they differ."""
        values = np.asarray(self.values)
        if values.shape[-1] > 1 and not (values == values[..., :1]).all():
            raise LanesError(f"{wanted_by}: the lanes have different values here")
        return self.values[..., 0]

    # --- attributes of NumPy arrays -------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        return self._view.shape[:-1]

    @property
    def ndim(self) -> int:
        return self._view.ndim - 1

    @property
    def size(self) -> int:
        return self._view.size // (self._view.shape[-1] or 1)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._view.dtype

    @property
    def T(self) -> LaneArray:
        return self._share(self.values.transpose(*range(self.ndim)[::-1], -1))

    @property
    def real(self) -> LaneArray:
        return self._share(self.values.real)

    @real.setter
    def real(self, value: Any) -> None:
        self.real[...] = value

    @property
    def imag(self) -> LaneArray:
        return self.derived(self.values.imag)

    @imag.setter
    def imag(self, value: Any) -> None:
        self.imag[...] = value

    def __getattr__(self, name: str) -> NoReturn:
        raise MissingError(f"an array in lanes has no attribute {name!r}")

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("len() of unsized object")
        return self._view.shape[0]

    def __iter__(self) -> Iterator[LaneArray]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        return f"LaneArray(shape={self.shape}, dtype={self.dtype}, lanes={self.values.shape[-1]})"

    # --- elements -------------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> LaneArray:
        if (type(key) is int or type(key) is slice) and self.ndim:
            return self._share(self.values[key])
        return self.derived(self.values[lane_key(key)])

    def __setitem__(self, key: Any, value: Any) -> None:
        if type(key) is LaneArray and key.dtype == bool and lanes_of(key) > 1:
            return self._set_where(key, value)
        self.widen(lanes_of(value))
        values, new = self.values, operand(value)
        if values.dtype.kind != "c":
            check_cast(new, values.dtype)
        values[key if type(key) is int and self.ndim else lane_key(key)] = new

    def _set_where(self, mask: LaneArray, value: Any) -> None:
        """a[mask] = a scalar, with a separate mask for each lane."""
        if np.ndim(value) or mask.shape != self.shape:
            raise LanesError("assignment by a mask that differs from lane to lane: only of a "
                             "scalar, and by a mask of the array's own shape")
        self.widen(max(lanes_of(mask), lanes_of(value)))
        check_cast(operand(value), self.dtype)
        np.copyto(self.values, operand(value), where=mask.values, casting="unsafe")

    # --- a single value out of all lanes --------------------------------------------------------

    def __bool__(self) -> bool:
        return bool(self.agreed("a decision (bool)"))

    def __int__(self) -> int:
        return int(self.agreed("int()"))

    def __index__(self) -> int:
        return self.agreed("an index").__index__()

    def __float__(self) -> float:
        return float(self.agreed("float()"))

    def __complex__(self) -> complex:
        return complex(self.agreed("complex()"))

    def item(self, *args: Any) -> Any:
        return self.agreed(".item()").item(*args)

    def tolist(self) -> Any:
        return self.agreed(".tolist()").tolist()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        agreed = self.agreed("conversion to a plain array, or writing into one (np.zeros(n) is "
                             "plain, np.zeros_like(x) is not)")
        plain = np.array(agreed, dtype)
        plain.flags.writeable = copy is True  # read-only: the caller might mean to write into self
        return plain

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise LanesError("pickling is not known in lanes")

    # --- dispatch of NumPy's functions -----------------------------------------------------------

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        known = FUNCTIONS.get(function)
        if known is None:
            raise LanesError(f"np.{function.__name__} is not known in lanes")
        return known(*args, **kwargs)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return FUNCTIONS["ufunc"](ufunc, method, inputs, **kwargs)


def lanes_of(*operands: Any) -> int:
    """P if an operand differs between lanes, else 1."""
    lanes = 1
    for x in operands:
        if type(x) is LaneArray:
            lanes = max(lanes, x._memory.block.shape[-1])
    return lanes


def operand(x: Any) -> Any:
    """The operand for NumPy: values with the lane axis, or a scalar unchanged."""
    if type(x) is LaneArray:
        return x._view if x._seen is x._memory.block else x.values
    if type(x) is float:
        return x
    if isinstance(x, (list, tuple)):
        x = np.asarray(x)
    return x[..., None] if isinstance(x, np.ndarray) else x


def check_cast(value: Any, dtype: np.dtype[Any]) -> None:
    """Raise LanesError if an assignment would drop imaginary parts."""
    if dtype.kind != "c" and np.iscomplexobj(value):
        raise LanesError("a complex value is written into a real array")


def lane_key(key: Any) -> tuple[Any, ...]:
    """An index for the user's axes, with all lanes."""
    parts = key if type(key) is tuple else (key,)
    whole = False
    for part in parts:
        if type(part) is LaneArray:
            parts = tuple(p.agreed("an index") if type(p) is LaneArray else p for p in parts)
        whole = whole or part is Ellipsis
    return (*parts, slice(None)) if whole else (*parts, Ellipsis, slice(None))


def _owner(a: Array) -> Array:
    """The array whose memory a view shows."""
    while isinstance(a.base, np.ndarray):
        a = a.base
    return a


def _address(a: Array) -> int:
    return int(a.__array_interface__["data"][0])
