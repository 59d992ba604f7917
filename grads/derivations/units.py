"""Recurrent units in one form, and a stack of them: one time step, forward and backward.

A unit maps h_{t-1}, c_{t-1} and an input to h_t, c_t; c has no rows if a unit has no cell. Its
weights W (G, in + H) and b are the kernels': the gates' rows stacked, the input's columns before
the state's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from grads.derivations import gru as gated
from grads.derivations.calculus import Array, bias
from grads.derivations.gru import gru, gru_grad
from grads.derivations.gru_after import UnitAfter, gru_after, gru_after_grad
from grads.derivations.lstm import lstm, lstm_grad
from grads.derivations.lstm_norm import UnitNorm, lstm_norm, lstm_norm_grad
from grads.derivations.rnn import rnn, rnn_grad

Layers = dict[int, Array]  # one array per layer l = 1 .. L; l = 0 is the embedding layer


class Part(NamedTuple):
    """A part of a model and its backward; tables map names to parts."""

    forward: Callable[..., Any]
    backward: Callable[..., Any]


def rnn_step(
    h_prev: Array, c_prev: Array, x: Array, W: Array, b: Array | float = 0.0
) -> tuple[Array, Array]:
    """h_t (H, 1) of Eq. 2.3, and no c; arguments as in `lstm`."""
    return rnn(x, h_prev, W, b), c_prev


def rnn_step_grad(
    dh: Array, dc: Array, h_prev: Array, c_prev: Array, x: Array, W: Array, b: Array | float = 0.0
) -> tuple[Array, Array, Array, Array, Array]:
    """dh_{t-1}, no dc_{t-1}, dx, dW and db; Algorithm 1."""
    dh_prev, dx, dW, db = rnn_grad(dh, x, h_prev, W, b)
    return dh_prev, dc, dx, dW, db


def gru_step(
    h_prev: Array, c_prev: Array, x: Array, W: Array, b: Array | float = 0.0
) -> tuple[Array, Array]:
    """h_t (H, 1) of the gated hidden unit (Bahdanau et al., A.2.1), and no c."""
    unit = gates(W, b, len(x))
    return gru(x, h_prev, unit), c_prev


def gru_step_grad(
    dh: Array, dc: Array, h_prev: Array, c_prev: Array, x: Array, W: Array, b: Array | float = 0.0
) -> tuple[Array, Array, Array, Array, Array]:
    """dh_{t-1}, no dc_{t-1}, dx, dW and db."""
    unit = gates(W, b, len(x))
    dx, dh_prev, d_unit = gru_grad(dh, x, h_prev, unit)
    dW = np.hstack([np.vstack([d_unit.W_r, d_unit.W_z, d_unit.W]),
                    np.vstack([d_unit.U_r, d_unit.U_z, d_unit.U])])
    db = np.vstack([d_unit.b_r, d_unit.b_z, d_unit.b])
    return dh_prev, dc, dx, dW, db


def gates(W: Array, b: Array | float, width: int) -> gated.Unit:
    """The weights of r, z and the candidate, which are stacked in W (3H, in + H)."""
    W_r, W_z, W_h = np.split(W[:, :width], 3)
    U_r, U_z, U_h = np.split(W[:, width:], 3)
    b_r, b_z, b_h = np.split(b + np.zeros((len(W), 1)), 3)
    return gated.Unit(W_h, W_z, W_r, U_h, U_z, U_r, b_h, b_z, b_r)


def gru_after_step(
    h_prev: Array, c_prev: Array, x: Array, W: Array, b: Array | float = 0.0
) -> tuple[Array, Array]:
    """h_t (H, 1) of the unit whose reset gate stands after the product, and no c; b (4H, 1)."""
    return gru_after(x, h_prev, gates_after(W, b, len(x))), c_prev


def gru_after_step_grad(
    dh: Array, dc: Array, h_prev: Array, c_prev: Array, x: Array, W: Array, b: Array | float = 0.0
) -> tuple[Array, Array, Array, Array, Array]:
    """dh_{t-1}, no dc_{t-1}, dx, dW and db."""
    dx, dh_prev, d_unit = gru_after_grad(dh, x, h_prev, gates_after(W, b, len(x)))
    dW = np.hstack([np.vstack([d_unit.W_r, d_unit.W_z, d_unit.W]),
                    np.vstack([d_unit.U_r, d_unit.U_z, d_unit.U])])
    db = np.vstack([d_unit.b_r, d_unit.b_z, d_unit.b, d_unit.b_m])
    return dh_prev, dc, dx, dW, db


def gates_after(W: Array, b: Array | float, width: int) -> UnitAfter:
    """As `gates`; b (4H, 1) ends in the bias of m."""
    H = len(W) // 3
    b = b + np.zeros((4 * H, 1))
    return UnitAfter(*gates(W, b[: 3 * H], width), b[3 * H :])


def lstm_norm_step(
    h_prev: Array, c_prev: Array, x: Array, W: Array, b: Array | float = 0.0
) -> tuple[Array, Array]:
    """h_t and c_t (H, 1) of the layer-normalised LSTM; b (14H, 1)."""
    h, c = np.split(lstm_norm(x, h_prev, c_prev, norm_gains(W, b, len(x))), 2)
    return h, c


def lstm_norm_step_grad(
    dh: Array, dc: Array, h_prev: Array, c_prev: Array, x: Array, W: Array, b: Array | float = 0.0
) -> tuple[Array, Array, Array, Array, Array]:
    """dh_{t-1}, dc_{t-1}, dx, dW and db."""
    dx, dh_prev, dc_prev, d_unit = lstm_norm_grad(
        np.vstack([dh, dc]), x, h_prev, c_prev, norm_gains(W, b, len(x)))
    return dh_prev, dc_prev, dx, np.hstack(d_unit[:2]), np.vstack(d_unit[2:])


def norm_gains(W: Array, b: Array | float, width: int) -> UnitNorm:
    """The weights that are stacked in W (4H, in + H) and b (14H, 1); gains as 1 + what is stored.
    """
    H = len(W) // 4
    b = b + np.zeros((14 * H, 1))
    b_a, g_x, g_h, g_c, b_c = np.split(b, np.array([4, 8, 12, 13]) * H)
    return UnitNorm(W[:, :width], W[:, width:], b_a, 1 + g_x, 1 + g_h, 1 + g_c, b_c)


class Unit(NamedTuple):
    """A recurrent unit, its backward, and how many rows it has of pre-activations and of c."""

    forward: Callable[..., Any]
    backward: Callable[..., Any]
    gates: int
    cells: int


UNITS = {"lstm": Unit(lstm, lstm_grad, 4, 1), "rnn": Unit(rnn_step, rnn_step_grad, 1, 0),
         "gru": Unit(gru_step, gru_step_grad, 3, 0),
         "gru-after": Unit(gru_after_step, gru_after_step_grad, 3, 0),
         "lstm-norm": Unit(lstm_norm_step, lstm_norm_step_grad, 4, 1)}


# --- a stack ------------------------------------------------------------------------------------


class Stack(NamedTuple):
    """The weights of a stack by layer from 1, or their gradients."""

    W: Layers
    b: dict[int, Any]  # (G, 1), or 0.0 where the model has none


def stack_of(parameters: Mapping[str, Array], prefix: str, end: str = "") -> Stack:
    """The weights `{prefix}.{l}{end}.W` and `.b`, layers from 0 there and from 1 here."""
    number = sum(name.startswith(f"{prefix}.") and name.endswith(f"{end}.W") for name in parameters)
    names = {l: f"{prefix}.{l - 1}{end}" for l in range(1, number + 1)}
    return Stack({l: parameters[f"{name}.W"] for l, name in names.items()},
                 {l: bias(parameters, f"{name}.b") for l, name in names.items()})


def named(d: Stack, prefix: str, end: str = "") -> dict[str, Array]:
    """Gradients of a stack under the parameters' names."""
    return {**{f"{prefix}.{l - 1}{end}.W": dW for l, dW in d.W.items()},
            **{f"{prefix}.{l - 1}{end}.b": db[:, 0] for l, db in d.b.items()}}


