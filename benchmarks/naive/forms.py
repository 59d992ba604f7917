"""An LSTM's forward and backward: textbook code, then one structural idea after another.

Every form takes x (T, B, E), W (4H, E + H), which is the thesis's T_lstm, b (4H,) and the upstream
gradient dh_out (T, B, H). It begins with zero states, and returns h (T, B, H), dx (T, B, E),
dW (4H, E + H), db (4H,). Equation numbers are the thesis's (Luong, 2016).

A loop is needed because h_t needs h_{t-1}. The input's share of a pre-activation needs no loop, and
neither do the weights' gradients: a sum over time of products is one product over all T B rows.

Forms 2 and 3, the product's kernel, have the same products in fewer passes over less memory. A new
array of megabytes costs more than its arithmetic: pages have to be allocated and cleared, and the
cache is evicted. Form 2 allocates whole sequences once and computes in place, with one tanh for all
gates. Form 3 reuses its buffers from call to call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from backend.workspace import Workspace
from lstm.cells.lstm import LSTM
from lstm.recurrent import recurrent_backward, recurrent_forward

Array = np.ndarray
Result = tuple[Array, Array, Array, Array]


def sigmoid(a: Array) -> Array:
    """1 / (1 + e^-a): four new arrays, one of them the result."""
    return 1.0 / (1.0 + np.exp(-a))


class Step(NamedTuple):
    """The cache of a step, each (B, H)."""

    i: Array
    f: Array
    o: Array
    h_hat: Array
    c_prev: Array
    tanh_c: Array


def cell(pre: Sequence[Array], c_prev: Array) -> tuple[Array, Array, Step]:
    """Gates, memory cell and state from the four pre-activations, each (B, H)."""
    a_i, a_f, a_o, a_h = pre
    i, f, o, h_hat = sigmoid(a_i), sigmoid(a_f), sigmoid(a_o), np.tanh(a_h)  # (2.35)
    c = f * c_prev + i * h_hat                                               # (2.36)
    tanh_c = np.tanh(c)
    return o * tanh_c, c, Step(i, f, o, h_hat, c_prev, tanh_c)               # (2.37)


def cell_backward(dh: Array, dc: Array, step: Step) -> tuple[list[Array], Array]:
    """Gradients of the four pre-activations, and dc_{t-1} (Algorithm 2, lines 7-13)."""
    i, f, o, h_hat, c_prev, tanh_c = step
    dc = dc + (1 - tanh_c**2) * o * dh                                       # (2.42)
    da = [h_hat * dc * i * (1 - i), c_prev * dc * f * (1 - f),               # (2.45), (2.43)
          tanh_c * dh * o * (1 - o), i * dc * (1 - h_hat**2)]                # (2.41), (2.46)
    return da, f * dc                                                        # (2.44)


def one_gate_at_a_time(x: Array, W: Array, b: Array, dh_out: Array) -> Result:
    """Form 0: two products per gate and step, and new arrays for everything."""
    (T, B, E), H = x.shape, dh_out.shape[2]
    gates, biases = np.split(W, 4), np.split(b, 4)
    W_x, W_h = [gate[:, :E] for gate in gates], [gate[:, E:] for gate in gates]
    h = c = np.zeros((B, H), x.dtype)
    states, steps = [h], []
    for t in range(T):
        a = [x[t] @ W_x[k].T + h @ W_h[k].T + biases[k] for k in range(4)]   # (2.35)
        h, c, step = cell(a, c)
        states.append(h)
        steps.append(step)
    dx, dh, dc = np.zeros_like(x), np.zeros_like(h), np.zeros_like(c)
    dW_x, dW_h = [np.zeros_like(w) for w in W_x], [np.zeros_like(w) for w in W_h]
    db = [np.zeros_like(bias) for bias in biases]
    for t in reversed(range(T)):
        da, dc = cell_backward(dh + dh_out[t], dc, steps[t])
        dh = np.zeros_like(dh)
        for k in range(4):
            dW_x[k] += da[k].T @ x[t]                                        # (2.49)
            dW_h[k] += da[k].T @ states[t]                                   # (2.50)
            db[k] += da[k].sum(axis=0)
            dx[t] += da[k] @ W_x[k]                                          # (2.47)
            dh += da[k] @ W_h[k]                                             # (2.48)
    dW = np.vstack([np.hstack(pair) for pair in zip(dW_x, dW_h, strict=True)])
    return np.array(states[1:]), dx, dW, np.concatenate(db)


def products_outside_the_loop(x: Array, W: Array, b: Array, dh_out: Array) -> Result:
    """Form 1: one product for all gates. The input's products of all steps are one product before
    the loop, and those of the gradients of weights and inputs are one after it."""
    (T, B, E), H = x.shape, dh_out.shape[2]
    W_x, W_h = W[:, :E], W[:, E:]
    shares = (x.reshape(T * B, E) @ W_x.T + b).reshape(T, B, 4 * H)          # of (2.39)
    h = c = np.zeros((B, H), x.dtype)
    states, steps = [h], []
    for t in range(T):
        h, c, step = cell(np.split(shares[t] + h @ W_h.T, 4, axis=1), c)     # (2.39)
        states.append(h)
        steps.append(step)
    dh, dc = np.zeros_like(h), np.zeros_like(c)
    da = np.empty((T, B, 4 * H), x.dtype)
    for t in reversed(range(T)):
        blocks, dc = cell_backward(dh + dh_out[t], dc, steps[t])
        da[t] = np.hstack(blocks)
        dh = da[t] @ W_h                                                     # (2.48)
    all_states = np.array(states)                                            # (T + 1, B, H)
    rows = da.reshape(T * B, 4 * H)
    dW = np.hstack([rows.T @ x.reshape(T * B, E),                            # (2.49), summed
                    rows.T @ all_states[:-1].reshape(T * B, H)])             # (2.50), summed
    return all_states[1:], (rows @ W_x).reshape(x.shape), dW, rows.sum(axis=0)  # (2.47)


def product_kernel(
    x: Array, W: Array, b: Array, dh_out: Array, workspace: Workspace | None = None
) -> Result:
    """Forms 2 and 3: `lstm.recurrent`, with fresh buffers, or those of a workspace that is kept, as
    in the product's models; one tanh serves all four gates."""
    zero = np.zeros(dh_out.shape[1:], x.dtype)
    h, _, cache = recurrent_forward(LSTM, x, (zero, zero), W, b, workspace=workspace)
    dx, _, dW, db = recurrent_backward(dh_out, None, cache)
    return h, dx, dW, db
