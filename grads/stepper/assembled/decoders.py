"""Decoders of any unit: without attention, with Luong's, and with Bahdanau et al.'s.

A decoder maps h_bar and its initial states to the loss; and backward.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from grads.derivations.attention_step import attend, attend_grad, parameters_of, weights_of
from grads.derivations.calculus import Array, bias, tanh_prime
from grads.derivations.deep_output import (
    Output,
    deep,
    deep_grad,
    deep_output,
    deep_output_grad,
)
from grads.derivations.nmt import END, Layers, add
from grads.derivations.rnn import embed, embed_grad, predict, predict_grad
from grads.derivations.rnnsearch import Alignment, asked, asked_grad, context, context_grad, plus
from grads.derivations.rnnsearch import nothing as zeros_like
from grads.stepper.assembled.units import (
    UNITS,
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
    above: Any  # the input of the prediction: h~_t or h_t; empty in RNNsearch
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


# --- RNNsearch and RNNencdec --------------------------------------------------------------------


def the_last(s_prev: Array, h: Array, alignment: Any) -> tuple[Array, Array]:
    """c_i = ->h_S at every step ("if we fix c_i to ->h_Tx"), with weight 1 on it."""
    alpha = np.eye(h.shape[1])[:, -1:]
    c = h @ alpha
    return c, alpha


def the_last_grad(
    dc: Array, alpha: Array, s_prev: Array, h: Array, alignment: Any
) -> tuple[Array, Array, Any]:
    """No ds_{i-1}; dh (He, S)."""
    dh_context = dc @ alpha.T                                    # (2.14) on c = h alpha
    return np.zeros_like(s_prev), dh_context, alignment


def tanh_output(word: int, s: Array, y: Array, c: Array, output: Output) -> tuple[Any, Array]:
    """The deep output with tanh in the place of the maxout (Sennrich, 2016)."""
    W_o, b = output.W_o, output.b
    t_tilde = deep(s, y, c, output)
    t = np.tanh(t_tilde)
    l, p = predict(word, t, W_o, b)                              # (Bahdanau A.2.2 output)
    return l, p


def tanh_output_grad(
    word: int, p: Array, s: Array, y: Array, c: Array, output: Output
) -> tuple[Array, Array, Array, Output]:
    """ds (H, 1), dy (E, 1), dc (He, 1) and the weights' gradients."""
    W_o, t_tilde = output.W_o, deep(s, y, c, output)
    t = np.tanh(t_tilde)
    dt, dW_o, db = predict_grad(word, p, t, W_o)                 # (Bahdanau A.2.2 output)
    dt_tilde = tanh_prime(t_tilde) * dt
    ds, dy, dc, dU_o, dV_o, dC_o = deep_grad(dt_tilde, s, y, c, output)
    return ds, dy, dc, Output(dW_o, dU_o, dV_o, dC_o, dt_tilde, db)


CONTEXTS = {"search": Part(context, context_grad), "last": Part(the_last, the_last_grad)}
OUTPUTS = {"maxout": Part(deep_output, deep_output_grad),
           "tanh": Part(tanh_output, tanh_output_grad)}


def output_of(parameters: Mapping[str, Array]) -> Output:
    """The weights of the deep output."""
    W_o, U_o, V_o, C_o = (parameters[f"output.{name}"] for name in ("W_o", "U_o", "V_o", "C_o"))
    return Output(W_o, U_o, V_o, C_o, bias(parameters, "output.b_t"), bias(parameters, "output.b"))


def alignment_of(parameters: Mapping[str, Array]) -> Alignment:
    """The weights of the alignment model; none where c_i is fixed."""
    if "attention.v_a" not in parameters:
        nothing = np.zeros((0, 1))
        return Alignment(nothing, nothing, nothing)
    return Alignment(parameters["attention.W_a"], parameters["attention.U_a"],
                     parameters["attention.v_a"][:, None])


