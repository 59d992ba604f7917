"""The choice of the array library: NumPy on the CPU, CuPy on the GPU.

`backend.device.use` decides where parameters and batches are made. A kernel never reads that
choice: it finds the module from the arrays it is given (`array_module`), so one implementation
serves both. All transfers between host and device happen in `to_host` and `to_device`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import FrameType
from typing import Any

import numpy as np

Array = Any  # numpy.ndarray, cupy.ndarray, or the tests' strict stand-in

_modules: dict[type, Any] = {np.ndarray: np}
_current: Any = np


def register(array_type: type, module: Any) -> None:
    """Teach `array_module` that arrays of `array_type` belong to `module`.

    The module needs `asarray` (host to device) and, unless it is NumPy, `asnumpy` (back).
    """
    _modules[array_type] = module


def select(module: Any) -> None:
    """Make new parameters and batches on a registered module: see `backend.device.use`."""
    global _current
    _current = module


def registered(array_type: type) -> Any:
    """The module of arrays of this type, or None."""
    return _modules.get(array_type)


def module() -> Any:
    """The array module in use."""
    return _current


def array_module(*arrays: Array) -> Any:
    """The module (NumPy or CuPy) of `arrays`; None entries are skipped.

    Raises TypeError when an array is of an unregistered type or two arrays are on different
    backends: a kernel must never guess, nor transfer silently. The message names the arrays as the
    calling function does.
    """
    module = None
    for array in arrays:
        owner = _modules.get(type(array))
        if owner is None or owner is not (module or owner):
            return _module_of_some(sys._getframe(1), arrays)
        module = owner
    return module or _module_of_some(sys._getframe(1), arrays)


def _module_of_some(frame: FrameType, arrays: tuple[Array, ...]) -> Any:
    """As `array_module`, called by `frame`, if entries are None or the arrays are of no one module.
    """
    present = [array for array in arrays if array is not None]
    if not present:
        raise TypeError("array_module: expected at least one array, got none")
    name_mixture(*_as_called(frame, arrays))
    return _modules[type(present[0])]


def name_mixture(function: str, arguments: Mapping[str, Any]) -> None:
    """Raise TypeError naming the first argument that is no array, or is on another backend.

    Arguments: function, its name for the message; arguments, name -> value, where None entries are
    skipped. Returns None if nothing is wrong.
    """
    first, home = "", None
    for name, value in arguments.items():
        if value is None:
            continue
        owner = _modules.get(type(value))
        if owner is None:
            raise TypeError(f"{function}: {name}: expected an array of a known backend, "
                            f"got {type(value).__name__}")
        if home is None:
            first, home = name, owner
        elif owner is not home:
            raise TypeError(f"{function}: arrays of two backends: {first} is of {home.__name__} "
                            f"and {name} of {owner.__name__}")


def is_array(value: Any) -> bool:
    """Whether `value` is an array of a known backend."""
    return type(value) in _modules


def _as_called(frame: FrameType, arrays: tuple[Any, ...]) -> tuple[str, dict[str, Any]]:
    """The calling function, and `arrays` by the names of its variables."""
    by_name: dict[str, Any] = {}
    for place, array in enumerate(arrays, 1):
        names = [name for name, value in frame.f_locals.items() if value is array]
        by_name[names[0] if names else f"array {place}"] = array
    return frame.f_code.co_name, by_name


def on_host(xp: Any) -> bool:
    """Whether a module computes on the CPU. For choices of speed only (blocks that fit a cache)."""
    return xp is np


def to_host(array: Array) -> np.ndarray:
    """The array's values as a NumPy array (a transfer and a synchronisation on CuPy)."""
    owner = _modules.get(type(array))
    if owner is None or owner is np:  # Python and NumPy scalars are on the host already
        return np.asarray(array)
    return owner.asnumpy(array)


def to_device(array: np.ndarray) -> Array:
    """A host array moved to the module in use; NumPy returns it as it is."""
    return array if _current is np else _current.asarray(array)
