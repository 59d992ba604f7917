"""The arrays on which a function is continued: complex, with the functions of real analysis.

A `Continued` array stands for an array of real numbers x. It holds x + i y, where y is the step.
Therefore its `real` is the array itself, comparisons compare real parts, and NumPy's functions are
those of the table RULES (`rules`). An operation that would drop y raises NotAnalytic naming the
user's line.
"""

from __future__ import annotations

import functools
import math
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

COMPLEX = np.dtype(np.complex128)
LARGE = 0.5  # a larger imaginary part is not a step, but a complex number of the user's

INSTALLED = {"site-packages", "dist-packages"}  # directories of libraries: pip's, Debian's
_NUMPY = os.path.dirname(np.__file__) + os.sep
_CHECKER = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep

Rule = Callable[..., Any]
RULES: dict[Any, Rule] = {}  # a ufunc or function of NumPy -> its continued form
REPAIRS: dict[np.ufunc, Rule] = {}  # a ufunc whose complex form is NaN at infinities -> its rule
DECISIONS = frozenset({  # they depend on the real parts only, but for arrays that are equal
    np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal,
    np.logical_and, np.logical_or, np.logical_not, np.logical_xor, np.isnan, np.isfinite,
    np.isinf, np.signbit,
})


class Continued(np.ndarray):
    """A complex array that stands for a real array. A 0-d array stands for a scalar, and is not
    changed in place."""

    __hash__ = None

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None, **kwargs: Any
    ) -> Any:
        bare = [x.view(np.ndarray) if type(x) is Continued else x for x in inputs]
        if any(x is original and _is_foreign(x) for x, original in zip(bare, inputs, strict=True)):
            raise refuse("complex numbers are used")
        where = kwargs.pop("where", True) if out is not None and method == "__call__" else True
        try:
            result = _applied(ufunc, method, bare, _in_complex(kwargs) if kwargs else {})
        except TypeError as error:
            raise refuse(f"np.{ufunc.__name__}: {error}") from error
        return wrapped(result) if out is None else _written(result, out[0], where)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if func not in RULES:
            name = f"{func.__module__}.{func.__name__}".replace("numpy", "np", 1)
            raise refuse(f"{name} cannot be continued to complex numbers")
        return RULES[func](*args, **kwargs)

    # --- elements -------------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> Any:
        return wrapped(np.ndarray.__getitem__(self, key))

    def __setitem__(self, key: Any, value: Any) -> None:
        np.ndarray.__setitem__(plain(self), key, plain(value))

    def __iter__(self) -> Iterator[Any]:
        if not self.ndim:
            raise TypeError("iteration over a 0-d array")
        return (self[i] for i in range(len(self)))

    def item(self, *args: Any) -> Any:
        return wrapped(plain(self).item(*args))

    def tolist(self) -> Any:
        return [row.tolist() for row in self] if self.ndim else self

    @property
    def flat(self) -> Any:
        if not self.flags.c_contiguous:
            raise refuse(".flat of an array whose elements are not in order cannot be continued")
        return self.reshape(-1)

    # --- the real numbers it stands for -----------------------------------------------------------

    @property  # type: ignore[misc]
    def real(self) -> Any:
        return self

    @property  # type: ignore[misc]
    def imag(self) -> Any:
        raise refuse("the imaginary part is taken")

    def astype(self, dtype: Any, *args: Any, **kwargs: Any) -> Any:
        if np.dtype(dtype) in (np.float64, COMPLEX):
            return self.copy()
        if np.dtype(dtype).kind in "iub":
            return reals(self).astype(dtype)
        return constant(self, f"a cast to {np.dtype(dtype)}").astype(dtype)

    def __float__(self) -> float:
        return float(constant(self, "float()"))


def _of_reals(function: Callable[..., Any]) -> Callable[..., Any]:
    """A method whose result is not a real number. It is computed from the real parts."""
    return lambda self, *args: function(reals(self)[()], *args)


for _function in (int, bool, round, math.trunc, math.floor, math.ceil, format, repr, str):
    setattr(Continued, f"__{_function.__name__}__", _of_reals(_function))


def _in_place(name: str) -> Callable[..., Any]:
    """An operator such as +=. A scalar is replaced, as Python's numbers are."""
    in_place, replacing = getattr(np.ndarray, f"__i{name}__"), getattr(np.ndarray, f"__{name}__")
    return lambda self, operand: (in_place if self.ndim else replacing)(self, operand)


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
    setattr(Continued, f"__i{_name}__", _in_place(_name))


# --- in and out ---------------------------------------------------------------------------------


def continued(x: Any) -> Continued:
    """The array or number as a Continued array; a view of it if it is complex128."""
    return np.asarray(x, COMPLEX).view(Continued)


def wrapped(result: Any) -> Any:
    """A result whose complex arrays are Continued arrays. A scalar becomes a 0-d array."""
    if isinstance(result, (tuple, list)):
        return mapped(result, wrapped)
    if type(result) is Continued or not np.iscomplexobj(result):
        return result
    return continued(result)


def plain(x: Any) -> Any:
    """A continued array as a plain array that shares its memory, also in lists and mappings."""
    if isinstance(x, Continued):
        return x.view(np.ndarray)
    return mapped(x, plain) if isinstance(x, (tuple, list, dict)) else x


