"""The error of reduced precision: one batch's loss and gradients compared with float32's."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from backend import Array, array_module, gemm, to_host
from backend.rows import RowGradient


class PrecisionCost(NamedTuple):
    """Relative differences from the step in float32, by norms: |g - g32| / |g32|."""

    precision: str
    loss: float
    gradients: float  # of all parameters together
    largest: float  # the largest difference of one parameter
    name: str  # the parameter with the largest difference

    def __str__(self) -> str:
        return (f"matrix products in {self.precision}: against float32, on the first batch, the "
                f"loss is off by {self.loss:.1e}, the gradient by {self.gradients:.1e}, at most "
                f"{self.largest:.1e} ({self.name})")


def precision_cost(model: Any, parameters: dict[str, Array], batch: Any) -> PrecisionCost:
    """Compare a batch's loss and gradients in the precision in use with those in float32.

    model: a Trainable, run without dropout. Only a few numbers for each parameter are fetched from
    the device. The parameters are not changed.
    """
    loss, gradients = _step(model, parameters, batch)
    with gemm.using("float32"):
        loss_32, gradients_32 = _step(model, parameters, batch)
    squares = {name: (_square(gradients[name] - gradients_32[name]), _square(gradients_32[name]))
               for name in gradients}
    errors = {name: _ratio(*pair) for name, pair in squares.items()}
    name = max(errors, key=lambda key: errors[key])
    total = _ratio(*(sum(squared) for squared in zip(*squares.values(), strict=True)))
    relative_error = abs(loss - loss_32) / max(abs(loss_32), 1e-30)
    return PrecisionCost(gemm.precision(), relative_error, total, errors[name], name)


def loss_cost(model: Any, parameters: Mapping[str, Array], batch: Any) -> str:
    """A message on the error of the loss alone, for a model that is used in search only."""

    def nats() -> float:
        return float(to_host(model.loss(parameters, batch)[0]))

    loss = nats()
    with gemm.using("float32"):
        loss_32 = nats()
    relative_error = abs(loss - loss_32) / max(abs(loss_32), 1e-30)
    return (f"matrix products in {gemm.precision()}: against float32, log p of the first batch is "
            f"off by {relative_error:.1e}")


def _step(
    model: Any, parameters: Mapping[str, Array], batch: Any
) -> tuple[float, dict[str, Array]]:
    """The loss in nats, and the gradients as arrays."""
    loss, cache = model.loss(parameters, batch, None)
    gradients = model.backward(cache)
    return float(to_host(loss)), {
        name: g.values if isinstance(g, RowGradient) else g for name, g in gradients.items()
    }


def _square(array: Array) -> float:
    """The sum of squares, in float64."""
    wide = array.astype(np.float64)
    return float(to_host(array_module(array).sum(wide * wide)))


def _ratio(square: float, reference: float) -> float:
    """The square root of a quotient of sums of squares; 0 where both are 0."""
    return math.sqrt(square / reference) if reference > 0 else (math.inf if square > 0 else 0.0)
