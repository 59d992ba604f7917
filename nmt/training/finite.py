"""Finding values that are not finite: the loss, a parameter or a gradient."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from backend import Array, array_module, to_host
from backend.errors import UserError
from backend.rows import RowGradient

LARGE = 1e6  # trained parameters are smaller, and products of a few smaller ones do not overflow


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


@contextmanager
def naming_overflow(parameters: Mapping[str, Array]) -> Iterator[None]:
    """Context of passes through a model. If they overflow because of a large parameter, raises
    UserError that names the largest one, instead of NumPy's warnings.

    The overflow flag alone is no error, since some BLAS set it without a cause. If overflow is
    ignored already, as in training, this does nothing.
    """
    if np.geterr()["over"] == "ignore":
        yield
        return
    seen: list[str] = []
    try:
        with np.errstate(over="call", invalid="call", call=lambda kind, _: seen.append(kind)):
            yield
    except FloatingPointError:  # raised by a search
        _check_sizes(parameters)
        raise
    if seen:
        _check_sizes(parameters)


def _check_sizes(parameters: Mapping[str, Array]) -> None:
    """Raise UserError with the name of the largest parameter, if it is too large."""
    sizes = {name: float(to_host(abs(parameter).max()))
             for name, parameter in parameters.items() if parameter.size}
    name = max(sizes, key=sizes.__getitem__)
    if sizes[name] > LARGE:
        raise UserError(f"parameter {name!r}: expected numbers that do not overflow in the model, "
                        f"found up to {sizes[name]:.3g}")
