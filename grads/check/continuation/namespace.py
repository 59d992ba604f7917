"""Replaces `np` and `math` in the user's module while it runs on continued arrays.

A plain `np.zeros(n)` cannot hold imaginary parts, and no array class can intercept writing into it.
Therefore names of NumPy and `math` in the globals of the user's functions are replaced during a
run: floating arrays are created as complex arrays, and `math.exp` accepts continued numbers.
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
from inspect import isfunction, ismodule
from typing import Any

import numpy as np

import backend
from grads.check.continuation.array import INSTALLED, Continued, continued, plain, wrapped
from grads.check.continuation.rules import LIKE, Rule, created, dual

Namespace = dict[str, Any]
Replacements = dict[int, tuple[Any, Any]]  # id of an object -> the object, and its replacement
OURS = frozenset({"attention", "backend", "grads", "lstm", "nmt"})  # made for complex steps
EMPTY = types.CellType()  # of a variable that is not yet assigned
_LIBRARIES = tuple(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib"))

# --- NumPy: arrays that are created -------------------------------------------------------------


def _array(function: Any) -> Rule:
    """np.array and np.asarray. Continued numbers, also in lists, make a continued array. So do
    constants in lists, because continued numbers may be written into the array later."""

    @functools.wraps(function)
    def make(a: Any, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
        made = function(plain(a), None, *args, **kwargs)
        if made.dtype.kind == "c":
            return wrapped(made) if dtype is None else wrapped(made).astype(dtype)
        made = function(made, dtype)
        return made if isinstance(a, np.ndarray) or made.dtype.kind != "f" else _create(made)

    return make


_create = created(np.asarray)


def _vectorized(function: Any, *args: Any, **kwargs: Any) -> Rule:
    """np.vectorize of a function with one result."""

    def run(*arrays: Any) -> Any:
        arguments = np.broadcast_arrays(*map(np.asanyarray, arrays))
        shape = arguments[0].shape
        values = [function(*(a[k] for a in arguments)) for k in np.ndindex(shape)]
        return wrapped(np.array(plain(values))).reshape(shape)

    return run


NUMPY: dict[str, Any] = {
    **{name: created(getattr(np, name)) for name in (
        "zeros", "ones", "empty", "full", "eye", "identity", *LIKE)},
    **{name: _array(getattr(np, name)) for name in (
        "array", "asarray", "asanyarray", "ascontiguousarray")},
    "ndenumerate": lambda a: ((k, a[k]) for k in np.ndindex(np.shape(a))),
    "vectorize": _vectorized,
}

# --- math: scalars --------------------------------------------------------------------------------


def _scalar(name: str) -> Rule:
    """A function of `math` that also accepts continued numbers."""
    real, ufunc = getattr(math, name), UFUNCS.get(name) or getattr(np, name)

    @functools.wraps(real)
    def run(*args: Any) -> Any:
        return (ufunc if any(isinstance(a, Continued) for a in args) else real)(*args)

    return run


_erf = dual(np.vectorize(math.erf, [float]),
            lambda v, x: 2 / math.sqrt(math.pi) * np.exp(-x * x))
UFUNCS: dict[str, Rule] = {
    "fabs": np.absolute, "fsum": sum, "erf": lambda x: wrapped(_erf(plain(x))),
    "log": lambda x, *base: np.log(x) / np.log(base[0]) if base else np.log(x),
}
MATH = {name: _scalar(name) for name in """
    exp expm1 log log1p log2 log10 sqrt cbrt sin cos tan asin acos atan atan2 sinh cosh tanh asinh
    acosh atanh pow fabs hypot exp2 isnan isinf isfinite copysign fsum erf
