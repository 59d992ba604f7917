"""A case: a forward and a backward pass with their inputs, on which a gradient check is run.

Inputs, outputs and gradients are flat mappings from name to array, so that the same check serves
all functions. Data that are not differentiated (ids, lengths, dropout masks) stay in the case's
functions, on the host.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from backend import Array, array_module

Inputs = Mapping[str, Array]


class Block(NamedTuple):
    """A named part of a tensor: rows of a gate, columns that multiply x."""

    name: str
    where: tuple[slice, ...]  # one slice an axis


class Labels(NamedTuple):
    """What a tensor's axes count ("time", "batch", "gate", "unit", "word" ...), and its blocks."""

    axes: tuple[str, ...]
    blocks: tuple[Block, ...] = ()


@dataclass(frozen=True)
class Case:
    """A forward and a backward pass with their inputs."""

    inputs: dict[str, np.ndarray]  # float64
    forward: Callable[[Inputs], tuple[dict[str, Array], Any]]  # inputs -> outputs, cache
    vjp: Callable[[Mapping[str, Any], Any], dict[str, Any]]  # d_outputs, cache -> gradients
    zeros: dict[str, np.ndarray] = field(default_factory=dict)  # bool, of the inputs' shapes:
    # entries whose gradient must be exactly zero
    labels: dict[str, Labels] = field(default_factory=dict)  # of inputs and outputs
    cacheless: bool = False  # vjp reads the inputs, but no cache and no upstream gradient
    fixed: bool = False  # vjp returns the same arrays at all inputs

    @property
    def dtype(self) -> Any:
        """The dtype of the inputs."""
        return next(iter(self.inputs.values())).dtype

    def outputs(self, inputs: Inputs) -> dict[str, Array]:
        """The outputs by name, in the dtype and on the device of `inputs`."""
        return self.forward(inputs)[0]

    def gradients(self, inputs: Inputs, d_outputs: Inputs) -> dict[str, Any]:
        """Gradients by input name. The upstream gradient of an output without one is zero."""
        if self.cacheless:
            return self.vjp(d_outputs, inputs)
        outputs, cache = self.forward(inputs)
        return self.vjp({
            name: d_outputs[name] if name in d_outputs
            else array_module(*inputs.values()).zeros(np.shape(out), self.dtype)
            for name, out in outputs.items()}, cache)


def dense(gradient: Any) -> Array:
    """A gradient as a full array. A gradient of a table may hold only some of its rows."""
    return gradient.dense() if hasattr(gradient, "dense") else gradient
