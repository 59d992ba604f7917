"""A stand-in for CuPy that computes with NumPy and refuses what CuPy refuses or does badly.

`strict` plays the module, `StrictArray` the device array. Names and keywords are those recorded
from the real wheel (`record_signatures.py`). Implicit transfers between host and device raise
`HostTransferError`; explicit transfers, and calls that make the host wait, are counted in
`strict.counts`. New arrays of `empty` hold NaN, so that reading them shows.

It cannot see ids out of range (CuPy wraps, NumPy raises), CuPy's rounding, or the order of atomics.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from strict.array import (
    PYTHON_SCALARS,
    RECORD,
    HostTransferError,
    StrictArray,
    bind,
    compute,
    counts,
    unwrap,
    wrap,
)

import backend
from backend import gemm

UFUNCS = {*RECORD["complex_ufuncs"], *RECORD["real_ufuncs"]}
# First parameters of these names must be device arrays: CuPy reads their attributes.
ARRAY_PARAMETERS = {"a", "ar", "arr", "array", "ary", "condition", "dst", "m", "prototype", "x"}
# NumPy answers these with a Python bool or int, CuPy with a 0-d array.
ZERO_DIMENSIONAL = {"allclose", "array_equal", "array_equiv", "count_nonzero"}
# dtype characters that CuPy's scatter kernels (atomics) know, by operation: no complex numbers.
AT_DTYPES = {"add": "iIlLqQefd", "sub": "iI", "max": "iIlLqQfd", "min": "iIlLqQfd"}
AT_DTYPES |= dict.fromkeys(("and", "or", "xor"), "iIlLqQ")
BINARY_OPERATORS = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "true_divide",
    "floordiv": "floor_divide", "mod": "remainder", "pow": "power", "and": "bitwise_and",
    "or": "bitwise_or", "xor": "bitwise_xor", "lshift": "left_shift", "rshift": "right_shift",
}
OTHER_OPERATORS = {
    "eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater",
    "ge": "greater_equal", "neg": "negative", "pos": "positive", "abs": "absolute",
    "invert": "invert",
}


def check_operands(where: str, operands: tuple) -> None:
    """Operands are device arrays or scalars, and no NumPy scalar widens the arrays' dtype."""
    for operand in operands:
        unwrap(operand, where)
        if not isinstance(operand, (StrictArray, np.generic, *PYTHON_SCALARS)):
            raise TypeError(f"{where}: unsupported operand of type {type(operand).__name__}")
    dtypes = [operand.dtype for operand in operands if isinstance(operand, StrictArray)]
    for operand in operands:
        if dtypes and isinstance(operand, np.generic):
            narrow = np.result_type(*dtypes)
            if np.result_type(narrow, operand.dtype) != narrow:
                raise HostTransferError(f"{where}: the scalar np.{operand.dtype} would widen "
                                        f"{narrow} arrays; use a Python number")


def check_arguments(name: str, args: tuple, kwargs: dict) -> None:
    """Raise what CuPy's function `name` would raise for these arguments."""
    given = bind(name, RECORD["functions"][name], args, kwargs)
    first = next(iter(given), "")
    unwrap(given.get(first), name)
    if first in ARRAY_PARAMETERS and not isinstance(given[first], StrictArray):
        raise TypeError(f"{name}: {first} must be a device array, got {type(given[first])}")
    if first == "tup" and not all(isinstance(item, StrictArray) for item in given["tup"]):
        raise TypeError(f"{name}: only device arrays can be joined")
    if name == "matmul":
        check_operands(name, args)
    if name == "clip" or (name == "where" and len(given) == 3):
        check_operands(name, tuple(v for k, v in given.items() if k != "out" and v is not None))
    if name == "clip" and np.iscomplexobj(unwrap(given["a"], name)):
        raise TypeError("CuPy has no complex clip")
    if name == "take" and given.get("out") is not None and given["out"].dtype != given["a"].dtype:
        raise TypeError(f"take: out has dtype {given['out'].dtype}, expected {given['a'].dtype}")


def poison(array: np.ndarray) -> None:
    """Fill an uninitialised array with values that tests notice."""
    if array.dtype.kind in "fc":
        array.fill(np.nan)
    elif array.dtype.kind in "iu":
        array.fill(np.iinfo(array.dtype).max)


