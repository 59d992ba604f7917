"""Encoders of any unit, in one or two directions, and the decoder's initial states.

An encoder returns h_bar (He, S), the top states of its positions as columns, and its ends by layer:
the last states [h; c] as one column; if bidirectional, [->h_S; <-h_1; ->c_S; <-c_1].

x holds a token id for each position, or of a model with factors a tuple: the word's id and one of
each factor. W_e is the table `encoder.W_e`, or the tables of word and factors by name: "e" of
`encoder.W_e`, "case" of `encoder.W_case`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from grads.derivations.calculus import Array, bias, tanh_prime
from grads.derivations.fusion import factored_embed, factored_embed_grad
from grads.derivations.model import Model
from grads.derivations.rnn import embed, embed_grad
from grads.derivations.units import (
    UNITS,
    Layers,
    Part,
    Stack,
    add,
    deep_step,
    deep_step_grad,
    named,
    stack_of,
    zero_states,
    zeros_of,
)

ENDS = RIGHT, LEFT = ".forward", ".backward"
Columns = dict[Any, Array]


class Encoded(NamedTuple):
    """The values of an encoder."""

    g: Any  # states: by position and layer; of both ends ->h by (layer, position), ...
    k: Any  # cells
    bidirectional: Any  # <-h, <-c and the layers' inputs v


# --- what a position reads ------------------------------------------------------------------------

INPUTS = {"word": Part(embed, embed_grad), "factors": Part(factored_embed, factored_embed_grad)}


def reads(factors: Sequence[str]) -> str:
    """The input at a position: a key of INPUTS."""
    return "factors" if factors else "word"


def tables_of(parameters: Mapping[str, Array], side: str, factors: Sequence[str]) -> Any:
    """The table of the words; with factors, all tables by name."""
    if not factors:
        return parameters[f"{side}.W_e"]
    return {name: parameters[f"{side}.W_{name}"] for name in ("e", *factors)}


def zero_tables(W_e: Any) -> Any:
    """Zeros in the form of what `tables_of` returns."""
    if isinstance(W_e, dict):
        return {name: np.zeros_like(W) for name, W in W_e.items()}
    return np.zeros_like(W_e)


def named_tables(dW_e: Any, side: str) -> dict[str, Array]:
    """The gradients under the parameters' names."""
    tables = dW_e if isinstance(dW_e, dict) else {"e": dW_e}
    return {f"{side}.W_{name}": dW for name, dW in tables.items()}


# --- one direction ------------------------------------------------------------------------------


def encode(
    parameters: Mapping[str, Array], x: Sequence[Any], h_0: Layers | None = None,
    c_0: Layers | None = None, side: str = "encoder", unit: str = "lstm",
    factors: Sequence[str] = (),
) -> tuple[dict[int, Layers], dict[int, Layers]]:
    """The states and cells of one side at every position; Algorithm 3, t = 1 .. m_x, of any unit.

    Arguments: x, ids of words, or of words and their factors; h_0, c_0, zero if None.
    """
    W_e, (T, b) = tables_of(parameters, side, factors), stack_of(parameters, side)
    zero_h, zero_c = zero_states(T, unit)
    g, k = {0: h_0 or zero_h}, {0: c_0 or zero_c}
    for s, word in enumerate(x, start=1):
        v = INPUTS[reads(factors)].forward(word, W_e)
        g[s], k[s] = deep_step(unit, g[s - 1], k[s - 1], v, T, b)
    return g, k


def encode_grad(
    parameters: Mapping[str, Array], x: Sequence[Any], g: dict[int, Layers],
    k: dict[int, Layers], dh_bar: Array, dg_last: Layers, dk_last: Layers, side: str = "encoder",
    unit: str = "lstm", factors: Sequence[str] = (),
) -> tuple[dict[str, Array], Layers, Layers]:
    """Algorithm 4 for t = m_x .. 1, with dhbar_s added to the top layer; gradients, dg_0, dk_0.

    Arguments: those and the results of `encode`; dh_bar (He, S); dg_last, dk_last, gradients of the
    last states and cells from the decoder.
    """
    W_e, (T, b) = tables_of(parameters, side, factors), stack_of(parameters, side)
    L, dW_e, (dT, db) = len(T), zero_tables(W_e), zeros_of(T, b)
    dg, dk = {len(x): dg_last}, {len(x): dk_last}
    for s in range(len(x), 0, -1):
        dg[s] = {**dg[s], L: dg[s][L] + dh_bar[:, [s - 1]]}      # hbar_s is the top layer's h_s
        dg[s - 1], dk[s - 1], dv, dT_s, db_s = deep_step_grad(
            unit, dg[s], dk[s], g[s - 1], k[s - 1], g[s], T, b)
        dT, db = add(dT, dT_s), add(db, db_s)                    # Algorithm 4 line 16
        dW_e = INPUTS[reads(factors)].backward(x[s - 1], dv, dW_e)  # Algorithm 4 line 18
    return {**named_tables(dW_e, side), **named(Stack(dT, db), side)}, dg[0], dk[0]