def zeros_of(W: Layers, b: dict[int, Any]) -> tuple[Layers, Layers]:
    """Zeros shaped like W and b by layer."""
    return ({l: np.zeros_like(weight) for l, weight in W.items()},
            {l: np.zeros_like(bias) for l, bias in b.items()})


def add(d: Layers, term: Layers) -> Layers:
    """The sum of two gradients, layer by layer."""
    return {l: d[l] + term[l] for l in d}


def zero_states(W: Layers, unit: str = "lstm") -> tuple[Layers, Layers]:
    """h_0 (H, 1) and c_0 by layer."""
    _, _, gates, cells = UNITS[unit]
    return ({l: np.zeros((len(W[l]) // gates, 1)) for l in W},
            {l: np.zeros((len(W[l]) // gates * cells, 1)) for l in W})


def deep_step(
    unit: str, h_prev: Layers, c_prev: Layers, x: Array, W: Layers, b: dict[int, Any]
) -> tuple[Layers, Layers]:
    """h_t^(0..L), c_t^(1..L) from time t - 1 and the input x (E, 1); Algorithm 3 line 8, of any
    unit."""
    h, c = {0: x}, {}
    for l in range(1, len(W) + 1):                               # line 8
        h[l], c[l] = UNITS[unit].forward(h_prev[l], c_prev[l], h[l - 1], W[l], b[l])
    return h, c


def deep_step_grad(
    unit: str, dh: Layers, dc: Layers, h_prev: Layers, c_prev: Layers, h: Layers, W: Layers,
    b: dict[int, Any],
) -> tuple[Layers, Layers, Array, Layers, Layers]:
    """Lines 13-16 of Algorithm 4, of any unit: dh_{t-1}, dc_{t-1}, dx (E, 1), dW and db of a step.

    Arguments: dh, dc by layer 1..L, gradients of the states at t; the states at t - 1; h_t^(0..L).
    """
    dh = {**dh, 0: np.zeros_like(h[0])}
    dh_prev, dc_prev, dW, db = {}, {}, {}, {}
    for l in range(len(W), 0, -1):                               # line 13
        dh_prev[l], dc_prev[l], dx, dW[l], db[l] = UNITS[unit].backward(
            dh[l], dc[l], h_prev[l], c_prev[l], h[l - 1], W[l], b[l])  # line 14
        dh = {**dh, l - 1: dh[l - 1] + dx}                       # line 15
    return dh_prev, dc_prev, dh[0], dW, db
