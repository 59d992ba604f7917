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
from typing import Any, NamedTuple

import numpy as np

from grads.derivations.attention_step import (
    NO_JACOBIAN,
    attend,
    attend_grad,
    parameters_of,
    weights_of,
)
from grads.derivations.calculus import Array, bias
from grads.derivations.declaration import Declaration
from grads.derivations.errata import Mistake
from grads.derivations.examples import PAIR, SCORED, TRANSLATION, translation_example
from grads.derivations.lstm import FORGOTTEN_DC
from grads.derivations.nmt import (
    END,
    Layers,
    Weights,
    add,
    by_name,
    multi_layer_lstm,
    multi_layer_lstm_grad,
    weights,
    zero_gradients,
    zero_state,
)
from grads.derivations.rnn import (
    ONE_EMBEDDING,
    PRINTED_SIGN,
    embed,
    embed_grad,
    predict,
    predict_grad,
)
from grads.derivations.scores import Variant
from grads.derivations.units import UNITS, deep_step, deep_step_grad

GENERAL = Variant("general")


class Decoded(NamedTuple):
    """The values of the decoder, whose time starts again at 1."""

    h_bar: Array  # (He, S), in the order of the written words
    h: dict[int, Layers]  # h[t][l], t = 0 .. m_y + 1; h[t][0] is layer 1's input
    c: dict[int, Layers]  # cells
    context: dict[int, Array]  # c_1 .. c_{m_y + 1}, (He, 1)
    h_tilde: dict[int, Array]  # h~_0 .. h~_{m_y + 1}, (H, 1)
    a: dict[int, Array]  # a_1 .. a_{m_y + 1}, (S, 1)
    p: dict[int, Array]  # p_1 .. p_{m_y + 1}, (V, 1)
    l: dict[int, Any]  # l_1 .. l_{m_y + 1}, nats
    variant: Variant
    unit: str = "lstm"


class AttentionTrace(NamedTuple):
    """The values of the forward pass: the encoder's, then those of `Decoded`."""

    g: dict[int, Layers]  # encoder: g[s][l], s = 0 .. m_x, (He, 1); g[s][0] is the embedding
    k: dict[int, Layers]  # encoder: cells
    h_bar: Array
    h: dict[int, Layers]  # decoder: h[t][l], t = 0 .. m_y + 1; h[t][0] is layer 1's input
    c: dict[int, Layers]  # decoder: cells
    context: dict[int, Array]  # c_1 .. c_{m_y + 1}, (He, 1)
    h_tilde: dict[int, Array]  # h~_0 .. h~_{m_y + 1}, (H, 1)
    a: dict[int, Array]  # a_1 .. a_{m_y + 1}, (S, 1)
    p: dict[int, Array]  # p_1 .. p_{m_y + 1}, (V, 1)
    l: dict[int, Any]  # l_1 .. l_{m_y + 1}, nats
    variant: Variant
    unit: str = "lstm"


class Seeds(NamedTuple):
    """What reaches a time step of the decoder beside its word's loss: from a word spelled there
    (chapter 5), from the lexical module (Nguyen 3.2.4)."""

    dh_tilde: Array | float = 0.0  # (H, 1)
    dc: Array | float = 0.0  # of c_t, (He, 1)
    dh: Array | float = 0.0  # (H, 1)
    da: Array | float = 0.0  # of a_t, (S, 1)


def run_encoder(
    parameters: Mapping[str, Array], x: Sequence[int], h_0: Layers | None = None,
    c_0: Layers | None = None, side: str = "encoder",
) -> tuple[dict[int, Layers], dict[int, Layers]]:
    """The states and cells of one side at every position; Algorithm 3, t = 1 .. m_x."""
    W_e, T, b = weights(parameters, side)
    g = {0: zero_state(T) if h_0 is None else h_0}
    k = {0: zero_state(T) if c_0 is None else c_0}
    for s, word in enumerate(x, start=1):
        g[s], k[s] = multi_layer_lstm(g[s - 1], k[s - 1], embed(word, W_e), T, b)
    return g, k


def source_states(g: dict[int, Layers]) -> Array:
    """h_bar (He, S): the encoder's top-layer states hbar_1 .. hbar_S as columns."""
    top = max(g[0])
    return np.hstack([g[s][top] for s in range(1, len(g))])


def as_written(columns: Array, variant: Variant) -> Array:
    """Columns of source states in the order of the written words, and back (erratum 9)."""
    return columns[:, ::-1] if variant.reverse else columns


def fed_rows(W_e: Array, T: Layers, unit: str = "lstm") -> Array:
    """P (F, H), such that layer 1 of the decoder reads P h~_{t-1} beside the embedding.

    All of h~_{t-1} with input feeding, where F = H; nothing without it, where F = 0.
    """
    H = len(T[1]) // UNITS[unit].gates
    return np.eye(T[1].shape[1] - W_e.shape[1] - H, H)


