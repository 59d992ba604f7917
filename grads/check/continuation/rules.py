"""The table of rules: NumPy's functions for x + i y, where y is tiny.

A real function f becomes f(x) + i y f'(x). If f is analytic, NumPy's complex function does exactly
that. All functions that only move, add and multiply numbers are analytic. `abs`, `norm`, `var` and
the like are different for complex numbers, or missing, and have a rule here. A function that is not
in the table raises NotAnalytic.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from grads.check.continuation.array import (
    REPAIRS,
    RULES,
    Continued,
    Rule,
    by_numpy,
    continued,
    decided,
    plain,
    reals,
    refuse,
)

# --- makers of rules ------------------------------------------------------------------------------


def joined(re: Any, im: Any) -> Any:
    """The complex array of these parts."""
    z = np.empty(np.broadcast_shapes(np.shape(re), np.shape(im)), np.complex128)
    z.real, z.imag = re, im
    return z


def dual(function: Callable[..., Any], *slopes: Callable[..., Any]) -> Rule:
    """The rule of a function, from its slope by each argument: slope(value, *arguments)."""

    def rule(*arguments: Any) -> Any:
        x = [np.real(a) for a in arguments]
        value = function(*x)
        im: Any = 0.0
        for slope, a in zip(slopes, arguments, strict=True):
            if np.iscomplexobj(a):  # no step, no slope, even if that is infinite
                im = im + np.where(a.imag == 0, 0.0, slope(value, *x) * a.imag)
        return joined(value, im)

    return rule


def level(function: Callable[..., Any]) -> Rule:
    """The rule of a function that is constant between its jumps."""
    return lambda *arguments: joined(function(*map(np.real, arguments)), 0.0)


def special(name: str, *slopes: Callable[..., Any]) -> Rule:
    """The rule of SciPy's function of this name, which is looked up at each call."""
    return dual(lambda *x: getattr(sys.modules["scipy.special"], name)(*x), *slopes)


# --- element by element ---------------------------------------------------------------------------

RULES.update({
    np.absolute: dual(np.abs, lambda v, x: np.sign(x)),
    np.fabs: dual(np.abs, lambda v, x: np.sign(x)),
    np.conjugate: np.array,
    np.sign: level(np.sign),
    np.floor: level(np.floor),
    np.ceil: level(np.ceil),
    np.trunc: level(np.trunc),
    np.remainder: dual(np.remainder, lambda v, a, b: 1.0, lambda v, a, b: -np.floor(a / b)),
    np.log1p: dual(np.log1p, lambda v, x: 1 / (1 + x)),
    np.cbrt: dual(np.cbrt, lambda v, x: 1 / (3 * v * v)),
    np.hypot: dual(np.hypot, lambda v, a, b: a / v, lambda v, a, b: b / v),
    np.arctan2: dual(np.arctan2, lambda v, a, b: b / (a * a + b * b),
                     lambda v, a, b: -a / (a * a + b * b)),
    np.logaddexp: dual(np.logaddexp, lambda v, a, b: np.exp(a - v), lambda v, a, b: np.exp(b - v)),
    "expit": special("expit", lambda v, x: v * (1 - v)),
    "log_expit": special("log_expit", lambda v, x: -np.expm1(v)),
    "gammaln": special("gammaln", lambda v, x: sys.modules["scipy.special"].psi(x)),
})  # fmt: skip

REPAIRS.update({  # NumPy's complex products are NaN where a factor is infinite
    np.multiply: dual(np.multiply, lambda v, a, b: b, lambda v, a, b: a),
    np.true_divide: dual(np.true_divide, lambda v, a, b: 1 / b, lambda v, a, b: -v / b),
})

# --- whole arrays ---------------------------------------------------------------------------------

BY_NUMPY = """
    reshape ravel transpose swapaxes moveaxis expand_dims squeeze broadcast_to broadcast_arrays
    atleast_1d atleast_2d concatenate stack hstack vstack dstack column_stack block split hsplit
    vsplit array_split tile repeat flip fliplr flipud rot90 roll take take_along_axis choose
    compress diag diagonal diagflat tril triu trace sum nansum cumsum prod cumprod mean nanmean
    average median dot inner outer tensordot kron einsum cross convolve diff gradient trapezoid pad
    insert delete append where select copy copyto put put_along_axis place putmask fill_diagonal max
    min amax amin nanmax nanmin ptp clip nan_to_num polyval meshgrid sinc shape ndim size
    array_equal result_type
""".split()
LINALG = "inv solve det matrix_power multi_dot".split()
DECIDED = """
    argmax argmin argsort argpartition lexsort nonzero flatnonzero argwhere count_nonzero any all
    searchsorted digitize isclose allclose iscomplexobj isrealobj
""".split()
LIKE = ("zeros_like", "ones_like", "empty_like", "full_like")


