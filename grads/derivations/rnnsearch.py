"""RNNsearch (Bahdanau et al., 2015, Appendix A.2) for one pair of sentences, and its backward.

| parameter | shape | A.2 |
|---|---|---|
| `encoder.W_e`, `decoder.W_e` | (V, E) | E, shared by both directions; E of the target language |
| `encoder.0.forward.W` .. `.U_r` | see `gru` | W, W_z, W_r, U, U_z, U_r with -> |
| `encoder.0.backward.W` .. `.U_r` | see `gru` | the same with <- |
| `decoder.0.W` .. `.C_r` | see `gru` | W, W_z, W_r, U, U_z, U_r, C, C_z, C_r |
| `bridge.W_s` | (H, H) | W_s |
| `attention.W_a`, `.U_a`, `.v_a` | (A, H), (A, 2H), (A,) | W_a, U_a, v_a |
| `output.U_o`, `.V_o`, `.C_o` | (2M, H), (2M, E), (2M, 2H) | U_o, V_o, C_o |
| `output.W_o` | (V, M) | W_o |

The paper's n, n', m and l are H, A, E and M; T_x, T_y are S, T. Its biases are not printed; here
they are optional: `.b`, `.b_z`, `.b_r` beside each unit's U_r, `bridge.b`, `output.b_t` (2M,) and
`output.b` (V,). As in the thesis "_", the end marker, is the word before the first: y_0.

Erratum 18: t~_i is printed with s_{i-1}, the authors' later code uses s_i. `deep_state` chooses:
"before" is the printed one.

Nair and Shah (2016), 7.2, let the score read the last word too, f_score(z_{t-1}, y_{t-1}, h_i):
with `query` "state-word" the query is [s_{i-1}; E y_{i-1}], and W_a is (A, H + E).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from grads.derivations.calculus import Array, Number, bias, softmax, softmax_grad, tanh_prime
from grads.derivations.declaration import Declaration
from grads.derivations.deep_output import Output, deep_output, deep_output_grad
from grads.derivations.errata import Mistake
from grads.derivations.examples import (
    PAIR,
    TRANSLATION,
    Shapes,
    Sizes,
    translation_example,
)
from grads.derivations.gru import (
    OUTSIDE,
    ContextUnit,
    Unit,
    gru,
    gru_context,
    gru_context_grad,
    gru_grad,
    unit_shapes,
)
from grads.derivations.nmt import END
from grads.derivations.rnn import ONE_EMBEDDING, PRINTED_SIGN, embed, embed_grad
from grads.derivations.scores import additive_score, additive_score_grad

FORWARD, BACKWARD, DECODER = "encoder.0.forward", "encoder.0.backward", "decoder.0"
DEEP_STATES = ("before", "now")
QUERIES = ("state", "state-word")


class Alignment(NamedTuple):
    """The alignment model's weights, or their gradients; v_a is a column."""

    W_a: Array
    U_a: Array
    v_a: Array


class SearchTrace(NamedTuple):
    """The values of the forward pass, by position j or time i, both from 1."""

    right: dict[int, Array]  # ->h_0 .. ->h_S, (H, 1)
    left: dict[int, Array]  # <-h_1 .. <-h_{S + 1}, (H, 1)
    h: Array  # the annotations, one per column, (2H, S)
    s: dict[int, Array]  # s_0 .. s_T, (H, 1)
    alpha: dict[int, Array]  # (S, 1)
    c: dict[int, Array]  # (2H, 1)
    p: dict[int, Array]  # (V, 1)
    l: dict[int, Number]  # nats
    deep_state: str  # "before" or "now"
    query: str  # "state" or "state-word"


# --- one step of the decoder --------------------------------------------------------------------


def context(q: Array, h: Array, alignment: Alignment) -> tuple[Array, Array]:
    """c_i (2H, 1) and alpha_i (S, 1) from the query q, s_{i-1} (H, 1) as printed, and the
    annotations h (2H, S)."""
    e = additive_score(                                          # (Bahdanau A.1.2 score)
        q, h, alignment.W_a, alignment.U_a, alignment.v_a)
    alpha = softmax(e)                                           # (Bahdanau 6)
    c = h @ alpha                                                # (Bahdanau 5)
    return c, alpha


