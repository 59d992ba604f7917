"""Forms 2 and 3: everything that does not depend on the recurrence is moved out of the loop.

The loop exists because h_t needs h_{t-1}. The input's share of a pre-activation does not, nor does
any weight's gradient: a sum over time of products is one product over all T B rows.
"""

from __future__ import annotations

import numpy as np

from benchmarks.naive.textbook import Array, Result, Step, cell, cell_backward


def forward(x: Array, W: Array, b: Array, H: int) -> tuple[list[Array], list[Step]]:
    """All states, h_0 first, and what each step's backward reads; T_x x_t is computed before the
    loop."""
    T, B, E = x.shape
    shares = (x.reshape(T * B, E) @ W[:, :E].T + b).reshape(T, B, 4 * H)     # (2.39), of all t
    h = c = np.zeros((B, H), x.dtype)
    states, steps = [h], []
    for t in range(T):
        a = shares[t] + h @ W[:, E:].T
        h, c, step = cell(np.split(a, 4, axis=1), c)
        states.append(h)
        steps.append(step)
    return states, steps


def input_before_loop(x: Array, W: Array, b: Array, dh_out: Array) -> Result:
    """Form 2: the input's products of all steps are one, before the loop; backward as in form 1."""
    E, H = x.shape[2], dh_out.shape[2]
    W_x, W_h = W[:, :E], W[:, E:]
    states, steps = forward(x, W, b, H)
    dx, dh, dc = np.zeros_like(x), np.zeros_like(states[0]), np.zeros_like(states[0])
    dW_x, dW_h, db = np.zeros_like(W_x), np.zeros_like(W_h), np.zeros_like(b)
    for t in reversed(range(len(x))):
        blocks, dc = cell_backward(dh + dh_out[t], dc, steps[t])
        da = np.hstack(blocks)
        dW_x += da.T @ x[t]                                                  # (2.49)
        dW_h += da.T @ states[t]                                             # (2.50)
        db += da.sum(axis=0)
        dx[t] = da @ W_x                                                     # (2.47)
        dh = da @ W_h                                                        # (2.48)
    return np.array(states[1:]), dx, np.hstack([dW_x, dW_h]), db


def weights_after_loop(x: Array, W: Array, b: Array, dh_out: Array) -> Result:
    """Form 3: the gradients of weights and inputs are one product each, after the loop."""
    (T, B, E), H = x.shape, dh_out.shape[2]
    states, steps = forward(x, W, b, H)
    dh, dc = np.zeros_like(states[0]), np.zeros_like(states[0])
    da = np.empty((T, B, 4 * H), x.dtype)
    for t in reversed(range(T)):
        blocks, dc = cell_backward(dh + dh_out[t], dc, steps[t])
        da[t] = np.hstack(blocks)
        dh = da[t] @ W[:, E:]                                                # (2.48)
    h = np.array(states)                                                     # (T + 1, B, H)
    rows = da.reshape(T * B, 4 * H)
    dW = np.hstack([rows.T @ x.reshape(T * B, E),                            # (2.49), summed
                    rows.T @ h[:-1].reshape(T * B, H)])                      # (2.50), summed
    return h[1:], (rows @ W[:, :E]).reshape(x.shape), dW, rows.sum(axis=0)   # (2.47)
