"""Decoders that read a context with the word: RNNsearch, RNNencdec, and RNNsearch fused with a
language model (Bahdanau et al., A.2.2; Gulcehre et al., 2015, 4.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from grads.derivations.calculus import Array, bias, tanh_prime
from grads.derivations.deep_output import Output, deep, deep_grad, deep_output, deep_output_grad
from grads.derivations.fusion import (
    Fused,
    Gate,
    fused,
    fused_grad,
    fused_output,
    fused_output_grad,
)
from grads.derivations.nmt import END, Layers, add
from grads.derivations.rnn import embed, embed_grad, predict, predict_grad
from grads.derivations.rnnsearch import Alignment, asked, asked_grad, context, context_grad, plus
from grads.derivations.rnnsearch import nothing as zeros_like
from grads.derivations.units import (
    UNITS,
    Part,
    Stack,
    deep_step,
    deep_step_grad,
    named,
    nothing,
    stack_of,
    zeros_of,
)


class Decoded(NamedTuple):
    """The values of a decoder, by time step."""

    s: Any
    c: Any
    alpha: Any  # weights over the source
    p: Any
    l: Any
    language: Any = None  # with deep fusion: states and cells of the language model, and g


# --- the parts ----------------------------------------------------------------------------------


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
        empty = np.zeros((0, 1))
        return Alignment(empty, empty, empty)
    return Alignment(parameters["attention.W_a"], parameters["attention.U_a"],
                     parameters["attention.v_a"][:, None])


def gate_of(parameters: Mapping[str, Array]) -> Gate:
    """The weights of the gate and of the language model's state."""
    return Gate(parameters["output.L_o"], parameters["output.v_g"][:, None],
                parameters["output.b_g"][:, None])


def named_parts(parameters: Mapping[str, Array], *parts: Any) -> dict[str, Array]:
    """The gradients of the alignment model, the output and the gate by the parameters' names,
    columns as vectors."""
    found = {name: d for part in parts for name, d in part._asdict().items()}
    prefixes = {name: "attention" if name in Alignment._fields else "output" for name in found}
    return {f"{prefixes[name]}.{name}": d[:, 0] if name.startswith(("v", "b")) else d
            for name, d in found.items() if f"{prefixes[name]}.{name}" in parameters}


def fused_tanh(
    word: int, s: Array, y: Array, c: Array, s_lm: Array, output: Output, gate: Gate
) -> tuple[Any, Fused]:
    """The deep output with a language model, and tanh in the place of the maxout."""
    W_o, b = output.W_o, output.b
    t_tilde, g = fused(s, y, c, s_lm, output, gate)
    t = np.tanh(t_tilde)
    l, p = predict(word, t, W_o, b)                              # (Bahdanau A.2.2 output)
    return l, Fused(p, g)


def fused_tanh_grad(
    word: int, s: Array, y: Array, c: Array, s_lm: Array, output: Output, gate: Gate,
    kept: Fused,
) -> tuple[Array, Array, Array, Array, Output, Gate]:
    """ds, dy, dc, ds_lm, and the gradients of the weights."""
    p, g = kept
    t_tilde, _ = fused(s, y, c, s_lm, output, gate)
    t = np.tanh(t_tilde)
    dt, dW_o, db = predict_grad(word, p, t, output.W_o)          # (Bahdanau A.2.2 output)
    dt_tilde = tanh_prime(t_tilde) * dt
    ds, dy, dc, ds_lm, dU_o, dV_o, dC_o, d_gate = fused_grad(
        dt_tilde, g, s, y, c, s_lm, output, gate)
    return ds, dy, dc, ds_lm, Output(dW_o, dU_o, dV_o, dC_o, dt_tilde, db), d_gate


FUSED = {"maxout": Part(fused_output, fused_output_grad),
         "tanh": Part(fused_tanh, fused_tanh_grad)}


# --- one step: the context, and the state -------------------------------------------------------


