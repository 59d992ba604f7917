"""Decoders that read a context with the word: RNNsearch, RNNencdec, and RNNsearch fused with a
language model (Bahdanau et al., A.2.2; Gulcehre et al., 2015, 4.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from grads.derivations.calculus import Array, Number, bias
from grads.derivations.deep_output import Output, deep_output, deep_output_grad
from grads.derivations.encoders import Columns, columns, encode, encode_grad
from grads.derivations.fusion import (
    Fused,
    Gate,
    fused_output,
    fused_output_grad,
)
from grads.derivations.model import Model
from grads.derivations.nmt import END
from grads.derivations.rnn import embed, embed_grad, predictions, predictions_grad
from grads.derivations.rnnsearch import (
    Alignment,
    add_gradients,
    context,
    context_grad,
    query_of,
    query_of_grad,
    zero_part,
)
from grads.derivations.units import (
    UNITS,
    Layers,
    Part,
    Stack,
    add,
    named,
    stack_of,
    zero_states,
    zeros_of,
)


class Read(NamedTuple):
    """The states of a decoder, by time step."""

    v: dict[int, Array]  # E y_{i-1}
    s: dict[int, Array]
    c: dict[int, Array]
    alpha: dict[int, Array]  # weights over the source


class Decoded(NamedTuple):
    """The values of a decoder, by time step."""

    read: Read
    p: Any
    l: Any
    language: Any = None  # with deep fusion: states and cells of the language model, and g


# --- the parts ----------------------------------------------------------------------------------


def the_last(s_prev: Array, h: Array, alignment: Any) -> tuple[Array, Array]:
    """c_i = ->h_S at every step ("if we fix c_i to ->h_Tx"), with weight 1 on it."""
    alpha = np.eye(h.shape[1])[:, -1:]
    c = h @ alpha                                                # (Nair 6.2 step 2)
    return c, alpha


def the_last_grad(
    dc: Array, alpha: Array, s_prev: Array, h: Array, alignment: Any
) -> tuple[Array, Array, Any]:
    """No ds_{i-1}; dh (He, S)."""
    dh_context = dc @ alpha.T                                    # (2.14) on c = h alpha
    return np.zeros_like(s_prev), dh_context, alignment


CONTEXTS = {"search": Part(context, context_grad), "last": Part(the_last, the_last_grad)}


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
    by_name = {name: d for weights in parts for name, d in weights._asdict().items()}
    prefixes = {name: "attention" if name in Alignment._fields else "output" for name in by_name}
    return {f"{prefixes[name]}.{name}": d[:, 0] if name.startswith(("v", "b")) else d
            for name, d in by_name.items() if f"{prefixes[name]}.{name}" in parameters}


# --- one step: the context, and the state -------------------------------------------------------


def reading_step(
    model: Model, v: Array, s_prev: Array, h_bar: Array, W: Array, b: Any, alignment: Alignment
) -> tuple[Array, Array, Array]:
    """s_i (H, 1), c_i (He, 1) and the weights alpha_i, from E y_{i-1} and s_{i-1}."""
    q = query_of(s_prev, v, model.query)
    c, alpha = CONTEXTS[model.context].forward(q, h_bar, alignment)  # (Bahdanau 5), (Bahdanau 6)
    z = np.vstack([v, c])                      # (Nair 6.2 step 4a), (Sennrich decoder)
    s, _ = UNITS[model.unit].forward(s_prev, s_prev[:0], z, W, b)    # (Bahdanau A.2.2 state)
    return s, c, alpha


def reading_step_grad(
    model: Model, ds: Array, dc_deep: Array, v: Array, s_prev: Array, c: Array, alpha: Array,
    h_bar: Array, W: Array, b: Any, alignment: Alignment,
) -> tuple[Array, Array, Array, Array, Array, Any]:
    """ds_{i-1}, d(E y_{i-1}), dh_bar, dW, db and the alignment model's gradients, given ds_i and
    the prediction's gradient of c_i."""
    z = np.vstack([v, c])
    ds_unit, _, dz, dW, db = UNITS[model.unit].backward(         # (Bahdanau A.2.2 state)
        ds, s_prev[:0], s_prev, s_prev[:0], z, W, b)
    dv_unit, dc_unit = np.split(dz, [len(v)])                    # z_i = [E y_{i-1}; c_i]
    dc = dc_deep + dc_unit                                       # c_i is read twice
    q = query_of(s_prev, v, model.query)
    dq, dh_align, d_score = CONTEXTS[model.context].backward(dc, alpha, q, h_bar, alignment)
    ds_align, dv_align = query_of_grad(dq, s_prev, v, model.query)
    dv = dv_unit + dv_align                                      # E y_{i-1}: input, maybe query
    ds_prev = ds_unit + ds_align                                 # s_{i-1}: state and query
    return ds_prev, dv, dh_align, dW, db, d_score


