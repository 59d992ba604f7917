"""The strict device array: a NumPy array whose values are accessible only by explicit transfers.

Also the parts that array and module share: the record of CuPy's names, the counters, and the two
functions through which every argument and result passes (`unwrap`, `wrap`).
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import numpy as np

RECORD = json.loads(Path(__file__).with_name("signatures.json").read_text(encoding="utf-8"))
PYTHON_SCALARS = (bool, int, float, complex)
NO_STAND_IN = {"cstruct", "device", "flat"}  # attributes that only a real device has
DISPATCHED = ("__array_ufunc__", "__array_function__")  # how NumPy's functions call us
REFUSED = (
    *DISPATCHED, "__array__", "__bool__", "__int__", "__float__", "__complex__", "__index__",
    "__bytes__", "__str__", "__format__", "__reduce_ex__",
    "item", "tolist", "tobytes", "tofile", "dump", "dumps",
)


class HostTransferError(TypeError):
    """The code would move data between host and device implicitly."""


@dataclasses.dataclass
class Counts:
    """Transfers, waits, and launches of kernels and matrix products since the last reset."""

    to_host: int = 0
    to_device: int = 0
    syncs: int = 0
    launches: int = 0
    products: int = 0  # of the launches

    def reset(self) -> None:
        """Start again from zero."""
        self.to_host = self.to_device = self.syncs = self.launches = self.products = 0


counts = Counts()

# Calls for which CuPy starts no kernel: views, and uninitialised memory.
NO_LAUNCH = {
    "broadcast_to", "empty", "empty_like", "expand_dims", "get", "moveaxis", "rollaxis", "set",
    "shape", "size", "ndim", "split", "squeeze", "swapaxes", "transpose", "view",
}
VIEWS = {"reshape", "ravel", "ascontiguousarray", "astype", "asarray"}  # unless they have to copy


@functools.cache
def signature(parameters: str) -> inspect.Signature:
    """The signature with these parameters (Python source, from our own record)."""
    return inspect.signature(eval(f"lambda {parameters}: None"))


def bind(where: str, parameters: str, args: tuple, kwargs: dict) -> dict[str, Any]:
    """The given arguments by parameter name; TypeError if CuPy's `where` does not take them."""
    try:
        return signature(parameters).bind(*args, **kwargs).arguments
    except TypeError as error:
        raise TypeError(f"CuPy {RECORD['version']}, {where}({parameters}): {error}") from None


def unwrap(value: Any, where: str) -> Any:
    """`value` with NumPy arrays in place of device arrays; a NumPy array in it is an error."""
    if isinstance(value, StrictArray):
        return value._data
    if isinstance(value, np.ndarray):
        raise HostTransferError(
            f"{where}: a NumPy array where CuPy wants a device array; use backend.to_device")
    if type(value) in (list, tuple):
        return type(value)(unwrap(item, where) for item in value)
    return value


def wrap(value: Any) -> Any:
    """`value` with device arrays in place of NumPy's; NumPy scalars become 0-d device arrays."""
    if isinstance(value, (np.ndarray, np.generic)):
        return StrictArray(np.asarray(value))
    if isinstance(value, (list, tuple)):
        items = [wrap(item) for item in value]
        return items if isinstance(value, list) else tuple(items)
    return value


def waits(name: str, args: tuple, kwargs: dict) -> bool:
    """Whether CuPy's function or method `name` waits for the device, given these arguments."""
    if name == "where":
        return len(args) + len(kwargs) == 1
    if name == "repeat":
        return any(isinstance(value, StrictArray) for value in (*args[1:], *kwargs.values()))
    return name in RECORD["waits"]


def launches(where: str, given: tuple, result: Any) -> int:
    """How many kernels CuPy starts at least for the function or method `where`: 0 or 1."""
    if where in NO_LAUNCH:
        return 0
    if where in VIEWS and isinstance(given[0], np.ndarray) and isinstance(result, np.ndarray):
        return int(not np.shares_memory(given[0], result))
    return 1


def compute(function: Callable[..., Any], where: str, args: tuple, kwargs: dict) -> Any:
    """NumPy's `function` of the unwrapped arguments; a result written to `out` is `out` itself."""
    counts.syncs += waits(where, args, kwargs)
    plain = {key: unwrap(value, where) for key, value in kwargs.items()}
    given = unwrap(args, where)
    result = function(*given, **plain)
    counts.launches += launches(where, given, result)
    return kwargs["out"] if isinstance(kwargs.get("out"), StrictArray) else wrap(result)


