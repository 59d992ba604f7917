"""Factored input and deep fusion, literally: the words of a sentence, one prediction, and back.

| here | shape | source |
|---|---|---|
| `x` | (E, 1) | E_1(word) || E_2(factor) || ... (Sennrich's slides; Sennrich and Haddow, 2016) |
| `W_e` | (V_k, E_k) each | E_1, E_2, ...: a table by name, in their order |
| `s_lm` | (H_LM, 1) | s_t^LM, the language model's state (Gulcehre et al., 2015, 4.2) |
| `v_g`, `b_g`, `L_o` | (H_LM, 1), (1, 1), (2M, H_LM) | the gate and the language model's part |
| the rest | | as in `deep_output` |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from grads.derivations.calculus import Array, Number
from grads.derivations.declaration import OUTPUT, Declaration
from grads.derivations.deep_output import HIDDEN, Output, deep, deep_grad
from grads.derivations.errata import Mistake
from grads.derivations.examples import Example, Request, draw, no_sentence
from grads.derivations.rnn import embed, embed_grad, predict, predict_grad

Tables = Mapping[str, Array]

# --- factored input -----------------------------------------------------------------------------


def factored_embed(ids: Sequence[int], W_e: Tables) -> Array:
    """x (E, 1) of a word and its factors, from their ids: one for each table."""
    e = {name: embed(i, W_e[name]) for name, i in zip(W_e, ids, strict=True)}
    x = np.vstack(list(e.values()))                              # (Sennrich features)
    return x


def factored_embed_grad(ids: Sequence[int], dx: Array, dW_e: Tables) -> dict[str, Array]:
    """dW_e with dx (E, 1) added: a row of each table gets its own part of dx."""
    ends = np.cumsum([dW.shape[1] for dW in dW_e.values()])[:-1]
    de = dict(zip(dW_e, np.split(dx, ends), strict=True))        # (Sennrich features)
    return {name: embed_grad(i, de[name], dW_e[name])
            for name, i in zip(dW_e, ids, strict=True)}


def factored_forward(rows: Sequence[Sequence[int]], W_e: Tables) -> Array:
    """X (E, S): x_1 .. x_S as columns; rows, the ids of each word."""
    x = {}
    for s, ids in enumerate(rows, start=1):
        x[s] = factored_embed(ids, W_e)
    X = np.hstack(list(x.values()))
    return X


def factored_backward(dX: Array, rows: Sequence[Sequence[int]], W_e: Tables) -> dict[str, Array]:
    """The gradient of each table, given dX (E, S): a sum over the words that have a row."""
    dW_e, dx = {name: np.zeros_like(W) for name, W in W_e.items()}, {}
    for s in range(len(rows), 0, -1):
        dx[s] = dX[:, [s - 1]]                                   # x_s is a column of X
        dW_e = factored_embed_grad(rows[s - 1], dx[s], dW_e)
    return dW_e


# --- deep fusion --------------------------------------------------------------------------------


class Gate(NamedTuple):
    """The weights of the language model's part, or their gradients."""

    L_o: Array
    v_g: Array
    b_g: Array


class Fused(NamedTuple):
    """What the prediction computed."""

    p: Array  # (V, 1)
    g: Array  # (1, 1)


def fused(
    s: Array, y: Array, c: Array, s_lm: Array, output: Output, gate: Gate
) -> tuple[Array, Array]:
    """t~ (2M, 1), the input of the maxout, and g (1, 1)."""
    L_o, v_g, b_g = gate
    a = v_g.T @ s_lm + b_g                                       # v_g' s_LM + b_g
    g = 1 / (1 + np.exp(-a))                                     # (Sennrich fusion)
    gated = g * s_lm                                             # g s_LM
    t_tilde = deep(s, y, c, output) + L_o @ gated                # (Sennrich fusion)
    return t_tilde, g


def fused_grad(
    dt_tilde: Array, g: Array, s: Array, y: Array, c: Array, s_lm: Array, output: Output,
    gate: Gate,
) -> tuple[Array, Array, Array, Array, Array, Array, Array, Gate]:
    """ds, dy, dc, ds_lm, dU_o, dV_o, dC_o and the gate's; db_t is dt~ itself."""
    L_o, v_g, _ = gate
    ds, dy, dc, dU_o, dV_o, dC_o = deep_grad(dt_tilde, s, y, c, output)
    gated = g * s_lm
    dL_o = dt_tilde @ gated.T                                    # (2.14) on L_o (g s_LM)
    d_gated = L_o.T @ dt_tilde                                   # (2.13) on L_o (g s_LM)
    dg = d_gated.T @ s_lm                                        # g multiplies every unit
    da = g * (1 - g) * dg                                        # sigm' of (Sennrich fusion)
    dv_g = s_lm @ da                                             # (2.14) on v_g' s_LM
    ds_lm = g * d_gated + v_g @ da                               # gated, and what the gate reads
    return ds, dy, dc, ds_lm, dU_o, dV_o, dC_o, Gate(dL_o, dv_g, da)