""".split() if hasattr(math, name)}

# --- replacing them -------------------------------------------------------------------------------


@functools.cache
def _replacements() -> Replacements:
    """id of an object to which a user's name may refer -> the object, and its replacement."""
    modules: list[tuple[Any, dict[str, Any]]] = [(np, NUMPY), (math, MATH)]
    known: Replacements = {}
    for module, functions in modules:
        known |= {id(old): (old, new) for name, new in functions.items()
                  for old in [getattr(module, name)]}
        copy = types.ModuleType(module.__name__)
        vars(copy).update({name: known.get(id(value), (value, value))[1]
                           for name, value in vars(module).items()})
        known[id(module)] = (module, copy)
    return known


@contextmanager
def replaced(namespaces: list[Namespace], others: Replacements | None = None) -> Iterator[None]:
    """Context: replace the objects in `others` in these namespaces; by default NumPy, `math` and
    vectorized functions."""
    if others is None:
        others = _replacements() | {
            id(f): (f, _vectorized(f.pyfunc)) for space in namespaces
            for f in space.values() if isinstance(f, np.vectorize)}
    before = [(space, name, value) for space in namespaces for name, value in space.items()
              if id(value) in others]
    try:
        for space, name, value in before:
            space[name] = others[id(value)][1]
        yield
    finally:
        for space, name, value in before:
            space[name] = value


# --- the user's modules ---------------------------------------------------------------------------


def namespaces_of(function: Any) -> list[Namespace] | None:
    """The globals of a user's function, and of the user's functions that it may call. None if all
    functions are this project's, which are made for complex steps."""
    spaces: dict[int, Namespace] = {}
    seen: dict[int, Any] = {}
    is_ours, queue = False, [function]
    while queue:
        x = queue.pop()
        if id(x) in seen:
            continue
        seen[id(x)] = x
        space = vars(x) if ismodule(x) else x.__globals__ if isfunction(x) else None
        held = [] if ismodule(x) else _held(x)
        if isinstance(space, dict) and id(space) not in spaces:
            name = str(space.get("__name__", ""))
            if is_users_module(name):
                spaces[id(space)] = space
                held += space.values()
            is_ours |= name.partition(".")[0] in OURS and not name.startswith("grads.check")
        queue += [y for y in held if callable(y) or hasattr(y, "__dict__")]
    return None if is_ours and not spaces else list(spaces.values())


def _held(x: Any) -> list[Any]:
    """The objects inside an object, which may hold functions of the user's."""
    if isinstance(x, types.MethodType):
        return [x.__func__, type(x.__self__), x.__self__]
    if isinstance(x, types.FunctionType):
        cells = [cell.cell_contents for cell in x.__closure__ or () if cell != EMPTY]
        return [*cells, getattr(x, "__wrapped__", None), *(x.__defaults__ or ())]
    if isinstance(x, functools.partial):
        return [x.func, *x.args, *x.keywords.values()]
    if isinstance(x, type):
        return [*x.__bases__, *(f for f in vars(x).values() if isinstance(f, types.FunctionType))]
    return [type(x), *getattr(x, "__dict__", {}).values()]


def is_users_module(name: str) -> bool:
    """Whether a module belongs neither to a library nor to this project."""
    top = name.partition(".")[0]
    file = getattr(sys.modules.get(top), "__file__", None) or ""
    installed = file.startswith(_LIBRARIES) or INSTALLED & set(file.split(os.sep))
    return top not in OURS | sys.stdlib_module_names and not installed


# --- a run --------------------------------------------------------------------------------------

backend.register(Continued, np)


def continue_run(
    f: Callable[[dict[str, Any]], Mapping[str, Any]], arguments: Mapping[str, Any],
    namespaces: list[Namespace],
) -> dict[str, Any]:
    """The outputs of f for complex arguments.

    Arguments: f, inputs by name -> outputs by name; arguments, some of them complex; namespaces of
    the user's modules. Raises NotAnalytic if f cannot be continued.
    """
    stepped = {name: continued(a) if np.iscomplexobj(a) else a for name, a in arguments.items()}
    with replaced(namespaces):
        outputs = f(stepped)
    return {name: np.array(plain(out)) for name, out in outputs.items()}
