"""The translation model with attention and input feeding (Luong, 2016, 4.2).

Parameters: those of `grads.derivations.nmt`, and `attention.W_c` (H, He + H) with the weights of
the variant of attention, as in `grads.derivations.attention_step`. `output.W_hy` is W_s of Eq. 4.6.
With input feeding, layer 1 of the decoder reads [word embedding; h~_{t-1}] (4.2.3), h~_0 = 0; the
shape of its weights says whether it does.

The thesis prints no backward for this chapter. It is derived here line by line from Lemma 1,
Corollary 1 and the product rule; each line names the equation it differentiates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from grads.derivations.attention_step import (
    NO_JACOBIAN,
    attend,
    attend_grad,
    parameters_of,
    weights_of,
)
from grads.derivations.calculus import Array, Number
from grads.derivations.declaration import Declaration
from grads.derivations.encoders import encode, encode_grad, source_states
from grads.derivations.errata import Mistake
from grads.derivations.examples import (
    PAIR,
    SCORED,
    TRANSLATION,
    attention_example,
    translation_shapes,
)
from grads.derivations.lstm import FORGOTTEN_DC
from grads.derivations.nmt import END, Weights, by_name, weights, zero_gradients
from grads.derivations.rnn import (
    ONE_EMBEDDING,
    PRINTED_SIGN,
    embed,
    embed_grad,
    predictions,
    predictions_grad,
)
from grads.derivations.scores import Variant
from grads.derivations.units import UNITS, Layers, add, deep_step, deep_step_grad, zero_states

GENERAL = Variant("general")


class Decoded(NamedTuple):
    """The values of the decoder, whose time starts again at 1."""

    h_bar: Array  # (He, S), in the order of the written words
    h: dict[int, Layers]  # h[t][l], t = 0 .. m_y + 1; h[t][0] is layer 1's input
    c: dict[int, Layers]  # cells
    context: dict[int, Array]  # c_1 .. c_{m_y + 1}, (He, 1)
    h_tilde: dict[int, Array]  # h~_0 .. h~_{m_y + 1}, (H, 1)
    a: dict[int, Array]  # a_1 .. a_{m_y + 1}, (S, 1)
    variant: Variant
    unit: str


class AttentionTrace(NamedTuple):
    """The values of the forward pass."""

    g: dict[int, Layers]  # encoder: g[s][l], s = 0 .. m_x, (He, 1); g[s][0] is the embedding
    k: dict[int, Layers]  # encoder: cells
    states: Decoded
    p: dict[int, Array]  # p_1 .. p_{m_y + 1}, (V, 1)
    l: dict[int, Number]  # l_1 .. l_{m_y + 1}, nats


class Seeds(NamedTuple):
    """The gradients that reach a time step of the decoder in addition to its word's loss: from a
    word spelled there (chapter 5), or from the lexical module (Nguyen 3.2.4)."""

    dh_tilde: Array | float = 0.0  # (H, 1)
    dc: Array | float = 0.0  # of c_t, (He, 1)
    dh: Array | float = 0.0  # (H, 1)
    da: Array | float = 0.0  # of a_t, (S, 1)


def as_written(columns: Array, variant: Variant) -> Array:
    """Columns of source states in the order of the written words, and back (erratum 9)."""
    return columns[:, ::-1] if variant.reverse else columns


def fed_rows(W_e: Array, T: Layers, unit: str = "lstm") -> Array:
    """P (F, H), such that layer 1 of the decoder reads P h~_{t-1} beside the embedding.

    All of h~_{t-1} with input feeding, where F = H; nothing without it, where F = 0.
    """
    H = len(T[1]) // UNITS[unit].gates
    return np.eye(T[1].shape[1] - W_e.shape[1] - H, H)


# --- the decoder ----------------------------------------------------------------------------------


def decode(
    parameters: Mapping[str, Array], y: Sequence[int], h_bar: Array, h_0: Layers, c_0: Layers,
    variant: Variant, unit: str = "lstm",
) -> Decoded:
    """The values of the decoder, of any unit; h_0, c_0, its first states by layer from 1."""
    W_e, T, b = weights(parameters, "decoder")
    W_c, w, P = parameters["attention.W_c"], weights_of(parameters), fed_rows(W_e, T, unit)
    h, c, h_tilde = {0: h_0}, {0: c_0}, {0: np.zeros((len(W_c), 1))}
    a, context = {}, {}
    for t, word in enumerate([END, *y], start=1):
        v = embed(word, W_e)
        fed = P @ h_tilde[t - 1]                                 # h~_{t-1}, or nothing
        z = np.vstack([v, fed])                                  # Figure 4.4 (4.2.3 feeding)
        h[t], c[t] = deep_step(unit, h[t - 1], c[t - 1], z, T, b)
        h_tilde[t], a[t], context[t] = attend(variant, h[t][len(T)], h_bar, W_c, w, t)
    return Decoded(h_bar, h, c, context, h_tilde, a, variant, unit)


def decode_grad(
    parameters: Mapping[str, Array], y: Sequence[int], states: Decoded,
    d_above: Mapping[int, Array], seeds: Mapping[int, Seeds],
) -> tuple[dict[str, Array], Array, Layers, Layers]:
    """Back to the decoder's first states: gradients by name, dh_bar in the encoder's reading order,
    dh_0, dc_0.

    Arguments: d_above, the gradient of h~_t from its word's loss, and seeds, the other gradients,
    both by time step.
    """
    side, w = weights(parameters, "decoder"), weights_of(parameters)
    h_bar, h, c, _, _, _, variant, unit = states
    L, E, P = len(side.T), side.W_e.shape[1], fed_rows(side.W_e, side.T, unit)
    dW_e, dT, db = zero_gradients(side)
    W_c = parameters["attention.W_c"]
    dW_c, dh_bar = np.zeros_like(W_c), np.zeros_like(h_bar)
    dw = {name: np.zeros_like(weight) for name, weight in w.items()}
    dh, dc = ({len(y) + 1: zero} for zero in zero_states(side.T, unit))
    d_fed = np.zeros((len(P), 1))  # from the input of time t + 1
    for t in range(len(y) + 1, 0, -1):
        seed = seeds.get(t, Seeds())                             # nothing in chapter 4
        dh_tilde = d_above[t] + P.T @ d_fed + seed.dh_tilde      # (2.13) on fed = P h~_t
        d_vertical, d_source, dW, dw_t = attend_grad(
            variant, dh_tilde, h[t][L], h_bar, W_c, w, t, seed.dc, seed.da)
        dw = {name: dw[name] + dw_t[name] for name in dw}
        dW_c, dh_bar = dW_c + dW, dh_bar + d_source
        dh[t] = {**dh[t], L: dh[t][L] + d_vertical + seed.dh}    # Algorithm 4 line 10
        dh[t - 1], dc[t - 1], dz, dT_t, db_t = deep_step_grad(
            unit, dh[t], dc[t], h[t - 1], c[t - 1], h[t], side.T, side.b)
        dT, db = add(dT, dT_t), add(db, db_t)                    # Algorithm 4 line 16
        dv, d_fed = np.split(dz, [E])                            # z_t = [x_t; fed]
        dW_e = embed_grad([END, *y][t - 1], dv, dW_e)            # Algorithm 4 line 18
    gradients = {**by_name("decoder", Weights(dW_e, dT, db)), "attention.W_c": dW_c,
                 **parameters_of(dw)}
    d_read = as_written(dh_bar, variant)                         # as the encoder read them
    return gradients, d_read, dh[0], dc[0]


# --- the model ------------------------------------------------------------------------------------


def attentional_nmt_forward(
    parameters: Mapping[str, Array], x: Sequence[int], y: Sequence[int], *,
    variant: Variant = GENERAL, h_0: Layers | None = None, c_0: Layers | None = None,
) -> tuple[Number, AttentionTrace]:
    """J = -log p(y | x) for one pair, in nats; Eqs. 4.1, 4.5-4.7 and 4.2.3.

    Arguments: x (at least one word) and y, token ids without end markers; variant, how a_t is made;
    h_0, c_0 the encoder's first states by layer from 1, zero if None.
    """
    g, k = encode(parameters, x, h_0, c_0)
    h_bar = as_written(source_states(g), variant)
    states = decode(parameters, y, h_bar, g[len(x)], k[len(x)], variant)
    J, p, l = predictions(parameters, [*y, END], states.h_tilde)
    return J, AttentionTrace(g, k, states, p, l)


def attentional_nmt_backward(
    parameters: Mapping[str, Array], x: Sequence[int], y: Sequence[int], trace: AttentionTrace,
    seeds: Mapping[int, Seeds] | None = None,
) -> tuple[dict[str, Array], Layers, Layers]:
    """The gradient of J for every parameter, and the encoder's dh_0, dc_0 by layer.

    seeds: time step -> gradients that reach the decoder, beside the losses of its words.
    """
    g, k, states, p, _ = trace
    d_above, output = predictions_grad(parameters, [*y, END], p, states.h_tilde)
    decoder, d_read, dg_last, dk_last = decode_grad(parameters, y, states, d_above, seeds or {})
    encoder, dg_0, dk_0 = encode_grad(parameters, x, g, k, d_read, dg_last, dk_last)
    gradients = {**encoder, **decoder, **output}
    return {name: gradients[name] for name in parameters}, dg_0, dk_0


# --- the declaration ------------------------------------------------------------------------------

SHARES = {"decode_grad.d_read":
          "dh_bar in the order in which the encoder read, added to dg_s in turn"}
HERE = "grads.derivations"
MISTAKES = {
    **PRINTED_SIGN, **FORGOTTEN_DC,
    "input feeding forgotten": Mistake(
        f"{HERE}.attention.decode_grad", "d_above[t] + P.T @ d_fed",
        "d_above[t] + 0 * (P.T @ d_fed)",
        "h~_t gets its gradient from the loss at t only, not from the input of time t + 1."),
    **NO_JACOBIAN,
    "score's weight transposed": Mistake(
        f"{HERE}.scores.general_score_grad", "dh_bar = W_a.T @ dk", "dh_bar = W_a @ dk",
        "W_a in the place of W_a^T for dhbar_s: visible with the score general only."),
    "source states from the other end": Mistake(
        f"{HERE}.encoders.encode_grad", "dh_bar[:, [s - 1]]", "dh_bar[:, [len(x) - s]]",
        "dhbar_s is taken from position m_x + 1 - s."),
    **ONE_EMBEDDING,
}
DECLARATIONS = (Declaration(
    "attention", "Encoder-decoder with attention ({score}, {window}{feeding}), 4.2",
    attentional_nmt_forward, attentional_nmt_backward,
    partial(attention_example, translation_shapes), PAIR,
    (*TRANSLATION, "layers", *SCORED, "feeding"), gates=("i", "f", "o", "h_hat"),
    mistakes=MISTAKES),)
