"""Decoders of any unit: without attention, and with Luong's; the table of all.

A decoder maps h_bar and its initial states to the loss; and backward.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from grads.derivations import attention
from grads.derivations.attention import decoder_grad, fed_rows, run_decoder
from grads.derivations.calculus import Array, bias
from grads.derivations.nmt import END, Layers, add
from grads.derivations.reading import (
    decode_fused,
    decode_fused_grad,
    decode_reading,
    decode_reading_grad,
)
from grads.derivations.rnn import embed, embed_grad, predict, predict_grad
from grads.derivations.units import (
    Part,
    Stack,
    deep_step,
    deep_step_grad,
    named,
    stack_of,
    zeros_of,
)


class Decoded(NamedTuple):
    """The values of a decoder, by time step."""

    h: Any
    c: Any
    above: Any  # the input of the prediction: h_t
    p: Any
    l: Any


# --- without attention, and Luong's -------------------------------------------------------------


def decode(
    model: Any, parameters: Mapping[str, Array], y: Sequence[int], h_bar: Array, h_0: Layers,
    c_0: Layers,
) -> tuple[Any, Decoded]:
    """Without attention: Algorithm 3 after t = m_x; h_{t-1} may be fed in place of h~_{t-1}."""
    W_e, (W, b) = parameters["decoder.W_e"], stack_of(parameters, "decoder")
    P = fed_rows(W_e, W, model.unit)
    W_hy, b_hy = parameters["output.W_hy"], bias(parameters, "output.b")
    h, c, above = {0: h_0}, {0: c_0}, {0: np.zeros((W_hy.shape[1], 1))}
    p, l = {}, {}
    for t, (word, following) in enumerate(zip([END, *y], [*y, END], strict=True), start=1):
        v = embed(word, W_e)
        fed = P @ above[t - 1]                                   # h_{t-1}, or nothing
        z = np.vstack([v, fed])
        h[t], c[t] = deep_step(model.unit, h[t - 1], c[t - 1], z, W, b)
        above[t] = h[t][len(W)]
        l[t], p[t] = predict(following, above[t], W_hy, b_hy)    # (2.4)
    J = sum(l.values())                                          # -log p(y | x), (2.51)
    return J, Decoded(h, c, above, p, l)


def decode_grad(
    model: Any, parameters: Mapping[str, Array], y: Sequence[int], h_bar: Array,
    kept: Decoded,
) -> tuple[dict[str, Array], Array, Layers, Layers]:
    """Gradients by name, dh_bar, which is zero, dh_0 and dc_0; Algorithm 4."""
    W_e, (W, b) = parameters["decoder.W_e"], stack_of(parameters, "decoder")
    P, W_hy, L, E = fed_rows(W_e, W, model.unit), parameters["output.W_hy"], len(W), W_e.shape[1]
    h, c = kept.h, kept.c
    dW_e, (dW, db) = np.zeros_like(W_e), zeros_of(W)
    dW_hy, db_hy = np.zeros_like(W_hy), np.zeros_like(W_hy[:, :1])
    dh, dc = ({len(y) + 1: {l: np.zeros_like(states[0][l]) for l in W}} for states in (h, c))
    d_fed = np.zeros((len(P), 1))
    for t in range(len(y) + 1, 0, -1):
        d_above, dW_y, d_hy = predict_grad(
            [*y, END][t - 1], kept.p[t], kept.above[t], W_hy)
        dW_hy, db_hy = dW_hy + dW_y, db_hy + d_hy                # line 11
        d_above = d_above + P.T @ d_fed                          # (2.13) on fed = P h_t
        dh[t] = {**dh[t], L: dh[t][L] + d_above}                 # line 10
        dh[t - 1], dc[t - 1], dz, dW_t, db_t = deep_step_grad(
            model.unit, dh[t], dc[t], h[t - 1], c[t - 1], h[t], W, b)
        dW, db = add(dW, dW_t), add(db, db_t)                    # line 16
        dv, d_fed = np.split(dz, [E])                            # z_t = [x_t; fed]
        dW_e = embed_grad([END, *y][t - 1], dv, dW_e)            # line 18
    gradients = {"decoder.W_e": dW_e, **named(Stack(dW, db), "decoder"),
                 "output.W_hy": dW_hy, "output.b": db_hy[:, 0]}
    return gradients, np.zeros_like(h_bar), dh[0], dc[0]


def decode_attending(
    model: Any, parameters: Mapping[str, Array], y: Sequence[int], h_bar: Array, h_0: Layers,
    c_0: Layers,
) -> tuple[Any, attention.Decoded]:
    """With attention, and input feeding where the shape of layer 1's weights says so; 4.2."""
    return run_decoder(parameters, y, h_bar, h_0, c_0, model.variant, model.unit)


def decode_attending_grad(
    model: Any, parameters: Mapping[str, Array], y: Sequence[int], h_bar: Array,
    kept: attention.Decoded,
) -> tuple[dict[str, Array], Array, Layers, Layers]:
    """Gradients by name, dh_bar in the encoder's reading order, dh_0 and dc_0."""
    return decoder_grad(parameters, y, kept, {})


DECODERS = {"plain": Part(decode, decode_grad),
            "attention": Part(decode_attending, decode_attending_grad),
            "context": Part(decode_reading, decode_reading_grad),
            "fused": Part(decode_fused, decode_fused_grad)}
