"""Factored input and deep fusion, literally: one word, one prediction, and back.

| here | shape | source |
|---|---|---|
| `x` | (E, 1) | E_1(word) || E_2(factor) || ... (Sennrich's slides; Sennrich and Haddow, 2016) |
| `s_lm` | (H_LM, 1) | s_t^LM, the language model's state (Gulcehre et al., 2015, 4.2) |
| `v_g`, `b_g`, `L_o` | (H_LM, 1), (1, 1), (2M, H_LM) | the gate and the language model's part |
| the rest | | as in `deep_output` |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from grads.derivations.calculus import Array
from grads.derivations.deep_output import Output, deep, deep_grad, maxout, maxout_grad
from grads.derivations.rnn import embed, embed_grad, predict, predict_grad


class Gate(NamedTuple):
    """The weights of the language model's part, or their gradients."""

    L_o: Array
    v_g: Array
    b_g: Array


def factored_embed(ids: Sequence[int], tables: Sequence[Array]) -> Array:
    """x (E, 1) of a word and its factors, from a table (V_k, E_k) each."""
    x = np.vstack([embed(i, table) for i, table in zip(ids, tables, strict=True)])
    return x                                                     # (Sennrich features)


def factored_embed_grad(
    dx: Array, ids: Sequence[int], tables: Sequence[Array]
) -> list[Array]:
    """The gradient of each table, given dx (E, 1): its own rows of dx, at its own id."""
    ends = np.cumsum([table.shape[1] for table in tables])[:-1]
    parts = np.split(dx, ends)                                   # (Sennrich features)
    return [embed_grad(i, part, np.zeros_like(table))
            for i, part, table in zip(ids, parts, tables, strict=True)]


def fused_output(
    word: int, s: Array, y: Array, c: Array, s_lm: Array, output: Output, gate: Gate
) -> tuple[Any, Array, Array]:
    """-log p(y_i), in nats, p (V, 1) and g (1, 1); `word` is y_i."""
    a = gate.v_g.T @ s_lm + gate.b_g                             # v_g' s_LM + b_g
    g = 1 / (1 + np.exp(-a))                                     # (Sennrich fusion)
    t_tilde = deep(s, y, c, output) + gate.L_o @ (g * s_lm)      # (Sennrich fusion)
    l, p = predict(word, maxout(t_tilde), output.W_o, output.b)  # (Bahdanau A.2.2 output)
    return l, p, g


def fused_output_grad(
    word: int, p: Array, g: Array, s: Array, y: Array, c: Array, s_lm: Array, output: Output,
    gate: Gate,
) -> tuple[tuple[Array, Array, Array, Array], Output, Gate]:
    """ds, dy, dc, ds_lm, and the gradients of the weights."""
    t_tilde = deep(s, y, c, output) + gate.L_o @ (g * s_lm)
    dt, dW_o, db = predict_grad(word, p, maxout(t_tilde), output.W_o)  # (Bahdanau A.2.2 output)
    dt_tilde = maxout_grad(dt, t_tilde)                          # (Bahdanau A.2.2 maxout)
    ds, dy, dc, dU_o, dV_o, dC_o = deep_grad(dt_tilde, s, y, c, output)
    dL_o = dt_tilde @ (g * s_lm).T                               # (2.14) on L_o (g s_LM)
    d_gated = gate.L_o.T @ dt_tilde                              # (2.13) on L_o (g s_LM)
    dg = d_gated.T @ s_lm                                        # g multiplies every unit
    da = g * (1 - g) * dg                                        # sigm' of (Sennrich fusion)
    ds_lm = g * d_gated + gate.v_g @ da                          # gated, and what the gate reads
    return ((ds, dy, dc, ds_lm), Output(dW_o, dU_o, dV_o, dC_o, dt_tilde, db),
            Gate(dL_o, s_lm @ da, da))