def decode_reading(
    model: Any, parameters: Mapping[str, Array], y: Sequence[int], h_bar: Array, h_0: Layers,
    c_0: Layers,
) -> tuple[Any, Decoded]:
    """The unit reads [E y_{i-1}; c_i]; c_i is from the query s_{i-1}, or fixed; A.2.2."""
    W_e, (W, b) = parameters["decoder.W_e"], stack_of(parameters, "decoder")
    alignment, output = alignment_of(parameters), output_of(parameters)
    s, none = {0: h_0[1]}, c_0[1]
    alpha, c, p, l = {}, {}, {}, {}
    for i, (before, word) in enumerate(zip([END, *y], [*y, END], strict=True), start=1):
        v = embed(before, W_e)                                   # E y_{i-1}
        q = asked(s[i - 1], v, model.query)
        c[i], alpha[i] = CONTEXTS[model.context].forward(        # (Bahdanau 5), (Bahdanau 6)
            q, h_bar, alignment)
        z = np.vstack([v, c[i]])
        s[i], none = UNITS[model.unit].forward(                  # (Bahdanau A.2.2 state)
            s[i - 1], none, z, W[1], b[1])
        deep = s[i - 1] if model.deep_state == "before" else s[i]  # erratum 18
        l[i], p[i] = OUTPUTS[model.layer].forward(               # (Bahdanau A.2.2 output)
            word, deep, v, c[i], output)
    J = sum(l.values())                                          # (Bahdanau 2)
    return J, Decoded(s, c, {}, alpha, p, l)


def decode_reading_grad(
    model: Any, parameters: Mapping[str, Array], y: Sequence[int], h_bar: Array,
    kept: Decoded,
) -> tuple[dict[str, Array], Array, Layers, Layers]:
    """Gradients by name, dh_bar, ds_0, and no dc_0."""
    W_e, (W, b) = parameters["decoder.W_e"], stack_of(parameters, "decoder")
    alignment, output, T = alignment_of(parameters), output_of(parameters), len(y) + 1
    s, c, E, none = kept.h, kept.c, W_e.shape[1], np.zeros((0, 1))
    d_alignment, d_output = zeros_like(alignment), zeros_like(output)
    dh_bar, dW_e, dW, db = np.zeros_like(h_bar), np.zeros_like(W_e), *zeros_of(W)
    dc: dict[int, Array] = {}
    ds = {i: np.zeros_like(s[0]) for i in range(T + 1)}
    for i in range(T, 0, -1):
        v = embed([END, *y][i - 1], W_e)                         # E y_{i-1}
        z = np.vstack([v, c[i]])
        k = i - 1 if model.deep_state == "before" else i          # erratum 18
        ds_deep, dv_deep, dc_deep, d_out = OUTPUTS[model.layer].backward(
            [*y, END][i - 1], kept.p[i], s[k], v, c[i], output)
        d_output = plus(d_output, d_out)
        ds[k] = ds[k] + ds_deep                                  # what the prediction read
        ds_unit, none, dz, dW_i, db_i = UNITS[model.unit].backward(     # (Bahdanau A.2.2 state)
            ds[i], none, s[i - 1], none, z, W[1], b[1])
        dW, db = add(dW, {1: dW_i}), add(db, {1: db_i})
        dv_unit, dc_unit = np.split(dz, [E])                     # z_i = [E y_{i-1}; c_i]
        dc[i] = dc_deep + dc_unit                                # c_i is read twice
        q = asked(s[i - 1], v, model.query)
        dq, dh_align, d_score = CONTEXTS[model.context].backward(
            dc[i], kept.a[i], q, h_bar, alignment)
        ds_align, dv_align = asked_grad(dq, s[i - 1], v, model.query)
        dv = dv_deep + dv_unit + dv_align                        # E y_{i-1} is read twice or thrice
        d_alignment = plus(d_alignment, d_score)
        ds[i - 1] = ds[i - 1] + ds_unit + ds_align               # s_{i-1} is the state, and attends
        dh_bar = dh_bar + dh_align
        dW_e = embed_grad([END, *y][i - 1], dv, dW_e)
    scores = {f"attention.{name}": d[:, 0] if name == "v_a" else d
              for name, d in d_alignment._asdict().items() if f"attention.{name}" in parameters}
    outputs = {f"output.{name}": d[:, 0] if name.startswith("b") else d
               for name, d in d_output._asdict().items()}
    gradients = {"decoder.W_e": dW_e, **named(Stack(dW, db), "decoder"), **scores, **outputs}
    return gradients, dh_bar, {1: ds[0]}, {1: none}


DECODERS = {"plain": Part(decode, decode_grad),
            "attention": Part(decode_attending, decode_attending_grad),
            "context": Part(decode_reading, decode_reading_grad)}
