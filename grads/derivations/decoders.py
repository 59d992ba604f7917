"""Decoders of any unit: without attention, and with Luong's; the table of all.

A decoder maps h_bar and its initial states to the loss; and backward.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from grads.derivations.attention_step import attend, attend_grad, parameters_of, weights_of
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
    above: Any  # the input of the prediction: h~_t or h_t
    a: Any  # weights over the source; empty without attention
    p: Any
    l: Any


def fed_rows(parameters: Mapping[str, Array], W: Layers) -> Array:
    """P (F, H): P h~_{t-1} is what layer 1 reads beside the embedding; F is H or 0."""
    H = parameters["output.W_hy"].shape[1]
    return np.eye(W[1].shape[1] - parameters["decoder.W_e"].shape[1] - H, H)


# --- without attention, and Luong's -------------------------------------------------------------


def decode(
    model: Any, parameters: Mapping[str, Array], y: Sequence[int], h_bar: Array, h_0: Layers,
    c_0: Layers,
) -> tuple[Any, Decoded]:
    """Without attention: Algorithm 3 after t = m_x; h_{t-1} may be fed in place of h~_{t-1}."""
    W_e, (W, b) = parameters["decoder.W_e"], stack_of(parameters, "decoder")
    P = fed_rows(parameters, W)
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
    return J, Decoded(h, c, above, {}, p, l)


def decode_grad(
    model: Any, parameters: Mapping[str, Array], y: Sequence[int], h_bar: Array,
    kept: Decoded,
) -> tuple[dict[str, Array], Array, Layers, Layers]:
    """Gradients by name, dh_bar, which is zero, dh_0 and dc_0; Algorithm 4."""
    W_e, (W, b) = parameters["decoder.W_e"], stack_of(parameters, "decoder")
    W_hy, L, E, P = parameters["output.W_hy"], len(W), W_e.shape[1], fed_rows(parameters, W)
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
) -> tuple[Any, Decoded]:
    """With attention, and input feeding where the shape of layer 1's weights says so; 4.2."""
    W_e, (W, b) = parameters["decoder.W_e"], stack_of(parameters, "decoder")
    W_c, w, P = parameters["attention.W_c"], weights_of(parameters), fed_rows(parameters, W)
    W_hy, b_hy = parameters["output.W_hy"], bias(parameters, "output.b")
    h, c, h_tilde = {0: h_0}, {0: c_0}, {0: np.zeros((len(W_c), 1))}
    a, p, l = {}, {}, {}
    for t, (word, following) in enumerate(zip([END, *y], [*y, END], strict=True), start=1):
        v = embed(word, W_e)
        fed = P @ h_tilde[t - 1]                                 # h~_{t-1}, or nothing
        z = np.vstack([v, fed])                                  # Figure 4.4 (4.2.3 feeding)
        h[t], c[t] = deep_step(model.unit, h[t - 1], c[t - 1], z, W, b)
        h_tilde[t], a[t], _ = attend(model.variant, h[t][len(W)], h_bar, W_c, w, t)
        l[t], p[t] = predict(following, h_tilde[t], W_hy, b_hy)  # (4.6)
    J = sum(l.values())                                          # -log p(y | x), (4.1)
    return J, Decoded(h, c, h_tilde, a, p, l)


def decode_attending_grad(
    model: Any, parameters: Mapping[str, Array], y: Sequence[int], h_bar: Array,
    kept: Decoded,
) -> tuple[dict[str, Array], Array, Layers, Layers]:
    """Gradients by name, dh_bar, dh_0 and dc_0."""
    W_e, (W, b) = parameters["decoder.W_e"], stack_of(parameters, "decoder")
    W_c, w, P = parameters["attention.W_c"], weights_of(parameters), fed_rows(parameters, W)
    W_hy, L, E, h, c = parameters["output.W_hy"], len(W), W_e.shape[1], kept.h, kept.c
    dW_e, (dW, db) = np.zeros_like(W_e), zeros_of(W)
    dW_c, dW_hy, db_hy = np.zeros_like(W_c), np.zeros_like(W_hy), np.zeros_like(W_hy[:, :1])
    dw = {name: np.zeros_like(weight) for name, weight in w.items()}
    dh, dc = ({len(y) + 1: {l: np.zeros_like(states[0][l]) for l in W}} for states in (h, c))
    dh_bar, d_fed = np.zeros_like(h_bar), np.zeros((len(P), 1))
    for t in range(len(y) + 1, 0, -1):
        dh_tilde, dW_y, d_hy = predict_grad(
            [*y, END][t - 1], kept.p[t], kept.above[t], W_hy)
        dW_hy, db_hy = dW_hy + dW_y, db_hy + d_hy                # (4.6), Algorithm 4 line 11
        dh_tilde = dh_tilde + P.T @ d_fed                        # (2.13) on fed = P h~_t
        d_vertical, d_source, dW_v, dw_t = attend_grad(
            model.variant, dh_tilde, h[t][L], h_bar, W_c, w, t)
        dw = {name: dw[name] + dw_t[name] for name in dw}
        dW_c, dh_bar = dW_c + dW_v, dh_bar + d_source
        dh[t] = {**dh[t], L: dh[t][L] + d_vertical}              # Algorithm 4 line 10
        dh[t - 1], dc[t - 1], dz, dW_t, db_t = deep_step_grad(
            model.unit, dh[t], dc[t], h[t - 1], c[t - 1], h[t], W, b)
        dW, db = add(dW, dW_t), add(db, db_t)                    # Algorithm 4 line 16
        dv, d_fed = np.split(dz, [E])                            # z_t = [x_t; fed]
        dW_e = embed_grad([END, *y][t - 1], dv, dW_e)            # Algorithm 4 line 18
    gradients = {"decoder.W_e": dW_e, **named(Stack(dW, db), "decoder"), "output.W_hy": dW_hy,
                 "output.b": db_hy[:, 0], "attention.W_c": dW_c, **parameters_of(dw)}
    return gradients, dh_bar, dh[0], dc[0]


DECODERS = {"plain": Part(decode, decode_grad),
            "attention": Part(decode_attending, decode_attending_grad),
            "context": Part(decode_reading, decode_reading_grad),
            "fused": Part(decode_fused, decode_fused_grad)}
