"""A Transformer's other parts as Nguyen prints them, of one sentence, and back.

A sentence is a matrix whose rows are its words, X (T, d), as in `grads.derivations.multihead`.

| here | shape | Nguyen |
|---|---|---|
| `W_1`, `W_2` | (d, F), (F, d) | W_1, W_2; the kernels' are transposed |
| `b_1`, `b_2` | (1, F), (1, d) | b_1, b_2 |
| `PE` | (T, d) | Nguyen Eqs. 1.14 and 1.15 |
| `x`, `y` | (T, d) | x_l and x_{l+1} |
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from grads.derivations.calculus import Array
from grads.derivations.norms import NORMS

Layer = Callable[[Array], Array]


# --- feed-forward -------------------------------------------------------------------------------


def relu(Z: Array) -> Array:
    """max(0, z); the real part decides, so that complex step passes."""
    return np.where(Z.real > 0, Z, 0)


def feed_forward(X: Array, W_1: Array, b_1: Array, W_2: Array, b_2: Array) -> Array:
    """FFN(X) (T, d)."""
    Z = X @ W_1 + b_1
    Y = relu(Z) @ W_2 + b_2                                      # (Nguyen 1.13)
    return Y


def feed_forward_grad(
    dY: Array, X: Array, W_1: Array, b_1: Array, W_2: Array, b_2: Array
) -> tuple[Array, Array, Array, Array, Array]:
    """dX (T, d), dW_1, db_1, dW_2 and db_2, given dY (T, d)."""
    Z = X @ W_1 + b_1
    db_2 = dY.sum(axis=0, keepdims=True)                         # b_2 stands in every row
    dW_2 = relu(Z).T @ dY                                        # (2.14) on relu(Z) W_2
    dU = dY @ W_2.T                                              # (2.13) on relu(Z) W_2
    dZ = np.where(Z.real > 0, dU, 0)                             # max(0, z)' is 1 or 0
    db_1 = dZ.sum(axis=0, keepdims=True)
    dW_1 = X.T @ dZ                                              # (2.14) on X W_1
    dX = dZ @ W_1.T                                              # (2.13) on X W_1
    return dX, dW_1, db_1, dW_2, db_2


# --- positions ----------------------------------------------------------------------------------


def position_encoding(T: int, d: int) -> Array:
    """PE (T, d) of the positions 0 .. T - 1."""
    PE = np.zeros((T, d))
    for pos in range(T):
        for i in range((d + 1) // 2):
            PE[pos, 2 * i] = np.sin(pos / 10000 ** (2 * i / d))  # (Nguyen 1.14)
            if 2 * i + 1 < d:
                PE[pos, 2 * i + 1] = np.cos(pos / 10000 ** (2 * i / d))  # (Nguyen 1.15)
    return PE


# --- residual connection and norm ---------------------------------------------------------------


def norm_rows(kind: str, X: Array, w: tuple[Array, ...]) -> Array:
    """Each row of X (T, d) by itself, as a column; w, the norm's weights as columns."""
    return np.hstack([NORMS[kind][0](x[:, None], *w) for x in X]).T


def norm_rows_grad(kind: str, dY: Array, X: Array, w: tuple[Array, ...]) -> tuple[Array, ...]:
    """dX (T, d) and the gradients of the weights, which all rows read."""
    rows = [NORMS[kind][1](dy[:, None], x[:, None], *w) for dy, x in zip(dY, X, strict=True)]
    dX = np.hstack([row[0] for row in rows]).T
    return dX, *(sum(d[1:], d[0]) for d in zip(*(row[1:] for row in rows), strict=True))


def post_norm(x: Array, F: Layer, kind: str, w: tuple[Array, ...]) -> Array:
    """x_{l+1} = N(x_l + F(x_l)) (T, d)."""
    r = x + F(x)                                                 # (Nguyen 3.2)
    y = norm_rows(kind, r, w)                                    # (Nguyen 3.3)
    return y


def post_norm_grad(
    dy: Array, x: Array, F: Layer, F_grad: Callable[..., Any], kind: str, w: tuple[Array, ...]
) -> tuple[Array, tuple[Array, ...], Any]:
    """dx, the norm's gradients, and what F_grad(dz, x) returns after its dx."""
    r = x + F(x)
    dr, *dw = norm_rows_grad(kind, dy, r, w)                     # (Nguyen 3.3)
    dx_F, *others = F_grad(dr, x)
    dx = dr + dx_F                                               # (Nguyen 3.2)
    return dx, tuple(dw), others


def pre_norm(x: Array, F: Layer, kind: str, w: tuple[Array, ...]) -> Array:
    """x_{l+1} = x_l + F(N(x_l)) (T, d)."""
    n = norm_rows(kind, x, w)
    y = x + F(n)                                                 # (Nguyen 3.4)
    return y


def pre_norm_grad(
    dy: Array, x: Array, F: Layer, F_grad: Callable[..., Any], kind: str, w: tuple[Array, ...]
) -> tuple[Array, tuple[Array, ...], Any]:
    """dx, the norm's gradients, and what F_grad(dz, n) returns after its dn."""
    n = norm_rows(kind, x, w)
    dn, *others = F_grad(dy, n)
    dx_N, *dw = norm_rows_grad(kind, dn, x, w)
    dx = dy + dx_N                                               # (Nguyen 3.4)
    return dx, tuple(dw), others
