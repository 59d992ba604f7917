"""Replacing `np`, `math` and SciPy in the user's module while it runs on continued arrays.

A plain `np.zeros(n)` cannot hold imaginary parts, and no array class can intercept writing into it.
So names of NumPy, `math` and SciPy in the globals of the user's functions are replaced during a
run: floating arrays are created as complex ones, `math.exp` accepts continued numbers.
"""

from __future__ import annotations

import functools
import math
import os
import sys
import sysconfig
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from grads.check.continuation.array import Continued, Dropped, continued, plain, wrapped
from grads.check.continuation.state import OURS, create, differ

Namespace = dict[str, Any]
Replacements = dict[int, tuple[Any, Any]]  # id of an object -> the object, and its replacement
CREATING = ("zeros", "ones", "empty", "full", "eye", "identity", "zeros_like", "ones_like",
            "empty_like", "full_like", "linspace", "tri")
INSTALLED = {"site-packages", "dist-packages"}  # of this environment, of the user's, of the system
_LIBRARIES = tuple(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib"))


class Proxy(types.ModuleType):
    """A module with some of its functions replaced."""

    def __init__(self, module: types.ModuleType, others: Mapping[str, Any]) -> None:
        super().__init__(module.__name__, module.__doc__)
        self.__dict__.update(others)
        self.__dict__["_module"] = module

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_module"], name)


# --- what is replaced -----------------------------------------------------------------------------


def _created(function: Any) -> Callable[..., Any]:
    """np.zeros and the like."""

    @functools.wraps(function)
    def make(*args: Any, **kwargs: Any) -> Any:
        found = function(*args, **kwargs)
        if isinstance(found, tuple) or found.dtype.kind != "f":
            return found
        create()
        return continued(found)

    return make


def _array(function: Any) -> Callable[..., Any]:
    """np.array and np.asarray: a continued array for continued numbers, also in lists.

    A request for float64 is ignored: it is the dtype of the numbers without continuation.
    """

    @functools.wraps(function)
    def make(a: Any, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
        if isinstance(a, Dropped):
            return np.array(a, subok=True)
        bare = plain(a) if isinstance(a, (list, tuple, Continued)) else a
        if dtype is None or np.dtype(dtype) == np.float64:
            found = function(bare, *args, **kwargs)
            if dtype is not None and found.dtype.kind == "c":
                differ()
            elif dtype is not None:
                found = function(found, dtype)
        elif np.iscomplexobj(bare):
            return wrapped(function(bare, *args, **kwargs)).astype(dtype)
        else:
            found = function(bare, dtype, *args, **kwargs)
        if found.dtype.kind == "f" and not isinstance(a, np.ndarray):
            create()
            return continued(found)
        return wrapped(found)

    return make


def _enumerated(arr: Any) -> Iterator[tuple[tuple[int, ...], Any]]:
    """np.ndenumerate."""
    a = arr if isinstance(arr, np.ndarray) else np.asarray(arr)
    return ((index, a[index]) for index in np.ndindex(a.shape))


def _vectorized(function: Any, *args: Any, **kwargs: Any) -> Callable[..., Any]:
    """np.vectorize of a function of one result."""

    def run(*arrays: Any) -> Any:
        parts = np.broadcast_arrays(*(np.asanyarray(a) for a in arrays))
        values = [function(*(part[index] for part in parts)) for index in np.ndindex(
            parts[0].shape)]
        differ()
        return wrapped(np.array(plain(values))).reshape(parts[0].shape)

    return run


def _strided(x: Any, *args: Any, **kwargs: Any) -> Any:
    """np.lib.stride_tricks.as_strided, which returns a plain array."""
    return wrapped(np.lib.stride_tricks.as_strided(plain(x), *args, **kwargs))


def _scalar(name: str) -> Callable[..., Any]:
    """A function of `math` that also accepts continued numbers."""
    own, ufunc = getattr(math, name), getattr(np, {"pow": "power", "fabs": "absolute"}.get(
        name, name), None)

    @functools.wraps(own)
    def run(*args: Any) -> Any:
        if ufunc is None or not any(isinstance(a, Continued) for a in args):
            return own(*args)
        differ()
        return ufunc(*args)

    return run


MATH = ("exp", "expm1", "log", "log1p", "log2", "log10", "sqrt", "cbrt", "sin", "cos", "tan",
        "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "pow",
        "fabs", "hypot", "exp2", "isnan", "isinf", "isfinite", "copysign", "fmod")


def _log(x: Any, *base: Any) -> Any:
    """math.log with its base."""
    if not any(isinstance(a, Continued) for a in (x, *base)):
        return math.log(x, *base)
    differ()
    return np.log(x) / np.log(base[0]) if base else np.log(x)


def _sum(values: Any) -> Any:
    """math.fsum."""
    values = list(values)
    return sum(values) if any(isinstance(v, Continued) for v in values) else math.fsum(values)


def _logsumexp(a: Any, axis: Any = None, b: Any = None, keepdims: bool = False,
               return_sign: bool = False) -> Any:
    """scipy.special.logsumexp, of positive sums."""
    if return_sign or not isinstance(a, Continued):
        return _special("logsumexp")(a, axis=axis, b=b, keepdims=keepdims, return_sign=return_sign)
    top = np.max(a, axis=axis, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    terms = np.exp(a - top) if b is None else b * np.exp(a - top)
    found = np.log(np.sum(terms, axis=axis, keepdims=keepdims))
    differ()
    return found + (top if keepdims else np.squeeze(top, axis=axis))


def _softmax(x: Any, axis: Any = None) -> Any:
    """scipy.special.softmax."""
    return np.exp(_log_softmax(x, axis)) if isinstance(x, Continued) else (
        _special("softmax")(x, axis=axis))


def _log_softmax(x: Any, axis: Any = None) -> Any:
    """scipy.special.log_softmax."""
    if not isinstance(x, Continued):
        return _special("log_softmax")(x, axis=axis)
    return x - _logsumexp(x, axis, keepdims=True)


def _special(name: str) -> Any:
    return getattr(sys.modules["scipy.special"], name)


@functools.cache
def _replacements(scipy_is_there: bool) -> Replacements:
    """The replacements: id of an object that a user's name may refer to -> that object, and the new
    one."""
    arrays = {name: _array(getattr(np, name)) for name in (
        "array", "asarray", "asanyarray", "ascontiguousarray", "asfortranarray")}
    arrays |= {name: _created(getattr(np, name)) for name in CREATING}
    arrays |= {"ndenumerate": _enumerated, "vectorize": _vectorized}
    numbers = {name: _scalar(name) for name in MATH} | {"log": _log, "fsum": _sum}
    pairs: list[tuple[Any, Any]] = [(getattr(np, name), other) for name, other in arrays.items()]
    pairs += [(getattr(math, name), other) for name, other in numbers.items()]
    lib = Proxy(np.lib, {"stride_tricks": Proxy(np.lib.stride_tricks, {"as_strided": _strided})})
    pairs += [(np.lib.stride_tricks.as_strided, _strided), (np.lib, lib),
              (np.lib.stride_tricks, lib.stride_tricks)]
    pairs += [(np, Proxy(np, arrays | {"lib": lib})), (math, Proxy(math, numbers))]
    if scipy_is_there:
        scipy, special = sys.modules["scipy"], sys.modules["scipy.special"]
        own = {"logsumexp": _logsumexp, "softmax": _softmax, "log_softmax": _log_softmax}
        pairs += [(getattr(special, name), other) for name, other in own.items()]
        pairs += [(special, Proxy(special, own)), (scipy, Proxy(scipy, {
            "special": Proxy(special, own)}))]
    return by_identity(pairs)


def by_identity(pairs: list[tuple[Any, Any]]) -> Replacements:
    """The replacements that `replaced` takes."""
    return {id(old): (old, new) for old, new in pairs}


@contextmanager
def replaced(namespaces: list[Namespace], others: Replacements | None = None) -> Iterator[None]:
    """Context: replace NumPy, `math` and SciPy in these namespaces, or the objects in `others`."""
    if others is None:
        others = _replacements("scipy.special" in sys.modules) if namespaces else {}
    before = [(space, name, value) for space in namespaces for name, value in space.items()
              if id(value) in others and others[id(value)][0] is value]
    try:
        for space, name, value in before:
            space[name] = others[id(value)][1]
        yield
    finally:
        for space, name, value in before:
            space[name] = value


# --- namespaces
# ----------------------------------------------------------------------------------------


def namespaces_of(function: Any) -> list[Namespace]:
    """The globals of a user's function, and of what it may call of the user's."""
    found: dict[int, Namespace] = {}
    seen: set[int] = set()
    rest = [function]
    while rest:
        one = rest.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        rest += _inside(one, found)
    return list(found.values())


def _inside(one: Any, found: dict[int, Namespace]) -> list[Any]:
    """The objects that a function, class, module or object refers to; its namespace is added to
    `found`."""
    if isinstance(one, types.MethodType):
        return [one.__func__, one.__self__]
    if isinstance(one, functools.partial):
        return [one.func, *filter(callable, (*one.args, *one.keywords.values()))]
    if isinstance(one, types.FunctionType):
        cells = [_content(cell) for cell in one.__closure__ or ()]
        more = [getattr(one, "__wrapped__", None), *(one.__defaults__ or ())]
        return [x for x in (*cells, *more) if _leads_on(x)] + _space(one.__globals__, found)
    if isinstance(one, types.ModuleType):
        return _space(vars(one), found)
    if isinstance(one, type):
        module = sys.modules.get(one.__module__)
        return _space(vars(module), found) if module else []
    return [type(one), *(x for x in getattr(one, "__dict__", {}).values() if _leads_on(x))]


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not yet assigned
        return None


def _leads_on(x: Any) -> bool:
    """Whether an object may hold functions of the user's."""
    return callable(x) or isinstance(x, types.ModuleType)


def _space(space: Namespace, found: dict[int, Namespace]) -> list[Any]:
    """The functions, classes and modules of a user's namespace, once."""
    if id(space) in found or not _is_users(space):
        return []
    found[id(space)] = space
    return [x for x in list(space.values())
            if isinstance(x, (types.FunctionType, type, types.ModuleType))]


def _is_users(space: Namespace) -> bool:
    """Whether a module's globals are neither a library's nor this project's."""
    name, file = str(space.get("__name__", "")), space.get("__file__")
    top = name.partition(".")[0]
    if top in OURS or top in sys.stdlib_module_names - {"__main__"} or name == "builtins":
        return False
    return file is None or not is_library(str(file))


@functools.cache
def is_library(file: str) -> bool:
    """Whether a file is Python's or an installed package's, in whichever environment."""
    return file.startswith(_LIBRARIES) or bool(INSTALLED & set(file.split(os.sep)))
