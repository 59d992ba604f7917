"""Linear maps of all vectors of a sequence in one matrix product (Corollary 1)."""

from __future__ import annotations

from backend import Array, array_module


def linear_forward(x: Array, W: Array, b: Array | None = None) -> Array:
    """y = W x + b for vectors x (T, B, k), W (m, k), b (m,) or None: (T, B, m)."""
    xp, (T, B, k) = array_module(x, W), x.shape
    y = xp.matmul(x.reshape(T * B, k), W.T)
    if b is not None:
        y += b
    return y.reshape(T, B, W.shape[0])


def linear_backward(dy: Array, x: Array, W: Array) -> tuple[Array, Array, Array]:
    """dx (T, B, k), dW (m, k) and db (m,), given dy (T, B, m)."""
    xp, rows = array_module(dy, x, W), dy.reshape(-1, dy.shape[2])
    dx = xp.matmul(rows, W).reshape(x.shape)                               # (2.13)
    dW = xp.matmul(rows.T, x.reshape(-1, x.shape[2]))                      # (2.14)
    return dx, dW, rows.sum(axis=0)
