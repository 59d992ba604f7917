"""Ufuncs of continued arrays, and their methods: by a rule, by decisions on real parts, or by
NumPy's own complex arithmetic, corrected where infinities give NaN."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from grads.check.continuation.array import (
    FUNCTIONS,
    Continued,
    Dropped,
    mapped,
    plain,
    reals,
    wrapped,
)
from grads.check.continuation.rules import DECISIONS, REPAIRS, rule_of
from grads.check.continuation.state import differ, refuse


def call_ufunc(
    ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], out: Any, kwargs: dict[str, Any]
) -> Any:
    """Called by NumPy for a ufunc, or one of its methods, with a Continued array."""
    if np.dtype(kwargs.get("dtype") or "O").kind == "f":
        kwargs = kwargs | {"dtype": np.complex128}
    if "where" in kwargs:
        kwargs = kwargs | {"where": reals(kwargs["where"])}
    if ufunc in DECISIONS:
        found = _decided(getattr(ufunc, method), inputs, kwargs)
    elif method == "__call__" and ufunc in (np.divmod, np.modf):
        found = _several(ufunc, inputs)
    elif method == "__call__" and (rule := rule_of(ufunc)) is not None:
        found = _by_rule(rule, plain(inputs), kwargs)
    elif method in ("reduce", "accumulate", "outer") and rule_of(ufunc) is not None:
        found = _by_pairs(ufunc, method, inputs, kwargs)
    else:
        return _by_numpy(ufunc, method, plain(inputs), out, kwargs)
    return _delivered(found, out, kwargs)


def _decided(function: Any, inputs: Any, kwargs: dict[str, Any]) -> Any:
    """A decision on real parts; recorded if it differs from that on complex numbers."""
    found = function(*reals(inputs), **kwargs)
    try:
        same = np.array_equal(found, function(*mapped(inputs, _bare), **kwargs))
    except TypeError:
        same = False
    if not same:
        differ()
    return found


def _bare(x: Any) -> Any:
    return x.view(np.ndarray) if isinstance(x, (Continued, Dropped)) else x


def _by_rule(rule: Callable[..., Any], inputs: Any, kwargs: dict[str, Any]) -> Any:
    """A ufunc by its rule."""
    differ()
    if set(kwargs) - {"where", "casting", "order", "dtype", "subok"}:
        raise refuse(f"{', '.join(kwargs)} of this function cannot be continued")
    return rule(*(np.asarray(x) if isinstance(x, (list, tuple)) else x for x in inputs))


def _several(ufunc: np.ufunc, inputs: tuple[Any, ...]) -> Any:
    """np.divmod and np.modf."""
    if ufunc is np.divmod:
        return np.floor_divide(*inputs), np.remainder(*inputs)
    whole = np.trunc(inputs[0])
    return inputs[0] - whole, whole


def _by_pairs(
    ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """A ufunc's method by the ufunc's rule, applied to two arguments at a time."""
    if method == "outer":
        a, b = (np.asanyarray(x) for x in inputs)
        return ufunc(a.reshape(*a.shape, *[1] * b.ndim), b)
    a, axis = inputs[0], kwargs.get("axis", 0)
    if set(kwargs) - {"axis", "keepdims"} or isinstance(axis, tuple):
        raise refuse(f"np.{ufunc.__name__}.{method} with these arguments cannot be continued")
    a, axis = (a.reshape(-1), 0) if axis is None else (a, axis)
    rows = list(np.moveaxis(a, axis, 0))
    found = [rows[0]]
    for row in rows[1:]:
        found.append(ufunc(found[-1], row))
    if method == "accumulate":
        return np.stack(found, axis)
    if not kwargs.get("keepdims"):
        return found[-1]
    every = kwargs.get("axis", 0) is None
    return found[-1].reshape([1] * inputs[0].ndim) if every else np.expand_dims(found[-1], axis)


def _by_numpy(ufunc: np.ufunc, method: str, inputs: Any, out: Any, kwargs: dict[str, Any]) -> Any:
    """NumPy's own complex arithmetic, corrected for infinities."""
    function = getattr(ufunc, method)
    try:
        if out is not None:
            kwargs = kwargs | {"out": tuple(plain(x) for x in out)}
        before = inputs
        if ufunc in REPAIRS and out is not None:
            before = tuple(np.array(x) if np.may_share_memory(x, plain(out[0])) else x
                           for x in inputs)
        found = function(*inputs, **kwargs)
    except TypeError as error:
        raise refuse(f"np.{ufunc.__name__}: {error}") from error
    if method == "__call__" and ufunc in REPAIRS and np.isnan(found).any():
        repaired = REPAIRS[ufunc](*before)
        if not np.array_equal(repaired, found, equal_nan=True):
            differ()
            if out is None:
                found = repaired
            else:
                np.copyto(plain(out[0]), repaired, where=kwargs.get("where", True))
    if out is not None:
        return out[0] if len(out) == 1 else out
    return wrapped(found)


def _delivered(found: Any, out: Any, kwargs: dict[str, Any]) -> Any:
    """A result, written into `out` if there is one."""
    if out is None or out[0] is None:
        return wrapped(found)
    target = plain(out[0])
    value = plain(found)
    if np.iscomplexobj(value) and not np.iscomplexobj(target):
        if value.imag.any():
            raise refuse("the imaginary part is dropped in an array of real numbers")
        value = value.real
    np.copyto(target, value, where=kwargs.get("where", True), casting="unsafe")
    return out[0]


FUNCTIONS["ufunc"] = call_ufunc