def fused_output(
    word: int, s: Array, y: Array, c: Array, s_lm: Array, output: Output, gate: Gate,
    layer: str = "maxout",
) -> tuple[Number, Fused]:
    """-log p(y_i), in nats, and p and g; `word` is y_i, `layer` a key of HIDDEN."""
    W_o, b = output.W_o, output.b
    t_tilde, g = fused(s, y, c, s_lm, output, gate)
    t = HIDDEN[layer].forward(t_tilde)                           # (Bahdanau A.2.2 maxout)
    l, p = predict(word, t, W_o, b)                              # (Bahdanau A.2.2 output)
    return l, Fused(p, g)


def fused_output_grad(
    word: int, s: Array, y: Array, c: Array, s_lm: Array, output: Output, gate: Gate,
    kept: Fused, layer: str = "maxout",
) -> tuple[Array, Array, Array, Array, Output, Gate]:
    """ds, dy, dc, ds_lm, and the gradients of the weights."""
    p, g = kept
    t_tilde, _ = fused(s, y, c, s_lm, output, gate)
    t = HIDDEN[layer].forward(t_tilde)
    dt, dW_o, db = predict_grad(word, p, t, output.W_o)          # (Bahdanau A.2.2 output)
    dt_tilde = HIDDEN[layer].backward(dt, t_tilde)               # (Bahdanau A.2.2 maxout)
    ds, dy, dc, ds_lm, dU_o, dV_o, dC_o, d_gate = fused_grad(
        dt_tilde, g, s, y, c, s_lm, output, gate)
    return ds, dy, dc, ds_lm, Output(dW_o, dU_o, dV_o, dC_o, dt_tilde, db), d_gate


# --- the examples -------------------------------------------------------------------------------


def factored_example(request: Request) -> Example:
    """Four words with two factors; the first word occurs twice, with other factors."""
    no_sentence(request)
    E = request.sizes.embedding
    values = draw(request.rng, {"e": (5, E), "case": (3, E), "place": (4, 1),
                                "dX": (2 * E + 1, 4)})
    dX = values.pop("dX")
    return Example(([[2, 1, 0], [4, 0, 3], [2, 2, 3], [3, 0, 1]], values), upstream=dX)


def deep_fusion_example(request: Request) -> Example:
    """A word to be predicted, among six."""
    no_sentence(request)
    H, E, M, V = request.sizes.hidden, request.sizes.embedding, 2, 6
    columns = draw(request.rng, {"s": (H, 1), "y": (E, 1), "c": (2 * H, 1), "s_lm": (H + 1, 1)})
    output = draw(request.rng, {
        "W_o": (V, M), "U_o": (2 * M, H), "V_o": (2 * M, E), "C_o": (2 * M, 2 * H),
        "b_t": (2 * M, 1), "b": (V, 1)})
    gate = draw(request.rng, {"L_o": (2 * M, H + 1), "v_g": (H + 1, 1), "b_g": (1, 1)})
    return Example((3, *columns.values(), Output(**output), Gate(**gate)))


HERE = "grads.derivations.fusion"
FACTORED_MISTAKES = {
    "one word only": Mistake(
        f"{HERE}.factored_backward", "dx[s], dW_e)",
        "dx[s], {name: 0 * dW for name, dW in dW_e.items()})",
        "A table holds the term of the first word, instead of the sum over all that have its row."),
    "first word for all": Mistake(
        f"{HERE}.factored_backward", "dx[s] = dX[:, [s - 1]]", "dx[s] = dX[:, [0]]",
        "Every word gets what is sent to the first."),
    "parts a row too late": Mistake(
        f"{HERE}.factored_embed_grad", "np.split(dx, ends)", "np.split(np.roll(dx, -1), ends)",
        "Each table gets a row of its neighbour's part of dx."),
}
FUSION_MISTAKES = {
    "gate for a constant": Mistake(
        f"{HERE}.fused_grad", "ds_lm = g * d_gated + v_g @ da", "ds_lm = g * d_gated",
        "The state is gated, and the gate reads it: two gradients."),
    "sigmoid forgotten": Mistake(
        f"{HERE}.fused_grad", "da = g * (1 - g) * dg", "da = dg",
        "The gate is a sigmoid: its derivative is g (1 - g), at most a quarter."),
    "state before the gate": Mistake(
        f"{HERE}.fused_grad", "dL_o = dt_tilde @ gated.T", "dL_o = dt_tilde @ s_lm.T",
        "L_o multiplies g s_LM, not s_LM."),
}
DECLARATIONS = (
    Declaration(
        "factored", "The factored input of four words, Sennrich and Haddow 2016",
        factored_forward, factored_backward, factored_example, attentive=False,
        returns=OUTPUT, recurrent=False, mistakes=FACTORED_MISTAKES),
    Declaration(
        "deep-fusion", "One prediction with deep fusion, Gulcehre et al. 2015, 4.2",
        fused_output, fused_output_grad, deep_fusion_example, attentive=False,
        recurrent=False, mistakes=FUSION_MISTAKES),
)
