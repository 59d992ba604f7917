"""Deep copies of objects together with the functions that were made in them.

`copy.deepcopy` takes a function as it is. So a function that a forward makes, as micrograd's
`_backward`, would keep writing into the original of the layer. Here such functions are copied with
the variables that they use. A view of an array that has been copied is made a view of the copy.
What cannot be copied, such as a lock or an open file, is shared.
"""

from __future__ import annotations

import copyreg
import sys
from types import BuiltinFunctionType, CellType, FunctionType, MethodType, ModuleType, NoneType
from typing import Any

import numpy as np

from grads.check.continuation.namespace import EMPTY, is_users_module

SHARED = frozenset({NoneType, bool, int, float, complex, str, bytes, BuiltinFunctionType})
DEPTH = 50_000  # nested calls; a tape of a thousand nodes needs fifteen thousand


def deep_copy(original: Any, memo: dict[int, Any]) -> Any:
    """A deep copy. Argument memo: copies that exist, by the id() of their originals; it is
    extended."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, DEPTH))
    try:
        return _copied(original, memo)
    finally:
        sys.setrecursionlimit(limit)


def _copied(x: Any, memo: dict[int, Any]) -> Any:
    """The copy of an object, which is made unless it exists."""
    if type(x) in SHARED or isinstance(x, (type, ModuleType)):
        return x
    if id(x) in memo:
        return memo[id(x)]
    memo.setdefault(id(memo), []).append(x)  # while it lives, nothing else has its id()
    made: Any
    copier = getattr(type(x), "__deepcopy__", None)
    if type(x) is np.ndarray and id(x.base) in memo:
        made = _view(x, memo[id(x.base)])
    elif copier is not None:
        made = copier(x, memo)
    elif isinstance(x, FunctionType):
        made = _of_function(x, memo)
    elif isinstance(x, MethodType):
        made = MethodType(x.__func__, _copied(x.__self__, memo))
    elif type(x) is tuple:
        made = tuple([_copied(inner, memo) for inner in x])
    else:
        made = _of_object(x, memo)
    return memo.setdefault(id(x), made)


def _view(x: np.ndarray, base: np.ndarray) -> np.ndarray:
    """The view of a copy that x is of the original; a plain copy if the copy is laid out
    differently."""
    old: Any = x.base
    size = base.itemsize
    scaled = [[s // old.itemsize * size for s in strides] for strides in (x.strides, old.strides)]
    if x.dtype != old.dtype or scaled[1] != [*base.strides]:
        return x.copy()
    first = (x.ctypes.data - old.ctypes.data) // old.itemsize * size
    buffer = base if base.flags.c_contiguous else base.T
    return np.ndarray.__new__(type(base), x.shape, base.dtype, buffer, first, scaled[0])


def _of_function(x: FunctionType, memo: dict[int, Any]) -> FunctionType:
    """The copy of a function that a function of the user's or the checker's made; another function
    as it is."""
    module = str(x.__module__)
    if "<locals>" not in x.__code__.co_qualname or not (
            is_users_module(module) or module.startswith("grads.check")):
        return x
    cells = [cell for cell in x.__closure__ or () if id(cell) not in memo]
    memo.update((id(cell), CellType()) for cell in cells)
    closure = tuple(memo[id(cell)] for cell in x.__closure__ or ())
    made = memo[id(x)] = FunctionType(x.__code__, x.__globals__, x.__name__, None, closure)
    for cell in cells:
        if cell != EMPTY:
            memo[id(cell)].cell_contents = _copied(cell.cell_contents, memo)
    made.__defaults__ = _copied(x.__defaults__, memo)
    made.__kwdefaults__ = _copied(x.__kwdefaults__, memo)
    vars(made).update(_copied(vars(x), memo))
    return made


def _of_object(x: Any, memo: dict[int, Any]) -> Any:
    """The copy of a list, a mapping or another object, by the protocol of `pickle`; the object
    itself if it cannot be copied."""
    try:
        reduced = copyreg.dispatch_table.get(type(x), lambda x: x.__reduce_ex__(4))(x)
    except Exception:
        return x
    if isinstance(reduced, str):  # the name of a global object
        return x
    make, arguments, state, items, pairs = (*reduced, None, None, None)[:5]
    made = memo[id(x)] = make(*[_copied(argument, memo) for argument in arguments])
    if state is not None:
        _set_state(made, _copied(state, memo))
    for item in items or ():
        made.append(_copied(item, memo))
    for key, value in pairs or ():
        made[_copied(key, memo)] = _copied(value, memo)
    return made


def _set_state(made: Any, state: Any) -> None:
    """Give a new object its attributes."""
    if hasattr(type(made), "__setstate__"):
        made.__setstate__(state)
        return
    attributes, slots = state if isinstance(state, tuple) else (state, {})
    if attributes:
        vars(made).update(attributes)
    for name, value in (slots or {}).items():
        object.__setattr__(made, name, value)