def attentional_nmt_forward(
    parameters: Mapping[str, Array], x: Sequence[int], y: Sequence[int], *,
    variant: Variant = GENERAL, h_0: Layers | None = None, c_0: Layers | None = None,
) -> tuple[Any, AttentionTrace]:
    """J = -log p(y | x) for one pair, in nats; Eqs. 4.1, 4.5-4.7 and 4.2.3.

    Arguments: x (at least one word) and y, token ids without end markers; variant, how a_t is made;
    h_0, c_0 the encoder's first states by layer from 1, zero if None.
    """
    g, k = run_encoder(parameters, x, h_0, c_0)
    h_bar = as_written(source_states(g), variant)
    J, decoded = run_decoder(parameters, y, h_bar, g[len(x)], k[len(x)], variant)
    return J, AttentionTrace(g, k, *decoded)


def run_decoder(
    parameters: Mapping[str, Array], y: Sequence[int], h_bar: Array, h_0: Layers, c_0: Layers,
    variant: Variant, unit: str = "lstm",
) -> tuple[Any, Decoded]:
    """J and the values of the decoder, of any unit; h_0, c_0, its first states by layer from 1."""
    W_e, T, b = weights(parameters, "decoder")
    W_c, w, P = parameters["attention.W_c"], weights_of(parameters), fed_rows(W_e, T, unit)
    W_hy, b_hy = parameters["output.W_hy"], bias(parameters, "output.b")
    h, c, h_tilde = {0: h_0}, {0: c_0}, {0: np.zeros((len(W_c), 1))}
    a, context, p, l = {}, {}, {}, {}
    for t, (word, following) in enumerate(zip([END, *y], [*y, END], strict=True), start=1):
        v = embed(word, W_e)
        fed = P @ h_tilde[t - 1]                                 # h~_{t-1}, or nothing
        z = np.vstack([v, fed])                                  # Figure 4.4 (4.2.3 feeding)
        h[t], c[t] = deep_step(unit, h[t - 1], c[t - 1], z, T, b)
        h_tilde[t], a[t], context[t] = attend(variant, h[t][len(T)], h_bar, W_c, w, t)
        l[t], p[t] = predict(following, h_tilde[t], W_hy, b_hy)  # (4.6)
    J = sum(l.values())                                          # -log p(y | x), (4.1)
    return J, Decoded(h_bar, h, c, context, h_tilde, a, p, l, variant, unit)


def attentional_nmt_backward(
    parameters: Mapping[str, Array], x: Sequence[int], y: Sequence[int], trace: AttentionTrace,
    seeds: Mapping[int, Seeds] | None = None,
) -> tuple[dict[str, Array], Layers, Layers]:
    """The gradient of J for every parameter, and the encoder's dh_0, dc_0 by layer.

    seeds: time step -> gradients that reach the decoder, beside the losses of its words.
    """
    decoder, d_read, dg_last, dk_last = decoder_grad(parameters, y, trace, seeds or {})
    encoder, dg_0, dk_0 = encoder_grad(
        parameters, x, trace.g, trace.k, d_read, dg_last, dk_last)
    gradients = {**encoder, **decoder}
    return {name: gradients[name] for name in parameters}, dg_0, dk_0