def source_states(g: dict[int, Layers]) -> Array:
    """h_bar (He, S): the top layer's states hbar_1 .. hbar_S as columns."""
    return columns(tops(g))


def tops(g: dict[int, Layers]) -> dict[int, Array]:
    """The top layer's states by position from 1."""
    return {s: g[s][max(g[0])] for s in range(1, len(g))}


def columns(by_position: Mapping[int, Array]) -> Array:
    """Columns side by side, in the order of their positions."""
    return np.hstack([by_position[s] for s in sorted(by_position)])


def encode_once(
    model: Model, parameters: Mapping[str, Array], x: Sequence[Any]
) -> tuple[Array, Layers, Encoded]:
    """In the order of the words."""
    g, k = encode(parameters, x, unit=model.unit, factors=model.factors)
    ends = {l: np.vstack([g[len(x)][l], k[len(x)][l]]) for l in k[0]}
    return source_states(g), ends, Encoded(g, k, None)


def encode_once_grad(
    model: Model, parameters: Mapping[str, Array], x: Sequence[Any], encoded: Encoded,
    dh_bar: Array, d_ends: Layers,
) -> dict[str, Array]:
    """The gradients by name."""
    to_h, to_c = ({l: d_ends[l][rows] for l in d_ends}           # d_ends of a layer: [dh; dc]
                  for rows in (slice(model.H), slice(model.H, None)))
    gradients, _, _ = encode_grad(parameters, x, encoded.g, encoded.k, dh_bar, to_h, to_c,
                                  unit=model.unit, factors=model.factors)
    return gradients


# --- two directions -----------------------------------------------------------------------------


def encode_both(
    model: Model, parameters: Mapping[str, Array], x: Sequence[Any]
) -> tuple[Array, Layers, Encoded]:
    """Bidirectional, layer by layer; each layer reads [->h_s; <-h_s] of the layer below."""
    S, W_e, unit, H = len(x), tables_of(parameters, "encoder", model.factors), model.unit, model.H
    (right_W, right_b), (left_W, left_b) = (stack_of(parameters, "encoder", end) for end in ENDS)
    v, right, left, right_c, left_c = {}, {}, {}, {}, {}
    for j in range(1, S + 1):
        v[0, j] = INPUTS[reads(model.factors)].forward(x[j - 1], W_e)
    for l in range(1, len(right_W) + 1):
        right[l, 0], right_c[l, 0] = np.zeros((H, 1)), np.zeros((UNITS[unit].cells * H, 1))
        left[l, S + 1], left_c[l, S + 1] = np.zeros((H, 1)), np.zeros((UNITS[unit].cells * H, 1))
        for s in range(1, S + 1):
            right[l, s], right_c[l, s] = UNITS[unit].forward(
                right[l, s - 1], right_c[l, s - 1], v[l - 1, s], right_W[l], right_b[l])
        for k in range(S, 0, -1):
            left[l, k], left_c[l, k] = UNITS[unit].forward(
                left[l, k + 1], left_c[l, k + 1], v[l - 1, k], left_W[l], left_b[l])
        for j in range(1, S + 1):
            v[l, j] = np.vstack([right[l, j], left[l, j]])       # (Bahdanau 7)
    h_bar = np.hstack([v[len(right_W), j] for j in range(1, S + 1)])
    ends = {l: np.vstack([right[l, S], left[l, 1], right_c[l, S], left_c[l, 1]])
            for l in right_W}
    return h_bar, ends, Encoded(right, right_c, (left, left_c, v))


def encode_both_grad(
    model: Model, parameters: Mapping[str, Array], x: Sequence[Any], encoded: Encoded,
    dh_bar: Array, d_ends: Layers,
) -> dict[str, Array]:
    """The gradients of the bidirectional encoder, from the top layer down."""
    S, W_e, unit, H = len(x), tables_of(parameters, "encoder", model.factors), model.unit, model.H
    right, right_c, (left, left_c, v) = encoded
    (right_W, right_b), (left_W, left_b) = (stack_of(parameters, "encoder", end) for end in ENDS)
    dW_e, L, C = zero_tables(W_e), len(right_W), UNITS[unit].cells * H
    dright_W, dright_b, dleft_W, dleft_b = *zeros_of(right_W, right_b), *zeros_of(left_W, left_b)
    dright, dleft, dright_c, dleft_c = {}, {}, {}, {}
    dv = {(L, j): dh_bar[:, [j - 1]] for j in range(1, S + 1)}
    for l in range(L, 0, -1):
        dright[l, S], dleft[l, 1], dright_c[l, S], dleft_c[l, 1] = np.split(
            d_ends[l], [H, 2 * H, 2 * H + C])
        for s in range(S, 0, -1):
            dright[l, s] = dright[l, s] + dv[l, s][:H]           # from above, and from s + 1
            dright[l, s - 1], dright_c[l, s - 1], dx_right, dW, db = UNITS[unit].backward(
                dright[l, s], dright_c[l, s], right[l, s - 1], right_c[l, s - 1], v[l - 1, s],
                right_W[l], right_b[l])
            dv[l - 1, s] = dx_right
            dright_W = {**dright_W, l: dright_W[l] + dW}
            dright_b = {**dright_b, l: dright_b[l] + db}
        for k in range(1, S + 1):
            dleft[l, k] = dleft[l, k] + dv[l, k][H:]             # from above, and from k - 1
            dleft[l, k + 1], dleft_c[l, k + 1], dx_left, dW, db = UNITS[unit].backward(
                dleft[l, k], dleft_c[l, k], left[l, k + 1], left_c[l, k + 1], v[l - 1, k],
                left_W[l], left_b[l])
            dv[l - 1, k] = dv[l - 1, k] + dx_left                # both ends read the layer below
            dleft_W = {**dleft_W, l: dleft_W[l] + dW}
            dleft_b = {**dleft_b, l: dleft_b[l] + db}
    for j in range(S, 0, -1):
        dW_e = INPUTS[reads(model.factors)].backward(x[j - 1], dv[0, j], dW_e)
    return {**named_tables(dW_e, "encoder"), **named(Stack(dright_W, dright_b), "encoder", RIGHT),
            **named(Stack(dleft_W, dleft_b), "encoder", LEFT)}