def reading_step(
    model: Any, v: Array, s_prev: Array, h_bar: Array, W: Array, b: Any, alignment: Alignment
) -> tuple[Array, Array, Array]:
    """s_i (H, 1), c_i (He, 1) and the weights alpha_i, from E y_{i-1} and s_{i-1}."""
    q = asked(s_prev, v, model.query)
    c, alpha = CONTEXTS[model.context].forward(q, h_bar, alignment)  # (Bahdanau 5), (Bahdanau 6)
    z = np.vstack([v, c])
    s, _ = UNITS[model.unit].forward(s_prev, s_prev[:0], z, W, b)    # (Bahdanau A.2.2 state)
    return s, c, alpha


def reading_step_grad(
    model: Any, ds: Array, dc_deep: Array, v: Array, s_prev: Array, c: Array, alpha: Array,
    h_bar: Array, W: Array, b: Any, alignment: Alignment,
) -> tuple[Array, Array, Array, Array, Array, Any]:
    """ds_{i-1}, d(E y_{i-1}), dh_bar, dW, db and the alignment model's, given ds_i and of c_i what
    the prediction sends back."""
    z = np.vstack([v, c])
    ds_unit, _, dz, dW, db = UNITS[model.unit].backward(         # (Bahdanau A.2.2 state)
        ds, s_prev[:0], s_prev, s_prev[:0], z, W, b)
    dv_unit, dc_unit = np.split(dz, [len(v)])                    # z_i = [E y_{i-1}; c_i]
    dc = dc_deep + dc_unit                                       # c_i is read twice
    q = asked(s_prev, v, model.query)
    dq, dh_align, d_score = CONTEXTS[model.context].backward(dc, alpha, q, h_bar, alignment)
    ds_align, dv_align = asked_grad(dq, s_prev, v, model.query)
    dv = dv_unit + dv_align                                      # E y_{i-1} is read, and may ask
    ds_prev = ds_unit + ds_align                                 # s_{i-1} is the state, and asks
    return ds_prev, dv, dh_align, dW, db, d_score


# --- RNNsearch and RNNencdec --------------------------------------------------------------------


def decode_reading(
    model: Any, parameters: Mapping[str, Array], y: Sequence[int], h_bar: Array, h_0: Layers,
    c_0: Layers,
) -> tuple[Any, Decoded]:
    """The unit reads [E y_{i-1}; c_i]; c_i is from the query s_{i-1}, or fixed; A.2.2."""
    W_e, (W, b) = parameters["decoder.W_e"], stack_of(parameters, "decoder")
    alignment, output = alignment_of(parameters), output_of(parameters)
    s, alpha, c, p, l = {0: h_0[1]}, {}, {}, {}, {}
    for i, (before, word) in enumerate(zip([END, *y], [*y, END], strict=True), start=1):
        v = embed(before, W_e)                                   # E y_{i-1}
        s[i], c[i], alpha[i] = reading_step(model, v, s[i - 1], h_bar, W[1], b[1], alignment)
        deep = s[i - 1] if model.deep_state == "before" else s[i]  # erratum 18
        l[i], p[i] = OUTPUTS[model.layer].forward(               # (Bahdanau A.2.2 output)
            word, deep, v, c[i], output)
    J = sum(l.values())                                          # (Bahdanau 2)
    return J, Decoded(s, c, alpha, p, l)


