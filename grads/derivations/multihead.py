"""Multi-head attention as Nguyen prints it, of one sentence, one head at a time, and back.

As printed, a sentence is a matrix whose *rows* are its words: X (S, d), Y (T, d). So
Q = Y W^Q, and the thesis's Corollary 1 reads: dY = dQ W^Q', dW^Q = Y' dQ.

| here | shape | Nguyen |
|---|---|---|
| `Y` | (T, d) | the queries' words: Y of Nguyen Eq. 1.10; in self-attention X of Nguyen Eq. 1.7 |
| `X` | (S, d) | the words attended to: the encoder's output, or in self-attention Y itself |
| `W_Q`, `W_K`, `W_V` | (d, d_k) | W_i^Q, W_i^K, W_i^V, of one head |
| `b_Q`, `b_V` | (1, d_k) | not printed; in the author's code, which has a `b_K` of no effect |
| `E`, `A`, `H` | (T, S), (T, S), (T, d_k) | Q K^T / sqrt(d_k), its softmax, H_i |
| `D` | (T, S) | dropout of the weights, ones where there is none |
| `W_O`, `b_O` | (d, d), (1, d) | W^O |

Parameters carry the kernels' names and shapes: head i's W^Q is rows of the kernels' `W_q` (d, d),
transposed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from grads.derivations.calculus import Array


class Head(NamedTuple):
    """The weights of one head, or their gradients."""

    W_Q: Array
    W_K: Array
    W_V: Array
    b_Q: Array
    b_V: Array


Heads = Mapping[int, Head]  # from 1


class HeadTrace(NamedTuple):
    """What the forward pass of one head computed."""

    Q: Array
    K: Array
    V: Array
    A: Array


class MultiheadTrace(NamedTuple):
    """What the forward pass computed."""

    H_all: Array  # (T, d), all H_i side by side
    traces: dict[int, HeadTrace]


# --- rows ---------------------------------------------------------------------------------------


def softmax_rows(E: Array) -> Array:
    """Eq. 2.6 for each row of E (T, S); a score of -inf gets exactly zero."""
    e = np.exp(E - E.real.max(axis=1, keepdims=True))
    A = e / e.sum(axis=1, keepdims=True)                         # (2.6)
    return A


def softmax_rows_grad(A: Array, dA: Array) -> Array:
    """dE for A = softmax of each row of E: the Jacobian diag(a) - a a^T of each row."""
    dE = A * dA - A * (A * dA).sum(axis=1, keepdims=True)
    return dE


# --- one head -----------------------------------------------------------------------------------


def head_forward(
    Y: Array, X: Array, head: Head, dead: Array, D: Array
) -> tuple[Array, HeadTrace]:
    """H_i (T, d_k), and what the backward reads; dead (T, S) bool, True where row t must not look.
    """
    W_Q, W_K, W_V, b_Q, b_V = head
    Q = Y @ W_Q + b_Q                                            # (Nguyen 1.7, Nguyen 1.10)
    K = X @ W_K                                                  # (Nguyen 1.7, Nguyen 1.11)
    V = X @ W_V + b_V                                            # (Nguyen 1.7, Nguyen 1.12)
    E = Q @ K.T / Q.shape[1] ** 0.5                              # Q K^T / sqrt(d_k)
    A = softmax_rows(np.where(dead, -np.inf, E))                 # (Nguyen 1.8)
    H = (D * A) @ V                                              # (Nguyen 1.8)
    return H, HeadTrace(Q, K, V, A)


def head_forward_grad(
    dH: Array, Y: Array, X: Array, head: Head, dead: Array, D: Array, trace: HeadTrace
) -> tuple[Array, Array, Head]:
    """dY (T, d), dX (S, d) and the gradients of the weights, given dH (T, d_k)."""
    W_Q, W_K, W_V, *_ = head
    Q, K, V, A = trace
    dV = (D * A).T @ dH                                          # (2.13) on H = (D o A) V
    dA = D * (dH @ V.T)                                          # (2.14) on it, (2.18) on D o A
    dE = softmax_rows_grad(A, dA)                                # (Nguyen 1.8); zero where dead
    dQ = dE @ K / Q.shape[1] ** 0.5                              # (2.14) on E = Q K^T / sqrt(d_k)
    dK = dE.T @ Q / Q.shape[1] ** 0.5                            # (2.13) on E = Q K^T / sqrt(d_k)
    dW_V = X.T @ dV                                              # (2.14) on V = X W_V + b_V
    db_V = dV.sum(axis=0, keepdims=True)                         # b_V stands in every row
    dW_K = X.T @ dK                                              # (2.14) on K = X W_K
    dW_Q = Y.T @ dQ                                              # (2.14) on Q = Y W_Q + b_Q
    db_Q = dQ.sum(axis=0, keepdims=True)                         # b_Q stands in every row
    dX = dV @ W_V.T + dK @ W_K.T                                 # (2.13) on V and K
    dY = dQ @ W_Q.T                                              # (2.13) on Q
    return dY, dX, Head(dW_Q, dW_K, dW_V, db_Q, db_V)


# --- all heads ----------------------------------------------------------------------------------


def multihead(
    Y: Array, X: Array, heads: Heads, W_O: Array, b_O: Array, dead: Array, D: Mapping[int, Array]
) -> tuple[Array, MultiheadTrace]:
    """[H_1 .. H_n] W^O (T, d), and what the backward reads; D, the dropout of each head's weights.
    """
    H, traces = {}, {}
    for i in range(1, len(heads) + 1):                           # (Nguyen 1.7), (Nguyen 1.8)
        H[i], traces[i] = head_forward(Y, X, heads[i], dead, D[i])
    H_all = np.hstack(list(H.values()))                          # [H_1; ..; H_n]
    Z = H_all @ W_O + b_O                                        # (Nguyen 1.9)
    return Z, MultiheadTrace(H_all, traces)


def multihead_grad(
    dZ: Array, Y: Array, X: Array, heads: Heads, W_O: Array, b_O: Array, dead: Array,
    D: Mapping[int, Array], trace: MultiheadTrace,
) -> tuple[Array, Array, dict[int, Head], Array, Array]:
    """dY (T, d), dX (S, d), the heads' gradients, dW_O and db_O, given dZ (T, d)."""
    H_all, traces = trace
    db_O = dZ.sum(axis=0, keepdims=True)                         # b_O stands in every row
    dW_O = H_all.T @ dZ                                          # (2.14) on (Nguyen 1.9)
    dH_all = dZ @ W_O.T                                          # (2.13) on (Nguyen 1.9)
    parts = np.hsplit(dH_all, len(heads))
    dY, dX, d_heads = np.zeros_like(Y), np.zeros_like(X), {}
    for i in range(1, len(heads) + 1):
        dY_i, dX_i, d_heads[i] = head_forward_grad(
            parts[i - 1], Y, X, heads[i], dead, D[i], traces[i])
        dY = dY + dY_i                                           # every head reads Y
        dX = dX + dX_i                                           # and X
    return dY, dX, d_heads, dW_O, db_O