def decoder_grad(
    parameters: Mapping[str, Array], y: Sequence[int], trace: AttentionTrace | Decoded,
    seeds: Mapping[int, Seeds],
) -> tuple[dict[str, Array], Array, Layers, Layers]:
    """From the losses back to the decoder's initial states: gradients by name, dh_bar in the
    encoder's reading order, dh_0, dc_0."""
    side, W_hy, W_c = (weights(parameters, "decoder"), parameters["output.W_hy"],
                       parameters["attention.W_c"])
    w, h_bar, unit = weights_of(parameters), trace.h_bar, trace.unit
    L, E, P = len(side.T), side.W_e.shape[1], fed_rows(side.W_e, side.T, unit)
    dW_e, dT, db = zero_gradients(side)
    dW_c, dW_hy, db_hy = np.zeros_like(W_c), np.zeros_like(W_hy), np.zeros_like(W_hy[:, :1])
    dw = {name: np.zeros_like(weight) for name, weight in w.items()}
    dh, dc = ({len(y) + 1: {l: np.zeros_like(states[0][l]) for l in side.T}}
              for states in (trace.h, trace.c))
    dh_bar = np.zeros_like(h_bar)
    d_fed = np.zeros((len(P), 1))  # from the input of time t + 1
    for t in range(len(y) + 1, 0, -1):
        dh_tilde, dW, d_hy = predict_grad([*y, END][t - 1], trace.p[t], trace.h_tilde[t], W_hy)
        dW_hy, db_hy = dW_hy + dW, db_hy + d_hy                  # (4.6), Algorithm 4 line 11
        seed = seeds.get(t, Seeds())                             # nothing in chapter 4
        dh_tilde = dh_tilde + P.T @ d_fed + seed.dh_tilde        # (2.13) on fed = P h~_t
        d_vertical, d_source, dW, dw_t = attend_grad(
            trace.variant, dh_tilde, trace.h[t][L], h_bar, W_c, w, t, seed.dc, seed.da)
        dw = {name: dw[name] + dw_t[name] for name in dw}
        dW_c, dh_bar = dW_c + dW, dh_bar + d_source
        dh[t] = {**dh[t], L: dh[t][L] + d_vertical + seed.dh}    # Algorithm 4 line 10
        dh[t - 1], dc[t - 1], dz, dT_t, db_t = deep_step_grad(
            unit, dh[t], dc[t], trace.h[t - 1], trace.c[t - 1], trace.h[t], side.T, side.b)
        dT, db = add(dT, dT_t), add(db, db_t)                    # Algorithm 4 line 16
        dv, d_fed = np.split(dz, [E])                            # z_t = [x_t; fed]
        dW_e = embed_grad([END, *y][t - 1], dv, dW_e)            # Algorithm 4 line 18
    gradients = by_name("decoder", Weights(dW_e, dT, db))
    output = {"output.W_hy": dW_hy, "output.b": db_hy[:, 0]}
    attention = {"attention.W_c": dW_c, **parameters_of(dw)}
    d_read = as_written(dh_bar, trace.variant)                   # as the encoder read them
    return {**gradients, **output, **attention}, d_read, dh[0], dc[0]


def encoder_grad(
    parameters: Mapping[str, Array], x: Sequence[int], g: dict[int, Layers],
    k: dict[int, Layers], dh_bar: Array, dg_last: Layers, dk_last: Layers, side: str = "encoder",
) -> tuple[dict[str, Array], Layers, Layers]:
    """Algorithm 4 for t = m_x .. 1, with dhbar_s added to the top layer; gradients, dg_0, dk_0.

    Arguments: those and the results of `run_encoder`; dh_bar (He, S); dg_last, dk_last, gradients
    of the last states and cells from the decoder.
    """
    W_e, T, b = weights(parameters, side)
    L = len(T)
    dW_e, dT, db = zero_gradients(Weights(W_e, T, b))
    dg, dk = {len(x): dg_last}, {len(x): dk_last}
    for s in range(len(x), 0, -1):
        dg[s] = {**dg[s], L: dg[s][L] + dh_bar[:, [s - 1]]}      # hbar_s is the top layer's h_s
        dg[s - 1], dk[s - 1], dx, dT_s, db_s = multi_layer_lstm_grad(
            dg[s], dk[s], g[s - 1], k[s - 1], g[s], T, b)
        dT, db = add(dT, dT_s), add(db, db_s)                    # Algorithm 4 line 16
        dW_e = embed_grad(x[s - 1], dx, dW_e)                    # Algorithm 4 line 18
    return by_name(side, Weights(dW_e, dT, db)), dg[0], dk[0]


# --- the declaration ------------------------------------------------------------------------------

PARTNERS: Mapping[str, str] = {
    "decoder_grad": "run_decoder", "encoder_grad": "run_encoder"}
SHARES = {"decoder_grad.d_read":
          "dh_bar in the order in which the encoder read, added to dg_s in turn"}
HERE = "grads.derivations"
MISTAKES = {
    **PRINTED_SIGN, **FORGOTTEN_DC,
    "input feeding forgotten": Mistake(
        f"{HERE}.attention.decoder_grad", "dh_tilde + P.T @ d_fed", "dh_tilde + 0 * (P.T @ d_fed)",
        "h~_t gets its gradient from the loss at t only, not from the input of time t + 1."),
    **NO_JACOBIAN,
    "score's weight transposed": Mistake(
        f"{HERE}.scores.general_score_grad", "dh_bar = W_a.T @ dk", "dh_bar = W_a @ dk",
        "W_a in the place of W_a^T for dhbar_s: visible with the score general only."),
    "source states from the other end": Mistake(
        f"{HERE}.attention.encoder_grad", "dh_bar[:, [s - 1]]", "dh_bar[:, [len(x) - s]]",
        "dhbar_s is taken from position m_x + 1 - s."),
    **ONE_EMBEDDING,
}
DECLARATIONS = (Declaration(
    "attention", "Encoder-decoder with attention ({score}, {window}{feeding}), 4.2",
    attentional_nmt_forward, attentional_nmt_backward, partial(translation_example, True), PAIR,
    (*TRANSLATION, "layers", *SCORED, "feeding"), PARTNERS, mistakes=MISTAKES),)