class StrictArray:
    """A device array whose values the host sees only through `get` (`backend.to_host`).

    `module.py` adds the operators, which are the module's ufuncs.
    """

    __slots__ = ("_data",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, data: np.ndarray) -> None:
        if data.dtype.kind not in "biufc":
            raise ValueError(f"CuPy does not support arrays of dtype {data.dtype}")
        self._data = data

    def __getattr__(self, name: str) -> Any:
        """An attribute or a method that CuPy's arrays have."""
        if name in RECORD["methods"] and hasattr(np.ndarray, name):
            return functools.partial(self._method, name)
        if name in RECORD["attributes"] and name not in NO_STAND_IN:
            return wrap(getattr(self._data, name))
        raise AttributeError(f"CuPy's arrays have no {name!r}, or their stand-in does not offer it")

    @property
    def data(self) -> Any:
        """Where the array begins: `data.ptr`."""
        return SimpleNamespace(ptr=self._data.ctypes.data)

    def _method(self, name: str, /, *args: Any, **kwargs: Any) -> Any:
        """A method: checked, computed by NumPy and wrapped."""
        bind(f"ndarray.{name}", RECORD["methods"][name], (self, *args), kwargs)
        return compute(getattr(np.ndarray, name), name, (self, *args), kwargs)

    def get(self, stream: Any = None, order: str = "C", out: Any = None,
            blocking: bool = True) -> np.ndarray:
        """The explicit copy to the host."""
        counts.to_host += 1
        return np.array(self._data, order=order)

    def set(self, arr: np.ndarray, stream: Any = None) -> None:
        """The explicit copy of a host array into this one."""
        counts.to_device += 1
        self._data[...] = arr

    def _index(self, key: Any) -> tuple:
        """`key` for NumPy, never giving a scalar. CuPy waits for masks and copies lists."""
        parts = []
        for item in key if isinstance(key, tuple) else (key,):
            if isinstance(item, StrictArray):
                counts.syncs += item.dtype == bool
            elif isinstance(item, list):
                counts.to_device += 1
            elif isinstance(item, bool) or not (
                    item is None or item is Ellipsis or isinstance(item, (slice, int, np.integer))):
                unwrap(item, "index")
                raise TypeError(f"index of type {type(item).__name__}")
            parts.append(unwrap(item, "index"))
        return tuple(parts) if any(p is Ellipsis for p in parts) else (*parts, Ellipsis)

    def __getitem__(self, key: Any) -> StrictArray:
        result = self._data[self._index(key)]
        counts.launches += not np.may_share_memory(result, self._data)
        return StrictArray(result)

    def __setitem__(self, key: Any, value: Any) -> None:
        if not isinstance(value, (StrictArray, np.generic, *PYTHON_SCALARS)):
            unwrap(value, "assignment")
            raise TypeError(f"assignment of {type(value).__name__}: expected an array or a scalar")
        if isinstance(key, StrictArray) and key.dtype != bool and isinstance(value, StrictArray):
            ids = key._data.ravel() % self.shape[0]
            if value.ndim and len(np.unique(ids)) < len(ids):
                raise ValueError("assignment to repeated ids: CuPy leaves open which value stays")
        new, place = unwrap(value, "assignment"), self._index(key)
        target = self._data[place]
        if isinstance(new, np.ndarray) and new.__array_interface__ == target.__array_interface__:
            return  # the end of a[key] += b: CuPy sees that both are the same, too
        counts.launches += 1
        self._data[place] = new

    def __len__(self) -> int:
        return len(self._data)

    def __iter__(self) -> Iterator[StrictArray]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        return f"StrictArray(shape={self.shape}, dtype={self.dtype})"

    def __copy__(self) -> StrictArray:
        return self.copy()

    def __deepcopy__(self, memo: dict) -> StrictArray:
        return self.copy()

    @property
    def real(self) -> StrictArray:
        """View of the real part."""
        return wrap(self._data.real)

    @real.setter
    def real(self, value: Any) -> None:
        self.real[...] = value

    @property
    def imag(self) -> StrictArray:
        """View of the imaginary part; zeros if there is none."""
        return wrap(self._data.imag)

    @imag.setter
    def imag(self, value: Any) -> None:
        self.imag[...] = value


def refusal(name: str) -> Callable[..., NoReturn]:
    """A method that says why it does not serve."""

    def refuse(self: StrictArray, *args: Any, **kwargs: Any) -> NoReturn:
        caller = f" (called by np.{args[0].__name__})" if name in DISPATCHED else ""
        raise HostTransferError(
            f"StrictArray.{name}{caller}: a transfer from the device that nobody asked for. Keep "
            "to the array module's operations; outside of kernels there is backend.to_host")

    return refuse


for _name in REFUSED:
    setattr(StrictArray, _name, refusal(_name))
