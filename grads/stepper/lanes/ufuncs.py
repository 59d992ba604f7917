"""Ufuncs of arrays in lanes, and their methods; the operators are ufuncs too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from grads.stepper.lanes.array import FUNCTIONS, LaneArray, lane_key, lanes_of, operand
from grads.stepper.lanes.memory import LanesError
from grads.stepper.lanes.operands import as_lanes, axes, deliver, one_axis, writable
from grads.stepper.lanes.products import matmul


def call_ufunc(ufunc: np.ufunc, method: str, inputs: Sequence[Any], **kwargs: Any) -> Any:
    """Called by NumPy for a ufunc, or one of its methods, with a LaneArray among its arguments."""
    if method == "__call__":
        if "out" not in kwargs:
            return apply(ufunc, inputs, **kwargs)
        out = kwargs.pop("out")
        return apply(ufunc, inputs, out[0] if len(out) == 1 else out, **kwargs)
    if method == "at":
        a, key, *rest = inputs
        return add_at(ufunc, a, key, *rest)
    if method not in ("reduce", "accumulate", "reduceat"):
        raise LanesError(f"np.{ufunc.__name__}.{method} is not known in lanes")
    out = kwargs.pop("out", (None,))[0]
    a, *rest = inputs
    axis = kwargs.pop("axis", rest.pop() if method != "reduceat" and rest else 0)
    a = as_lanes(a)
    kwargs = {name: operand(value) for name, value in kwargs.items()}
    if method == "reduce":
        over = axes(a, axis)
        result = ufunc.reduce(operand(a), axis=over[0] if len(over) == 1 else over, **kwargs)
        return deliver(LaneArray(result), out)
    rest = [as_lanes(x).agreed("indices") for x in rest]
    result = getattr(ufunc, method)(operand(a), *rest, axis=one_axis(a, axis), **kwargs)
    return deliver(LaneArray(result), out)


def apply(ufunc: np.ufunc, inputs: Sequence[Any], out: Any = None, **kwargs: Any) -> Any:
    """ufunc(*inputs, out=out, ...)."""
    if ufunc is np.matmul:
        return matmul(inputs[0], inputs[1], out, **kwargs)
    if ufunc.signature is not None or isinstance(out, tuple):
        raise LanesError(f"np.{ufunc.__name__} is not known in lanes")
    mask = kwargs.get("where", True)
    if out is not None:
        given = inputs if mask is True else (mask, *inputs)
        out_values = writable(out, lanes_of(*given))
    if mask is not True:
        kwargs["where"] = operand(mask)
    if out is not None:
        ufunc(*[operand(x) for x in inputs], out=out_values, **kwargs)
        return out
    if mask is not True:
        raise LanesError("where= without out= is not known in lanes")
    result = ufunc(*[operand(x) for x in inputs], **kwargs)
    if ufunc.nout > 1:
        return tuple(map(LaneArray, result))
    return LaneArray(result) if isinstance(result, np.ndarray) else result


def add_at(ufunc: np.ufunc, a: Any, key: Any, value: Any = None) -> None:
    """ufunc.at: ids that occur several times count several times."""
    values = () if value is None else (operand(value),)
    ufunc.at(writable(a, lanes_of(value)), lane_key(key), *values)


# --- operators ------------------------------------------------------------------------------------


def _operator(ufunc: np.ufunc) -> tuple[Callable[..., Any], ...]:
    """The methods of a Python operator: plain, reflected, in place."""
    return (lambda self, *operands: apply(ufunc, (self, *operands)),
            lambda self, left: apply(ufunc, (left, self)),
            lambda self, left: apply(ufunc, (self, left), self))


def _power(a: LaneArray, exponent: Any) -> Any:
    """a ** exponent, a square as NumPy's operator does it."""
    if type(exponent) in (int, float) and exponent == 2:
        return apply(np.square, (a,))
    return apply(np.power, (a, exponent))


OPERATORS = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.true_divide,
    "floordiv": np.floor_divide, "mod": np.remainder, "pow": np.power, "matmul": np.matmul,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
}
SIGNS = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal, "neg": np.negative, "pos": np.positive, "abs": np.absolute,
    "invert": np.invert,
}
for _name, _ufunc in OPERATORS.items():
    for _prefix, _method in zip(("", "r", "i"), _operator(_ufunc), strict=True):
        setattr(LaneArray, f"__{_prefix}{_name}__", _method)
setattr(LaneArray, "__pow__", _power)  # noqa: B010, attached like the others
for _name, _ufunc in SIGNS.items():
    setattr(LaneArray, f"__{_name}__", _operator(_ufunc)[0])
FUNCTIONS["ufunc"] = call_ufunc
