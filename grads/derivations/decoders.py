"""Decoders of any unit: without attention, and with Luong's; the table of all.

A decoder maps h_bar and its initial states to the loss; and backward.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from grads.derivations.attention import Decoded as AttentionStates
from grads.derivations.attention import decode, decode_grad, fed_rows
from grads.derivations.calculus import Array, Number
from grads.derivations.model import Model
from grads.derivations.nmt import END, Weights, by_name, weights, zero_gradients
from grads.derivations.reading import (
    decode_fused,
    decode_fused_grad,
    decode_reading,
    decode_reading_grad,
    decode_states,
    decode_states_grad,
)
from grads.derivations.rnn import embed, embed_grad, predictions, predictions_grad
from grads.derivations.units import Layers, Part, add, deep_step, deep_step_grad, zero_states


class Decoded(NamedTuple):
    """The values of a decoder without attention, by time step."""

    h: dict[int, Layers]
    c: dict[int, Layers]
    above: dict[int, Array]  # the input of the prediction: h_t
    p: dict[int, Array]
    l: dict[int, Number]


class Attended(NamedTuple):
    """The values of a decoder with attention."""

    states: AttentionStates
    p: dict[int, Array]
    l: dict[int, Number]


def decode_plain(
    model: Model, parameters: Mapping[str, Array], y: Sequence[int], h_bar: Array, h_0: Layers,
    c_0: Layers,
) -> tuple[Number, Decoded]:
    """Without attention: Algorithm 3 after t = m_x; h_{t-1} may be fed in place of h~_{t-1}."""
    W_e, T, b = weights(parameters, "decoder")
    P, L = fed_rows(W_e, T, model.unit), len(T)
    h, c, above = {0: h_0}, {0: c_0}, {0: np.zeros_like(h_0[L])}
    for t, word in enumerate([END, *y], start=1):
        v = embed(word, W_e)
        fed = P @ above[t - 1]                                   # h_{t-1}, or nothing
        z = np.vstack([v, fed])
        h[t], c[t] = deep_step(model.unit, h[t - 1], c[t - 1], z, T, b)
        above[t] = h[t][L]
    J, p, l = predictions(parameters, [*y, END], above)
    return J, Decoded(h, c, above, p, l)


def decode_plain_grad(
    model: Model, parameters: Mapping[str, Array], y: Sequence[int], h_bar: Array,
    kept: Decoded,
) -> tuple[dict[str, Array], Array, Layers, Layers]:
    """Gradients by name, dh_bar, which is zero, dh_0 and dc_0; Algorithm 4."""
    side, (h, c, above, p, _) = weights(parameters, "decoder"), kept
    P, L, E = fed_rows(side.W_e, side.T, model.unit), len(side.T), side.W_e.shape[1]
    d_predicted, output = predictions_grad(parameters, [*y, END], p, above)
    dW_e, dT, db = zero_gradients(side)
    dh, dc = ({len(y) + 1: zero} for zero in zero_states(side.T, model.unit))
    d_fed = np.zeros((len(P), 1))
    for t in range(len(y) + 1, 0, -1):
        d_above = d_predicted[t] + P.T @ d_fed                   # (2.13) on fed = P h_t
        dh[t] = {**dh[t], L: dh[t][L] + d_above}                 # line 10
        dh[t - 1], dc[t - 1], dz, dT_t, db_t = deep_step_grad(
            model.unit, dh[t], dc[t], h[t - 1], c[t - 1], h[t], side.T, side.b)
        dT, db = add(dT, dT_t), add(db, db_t)                    # line 16
        dv, d_fed = np.split(dz, [E])                            # z_t = [x_t; fed]
        dW_e = embed_grad([END, *y][t - 1], dv, dW_e)            # line 18
    gradients = {**by_name("decoder", Weights(dW_e, dT, db)), **output}
    return gradients, np.zeros_like(h_bar), dh[0], dc[0]


def decode_attending(
    model: Model, parameters: Mapping[str, Array], y: Sequence[int], h_bar: Array, h_0: Layers,
    c_0: Layers,
) -> tuple[Number, Attended]:
    """With attention, and input feeding where the shape of layer 1's weights says so; 4.2."""
    states = decode(parameters, y, h_bar, h_0, c_0, model.variant, model.unit)
    J, p, l = predictions(parameters, [*y, END], states.h_tilde)
    return J, Attended(states, p, l)


def decode_attending_grad(
    model: Model, parameters: Mapping[str, Array], y: Sequence[int], h_bar: Array, kept: Attended
) -> tuple[dict[str, Array], Array, Layers, Layers]:
    """Gradients by name, dh_bar in the encoder's reading order, dh_0 and dc_0."""
    d_above, output = predictions_grad(parameters, [*y, END], kept.p, kept.states.h_tilde)
    gradients, to_encoder, dh_0, dc_0 = decode_grad(
        parameters, y, kept.states, d_above, {})
    return {**gradients, **output}, to_encoder, dh_0, dc_0


DECODERS = {"plain": Part(decode_plain, decode_plain_grad),
            "attention": Part(decode_attending, decode_attending_grad),
            "context": Part(decode_reading, decode_reading_grad),
            "state": Part(decode_states, decode_states_grad),
            "fused": Part(decode_fused, decode_fused_grad)}