def context_grad(
    dc: Array, alpha: Array, q: Array, h: Array, alignment: Alignment
) -> tuple[Array, Array, Alignment]:
    """dq (H, 1), dh (2H, S) and the weights' gradients, given dc (2H, 1)."""
    d_alpha = h.T @ dc                                           # (2.13) on (Bahdanau 5)
    dh_context = dc @ alpha.T                                    # (2.14) on (Bahdanau 5)
    de = softmax_grad(alpha, d_alpha)                            # (Bahdanau 6)
    dq, dh_score, dW_a, dU_a, dv_a = additive_score_grad(        # (Bahdanau A.1.2 score)
        de, q, h, alignment.W_a, alignment.U_a, alignment.v_a)
    dh = dh_context + dh_score                                   # averaged, and scored
    return dq, dh, Alignment(dW_a, dU_a, dv_a)


def query_of(s_prev: Array, v: Array, query: str) -> Array:
    """The query: s_{i-1} (H, 1), or with the word's vector v (E, 1) below it."""
    if query == "state":
        return s_prev
    return np.vstack([s_prev, v])                                # (Nair 7.2 score)


def query_of_grad(dq: Array, s_prev: Array, v: Array, query: str) -> tuple[Array, Array]:
    """ds_prev (H, 1) and dv (E, 1), which is zero if the query does not have the word."""
    if query == "state":
        return dq, np.zeros_like(v)
    ds_prev, dv = np.split(dq, [len(s_prev)])                    # (Nair 7.2 score)
    return ds_prev, dv


# --- the encoder --------------------------------------------------------------------------------


def encode(
    x: Sequence[int], W_e: Array, right_unit: Unit, left_unit: Unit
) -> tuple[dict[int, Array], dict[int, Array], Array]:
    """->h_0 .. ->h_S, <-h_1 .. <-h_{S+1} and the annotations h (2H, S); A.2.1."""
    S, zero = len(x), np.zeros((len(right_unit.U), 1))
    right, left = {0: zero}, {S + 1: zero}                       # h_0 = 0 (Bahdanau A.2.1 state)
    for j in range(1, S + 1):
        right[j] = gru(embed(x[j - 1], W_e), right[j - 1], right_unit)
    for k in range(S, 0, -1):
        left[k] = gru(embed(x[k - 1], W_e), left[k + 1], left_unit)
    h = np.hstack([np.vstack([right[j], left[j]]) for j in range(1, S + 1)])  # (Bahdanau 7)
    return right, left, h


def encode_grad(
    x: Sequence[int], dh: Array, d_first: Array, trace: SearchTrace, W_e: Array, right_unit: Unit,
    left_unit: Unit,
) -> tuple[Array, Unit, Unit]:
    """dW_e and the gradients of both units, given dh (2H, S) and d_first (H, 1), <-h_1's own."""
    S, dW_e = len(x), np.zeros_like(W_e)
    dh_right, dh_left = np.split(dh, 2)                          # (Bahdanau 7)
    dright_unit, dleft_unit = zero_part(right_unit), zero_part(left_unit)
    dright, dleft = {S: np.zeros_like(d_first)}, {1: d_first}
    for j in range(S, 0, -1):
        dright[j] = dright[j] + dh_right[:, [j - 1]]             # from above, and from j + 1
        dx, dright[j - 1], d_unit = gru_grad(
            dright[j], embed(x[j - 1], W_e), trace.right[j - 1], right_unit)
        dright_unit = add_gradients(dright_unit, d_unit)
        dW_e = embed_grad(x[j - 1], dx, dW_e)
    for k in range(1, S + 1):
        dleft[k] = dleft[k] + dh_left[:, [k - 1]]                # from above, and from k - 1
        dx, dleft[k + 1], d_unit = gru_grad(
            dleft[k], embed(x[k - 1], W_e), trace.left[k + 1], left_unit)
        dleft_unit = add_gradients(dleft_unit, d_unit)
        dW_e = embed_grad(x[k - 1], dx, dW_e)
    return dW_e, dright_unit, dleft_unit


# --- the model ----------------------------------------------------------------------------------


