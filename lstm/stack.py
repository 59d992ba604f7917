"""Depth, direction and dropout: layers of a recurrent unit on top of each other.

Source: Luong (2016), Algorithm 3 lines 8-9 and Algorithm 4 lines 13-17: the state of layer l - 1
is the input of layer l, and dx of layer l is added to the gradient of layer l - 1. Dropout is on
these vertical connections only (Zaremba et al., 2014). A bidirectional layer joins the states of
two units, one running from each end: output (T, B, 2H), forward half first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from backend import Array, array_module
from backend.workspace import Workspace
from lstm.gru import GATES as GRU_GATES
from lstm.gru import gru_backward, gru_forward, gru_step_forward
from lstm.lstm import (
    GATES,
    lstm_backward,
    lstm_cell_backward,
    lstm_cell_forward,
    lstm_forward,
    lstm_step_forward,
)
from lstm.padding import Padding
from lstm.parameters import SCHEMES, Parameters, Scheme, Weight, axis
from lstm.rnn import rnn_backward, rnn_cell_backward, rnn_forward, rnn_step_forward

State = tuple[Array, ...]  # (h, c) of an LSTM, (h,) of the other units; each (B, H)


def _no_cell(*_: Array) -> None:
    """The cell of a unit that has none."""
    raise TypeError("this unit has no bare cell")


@dataclass(frozen=True)
class Unit:
    """A recurrent unit as its users see it: a sequence, one step, or the bare cell.

    The cell's signatures are those of `lstm_cell_forward` and `lstm_cell_backward`; a unit
    without a memory cell ignores c and tanh_c. A gated unit has none: its reset gate stands inside
    a second product, so there is no step's worth of work between one product and the next.
    """

    states: int  # arrays in a state: 2 (h, c) or 1 (h,)
    gates: tuple[str, ...]  # row blocks of T; one without a name if there is one only
    forward: Callable[..., tuple[Array, State, Any]]
    backward: Callable[..., tuple[Array, State, Array, Array]]
    step: Callable[..., State]
    cell_forward: Callable[..., None] = _no_cell
    cell_backward: Callable[..., None] = _no_cell

    @property
    def blocks(self) -> int:
        """Matrices stacked in T."""
        return len(self.gates)

    @property
    def has_cell(self) -> bool:
        """Whether a step is one product and then a cell, as input feeding takes it to be."""
        return self.cell_forward is not _no_cell


def _lstm_forward(x: Array, state: State, T: Array, b: Array | None, **how: Any) -> Any:
    h0, c0 = state
    return lstm_forward(x, h0, c0, T, b, **how)


def _lstm_backward(dh: Array | None, d_last: State, cache: Any, clip: float | None) -> Any:
    dh_last, dc_last = d_last
    dx, dh0, dc0, dT, db = lstm_backward(dh, dh_last, dc_last, cache, clip=clip)
    return dx, (dh0, dc0), dT, db


def _lstm_step(x: Array, state: State, T: Array, b: Array | None) -> State:
    h_prev, c_prev = state
    return lstm_step_forward(x, h_prev, c_prev, T, b)[0]


def _rnn_forward(x: Array, state: State, T: Array, b: Array | None, **how: Any) -> Any:
    out, last, cache = rnn_forward(x, state[0], T, b, **how)
    return out, (last,), cache


def _rnn_backward(dh: Array | None, d_last: State, cache: Any, clip: float | None) -> Any:
    dx, dh0, dT, db = rnn_backward(dh, d_last[0], cache, clip=clip)
    return dx, (dh0,), dT, db


def _rnn_step(x: Array, state: State, T: Array, b: Array | None) -> State:
    return (rnn_step_forward(x, state[0], T, b)[0],)


def _rnn_cell_forward(z: Array, c_prev: Array, c: Array, tanh_c: Array, h: Array) -> None:
    array_module(z).tanh(z, out=z)
    h[...] = z


def _rnn_cell_backward(
    dh: Array, dc: Array, u: Array, c_prev: Array, tanh_c: Array, dz: Array, scratch: Array
) -> None:
    rnn_cell_backward(dh, u, dz)


def _gru_forward(x: Array, state: State, T: Array, b: Array | None, **how: Any) -> Any:
    out, last, cache = gru_forward(x, state[0], T, b, **how)
    return out, (last,), cache


def _gru_backward(dh: Array | None, d_last: State, cache: Any, clip: float | None) -> Any:
    dx, dh0, dT, db = gru_backward(dh, d_last[0], cache, clip=clip)
    return dx, (dh0,), dT, db


def _gru_step(x: Array, state: State, T: Array, b: Array | None) -> State:
    return (gru_step_forward(x, state[0], T, b)[0],)


UNITS = {
    "lstm": Unit(
        2, GATES, _lstm_forward, _lstm_backward, _lstm_step, lstm_cell_forward, lstm_cell_backward
    ),
    "rnn": Unit(
        1, ("",), _rnn_forward, _rnn_backward, _rnn_step, _rnn_cell_forward, _rnn_cell_backward
    ),
    "gru": Unit(1, GRU_GATES, _gru_forward, _gru_backward, _gru_step),
}


def check_stack_config(config: Any) -> None:
    """Raise ValueError naming the first field of a model's configuration that makes no sense.

    Looks at what every model of recurrent stacks has: unit, layers, hidden_size, embedding_size,
    dropout, clip_dh, initialisation.
    """
    check_among("unit", config.unit, UNITS)
    check_among("initialisation", config.initialisation, SCHEMES)
    for name in ("layers", "hidden_size", "embedding_size"):
        if getattr(config, name) < 1:
            raise ValueError(f"{name}: expected at least 1, got {getattr(config, name)}")
    if not 0.0 <= config.dropout < 1.0:
        raise ValueError(f"dropout: expected 0 <= dropout < 1, got {config.dropout}")
    if config.clip_dh is not None and config.clip_dh <= 0:
        raise ValueError(f"clip_dh: expected a positive number or none, got {config.clip_dh}")


def check_among(name: str, value: str, known: Collection[str]) -> None:
    """Raise ValueError unless the argument `name` is one of `known`."""
    if value not in known:
        raise ValueError(f"{name}: expected one of {', '.join(known)}, got {value!r}")


def stack_weights(
    prefix: str, unit: str, layers: int, inputs: Mapping[str, int], hidden_size: int,
    scheme: Scheme, *, bidirectional: bool = False, biases: bool = True,
) -> dict[str, Weight]:
    """Names and shapes of a stack's parameters: `{prefix}.{layer}[.{direction}].T` and `.b`.

    Arguments: inputs, what the first layer reads beside its state, by name, with its width.
    """
    gates, weights = UNITS[unit].gates, {}
    rows = axis("gate", dict.fromkeys(gates, hidden_size))
    for layer in range(layers):
        for name in _names(prefix, layer, bidirectional):
            columns = axis("column", {**inputs, "h": hidden_size})
            weights[f"{name}.T"] = Weight((rows, columns), scheme.recurrent(len(gates)))
            if biases:
                weights[f"{name}.b"] = Weight((rows,), scheme.bias(gates))
        inputs = {"x": hidden_size * (2 if bidirectional else 1)}
    return weights


def _names(prefix: str, layer: int, bidirectional: bool) -> list[str]:
    """The dotted names of the units of one layer."""
    base = f"{prefix}.{layer}"
    return [f"{base}.forward", f"{base}.backward"] if bidirectional else [base]


def zero_state(xp: Any, unit: str, batch: int, hidden_size: int, dtype: Any) -> State:
    """A state of zeros, where an encoder or language model begins."""
    return tuple(xp.zeros((batch, hidden_size), dtype=dtype) for _ in range(UNITS[unit].states))


class StackCache(NamedTuple):
    prefix: str
    unit: str
    layers: list[list[tuple[str, Any]]]  # per layer and direction: parameter name, unit's cache
    masks: Sequence[Array | None]
    has_bias: bool


def stack_forward(
    x: Array, parameters: Mapping[str, Array], prefix: str, unit: str,
    initial: Sequence[Sequence[State]], *, padding: Padding | None = None,
    masks: Sequence[Array | None] | None = None, workspace: Workspace | None = None,
) -> tuple[Array, list[list[State]], StackCache]:
    """All layers over a whole sequence (Algorithm 3, lines 8-9).

    Arguments: x (T, B, E); parameters with `{prefix}.{l}.T`; initial[l][d], the state that layer
    l's direction d (0 forward, 1 backward) starts from: its nesting says how deep the stack is
    and whether it runs both ways; padding of a ragged batch; masks[l], the dropout mask of layer
    l's input, (T, B, width), or None.
    Returns the top layer's states (T, B, H or 2H), last[l][d] and the cache.
    """
    xp = array_module(x)
    masks = masks or [None] * len(initial)
    last, caches, has_bias = [], [], False
    for layer, states in enumerate(initial):
        if masks[layer] is not None:
            x = x * masks[layer]
        outs, ends, layer_caches = [], [], []
        for name, state in zip(_names(prefix, layer, len(states) == 2), states, strict=True):
            b = parameters.get(f"{name}.b")
            has_bias = b is not None
            out, end, cache = UNITS[unit].forward(
                x, state, parameters[f"{name}.T"], b, padding=padding,
                reverse=name.endswith(".backward"), workspace=workspace,
            )
            outs.append(out)
            ends.append(end)
            layer_caches.append((name, cache))
        x = outs[0] if len(outs) == 1 else xp.concatenate(outs, axis=2)  # (Bahdanau 7)
        last.append(ends)
        caches.append(layer_caches)
    return x, last, StackCache(prefix, unit, caches, masks, has_bias)


def stack_backward(
    dh_out: Array | None, d_last: Sequence[Sequence[State]] | None, cache: StackCache, *,
    clip: float | None = None,
) -> tuple[Array, list[list[State]], Parameters]:
    """Backpropagation through all layers, top to bottom (Algorithm 4, lines 13-17).

    Arguments: dh_out (T, B, H or 2H), gradient of the top states, or None; d_last[l][d], of the
    last states, or None; clip as in `lstm_backward`. Returns dx (T, B, E), d_initial[l][d], and
    the gradients of the parameters by name.
    """
    _, unit, layers, masks, has_bias = cache
    nothing: State = (None,) * UNITS[unit].states
    gradients: Parameters = {}
    d_initial: list[list[State]] = []
    dx: Any = dh_out
    for layer in reversed(range(len(layers))):
        dh_halves = _split(dx, len(layers[layer]))
        dx, d_states = None, []
        for d, (name, unit_cache) in enumerate(layers[layer]):
            d_end = d_last[layer][d] if d_last is not None else nothing
            dx_d, d_state, dT, db = UNITS[unit].backward(dh_halves[d], d_end, unit_cache, clip)
            gradients[f"{name}.T"] = dT
            if has_bias:
                gradients[f"{name}.b"] = db
            dx = dx_d if dx is None else dx + dx_d
            d_states.append(d_state)
        if masks[layer] is not None:
            dx *= masks[layer]
        d_initial.insert(0, d_states)
    return dx, d_initial, gradients


def _split(dh: Array | None, directions: int) -> list[Array | None]:
    """The share of each direction in the gradient of a layer's output."""
    if dh is None or directions == 1:
        return [dh] * directions
    H = dh.shape[2] // 2
    return [dh[:, :, :H], dh[:, :, H:]]
