"""The array library in use (NumPy or CuPy), transfers, recycled buffers, rows of tables."""

from backend.device import load, use, using
from backend.switch import (
    Array,
    array_module,
    module,
    on_host,
    register,
    to_device,
    to_host,
)

__all__ = [
    "Array", "array_module", "load", "module", "on_host", "register", "to_device",
    "to_host", "use", "using",
]