# --- the states -----------------------------------------------------------------------------------


def read_contexts(
    model: Model, parameters: Mapping[str, Array], y: Sequence[int], h_bar: Array, s_0: Array
) -> Read:
    """The unit reads [E y_{i-1}; c_i]; c_i is from the query s_{i-1}, or fixed; A.2.2."""
    W_e, (W, b) = parameters["decoder.W_e"], stack_of(parameters, "decoder")
    v, s, c, alpha, alignment = {}, {0: s_0}, {}, {}, alignment_of(parameters)
    for i, word in enumerate([END, *y], start=1):
        v[i] = embed(word, W_e)                                  # E y_{i-1}
        s[i], c[i], alpha[i] = reading_step(model, v[i], s[i - 1], h_bar, W[1], b[1], alignment)
    return Read(v, s, c, alpha)


def read_contexts_grad(
    model: Model, parameters: Mapping[str, Array], y: Sequence[int], h_bar: Array, read: Read,
    dv_deep: Columns, ds_deep: Columns, dc_deep: Columns,
) -> tuple[dict[str, Array], Array, Array]:
    """Gradients by name, dh_bar and ds_0, from what the predictions read, by time step."""
    W_e, (W, b), alignment = (parameters["decoder.W_e"], stack_of(parameters, "decoder"),
                              alignment_of(parameters))
    v, s, c, alpha = read
    d_alignment, dh_bar = zero_part(alignment), np.zeros_like(h_bar)
    dW_e, (dW, db) = np.zeros_like(W_e), zeros_of(W, b)
    ds = {len(v): ds_deep[len(v)]}
    for i in range(len(v), 0, -1):
        ds_prev, dv_read, dh_read, dW_i, db_i, d_score = reading_step_grad(
            model, ds[i], dc_deep[i], v[i], s[i - 1], c[i], alpha[i], h_bar, W[1], b[1], alignment)
        dW, db = add(dW, {1: dW_i}), add(db, {1: db_i})
        d_alignment = add_gradients(d_alignment, d_score)
        ds[i - 1] = ds_deep[i - 1] + ds_prev
        dv = dv_deep[i] + dv_read                                # E y_{i-1} is read by both
        dh_bar = dh_bar + dh_read
        dW_e = embed_grad([END, *y][i - 1], dv, dW_e)
    gradients = {"decoder.W_e": dW_e, **named(Stack(dW, db), "decoder"),
                 **named_parts(parameters, d_alignment)}
    return gradients, dh_bar, ds[0]


def deep_time(model: Model, i: int) -> int:
    """The time of the state that the output reads at i (erratum 18)."""
    return i - 1 if model.deep_state == "before" else i


# --- RNNsearch and RNNencdec --------------------------------------------------------------------


def decode_reading(
    model: Model, parameters: Mapping[str, Array], y: Sequence[int], h_bar: Array, h_0: Layers,
    c_0: Layers,
) -> tuple[Number, Decoded]:
    """The deep output reads s_i or s_{i-1}, E y_{i-1} and c_i."""
    read, output = read_contexts(model, parameters, y, h_bar, h_0[1]), output_of(parameters)
    (v, s, c, _), p, l = read, {}, {}
    for i, word in enumerate([*y, END], start=1):
        deep = s[deep_time(model, i)]                            # erratum 18
        l[i], p[i] = deep_output(                                # (Bahdanau A.2.2 output)
            word, deep, v[i], c[i], output, model.layer)
    J = sum(l.values())                                          # (Bahdanau 2)
    return J, Decoded(read, p, l)


def decode_reading_grad(
    model: Model, parameters: Mapping[str, Array], y: Sequence[int], h_bar: Array,
    kept: Decoded,
) -> tuple[dict[str, Array], Array, Layers, Layers]:
    """Gradients by name, dh_bar, ds_0, and no dc_0."""
    output, (v, s, c, _) = output_of(parameters), kept.read
    d_output, dv, dc = zero_part(output), {}, {}
    ds = {i: np.zeros_like(s[0]) for i in s}
    for i in range(len(v), 0, -1):
        k = deep_time(model, i)                                  # erratum 18
        ds[k], dv[i], dc[i], d_out = deep_output_grad(
            [*y, END][i - 1], kept.p[i], s[k], v[i], c[i], output, model.layer)
        d_output = add_gradients(d_output, d_out)
    gradients, dh_bar, ds_0 = read_contexts_grad(
        model, parameters, y, h_bar, kept.read, dv, ds, dc)
    return ({**gradients, **named_parts(parameters, d_output)}, dh_bar, {1: ds_0},
            {1: np.zeros((0, 1))})


