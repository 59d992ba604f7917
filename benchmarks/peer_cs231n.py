"""An LSTM in plain NumPy in the style of Stanford's course CS231n, written anew.

Examples first, then time, (N, T, D); a = x Wx + h Wh + b; a function for a step and one for the
sequence; each step's backward returns whole weight gradients, which the sequence's sums. It is the
code that most people write first, and shows the speed-up by the structure of `lstm/recurrent.py`.
`Wx` (D, 4H), `Wh` (H, 4H), `b` (4H,); gates in the order i, f, o, g, which is also ours.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.implementations import Arrays, Passes, Results

Cache = tuple[Any, ...]


def sigmoid(a: np.ndarray) -> np.ndarray:
    """1 / (1 + e^-a), without an exponential that overflows."""
    z = np.exp(-np.abs(a))
    return np.where(a >= 0, 1 / (1 + z), z / (1 + z))


def lstm_step_forward(
    x: np.ndarray, prev_h: np.ndarray, prev_c: np.ndarray, Wx: np.ndarray, Wh: np.ndarray,
    b: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, Cache]:
    """One step: x (N, D), prev_h and prev_c (N, H). Returns next_h, next_c and a cache."""
    a = x @ Wx + prev_h @ Wh + b
    a_i, a_f, a_o, a_g = np.split(a, 4, axis=1)
    i, f, o, g = sigmoid(a_i), sigmoid(a_f), sigmoid(a_o), np.tanh(a_g)
    next_c = f * prev_c + i * g
    tanh_c = np.tanh(next_c)
    next_h = o * tanh_c
    return next_h, next_c, (x, prev_h, prev_c, Wx, Wh, i, f, o, g, tanh_c)


def lstm_step_backward(dnext_h: np.ndarray, dnext_c: np.ndarray, cache: Cache) -> Cache:
    """Returns dx, dprev_h, dprev_c, dWx, dWh, db."""
    x, prev_h, prev_c, Wx, Wh, i, f, o, g, tanh_c = cache
    dc = dnext_c + dnext_h * o * (1 - tanh_c**2)
    da_i = dc * g * i * (1 - i)
    da_f = dc * prev_c * f * (1 - f)
    da_o = dnext_h * tanh_c * o * (1 - o)
    da_g = dc * i * (1 - g**2)
    da = np.hstack([da_i, da_f, da_o, da_g])
    return da @ Wx.T, da @ Wh.T, dc * f, x.T @ da, prev_h.T @ da, da.sum(axis=0)


def lstm_forward(
    x: np.ndarray, h0: np.ndarray, Wx: np.ndarray, Wh: np.ndarray, b: np.ndarray
) -> tuple[np.ndarray, list[Cache]]:
    """All hidden states (N, T, H) of x (N, T, D), and the caches of the steps."""
    N, T, _ = x.shape
    h = np.zeros((N, T, h0.shape[1]), dtype=x.dtype)
    prev_h, prev_c, caches = h0, np.zeros_like(h0), []
    for t in range(T):
        prev_h, prev_c, cache = lstm_step_forward(x[:, t], prev_h, prev_c, Wx, Wh, b)
        h[:, t] = prev_h
        caches.append(cache)
    return h, caches


def lstm_backward(dh: np.ndarray, caches: list[Cache]) -> Cache:
    """Returns dx (N, T, D), dh0, dWx, dWh, db, the last three summed step by step."""
    x, prev_h, _, Wx, Wh, *_ = caches[0]
    dx = np.zeros((dh.shape[0], len(caches), x.shape[1]), dtype=dh.dtype)
    dWx, dWh = np.zeros_like(Wx), np.zeros_like(Wh)
    db = np.zeros(Wx.shape[1], dtype=dh.dtype)
    dprev_h, dprev_c = np.zeros_like(prev_h), np.zeros_like(prev_h)
    for t in reversed(range(len(caches))):
        dx[:, t], dprev_h, dprev_c, dWx_t, dWh_t, db_t = lstm_step_backward(
            dh[:, t] + dprev_h, dprev_c, caches[t])
        dWx += dWx_t
        dWh += dWh_t
        db += db_t
    return dx, dprev_h, dWx, dWh, db


def passes(a: Arrays) -> Passes:
    """The two passes over the inputs of `benchmarks.kernel_list.recurrent.layer`, an LSTM's."""
    E = a["x"].shape[2]
    x, dh = (np.ascontiguousarray(a[name].transpose(1, 0, 2)) for name in ("x", "dh"))
    Wx, Wh = (np.ascontiguousarray(W.T) for W in (a["rnn.0.W"][:, :E], a["rnn.0.W"][:, E:]))
    h0, b = np.zeros((len(x), len(Wh)), dtype=x.dtype), a["rnn.0.b"]

    def forward() -> Results:
        return {"h": lstm_forward(x, h0, Wx, Wh, b)[0]}

    def both() -> Results:
        h, caches = lstm_forward(x, h0, Wx, Wh, b)
        dx, _, dWx, dWh, db = lstm_backward(dh, caches)
        return {"h": h, "dx": dx, "dWx": dWx, "dWh": dWh, "rnn.0.b": db}

    return Passes({"forward": forward, "both": both}, in_our_layout)


def in_our_layout(results: Results) -> Results:
    """Time first, and one matrix T."""
    read = dict(results)
    for name in read.keys() & {"h", "dx"}:
        read[name] = read[name].transpose(1, 0, 2)
    if "dWx" in read:
        read["rnn.0.W"] = np.concatenate([read.pop("dWx").T, read.pop("dWh").T], axis=1)
    return read
