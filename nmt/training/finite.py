"""Finding what is not finite: the loss, the parameters or the gradients."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from backend import Array, array_module, to_host
from backend.rows import RowGradient


def is_finite(array: Array) -> bool:
    """Whether all values are finite. Synchronises on a device."""
    values = array.values if isinstance(array, RowGradient) else array
    if not hasattr(values, "shape"):
        return math.isfinite(values)
    xp = np if np.isscalar(values) else array_module(values)
    return bool(to_host(xp.isfinite(values).all()))


def first_non_finite(parameters: Mapping[str, Array], gradients: Mapping[str, Any]) -> str:
    """The first parameter that is not finite; if all are, the first gradient."""
    for name, parameter in parameters.items():
        if not is_finite(parameter):
            return f"parameter {name!r}"
    for name, gradient in gradients.items():
        if not is_finite(gradient):
            return f"the gradient of {name!r}"
    return "the loss, or the norm of a gradient too large for its number format,"
