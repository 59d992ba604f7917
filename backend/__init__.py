"""Which array library holds the arrays, and the element-wise passes that every kernel shares."""

from backend.switch import (
    Array,
    array_module,
    load,
    module,
    register,
    to_device,
    to_host,
    use,
    using,
)

__all__ = [
    "Array", "array_module", "load", "module", "register", "to_device", "to_host", "use", "using",
]
