"""Forms 4 to 6: the same products and the same numbers, in fewer passes over less memory.

A new array of megabytes costs more than its arithmetic: pages have to be allocated and cleared, and
the cache is evicted. Form 4 allocates whole sequences once and computes in place; form 5, one tanh
for all gates, is the product's kernel; form 6 reuses its buffers from call to call.
"""

from __future__ import annotations

import numpy as np

from backend.workspace import Workspace
from benchmarks.naive.forms import Array, Result
from lstm.cells.lstm import LSTM, lstm_backward
from lstm.recurrent import recurrent_backward, recurrent_forward


def cell_in_place(a: Array, c_prev: Array, c: Array, tanh_c: Array, h: Array) -> None:
    """Gates over their pre-activations a (B, 4H), then c, tanh_c and h (B, H), by exp and tanh."""
    H = c.shape[1]
    gates, (i, f, o, h_hat) = a[:, : 3 * H], np.split(a, 4, axis=1)          # views
    np.negative(gates, out=gates)
    np.exp(gates, out=gates)
    gates += 1.0
    np.reciprocal(gates, out=gates)                                          # (2.35)
    np.tanh(h_hat, out=h_hat)
    np.multiply(f, c_prev, out=c)
    np.multiply(i, h_hat, out=h)
    c += h                                                                   # (2.36)
    np.tanh(c, out=tanh_c)
    np.multiply(o, tanh_c, out=h)                                            # (2.37)


def in_place(x: Array, W: Array, b: Array, dh_out: Array) -> Result:
    """Form 4: buffers for the whole sequence, every pass with `out=`; the gates by exp."""
    (T, B, E), H = x.shape, dh_out.shape[2]
    W_h = W[:, E:]
    a = (x.reshape(T * B, E) @ W[:, :E].T).reshape(T, B, 4 * H)
    h, c = np.zeros((2, T + 1, B, H), x.dtype)
    tanh_c, recurrent = np.empty((T, B, H), x.dtype), np.empty((B, 4 * H), x.dtype)
    for t in range(T):
        np.matmul(h[t], W_h.T, out=recurrent)
        a[t] += recurrent
        a[t] += b                                                            # (2.39)
        cell_in_place(a[t], c[t], c[t + 1], tanh_c[t], h[t + 1])
    da, scratch = np.empty_like(a), np.empty((2, B, H), x.dtype)
    dh, dc = np.zeros((2, B, H), x.dtype)
    for t in reversed(range(T)):
        dh += dh_out[t]
        lstm_backward(dh, dc, None, a[t], c[t], tanh_c[t], da[t], scratch, None,  # (2.41-2.46)
                      None)
        np.matmul(da[t], W_h, out=dh)                                        # (2.48)
    rows, dW = da.reshape(T * B, 4 * H), np.empty_like(W)
    dW[:, :E] = rows.T @ x.reshape(T * B, E)                                 # (2.49), summed
    dW[:, E:] = rows.T @ h[:-1].reshape(T * B, H)                            # (2.50), summed
    return h[1:], (rows @ W[:, :E]).reshape(x.shape), dW, rows.sum(axis=0)   # (2.47)


def product_kernel(
    x: Array, W: Array, b: Array, dh_out: Array, workspace: Workspace | None = None
) -> Result:
    """Form 5: `lstm.recurrent` with fresh buffers; one tanh serves all four gates."""
    zero = np.zeros(dh_out.shape[1:], x.dtype)
    h, _, cache = recurrent_forward(LSTM, x, (zero, zero), W, b, workspace=workspace)
    dx, _, dW, db = recurrent_backward(dh_out, None, cache)
    return h, dx, dW, db


class KeptBuffers:
    """Form 6: form 5 with one workspace for all calls, as in the product's models."""

    def __init__(self) -> None:
        self.workspace = Workspace()

    def __call__(self, x: Array, W: Array, b: Array, dh_out: Array) -> Result:
        """As every form."""
        return product_kernel(x, W, b, dh_out, self.workspace)