def decode_reading_grad(
    model: Any, parameters: Mapping[str, Array], y: Sequence[int], h_bar: Array,
    kept: Decoded,
) -> tuple[dict[str, Array], Array, Layers, Layers]:
    """Gradients by name, dh_bar, ds_0, and no dc_0."""
    W_e, (W, b) = parameters["decoder.W_e"], stack_of(parameters, "decoder")
    alignment, output, T = alignment_of(parameters), output_of(parameters), len(y) + 1
    s, c = kept.s, kept.c
    d_alignment, d_output = zeros_like(alignment), zeros_like(output)
    dh_bar, dW_e, (dW, db) = np.zeros_like(h_bar), np.zeros_like(W_e), zeros_of(W)
    ds = {i: np.zeros_like(s[0]) for i in range(T + 1)}
    for i in range(T, 0, -1):
        v = embed([END, *y][i - 1], W_e)                         # E y_{i-1}
        k = i - 1 if model.deep_state == "before" else i          # erratum 18
        ds_deep, dv_deep, dc_deep, d_out = OUTPUTS[model.layer].backward(
            [*y, END][i - 1], kept.p[i], s[k], v, c[i], output)
        d_output = plus(d_output, d_out)
        ds[k] = ds[k] + ds_deep                                  # what the prediction read
        ds_prev, dv_read, dh_read, dW_i, db_i, d_score = reading_step_grad(
            model, ds[i], dc_deep, v, s[i - 1], c[i], kept.alpha[i], h_bar, W[1], b[1], alignment)
        dW, db = add(dW, {1: dW_i}), add(db, {1: db_i})
        d_alignment = plus(d_alignment, d_score)
        ds[i - 1] = ds[i - 1] + ds_prev
        dv = dv_deep + dv_read                                   # E y_{i-1} is read by both
        dh_bar = dh_bar + dh_read
        dW_e = embed_grad([END, *y][i - 1], dv, dW_e)
    gradients = {"decoder.W_e": dW_e, **named(Stack(dW, db), "decoder"),
                 **named_parts(parameters, d_alignment, d_output)}
    return gradients, dh_bar, {1: ds[0]}, {1: np.zeros((0, 1))}


# --- deep fusion --------------------------------------------------------------------------------


def language_step(
    unit: str, word: int, r_prev: Layers, k_prev: Layers, W_e: Array, W: Layers, b: Any
) -> tuple[Layers, Layers]:
    """The language model's states r_i and cells k_i by layer, when it has read y_{i-1}."""
    v = embed(word, W_e)
    r, k = deep_step(unit, r_prev, k_prev, v, W, b)
    return r, k


def language_step_grad(
    unit: str, word: int, dr: Layers, dk: Layers, r_prev: Layers, k_prev: Layers, r: Layers,
    dW_e: Array, W: Layers, b: Any,
) -> tuple[Layers, Layers, Array, Layers, Layers]:
    """dr_{i-1}, dk_{i-1}, dW_e with the word's added, dW and db."""
    dr_prev, dk_prev, dv, dW, db = deep_step_grad(unit, dr, dk, r_prev, k_prev, r, W, b)
    return dr_prev, dk_prev, embed_grad(word, dv, dW_e), dW, db


def decode_fused(
    model: Any, parameters: Mapping[str, Array], y: Sequence[int], h_bar: Array, h_0: Layers,
    c_0: Layers,
) -> tuple[Any, Decoded]:
    """As `decode_reading`; the output reads a language model's top state, too, through a gate."""
    W_e, (W, b) = parameters["decoder.W_e"], stack_of(parameters, "decoder")
    W_m, (W_r, b_r) = parameters["lm.W_e"], stack_of(parameters, "lm")
    alignment, output, gate = alignment_of(parameters), output_of(parameters), gate_of(parameters)
    H, L = gate.L_o.shape[1], len(W_r)
    s, alpha, c, p, g, l = {0: h_0[1]}, {}, {}, {}, {}, {}
    r, k = {0: nothing(W_r, H)}, {0: nothing(W_r, H, UNITS[model.language].cells)}
    for i, (before, word) in enumerate(zip([END, *y], [*y, END], strict=True), start=1):
        v = embed(before, W_e)                                   # E y_{i-1}
        s[i], c[i], alpha[i] = reading_step(model, v, s[i - 1], h_bar, W[1], b[1], alignment)
        r[i], k[i] = language_step(model.language, before, r[i - 1], k[i - 1], W_m, W_r, b_r)
        deep = s[i - 1] if model.deep_state == "before" else s[i]  # erratum 18
        l[i], (p[i], g[i]) = FUSED[model.layer].forward(         # (Sennrich fusion)
            word, deep, v, c[i], r[i][L], output, gate)
    J = sum(l.values())                                          # (Bahdanau 2)
    return J, Decoded(s, c, alpha, p, l, (r, k, g))


