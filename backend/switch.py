"""Which array library holds the arrays: NumPy on the CPU, CuPy on the GPU.

`use` decides where parameters and batches are made. A kernel never asks for that: it finds the
module from the arrays it is given (`array_module`), so one source of mathematics serves both.
All transfers between host and device happen in `to_host` and `to_device`.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from backend.errors import UserError

Array = Any  # numpy.ndarray, cupy.ndarray, or the tests' strict stand-in

_modules: dict[type, Any] = {np.ndarray: np}
_current: Any = np


def register(array_type: type, module: Any) -> None:
    """Teach `array_module` that arrays of `array_type` belong to `module`.

    The module needs `asarray` (host to device) and, unless it is NumPy, `asnumpy` (back).
    """
    _modules[array_type] = module


def load(name: str) -> Any:
    """Return the array module called `name`: "numpy" or "cupy" (imported only when asked for).

    Raises UserError when the name is unknown, CuPy is not installed, or no GPU answers.
    """
    if name == "numpy":
        return np
    if name != "cupy":
        raise UserError(f"backend: expected 'numpy' or 'cupy', got {name!r}")
    try:
        cupy = importlib.import_module("cupy")
    except ImportError as error:
        raise UserError(
            "backend: 'cupy' is not installed; pip install cupy-cuda12x or cupy-cuda13x"
        ) from error
    if not cupy.is_available():
        raise UserError("backend: 'cupy' is installed but finds no usable GPU")
    register(cupy.ndarray, cupy)
    return cupy


def use(name_or_module: Any) -> None:
    """Make "numpy" or "cupy" (or a registered module) the home of new parameters and batches."""
    global _current
    _current = load(name_or_module) if isinstance(name_or_module, str) else name_or_module


@contextmanager
def using(name_or_module: Any) -> Iterator[None]:
    """`use` for the length of a with-block."""
    before = _current
    use(name_or_module)
    try:
        yield
    finally:
        use(before)


def module() -> Any:
    """The array module in use."""
    return _current


def array_module(*arrays: Array) -> Any:
    """The module that owns `arrays`; None entries are passed over.

    Raises TypeError when an array is of an unregistered type or two arrays live in different
    places: a kernel must never guess, nor transfer in silence.
    """
    found = None
    for array in arrays:
        if array is None:
            continue
        owner = _modules.get(type(array))
        if owner is None:
            raise TypeError(f"expected an array of a known backend, got {type(array).__name__}")
        if found is not None and owner is not found:
            raise TypeError(f"arrays of two backends: {found.__name__} and {owner.__name__}")
        found = owner
    if found is None:
        raise TypeError("array_module: expected at least one array, got none")
    return found


def on_host(xp: Any) -> bool:
    """Whether a module computes on the CPU: for choices of speed (blocks that fit a cache) only."""
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
