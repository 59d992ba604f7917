"""A Transformer's sublayers as Nguyen prints them, of one sentence, and back.

A sentence is a matrix whose rows are its words, X (T, d), as in `grads.derivations.multihead`.

| here | shape | Nguyen |
|---|---|---|
| `W_1`, `W_2` | (d, F), (F, d) | W_1, W_2; the kernels' are transposed |
| `b_1`, `b_2` | (1, F), (1, d) | b_1, b_2 |
| `x`, `y` | (T, d) | x_l and x_{l+1} |
| `F`, `N` | | the sublayer's function, by its name in LAYERS, and the norm's, in NORMS |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from grads.derivations.calculus import Array
from grads.derivations.multihead import Heads, multihead, multihead_grad
from grads.derivations.norms import NORMS

Columns = tuple[Array, ...]  # the weights of a norm
Reads = Mapping[str, Array]  # "dead" (T, S) bool, what is not seen; "memory" (S, d), if not x


class FeedForward(NamedTuple):
    """The weights of a feed-forward layer, or their gradients."""

    W_1: Array
    b_1: Array
    W_2: Array
    b_2: Array


class Attention(NamedTuple):
    """The weights of multi-head attention, or their gradients."""

    heads: Heads
    W_O: Array
    b_O: Array


class Layer(NamedTuple):
    """A function and its backward."""

    forward: Callable[..., Any]
    backward: Callable[..., Any]


# --- feed-forward -------------------------------------------------------------------------------


def relu(Z: Array) -> Array:
    """max(0, z); the real part decides, so that complex step passes."""
    return np.where(Z.real > 0, Z, 0)


def feed_forward(X: Array, w: FeedForward, reads: Reads) -> tuple[Array, Array]:
    """FFN(X) (T, d), and Z, which the backward reads; nothing else is read."""
    W_1, b_1, W_2, b_2 = w
    Z = X @ W_1 + b_1                                            # (Nguyen 1.13)
    U = relu(Z)                                                  # (Nguyen 1.13)
    Y = U @ W_2 + b_2                                            # (Nguyen 1.13)
    return Y, Z


def feed_forward_grad(
    dY: Array, X: Array, w: FeedForward, reads: Reads, Z: Array
) -> tuple[Array, Reads, FeedForward]:
    """dX (T, d), nothing for what is not read, and the weights' gradients, given dY (T, d)."""
    W_1, _, W_2, _ = w
    U = relu(Z)
    db_2 = dY.sum(axis=0, keepdims=True)                         # b_2 stands in every row
    dW_2 = U.T @ dY                                              # (2.14) on U W_2
    dU = dY @ W_2.T                                              # (2.13) on U W_2
    dZ = np.where(Z.real > 0, dU, 0)                             # max(0, z)' is 1 or 0
    db_1 = dZ.sum(axis=0, keepdims=True)                         # b_1 stands in every row
    dW_1 = X.T @ dZ                                              # (2.14) on X W_1
    dX = dZ @ W_1.T                                              # (2.13) on X W_1
    return dX, {}, FeedForward(dW_1, db_1, dW_2, db_2)


# --- attention ----------------------------------------------------------------------------------


def undropped(w: Attention, dead: Array) -> dict[int, Array]:
    """D of every head where nothing is dropped."""
    return {i: np.ones(dead.shape) for i in w.heads}


def self_attention(x: Array, w: Attention, reads: Reads) -> tuple[Array, Any]:
    """Each word attends to all words of its own sentence that it may see."""
    D = undropped(w, reads["dead"])
    z, trace = multihead(x, x, *w, reads["dead"], D)             # (Nguyen 1.9)
    return z, trace


def self_attention_grad(
    dz: Array, x: Array, w: Attention, reads: Reads, trace: Any
) -> tuple[Array, Reads, Attention]:
    """dx (T, d), nothing for what is not read, and the weights' gradients, given dz (T, d)."""
    D = undropped(w, reads["dead"])
    dY, dX, d_heads, dW_O, db_O = multihead_grad(dz, x, x, *w, reads["dead"], D, trace)
    dx = dY + dX                                                 # x has the queries and the keys
    return dx, {}, Attention(d_heads, dW_O, db_O)