def forward(
    parameters: Mapping[str, Array], x: Sequence[int], y: Sequence[int], *,
    deep_state: str = "before", query: str = "state",
) -> tuple[Number, SearchTrace]:
    """J = -log p(y | x) for one pair, in nats; A.2.

    Arguments: x (at least one word) and y, token ids without end markers; deep_state, "before"
    for s_{i-1} in t~_i as printed, "now" for s_i (erratum 18); query, "state" as printed, or
    "state-word" (Nair and Shah, 7.2).
    Raises ValueError for another `deep_state` or `query`.
    """
    if deep_state not in DEEP_STATES:
        raise ValueError(f"deep_state: expected one of {', '.join(DEEP_STATES)}, "
                         f"got {deep_state!r}")
    if query not in QUERIES:
        raise ValueError(f"query: expected one of {', '.join(QUERIES)}, got {query!r}")
    right_unit, left_unit, unit, alignment, output = weights(parameters)
    W_s, b_s = parameters["bridge.W_s"], bias(parameters, "bridge.b")
    W_e = parameters["decoder.W_e"]
    right, left, h = encode(x, parameters["encoder.W_e"], right_unit, left_unit)
    a_s = W_s @ left[1] + b_s                                    # W_s <-h_1
    s = {0: np.tanh(a_s)}                                        # (Bahdanau A.2.2 initial)
    alpha, c, p, l = {}, {}, {}, {}
    for i, (before, word) in enumerate(zip([END, *y], [*y, END], strict=True), start=1):
        v = embed(before, W_e)                                   # E y_{i-1}
        q = query_of(s[i - 1], v, query)
        c[i], alpha[i] = context(q, h, alignment)                # (Bahdanau 5), (Bahdanau 6)
        s[i] = gru_context(v, s[i - 1], c[i], unit)              # (Bahdanau A.2.2 state)
        deep = s[i - 1] if deep_state == "before" else s[i]      # erratum 18
        l[i], p[i] = deep_output(word, deep, v, c[i], output)    # (Bahdanau A.2.2 output)
    J = sum(l.values())                                          # (Bahdanau 2)
    return J, SearchTrace(right, left, h, s, alpha, c, p, l, deep_state, query)


def backward(
    parameters: Mapping[str, Array], x: Sequence[int], y: Sequence[int], trace: SearchTrace
) -> dict[str, Array]:
    """The gradient of J for every parameter, by name."""
    right_unit, left_unit, unit, alignment, output = weights(parameters)
    W_s, W_e = parameters["bridge.W_s"], parameters["decoder.W_e"]
    d_unit, d_alignment, d_output = zero_part(unit), zero_part(alignment), zero_part(output)
    T, s, c, h = len(y) + 1, trace.s, trace.c, trace.h
    dc: dict[int, Array] = {}
    ds = {i: np.zeros_like(s[0]) for i in range(T + 1)}
    dh, dW_e = np.zeros_like(h), np.zeros_like(W_e)
    for i in range(T, 0, -1):
        v = embed([END, *y][i - 1], W_e)                         # E y_{i-1}
        k = i - 1 if trace.deep_state == "before" else i         # erratum 18
        ds_deep, dv_deep, dc_deep, d_out = deep_output_grad(     # (Bahdanau A.2.2 output)
            [*y, END][i - 1], trace.p[i], s[k], v, c[i], output)
        d_output = add_gradients(d_output, d_out)
        ds[k] = ds[k] + ds_deep                                  # what the prediction read
        dv_unit, ds_unit, dc_unit, d_step = gru_context_grad(    # (Bahdanau A.2.2 state)
            ds[i], v, s[i - 1], c[i], unit)
        d_unit = add_gradients(d_unit, d_step)
        dc[i] = dc_deep + dc_unit                                # c_i is read twice
        q = query_of(s[i - 1], v, trace.query)
        dq, dh_align, d_score = context_grad(                    # (Bahdanau 5), (Bahdanau 6)
            dc[i], trace.alpha[i], q, h, alignment)
        ds_align, dv_align = query_of_grad(dq, s[i - 1], v, trace.query)
        dv = dv_deep + dv_unit + dv_align                        # E y_{i-1} is read twice or thrice
        d_alignment = add_gradients(d_alignment, d_score)
        ds[i - 1] = ds[i - 1] + ds_unit + ds_align               # s_{i-1} is the state, and attends
        dh = dh + dh_align
        dW_e = embed_grad([END, *y][i - 1], dv, dW_e)
    a_s = W_s @ trace.left[1] + bias(parameters, "bridge.b")
    da_s = tanh_prime(a_s) * ds[0]                               # (Bahdanau A.2.2 initial)
    dW_s = da_s @ trace.left[1].T                                # (2.14) on W_s <-h_1
    d_first = W_s.T @ da_s                                       # (2.13) on W_s <-h_1
    dW_e_source, dright_unit, dleft_unit = encode_grad(
        x, dh, d_first, trace, parameters["encoder.W_e"], right_unit, left_unit)
    gradients = {"encoder.W_e": dW_e_source, "decoder.W_e": dW_e, "bridge.W_s": dW_s,
                 "bridge.b": da_s[:, 0], **named(FORWARD, dright_unit),
                 **named(BACKWARD, dleft_unit), **named(DECODER, d_unit),
                 **named("attention", d_alignment), **named("output", d_output)}
    return {name: gradients[name] for name in parameters}


