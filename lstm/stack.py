"""Stacked recurrent layers, in one or two directions, with dropout between them.

Source: Luong (2016), Algorithm 3 lines 8-9 and Algorithm 4 lines 13-17: the state of layer l - 1
is the input of layer l, and dx of layer l is added to the gradient of layer l - 1. Dropout is on
these vertical connections only (Zaremba et al., 2014). A bidirectional layer joins the states of
two cells that run from opposite ends: output (T, B, 2H), the forward half first.

With residual connections (Wu et al., 2016, Equation 6) each layer from the second on adds its
input, before dropout, to its output. The next time step reads h itself, without that sum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from backend import Array, array_module, to_device
from backend.errors import check_among, check_least, check_share
from backend.workspace import Workspace
from lstm.cells import CELLS, Cell, State, clipped
from lstm.parameters import SCHEMES, Parameters, Scheme, Weight, axis
from lstm.recurrent import (
    Padding,
    RecurrentCache,
    recurrent_backward,
    recurrent_forward,
    recurrent_step,
)


class Stack(NamedTuple):
    """The configuration of a stack."""

    unit: str  # the name of its cell
    layers: int
    hidden_size: int  # H, of each direction
    bidirectional: bool = False
    biases: bool = True
    residual: bool = False  # whether each layer from the second on adds its input to its output
    clip: float | None = None  # tau of element-wise clipping, as in `clipped`

    @property
    def width(self) -> int:
        """The width of the top states: H or 2H."""
        return self.hidden_size * (1 + self.bidirectional)

    @property
    def cell(self) -> Cell:
        """Its cell, whose gradients are clipped if `clip` is a number."""
        cell = CELLS[self.unit]
        return cell if self.clip is None else clipped(cell, self.clip)


def stack_weights(
    prefix: str, stack: Stack, inputs: Mapping[str, int], scheme: Scheme
) -> dict[str, Weight]:
    """Names and shapes of a stack's parameters: `{prefix}.{layer}[.{direction}].W` and `.b`.

    Arguments: inputs, name -> width of each input of the first layer.
    """
    cell, H, weights = CELLS[stack.unit], stack.hidden_size, {}
    rows = axis("gate", dict.fromkeys(cell.gates, H))
    of_bias = axis("gate", dict.fromkeys((*cell.gates, *cell.biases), H))
    for layer in range(stack.layers):
        for name in _names(prefix, layer, stack.bidirectional):
            columns = axis("column", {**inputs, "h": H})
            weights[f"{name}.W"] = Weight((rows, columns), scheme.recurrent(len(cell.gates)))
            if stack.biases:
                weights[f"{name}.b"] = Weight((of_bias,), scheme.bias((*cell.gates, *cell.biases)))
        inputs = {"x": stack.width}
    return weights


def _names(prefix: str, layer: int, bidirectional: bool) -> list[str]:
    """The dotted names of the cells of one layer."""
    base = f"{prefix}.{layer}"
    return [f"{base}.forward", f"{base}.backward"] if bidirectional else [base]


def zero_state(xp: Any, unit: str, batch: int, hidden_size: int, dtype: DTypeLike) -> State:
    """A state of zeros, the initial one of an encoder or a language model."""
    return tuple(xp.zeros((batch, hidden_size), dtype=dtype) for _ in range(CELLS[unit].states))


class StackCache(NamedTuple):
    stack: Stack
    layers: list[list[tuple[str, RecurrentCache]]]  # per layer and direction: name, cache
    masks: Sequence[Array | None]  # dropout of each layer's input


def stack_forward(
    x: Array, parameters: Mapping[str, Array], prefix: str, stack: Stack,
    initial: Sequence[Sequence[State]], *, padding: Padding | None = None,
    masks: Sequence[Array | None] | None = None, workspace: Workspace | None = None,
) -> tuple[Array, list[list[State]], StackCache]:
    """All layers over a whole sequence (Algorithm 3, lines 8-9).

    Arguments: x (T, B, E); parameters with `{prefix}.{l}.W`; initial[l][d], the initial state of
    direction d (0 forward, 1 backward) of layer l; padding of a ragged batch; masks[l], the dropout
    mask of layer l's input, (T, B, width), or None.
    Returns the top layer's output (T, B, H or 2H), last[l][d] and the cache.
    """
    xp, cell, masks = array_module(x), stack.cell, masks or [None] * len(initial)
    last: list[list[State]] = []
    caches: list[list[tuple[str, RecurrentCache]]] = []
    for layer, states in enumerate(initial):
        below, names = x, _names(prefix, layer, stack.bidirectional)
        if masks[layer] is not None:
            x = x * masks[layer]
        outs, ends, direction_caches = zip(*[
            recurrent_forward(cell, x, state, parameters[f"{name}.W"], parameters.get(f"{name}.b"),
                              padding=padding, reverse=name.endswith(".backward"),
                              workspace=workspace)
            for name, state in zip(names, states, strict=True)], strict=True)
        x = outs[0] if len(outs) == 1 else xp.concatenate(outs, axis=2)  # (Bahdanau 7)
        if stack.residual and layer:
            x = x + below                                      # x^l = h^l + x^{l-1} (Wu 6)
        last.append(list(ends))
        caches.append(list(zip(names, direction_caches, strict=True)))
    return x, last, StackCache(stack, caches, masks)


def stack_backward(
    dh_out: Array | None, d_last: Sequence[Sequence[State]] | None, cache: StackCache
) -> tuple[Array, list[list[State]], Parameters]:
    """Backpropagation through all layers, top to bottom (Algorithm 4, lines 13-17).

    Arguments: dh_out (T, B, H or 2H), gradient of the top output, or None; d_last[l][d], of the
    last states, or None. Returns dx (T, B, E), d_initial[l][d], and the gradients of the
    parameters by name.
    """
    stack, layers, masks = cache
    H = stack.hidden_size
    gradients: Parameters = {}
    d_initial: list[list[State]] = []
    dx: Any = dh_out
    for layer in reversed(range(len(layers))):
        dh, dx, d_states = dx, None, []
        for direction, (name, recurrent) in enumerate(layers[layer]):
            d_end = None if d_last is None else d_last[layer][direction]
            half = None if dh is None else dh[:, :, direction * H : (direction + 1) * H]
            dx_half, d_state, dW, db = recurrent_backward(half, d_end, recurrent)
            gradients[f"{name}.W"] = dW
            if stack.biases:
                gradients[f"{name}.b"] = db
            dx = dx_half if dx is None else dx + dx_half
            d_states.append(d_state)
        if masks[layer] is not None:
            dx *= masks[layer]
        if stack.residual and layer and dh is not None:
            dx += dh                                           # (Wu 6)
        d_initial.insert(0, d_states)
    return dx, d_initial, gradients


def stack_step(
    x: Array, states: Sequence[State], parameters: Mapping[str, Array], prefix: str, stack: Stack
) -> tuple[Array, list[State]]:
    """One step of all layers, for search: x (N, E), a state (N, H) each per layer.

    Returns the top layer's output (N, H) and the new states.
    """
    after: list[State] = []
    for layer, state in enumerate(states):
        name = f"{prefix}.{layer}"
        state = recurrent_step(
            CELLS[stack.unit], x, state, parameters[f"{name}.W"], parameters.get(f"{name}.b"))
        after.append(state)
        x = state[0] + x if stack.residual and layer else state[0]
    return x, after


def select_states(states: Sequence[State], rows: Array) -> list[State]:
    """The given rows (N',), on the device, of each layer's state, in this order. A row may be
    repeated or dropped."""
    return [tuple(array[rows] for array in state) for state in states]


def dropout_mask(
    rng: np.random.Generator, shape: tuple[int, ...], rate: float, dtype: DTypeLike = "float32"
) -> Array:
    """Inverted dropout: zero with probability `rate`, else 1 / (1 - rate), so the mean is one.

    Arguments: shape of the mask; rate in [0, 1), rounded to a multiple of 1 / 65536. The mask is
    drawn on the host, outside of the kernels, so that a check can fix it and a resumed run repeats
    it.
    """
    dropped = min(round(rate * 65536), 65535)
    size = int(np.prod(shape))
    kept = np.frombuffer(rng.bytes(2 * size), dtype=np.uint16) >= dropped
    moved = to_device(kept.reshape(shape))  # a byte of each element
    return array_module(moved).multiply(moved, 65536.0 / (65536 - dropped), dtype=dtype)


# --- checks of a configuration --------------------------------------------------------------------


def check_stack_config(config: Any) -> None:
    """Raise ValueError naming the first invalid field of a model's configuration.

    Checks the fields of every recurrent model: unit, layers, hidden_size, embedding_size, dropout,
    clip_elements, initialisation.
    """
    check_among("unit", config.unit, CELLS)
    check_among("initialisation", config.initialisation, SCHEMES)
    check_least(config, 1, "layers", "hidden_size", "embedding_size")
    check_share(config, "dropout")
    check_clip(config.clip_elements)


def check_clip(limit: float | None) -> None:
    """Raise ValueError unless the limit of element-wise clipping is a positive number or None."""
    if limit is not None and not 0.0 < limit < np.inf:
        raise ValueError(f"clip_elements: expected a positive number or none, got {limit}")