def decode_states(
    model: Model, parameters: Mapping[str, Array], y: Sequence[int], h_bar: Array, h_0: Layers,
    c_0: Layers,
) -> tuple[Number, Decoded]:
    """The prediction reads only m_t, which is s_t here (Nair and Shah, 6.2)."""
    v, s, c, alpha = read_contexts(model, parameters, y, h_bar, h_0[1])
    J, p, l = predictions(parameters, [*y, END], s)              # (Nair 5 logits)
    return J, Decoded(Read(v, s, c, alpha), p, l)


def decode_states_grad(
    model: Model, parameters: Mapping[str, Array], y: Sequence[int], h_bar: Array,
    kept: Decoded,
) -> tuple[dict[str, Array], Array, Layers, Layers]:
    """Gradients by name, dh_bar, dm_0, and no dc_0."""
    v, s, c, _ = kept.read
    ds, output = predictions_grad(parameters, [*y, END], kept.p, s)
    ds[0] = np.zeros_like(s[0])                                  # nothing is predicted from m_0
    dv, dc = ({i: np.zeros_like(vectors[i]) for i in vectors} for vectors in (v, c))
    gradients, dh_bar, ds_0 = read_contexts_grad(
        model, parameters, y, h_bar, kept.read, dv, ds, dc)
    return {**gradients, **output}, dh_bar, {1: ds_0}, {1: np.zeros((0, 1))}


# --- deep fusion --------------------------------------------------------------------------------


def decode_fused(
    model: Model, parameters: Mapping[str, Array], y: Sequence[int], h_bar: Array, h_0: Layers,
    c_0: Layers,
) -> tuple[Number, Decoded]:
    """As `decode_reading`; the output reads a language model's top state, too, through a gate."""
    read, output, gate = (read_contexts(model, parameters, y, h_bar, h_0[1]),
                          output_of(parameters), gate_of(parameters))
    r, k = encode(parameters, [END, *y], side="lm", unit=model.language)
    (v, s, c, _), L = read, max(k[0])
    p, g, l = {}, {}, {}
    for i, word in enumerate([*y, END], start=1):
        deep = s[deep_time(model, i)]                            # erratum 18
        l[i], (p[i], g[i]) = fused_output(                       # (Sennrich fusion)
            word, deep, v[i], c[i], r[i][L], output, gate, model.layer)
    J = sum(l.values())                                          # (Bahdanau 2)
    return J, Decoded(read, p, l, (r, k, g))


def decode_fused_grad(
    model: Model, parameters: Mapping[str, Array], y: Sequence[int], h_bar: Array,
    kept: Decoded,
) -> tuple[dict[str, Array], Array, Layers, Layers]:
    """Gradients by name, dh_bar, ds_0, and no dc_0."""
    output, gate, (v, s, c, _) = output_of(parameters), gate_of(parameters), kept.read
    (r, k, g), d_output, d_gate = kept.language, zero_part(output), zero_part(gate)
    L, dv, dc, ds_lm = max(k[0]), {}, {}, {}
    ds = {i: np.zeros_like(s[0]) for i in s}
    for i in range(len(v), 0, -1):
        j = deep_time(model, i)                                  # erratum 18
        ds[j], dv[i], dc[i], ds_lm[i], d_out, d_step = fused_output_grad(
            [*y, END][i - 1], s[j], v[i], c[i], r[i][L], output, gate, Fused(kept.p[i], g[i]),
            model.layer)
        d_output, d_gate = add_gradients(d_output, d_out), add_gradients(d_gate, d_step)
    language, _, _ = encode_grad(
        parameters, [END, *y], r, k, columns(ds_lm),
        *zero_states(stack_of(parameters, "lm").W, model.language), side="lm", unit=model.language)
    gradients, dh_bar, ds_0 = read_contexts_grad(
        model, parameters, y, h_bar, kept.read, dv, ds, dc)
    return ({**gradients, **language, **named_parts(parameters, d_output, d_gate)}, dh_bar,
            {1: ds_0}, {1: np.zeros((0, 1))})


# --- names ----------------------------------------------------------------------------------------

PAIRS = {"reading_step_grad.dv_unit": "v in z", "reading_step_grad.dv_align": "v in q",
         "the_last_grad.dh_context": "h in c"}
SHARES = {
    "reading_step_grad.dc_unit": "what the unit sends to c_i, added in dc below",
    "reading_step_grad.ds_align": "zero: s_{i-1} has no part in a context that stays",
    **{f"{name}.d_score": "a context that stays has no alignment model"
       for name in ("reading_step_grad", "read_contexts_grad")},
}