def reals(x: Any) -> Any:
    """The real parts, for decisions, also in lists and mappings."""
    return mapped(x, lambda a: a.view(np.ndarray).real if isinstance(a, Continued) else a)


def constant(x: Any, operation: str) -> Any:
    """The real parts of an array that does not depend on the step. Raises NotAnalytic if it does.
    """
    if np.imag(plain(x)).any():
        raise refuse(f"{operation} drops the imaginary part")
    return plain(x).real


def mapped(values: Any, change: Callable[[Any], Any]) -> Any:
    """Nested lists, tuples and mappings with `change` applied to their arrays."""
    if isinstance(values, (tuple, list)):
        made = [mapped(value, change) for value in values]
        return type(values)(*made) if hasattr(values, "_fields") else type(values)(made)
    if isinstance(values, dict):
        return {name: mapped(value, change) for name, value in values.items()}
    return change(values)


def _is_foreign(x: Any) -> bool:
    """Whether complex numbers are the user's, and not continued real numbers."""
    if isinstance(x, tuple):  # an index of `at` may hold slices
        return any(map(_is_foreign, x))
    return np.iscomplexobj(x) and bool((np.abs(np.imag(x)) > LARGE).any())


def _in_complex(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Arguments of a NumPy function, with a complex dtype for a floating one."""
    dtype = kwargs.get("dtype")
    is_float = dtype is not None and np.dtype(dtype).kind == "f"
    return kwargs | {"dtype": COMPLEX} if is_float else kwargs


# --- calling NumPy ------------------------------------------------------------------------------


def by_numpy(function: Any) -> Rule:
    """The rule of a function that only moves, adds and multiplies: NumPy's function itself."""

    def rule(*args: Any, **kwargs: Any) -> Any:
        try:
            result = function(*plain(args), **_in_complex(plain(kwargs)))
        except TypeError as error:
            raise refuse(f"np.{function.__name__}: {error}") from error
        return wrapped(result) if kwargs.get("out") is None else kwargs["out"]

    return rule


def decided(function: Any) -> Rule:
    """The rule of a function whose result is a decision. It depends on the real parts only."""
    return lambda *args, **kwargs: function(*reals(args), **reals(kwargs))


def _applied(ufunc: np.ufunc, method: str, inputs: list[Any], kwargs: dict[str, Any]) -> Any:
    """The result of a ufunc, or of its method: by its rule, or by NumPy if that is the
    continuation."""
    if ufunc in DECISIONS:
        return _decision(ufunc, method, inputs, kwargs)
    rule = RULES.get(ufunc) or RULES.get(ufunc.__name__)  # SciPy's by name
    if rule is None or method == "at":
        result = getattr(ufunc, method)(*inputs, **kwargs)
        if method == "__call__" and ufunc in REPAIRS and np.isnan(result).any():
            return REPAIRS[ufunc](*inputs)
        return result
    if method == "__call__":
        return rule(*map(np.asarray, inputs))
    if method != "reduce":
        raise TypeError(f"{method} is not known")
    return _reduced(rule, *inputs, **kwargs)


def _decision(ufunc: np.ufunc, method: str, inputs: list[Any], kwargs: dict[str, Any]) -> Any:
    """The result of a ufunc of DECISIONS. Where whole arrays are equal, their steps are compared,
    too: a memo asks whether this is the x of the last call."""
    real = list(map(np.real, inputs))
    is_memo = (ufunc in (np.equal, np.not_equal) and method == "__call__"
               and min(map(np.ndim, real)) > 0 and np.array_equal(*real))
    return getattr(ufunc, method)(*(inputs if is_memo else real), **kwargs)


def _reduced(rule: Rule, a: Any, *, axis: int = 0, keepdims: bool = False) -> Any:
    """The `reduce` of a ufunc along an axis, by its rule for two arguments."""
    total = functools.reduce(rule, np.moveaxis(a, axis, 0))
    return np.expand_dims(total, axis) if keepdims else total


def _written(result: Any, target: Any, where: Any) -> Any:
    """The array `target`, after the result was written into it."""
    into = plain(target)
    if np.iscomplexobj(result) and not np.iscomplexobj(into):
        result = constant(result, "an array of real numbers")
    np.copyto(into, result, where=reals(where), casting="unsafe")
    return target


# --- refusing ---------------------------------------------------------------------------------


class NotAnalytic(ValueError):
    """The function cannot be continued to complex arguments, so complex step cannot be used."""


def refuse(reason: str) -> NotAnalytic:
    """The error for an operation that cannot be continued, with its line."""
    return NotAnalytic(f"f: {reason} {_line()}")


def _line() -> str:
    """ "at FILE:LINE": the current line of the user's function."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        if is_own(frame.f_code.co_filename):
            return f"at {frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return "somewhere"


def is_own(filename: str) -> bool:
    """Whether a file belongs neither to the checker nor to an installed library."""
    return is_users(filename) and not INSTALLED & {*filename.split(os.sep)}


def is_users(filename: str) -> bool:
    """Whether a file belongs neither to NumPy nor to the checker."""
    return not (os.path.abspath(filename).startswith((_CHECKER, _NUMPY))
                or filename.startswith("<__array_function__"))