# --- the decoder's initial state -----------------------------------------------------------------


def hand_over(
    H: int, parameters: Mapping[str, Array], ends: Layers
) -> tuple[Layers, Layers]:
    """h_0 and c_0 by layer: the encoder's last states, unchanged (section 2.3)."""
    h_0 = {l: ends[l][:H] for l in ends}
    c_0 = {l: ends[l][H:] for l in ends}
    return h_0, c_0


def hand_over_grad(
    H: int, parameters: Mapping[str, Array], ends: Layers, dh_0: Layers, dc_0: Layers
) -> tuple[Layers, dict[str, Array]]:
    """The ends' gradients."""
    return {l: np.vstack([dh_0[l], dc_0[l]]) for l in ends}, {}


def bridge(
    H: int, parameters: Mapping[str, Array], ends: Layers
) -> tuple[Layers, Layers]:
    """[h_0; c_0] = tanh(W [h; c]) for each layer."""
    h_0, c_0 = {}, {}
    for l in range(1, len(ends) + 1):
        W = parameters[f"bridge.{l - 1}.W"]
        joined = W @ ends[l]
        start = np.tanh(joined)
        h_0[l], c_0[l] = start[:H], start[H:]
    return h_0, c_0


def bridge_grad(
    H: int, parameters: Mapping[str, Array], ends: Layers, dh_0: Layers, dc_0: Layers
) -> tuple[Layers, dict[str, Array]]:
    """The ends' gradients, and those of the bridge's weights by name; Lemma 1 for each layer."""
    d_ends, by_name = {}, {}
    for l in range(1, len(ends) + 1):
        W = parameters[f"bridge.{l - 1}.W"]
        joined = W @ ends[l]
        d_joined = tanh_prime(joined) * np.vstack([dh_0[l], dc_0[l]])
        dW = d_joined @ ends[l].T                                # (2.12)
        by_name[f"bridge.{l - 1}.W"] = dW
        d_ends[l] = W.T @ d_joined                               # (2.11)
    return d_ends, by_name


def first_state(
    H: int, parameters: Mapping[str, Array], ends: Layers
) -> tuple[Layers, Layers]:
    """s_0 = tanh(W_s <-h_1 + b_s), with ->h_S if the encoder has one direction."""
    W_s, b_s, last = parameters["bridge.W_s"], bias(parameters, "bridge.b"), ends[1][-H:]
    a_s = W_s @ last + b_s                                       # W_s <-h_1
    s_0 = np.tanh(a_s)                         # (Bahdanau A.2.2 initial), (Nair 6.2 step 3)
    return {1: s_0}, {1: s_0[:0]}


def first_state_grad(
    H: int, parameters: Mapping[str, Array], ends: Layers, dh_0: Layers, dc_0: Layers
) -> tuple[Layers, dict[str, Array]]:
    """The ends' gradients, and those of W_s and b_s."""
    W_s, b_s, last = parameters["bridge.W_s"], bias(parameters, "bridge.b"), ends[1][-H:]
    a_s = W_s @ last + b_s
    da_s = tanh_prime(a_s) * dh_0[1]                             # (Bahdanau A.2.2 initial)
    dW_s = da_s @ last.T                                         # (2.14) on W_s <-h_1
    d_last = W_s.T @ da_s                                        # (2.13) on W_s <-h_1
    d_ends = {1: np.vstack([np.zeros_like(ends[1][:-H]), d_last])}
    return d_ends, {"bridge.W_s": dW_s, "bridge.b": da_s[:, 0]}


ENCODERS = {"one end": Part(encode_once, encode_once_grad),
            "both ends": Part(encode_both, encode_both_grad)}
STARTS = {"handed over": Part(hand_over, hand_over_grad), "bridge": Part(bridge, bridge_grad),
          "first state": Part(first_state, first_state_grad)}