def source_attention(x: Array, w: Attention, reads: Reads) -> tuple[Array, Any]:
    """Each word of the translation attends to the encoder's output."""
    D = undropped(w, reads["dead"])
    z, trace = multihead(x, reads["memory"], *w, reads["dead"], D)  # (Nguyen 1.9), (Nguyen 1.10)
    return z, trace


def source_attention_grad(
    dz: Array, x: Array, w: Attention, reads: Reads, trace: Any
) -> tuple[Array, Reads, Attention]:
    """dx (T, d), that of the memory (S, d), and the weights' gradients, given dz (T, d)."""
    D = undropped(w, reads["dead"])
    dx, d_memory, d_heads, dW_O, db_O = multihead_grad(
        dz, x, reads["memory"], *w, reads["dead"], D, trace)
    return dx, {"memory": d_memory}, Attention(d_heads, dW_O, db_O)


LAYERS = {
    "attention": Layer(self_attention, self_attention_grad),
    "source": Layer(source_attention, source_attention_grad),
    "feed_forward": Layer(feed_forward, feed_forward_grad),
}


# --- residual connection and norm ---------------------------------------------------------------


def norm_rows(N: str, X: Array, w: Columns) -> Array:
    """Each row of X (T, d) by itself, as a column; w, the norm's weights as columns."""
    return np.hstack([NORMS[N][0](x[:, None], *w) for x in X]).T


def norm_rows_grad(N: str, dY: Array, X: Array, w: Columns) -> tuple[Array, Columns]:
    """dX (T, d) and the gradients of the weights, which all rows read."""
    rows = [NORMS[N][1](dy[:, None], x[:, None], *w) for dy, x in zip(dY, X, strict=True)]
    dX = np.hstack([row[0] for row in rows]).T
    return dX, tuple(sum(d[1:], d[0]) for d in zip(*(row[1:] for row in rows), strict=True))


def post_norm(
    F: str, x: Array, w_F: Any, reads: Reads, N: str, w_N: Columns
) -> tuple[Array, Any]:
    """x_{l+1} = N(x_l + F(x_l)) (T, d), and what the backward reads."""
    z, trace = LAYERS[F].forward(x, w_F, reads)                  # F(x_l)
    r = x + z                                                    # (Nguyen 3.2)
    y = norm_rows(N, r, w_N)                                     # (Nguyen 3.3)
    return y, (r, trace)


def post_norm_grad(
    F: str, dy: Array, x: Array, w_F: Any, reads: Reads, N: str, w_N: Columns, kept: Any
) -> tuple[Array, Reads, Any, Columns]:
    """dx, the gradients of what F reads, of its weights and of the norm's."""
    r, trace = kept
    dr, dw_N = norm_rows_grad(N, dy, r, w_N)                     # (Nguyen 3.3)
    dx_F, d_reads, dw_F = LAYERS[F].backward(dr, x, w_F, reads, trace)
    dx = dr + dx_F                                               # (Nguyen 3.2)
    return dx, d_reads, dw_F, dw_N


def pre_norm(
    F: str, x: Array, w_F: Any, reads: Reads, N: str, w_N: Columns
) -> tuple[Array, Any]:
    """x_{l+1} = x_l + F(N(x_l)) (T, d), and what the backward reads."""
    n = norm_rows(N, x, w_N)                                     # N(x_l)
    z, trace = LAYERS[F].forward(n, w_F, reads)                  # F(N(x_l))
    y = x + z                                                    # (Nguyen 3.4)
    return y, (n, trace)


def pre_norm_grad(
    F: str, dy: Array, x: Array, w_F: Any, reads: Reads, N: str, w_N: Columns, kept: Any
) -> tuple[Array, Reads, Any, Columns]:
    """dx, the gradients of what F reads, of its weights and of the norm's."""
    n, trace = kept
    dn, d_reads, dw_F = LAYERS[F].backward(dy, n, w_F, reads, trace)
    dx_N, dw_N = norm_rows_grad(N, dn, x, w_N)
    dx = dy + dx_N                                               # (Nguyen 3.4)
    return dx, d_reads, dw_F, dw_N


PLACED = {"pre": Layer(pre_norm, pre_norm_grad), "post": Layer(post_norm, post_norm_grad)}