class StrictUfunc:
    """One of CuPy's ufuncs: it has `out=`, `dtype=` and `casting=`, but no `where=`."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Apply the ufunc element by element."""
        bind(self.name, RECORD["ufunc_parameters"], args, kwargs)
        check_operands(self.name, args)
        if self.name in RECORD["real_ufuncs"]:
            if any(np.iscomplexobj(unwrap(operand, self.name)) for operand in args):
                raise TypeError(f"CuPy has no complex {self.name}")
        return compute(getattr(np, self.name), self.name, args, kwargs)

    def at(self, a: StrictArray, indices: Any, b: Any = None) -> None:
        """Unbuffered in-place operation; CuPy's atomics know few operations and dtypes."""
        operation = RECORD["at"].get(self.name)
        if operation is None:
            raise NotImplementedError(f"CuPy has no {self.name}.at")
        if a.dtype.char not in AT_DTYPES[operation]:
            raise TypeError(f"CuPy's {self.name}.at does not support {a.dtype}")
        getattr(np, self.name).at(a._data, a._index(indices), unwrap(b, f"{self.name}.at"))

    def reduceat(self, array: StrictArray, indices: StrictArray, axis: int = 0,
                 dtype: Any = None, out: StrictArray | None = None) -> StrictArray:
        """`add.reduceat` as CuPy computes it: differences of one running sum, which lose digits."""
        self._only("reduceat", {"add": ""})
        data = np.moveaxis(unwrap(array, "reduceat"), axis, 0)
        starts = np.asarray(unwrap(indices, "reduceat"))
        total = np.cumsum(data, axis=0, dtype=dtype)
        total = np.concatenate([np.zeros_like(total[:1]), total])
        ends = np.append(starts[1:], len(data))
        single = (starts >= ends).reshape(-1, *[1] * (data.ndim - 1))
        sums = wrap(np.moveaxis(
            np.where(single, data[starts], total[ends] - total[starts]), 0, axis))
        if out is None:
            return sums
        out[...] = sums
        return out

    def reduce(self, array: StrictArray, axis: Any = 0, dtype: Any = None,
               out: StrictArray | None = None, keepdims: bool = False) -> StrictArray:
        """`add.reduce` and `multiply.reduce`; CuPy has no other."""
        method = self._only("reduce", {"add": "sum", "multiply": "prod"})
        return getattr(array, method)(axis=axis, dtype=dtype, out=out, keepdims=keepdims)

    def accumulate(self, array: StrictArray, axis: int = 0, dtype: Any = None,
                   out: StrictArray | None = None) -> StrictArray:
        """`add.accumulate` and `multiply.accumulate`; CuPy has no other."""
        method = self._only("accumulate", {"add": "cumsum", "multiply": "cumprod"})
        return getattr(array, method)(axis=axis, dtype=dtype, out=out)

    def outer(self, a: StrictArray, b: StrictArray, **kwargs: Any) -> Any:
        """The ufunc of all pairs of elements."""
        return self(a.reshape(a.shape + (1,) * b.ndim), b, **kwargs)

    def _only(self, method: str, served: dict[str, str]) -> str:
        """What serves `method` for this ufunc."""
        if self.name not in served:
            raise NotImplementedError(f"CuPy has no {self.name}.{method}")
        return served[self.name]


class StrictModule:
    """What CuPy offers of NumPy, and the explicit transfers."""

    __name__ = "strict"
    counts = counts
    ndarray = StrictArray

    @staticmethod
    def install() -> None:
        """Make `backend` know the device arrays of this stand-in."""
        backend.register(StrictArray, strict)

    @staticmethod
    def asnumpy(a: Any, stream: Any = None, order: str = "C", out: Any = None, *,
                blocking: bool = True) -> np.ndarray:
        """The explicit copy to the host."""
        return a.get(order=order) if isinstance(a, StrictArray) else np.asarray(a)

    def __getattr__(self, name: str) -> Any:
        """The function, ufunc, dtype or constant that CuPy has under this name."""
        if name in RECORD["as_in_numpy"]:
            return getattr(np, name)
        if name in UFUNCS:
            return StrictUfunc(name)
        if name in ("array", "asarray", "asanyarray"):
            return functools.partial(create, name)
        if name in RECORD["functions"]:
            return functools.partial(call, name)
        if name in RECORD["not_offered"]:
            raise AttributeError(f"CuPy's {name!r} is not offered by the NumPy stand-in for CuPy")
        raise AttributeError(f"CuPy {RECORD['version']} has no {name!r}")


