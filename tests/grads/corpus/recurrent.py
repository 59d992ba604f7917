"""Recurrent networks without gates, right, and the mistakes that people make in them."""

import numpy as np


def rnn_inputs(rng):
    T, B, D, H = 4, 2, 3, 3
    return [rng.normal(size=shape) for shape in ((T, B, D), (B, H), (H, D), (H, H), (H,))]


def rnn_forward(x, h0, W, U, b):
    T, B, _ = x.shape
    h = np.zeros((T + 1, B, len(b)))
    h[-1] = h0
    for t in range(T):
        h[t] = np.tanh(x[t] @ W.T + h[t - 1] @ U.T + b)
    return h[:T], (x, W, U, h)


def rnn_backward(dh, cache):
    x, W, U, h = cache
    dx, dW, dU, db = (np.zeros_like(a) for a in (x, W, U, U[0]))
    dh_next = np.zeros_like(h[0])
    for t in reversed(range(len(x))):
        dz = (dh[t] + dh_next) * (1 - h[t] ** 2)
        dx[t] = dz @ W
        dW += dz.T @ x[t]
        dU += dz.T @ h[t - 1]
        db += dz.sum(axis=0)
        dh_next = dz @ U
    return dx, dh_next, dW, dU, db


rnn_wrong = [
    ("dU += dz.T @ h[t - 1]", "dU += dz.T @ h[t]", "dU", "the wrong index in time",
     "output f at index 0 of axis 0 where those of h0"),
    ("dh_next = dz @ U", "dh_next = dz @ U.T", "dh_next", "a square matrix transposed",
     "U .*transpose"),
    ("dW += dz.T @ x[t]", "dW = dz.T @ x[t]", "dW", "= for +=", "= written for"),
    ("dz = (dh[t] + dh_next)", "dz = dh[t]", "dz", "the gradient from the next step forgotten",
     "next step"),
    ("reversed(range(len(x)))", "range(len(x))", "dz", "the loop forwards in time"),
    ("dz = (dh[t] + dh_next) * (1 - h[t] ** 2)", "dz = (dh[t] + dh_next) * (1 - h[t - 1] ** 2)",
     "dz", "the slope of the step before"),
]


def rnn_lists_inputs(rng):
    return rng.normal(size=(3, 2)), rng.normal(size=(4, 2)), rng.normal(size=(4, 4))


def rnn_lists_forward(x, Wx, Wh):
    hs = [np.zeros(4)]
    for t in range(3):
        hs.append(np.tanh(Wx @ x[t] + Wh @ hs[-1]))
    return hs[-1], (x, Wx, Wh, hs)


def rnn_lists_backward(dh, cache):
    x, Wx, Wh, hs = cache
    dx, dWx, dWh = np.zeros(x.shape), np.zeros(Wx.shape), np.zeros(Wh.shape)
    for t in range(2, -1, -1):
        dz = dh * (1 - hs[t + 1] ** 2)
        dx[t] = Wx.T @ dz
        dWx += np.outer(dz, x[t])
        dWh += np.outer(dz, hs[t])
        dh = Wh.T @ dz
    return dx, dWx, dWh


rnn_lists_wrong = [
    ("range(2, -1, -1)", "range(2, 0, -1)", "dx", "the first step forgotten",
     "at index 0 of axis 0"),
    ("dWh += np.outer(dz, hs[t])", "dWh += np.outer(hs[t], dz)", "dWh", "transposed",
     "equals the transpose"),
    ("dz = dh * (1 - hs[t + 1] ** 2)", "dz = dh * (1 - hs[t] ** 2)", "dz",
     "the state before the step"),
]


def rnn_buffer_inputs(rng):
    return rng.normal(size=(3, 4)), rng.normal(size=(4, 4)), rng.normal(size=4)


def rnn_buffer_forward(x, U, h0):
    h, kept = h0.copy(), []
    for t in range(len(x)):
        before = h.copy()
        h[:] = np.tanh(x[t] + U @ h)
        kept.append((before, h.copy()))
    return h, (U, kept)


def rnn_buffer_backward(dy, cache):
    U, kept = cache
    dx, dU, dh = [], np.zeros_like(U), dy
    for t in reversed(range(len(kept))):
        before, h = kept[t]
        dz = dh * (1 - h * h)
        dx.insert(0, dz)
        dU += np.outer(dz, before)
        dh = dz @ U
    return np.array(dx), dU, dh


rnn_buffer_wrong = [
    ("kept.append((before, h.copy()))", "kept.append((before, h))", "dz",
     "every step keeps the same buffer, written over"),
    ("before = h.copy()", "before = h", "dU", "a name for the buffer where a copy was meant"),
    ("dU += np.outer(dz, before)", "dU += np.outer(dz, h)", "dU", "the state after the step"),
]


def bidirectional_inputs(rng):
    return [rng.normal(size=s) for s in ((4, 2), (3, 2), (3, 3), (3, 2), (3, 3))]


def run(x, W, U):
    hs = [np.zeros(len(U))]
    for row in x:
        hs.append(np.tanh(W @ row + U @ hs[-1]))
    return np.array(hs)


def run_backward(dhs, x, W, U, hs):
    dx, dW, dU, dh = np.zeros_like(x), np.zeros_like(W), np.zeros_like(U), np.zeros(len(U))
    for t in range(len(x) - 1, -1, -1):
        dz = (dh + dhs[t]) * (1 - hs[t + 1] ** 2)
        dW += np.outer(dz, x[t])
        dU += np.outer(dz, hs[t])
        dx[t] = dz @ W
        dh = dz @ U
    return dx, dW, dU


def bidirectional_forward(x, W, U, V, Q):
    left, right = run(x, W, U), run(x[::-1], V, Q)
    return np.hstack([left[1:], right[1:][::-1]]), (x, W, U, V, Q, left, right)


def bidirectional_backward(dy, cache):
    x, W, U, V, Q, left, right = cache
    dleft, dright = np.hsplit(dy, 2)
    dx, dW, dU = run_backward(dleft, x, W, U, left)
    dx_right, dV, dQ = run_backward(dright[::-1], x[::-1], V, Q, right)
    dx += dx_right[::-1]
    return dx, dW, dU, dV, dQ


bidirectional_wrong = [
    ("dx += dx_right[::-1]", "dx += dx_right", "dx", "not turned back in time"),
    ("run_backward(dright[::-1],", "run_backward(dright,", "dz",
     "the gradient not reversed in time"),
    ("dleft, dright = np.hsplit(dy, 2)", "dright, dleft = np.hsplit(dy, 2)", "dleft",
     "the directions exchanged"),
    ("dU += np.outer(dz, hs[t])", "dU += np.outer(dz, hs[t + 1])", "dU", "the wrong index in time"),
]