# --- parameters ---------------------------------------------------------------------------------


def heads_of(parameters: Mapping[str, Array], prefix: str, n: int) -> dict[int, Head]:
    """The heads among a kernel's parameters: W_i^Q (d, d_k) are rows of W_q (d, d), transposed."""
    def block(name: str, i: int) -> Array:
        rows: Array = np.split(parameters[f"{prefix}.{name}"], n)[i]
        return rows

    return {i + 1: Head(*(block(f"W_{letter}", i).T for letter in "qkv"),
                        *(block(f"b_{letter}", i)[None] for letter in "qv")) for i in range(n)}


def parameters_of(prefix: str, d_heads: Heads, dW_O: Array, db_O: Array) -> dict[str, Array]:
    """Gradients by the kernels' names and in their shapes: the inverse of `heads_of`."""
    heads = d_heads.values()
    by_name = {f"{prefix}.W_o": dW_O.T, f"{prefix}.b_o": db_O[0]}
    for letter in "qkv":
        by_name[f"{prefix}.W_{letter}"] = np.vstack(
            [getattr(d, f"W_{letter.upper()}").T for d in heads])
    for letter in "qv":
        by_name[f"{prefix}.b_{letter}"] = np.hstack(
            [getattr(d, f"b_{letter.upper()}")[0] for d in heads])
    return by_name
