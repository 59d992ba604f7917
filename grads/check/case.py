"""What a gradient check is run on: a forward and backward pass with their inputs.

Inputs, outputs and gradients are flat mappings from name to array, so that one check serves every
pair. What is not differentiated (ids, lengths, dropout masks) stays inside a case, on the host.
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
    """A forward and backward pass. `zeros`: entries of inputs that must have exactly zero
    gradient."""

    inputs: dict[str, np.ndarray]  # float64
    forward: Callable[[Inputs], tuple[dict[str, Array], Any]]  # inputs -> outputs, cache
    vjp: Callable[[Mapping[str, Any], Any], dict[str, Any]]  # d_outputs, cache -> gradients
    zeros: dict[str, np.ndarray] = field(default_factory=dict)  # bool, of the inputs' shapes
    labels: dict[str, Labels] = field(default_factory=dict)  # of inputs and outputs
    facts: dict[str, Any] = field(default_factory=dict)  # ids, lengths, masks, for references
    cacheless: bool = False  # vjp reads the inputs instead of a cache, and no upstream gradient
    fixed: bool = False  # vjp returns the same arrays at all inputs

    def outputs(self, inputs: Inputs) -> dict[str, Array]:
        """The outputs by name, in the dtype and on the device of `inputs`."""
        return self.forward(inputs)[0]

    def gradients(self, inputs: Inputs, d_outputs: Inputs) -> dict[str, Any]:
        """Gradients by input name; an output missing from `d_outputs` has no upstream gradient."""
        if self.cacheless:
            return self.vjp(d_outputs, inputs)
        outputs, cache = self.forward(inputs)
        xp = array_module(*inputs.values())

        def upstream(name: str) -> Any:
            if name in d_outputs:
                return d_outputs[name]
            return xp.zeros(outputs[name].shape, dtype=outputs[name].dtype)

        return self.vjp({name: upstream(name) for name in outputs}, cache)


def dense(gradient: Any) -> Array:
    """A gradient written out in full: that of a table may have some of its rows only."""
    return gradient.dense() if hasattr(gradient, "dense") else gradient