def created(function: Any) -> Rule:
    """The rule of np.zeros and the like: a floating array becomes an array that can hold steps."""

    def rule(*args: Any, **kwargs: Any) -> Any:
        array = function(*plain(args), **plain(kwargs))
        return continued(array) if array.dtype.kind in "fc" else array

    return rule


def variance(
    a: Any, axis: Any = None, dtype: Any = None, out: None = None, ddof: float = 0,
    keepdims: Any = False, *, where: Any = True,
) -> Any:
    """np.var: the mean of squares, not of squared magnitudes."""
    centre = np.mean(a, axis, keepdims=True, where=where)
    squares = np.sum(np.square(a - centre), axis, keepdims=bool(keepdims), where=where)
    count = np.sum(np.broadcast_to(where, np.shape(a)), axis, keepdims=bool(keepdims))
    return squares / np.maximum(count - ddof, 0)


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """np.linalg.norm: of vectors, and the Frobenius norm of matrices."""
    of_vectors = np.ndim(axis) == 0 and (axis is not None or np.ndim(x) == 1)
    if ord in (None, "fro") or (of_vectors and ord == 2):
        return np.sqrt(np.sum(x * x, axis, keepdims=keepdims))
    if not of_vectors or ord in (0, -np.inf):
        raise refuse(f"np.linalg.norm of order {ord} cannot be continued")
    if ord == np.inf:
        return np.max(np.abs(x), axis, keepdims=keepdims)
    return np.sum(np.abs(x) ** ord, axis, keepdims=keepdims) ** (1 / ord)


def ordered(a: Any, axis: int | None = -1, **kwargs: Any) -> Any:
    """np.sort and np.partition: elements in the order of their real parts."""
    a, axis = (a.reshape(-1), -1) if axis is None else (a, axis)
    return np.take_along_axis(a, np.argsort(a, axis, "stable"), axis)


RULES.update({getattr(np, n): by_numpy(getattr(np, n)) for n in BY_NUMPY if hasattr(np, n)})
RULES.update({getattr(np.linalg, n): by_numpy(getattr(np.linalg, n)) for n in LINALG})
RULES.update({getattr(np, n): decided(getattr(np, n)) for n in DECIDED})
RULES.update({getattr(np, n): created(getattr(np, n)) for n in LIKE})
RULES.update({
    np.lib.stride_tricks.sliding_window_view: by_numpy(np.lib.stride_tricks.sliding_window_view),
    np.apply_along_axis: np.apply_along_axis._implementation,  # type: ignore[attr-defined]
    np.piecewise: np.piecewise._implementation,  # type: ignore[attr-defined]
    np.var: variance,
    np.std: lambda *args, **kwargs: np.sqrt(variance(*args, **kwargs)),
    np.linalg.norm: norm,
    np.sort: ordered,
    np.partition: lambda a, kth, axis=-1: ordered(a, axis),
    np.vdot: lambda a, b: np.dot(np.ravel(a), np.ravel(b)),
    np.correlate: lambda a, v, mode="valid": np.convolve(a, v[::-1], mode),
    np.round: lambda a, decimals=0: continued(np.round(reals(a), decimals)),
    np.real: lambda val: val.real,
})  # fmt: skip

# --- methods --------------------------------------------------------------------------------------


def _method_of(function: Any) -> Rule:
    """A function as a method. Python binds only functions to an object, no other callables."""
    return lambda self, *args, **kwargs: function(self, *args, **kwargs)


def _sort_in_place(a: Any, axis: int = -1, **kwargs: Any) -> None:
    a[...] = ordered(a, axis)


ARRAY_METHODS = {name: RULES[getattr(np, name)] for name in (
    "var std round argmax argmin argsort argpartition nonzero searchsorted dot trace".split())}
ARRAY_METHODS |= {"sort": _sort_in_place, "conj": Continued.copy, "conjugate": Continued.copy}
for _name, _function in ARRAY_METHODS.items():
    setattr(Continued, _name, _method_of(_function))