# --- parameters by name -------------------------------------------------------------------------


def weights(
    parameters: Mapping[str, Array]
) -> tuple[Unit, Unit, ContextUnit, Alignment, Output]:
    """The parameters of each part: both encoders, decoder, alignment, output."""
    def unit(prefix: str, fields: Sequence[str]) -> dict[str, Any]:
        return {name: bias(parameters, f"{prefix}.{name}") if name.startswith("b")
                else parameters[f"{prefix}.{name}"] for name in fields}

    alignment = Alignment(parameters["attention.W_a"], parameters["attention.U_a"],
                     parameters["attention.v_a"][:, None])
    return (Unit(**unit(FORWARD, Unit._fields)), Unit(**unit(BACKWARD, Unit._fields)),
            ContextUnit(**unit(DECODER, ContextUnit._fields)), alignment,
            Output(**unit("output", Output._fields)))


def named(prefix: str, gradients: Any) -> dict[str, Array]:
    """The gradients of a part by the parameters' names; columns are vectors there."""
    return {f"{prefix}.{name}": d[:, 0] if name.startswith(("b", "v")) else d
            for name, d in gradients._asdict().items()}


def zero_part(weights: Any) -> Any:
    """Zero gradients for a part; that of an absent bias is 0-d until one is added."""
    return type(weights)(*(np.zeros_like(weight) for weight in weights))


def add_gradients(total: Any, term: Any) -> Any:
    """The sum of two parts' gradients, weight by weight."""
    return type(total)(*(a + b for a, b in zip(total, term, strict=True)))


# --- the example ----------------------------------------------------------------------------------


def search_shapes(V_s: int, V_t: int, sizes: Sizes) -> Shapes:
    """The parameters of RNNsearch."""
    H, E, A, M = sizes.hidden, sizes.embedding, sizes.hidden + 1, sizes.hidden
    shapes: Shapes = {"encoder.W_e": (V_s, E), "decoder.W_e": (V_t, E)}
    for prefix, He in (("encoder.0.forward", 0), ("encoder.0.backward", 0), ("decoder.0", 2 * H)):
        unit = unit_shapes(H, E, He, sizes.biases)
        shapes |= {f"{prefix}.{name}": shape for name, shape in unit.items()}
    shapes |= {"bridge.W_s": (H, H), "attention.W_a": (A, H), "attention.U_a": (A, 2 * H),
               "attention.v_a": (A,), "output.U_o": (2 * M, H), "output.V_o": (2 * M, E),
               "output.C_o": (2 * M, 2 * H), "output.W_o": (V_t, M)}
    return shapes | ({"bridge.b": (H,), "output.b_t": (2 * M,), "output.b": (V_t,)}
                     if sizes.biases else {})


PAIRS = {"context_grad.dh_context": "h in c", "backward.dv_align": "v in q",
         "backward.d_first": "left[1] in a_s"}
SHARES = {
    "encode_grad.dh_right": "the rows of dh that belong to ->h_1 .. ->h_S, added to each in turn",
    "encode_grad.dh_left": "the rows of dh that belong to <-h_1 .. <-h_S, added to each in turn",
}
HERE = "grads.derivations"
MISTAKES = {
    **PRINTED_SIGN,
    "alignment model forgotten": Mistake(
        f"{HERE}.rnnsearch.backward", "+ ds_unit + ds_align", "+ ds_unit",
        "s_{i-1} gets no gradient through the alignment model."),
    "context read once": Mistake(
        f"{HERE}.rnnsearch.backward", "dc_deep + dc_unit", "dc_deep",
        "c_i gets its gradient from the output only, not from the unit."),
    "maxout to both": Mistake(
        f"{HERE}.deep_output.maxout_grad", "np.where(first.real >= second.real, 0, dt)",
        "np.where(first.real >= second.real, dt, dt)",
        "both of a pair get the gradient, not the larger one alone."),
    **OUTSIDE, **ONE_EMBEDDING,
}
DECLARATIONS = (Declaration(
    "rnnsearch", "RNNsearch, Bahdanau et al. A.2", forward, backward,
    partial(translation_example, search_shapes), PAIR, TRANSLATION, mistakes=MISTAKES),)