strict = StrictModule()


def holds_device_array(value: Any) -> bool:
    """Whether `value` is a device array, or a nested list or tuple with one in it."""
    if isinstance(value, (list, tuple)):
        return any(holds_device_array(item) for item in value)
    return isinstance(value, StrictArray)


def create(name: str, /, *args: Any, **kwargs: Any) -> StrictArray:
    """`array`, `asarray`: of host data, the explicit copy to the device."""
    value = next(iter(bind(name, RECORD["functions"][name], args, kwargs).values()))
    kwargs = {key: kwargs[key] for key in kwargs if key != "blocking"}
    if not holds_device_array(value):
        counts.to_device += 1
        return StrictArray(np.array(getattr(np, name)(*args, **kwargs)))
    result = getattr(np, name)(unwrap(value, name), *args[1:], **kwargs)
    return value if result is unwrap(value, name) else wrap(result)


def rounded(array: Any) -> Any:
    """float32 operands of a product as the precision in use would round them (TF32: 10 bits)."""
    precision = gemm.precision()
    if not isinstance(array, StrictArray) or array.dtype != np.float32 or precision == "float32":
        return array
    if precision == "float16":
        return StrictArray(array._data.astype(np.float16).astype(np.float32))
    bits = np.ascontiguousarray(array._data).view(np.uint32) + np.uint32(1 << 12)
    bits &= np.uint32(0xFFFFE000)
    return StrictArray(bits.view(np.float32))


def call(name: str, /, *args: Any, **kwargs: Any) -> Any:
    """Any other function: its arguments checked, computed by NumPy."""
    check_arguments(name, args, kwargs)
    if name == "matmul":
        args = tuple(map(rounded, args))
        strict.counts.products += 1
    function = getattr(np, name)
    if name == "copyto" and kwargs.get("where", ...) is None:
        del kwargs["where"]
    result = compute(function, name, args, kwargs)
    if name in ("empty", "empty_like"):
        poison(result._data)
    if name in ZERO_DIMENSIONAL and isinstance(result, (bool, int)):
        return wrap(np.asarray(result))
    return result


def operator_method(function: str, reflected: bool = False, in_place: bool = False) -> Callable:
    """The method that applies the module's `function` for a Python operator."""

    def method(self: StrictArray, *others: Any) -> Any:
        operands = (*others, self) if reflected else (self, *others)
        return getattr(strict, function)(*operands, **({"out": self} if in_place else {}))

    return method


for _name, _function in {**BINARY_OPERATORS, **OTHER_OPERATORS, "matmul": "matmul"}.items():
    setattr(StrictArray, f"__{_name}__", operator_method(_function))
for _name, _function in {**BINARY_OPERATORS, "matmul": "matmul"}.items():
    setattr(StrictArray, f"__r{_name}__", operator_method(_function, reflected=True))
for _name, _function in BINARY_OPERATORS.items():
    setattr(StrictArray, f"__i{_name}__", operator_method(_function, in_place=True))


def to_strict(tree: Any) -> Any:
    """A copy of `tree` with device arrays in place of NumPy arrays; not counted as a transfer.

    `tree` is nested of dicts, lists, tuples, NamedTuples and dataclasses; other leaves stay.
    """
    return convert(tree, np.ndarray, lambda array: StrictArray(array.copy(order="K")))


def to_numpy(tree: Any) -> Any:
    """A copy of `tree` with NumPy arrays in place of device arrays; not counted as a transfer."""
    return convert(tree, StrictArray, lambda array: array._data.copy(order="K"))


def convert(tree: Any, kind: type, leaf: Callable[[Any], Any]) -> Any:
    """`tree` with `leaf` applied to its leaves of type `kind`."""
    if isinstance(tree, kind):
        return leaf(tree)
    if isinstance(tree, dict):
        return {key: convert(value, kind, leaf) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        items = [convert(item, kind, leaf) for item in tree]
        return type(tree)(*items) if hasattr(tree, "_fields") else type(tree)(items)
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        fields = {f.name: getattr(tree, f.name) for f in dataclasses.fields(tree) if f.init}
        return dataclasses.replace(tree, **convert(fields, kind, leaf))
    return tree