def decode_fused_grad(
    model: Any, parameters: Mapping[str, Array], y: Sequence[int], h_bar: Array,
    kept: Decoded,
) -> tuple[dict[str, Array], Array, Layers, Layers]:
    """Gradients by name, dh_bar, ds_0, and no dc_0."""
    W_e, (W, b) = parameters["decoder.W_e"], stack_of(parameters, "decoder")
    W_m, (W_r, b_r) = parameters["lm.W_e"], stack_of(parameters, "lm")
    alignment, output, gate = alignment_of(parameters), output_of(parameters), gate_of(parameters)
    T, L, s, c, (r, k, g) = len(y) + 1, len(W_r), kept.s, kept.c, kept.language
    d_alignment, d_output, d_gate = map(zeros_like, (alignment, output, gate))
    dh_bar, dW_e, (dW, db) = np.zeros_like(h_bar), np.zeros_like(W_e), zeros_of(W)
    dW_m, (dW_r, db_r) = np.zeros_like(W_m), zeros_of(W_r)
    ds = {i: np.zeros_like(s[0]) for i in range(T + 1)}
    dr, dk = ({T: {l: np.zeros_like(states[0][l]) for l in W_r}} for states in (r, k))
    for i in range(T, 0, -1):
        before, word = [END, *y][i - 1], [*y, END][i - 1]
        v = embed(before, W_e)                                   # E y_{i-1}
        j = i - 1 if model.deep_state == "before" else i          # erratum 18
        ds_deep, dv_deep, dc_deep, d_vertical, d_out, d_step = FUSED[model.layer].backward(
            word, s[j], v, c[i], r[i][L], output, gate, Fused(kept.p[i], g[i]))
        d_output, d_gate = plus(d_output, d_out), plus(d_gate, d_step)
        ds[j] = ds[j] + ds_deep                                  # what the prediction read
        dr[i] = {**dr[i], L: dr[i][L] + d_vertical}              # from above, and from i + 1
        dr[i - 1], dk[i - 1], dW_m, dW_i, db_i = language_step_grad(
            model.language, before, dr[i], dk[i], r[i - 1], k[i - 1], r[i], dW_m, W_r, b_r)
        dW_r, db_r = add(dW_r, dW_i), add(db_r, db_i)
        ds_prev, dv_read, dh_read, dW_s, db_s, d_score = reading_step_grad(
            model, ds[i], dc_deep, v, s[i - 1], c[i], kept.alpha[i], h_bar, W[1], b[1], alignment)
        dW, db = add(dW, {1: dW_s}), add(db, {1: db_s})
        d_alignment = plus(d_alignment, d_score)
        ds[i - 1] = ds[i - 1] + ds_prev
        dv = dv_deep + dv_read                                   # E y_{i-1} is read by both
        dh_bar = dh_bar + dh_read
        dW_e = embed_grad(before, dv, dW_e)
    gradients = {"decoder.W_e": dW_e, **named(Stack(dW, db), "decoder"), "lm.W_e": dW_m,
                 **named(Stack(dW_r, db_r), "lm"),
                 **named_parts(parameters, d_alignment, d_output, d_gate)}
    return gradients, dh_bar, {1: ds[0]}, {1: np.zeros((0, 1))}


# --- names ----------------------------------------------------------------------------------------

PAIRS = {"reading_step_grad.dv_unit": "v in z", "reading_step_grad.dv_align": "v in q",
         "the_last_grad.dh_context": "h in c"}
SHARES = {
    "reading_step_grad.dc_unit": "what the unit sends to c_i, added in dc below",
    "reading_step_grad.ds_align": "zero: s_{i-1} has no part in a context that stays",
    **{f"{name}.d_score": "a context that stays has no alignment model"
       for name in ("reading_step_grad", "decode_reading_grad", "decode_fused_grad")},
}
