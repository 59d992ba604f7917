"""Recurrent networks as CS231n writes them, and mistakes that the checker should call by name."""

import numpy as np


def course_rnn_inputs(rng):
    N, T, D, H = 2, 4, 5, 5
    shapes = (N, T, D), (N, H), (D, H), (H, H), (H,)
    return [rng.normal(size=shape) for shape in shapes]


def course_rnn_forward(x, h0, Wx, Wh, b):
    N, T, _ = x.shape
    h, prev = np.zeros((N, T, len(b))), h0
    for t in range(T):
        prev = np.tanh(x[:, t] @ Wx + prev @ Wh + b)
        h[:, t] = prev
    return h, (x, h0, Wx, Wh, h)


def course_rnn_backward(dh, cache):
    x, h0, Wx, Wh, h = cache
    dx, dWx, dWh, db = np.zeros_like(x), np.zeros_like(Wx), np.zeros_like(Wh), np.zeros(len(Wh))
    dprev = np.zeros_like(h0)
    for t in reversed(range(x.shape[1])):
        prev = h[:, t - 1] if t else h0
        dz = (dh[:, t] + dprev) * (1 - h[:, t] ** 2)
        dx[:, t] = dz @ Wx.T
        dWx += x[:, t].T @ dz
        dWh += prev.T @ dz
        db += dz.sum(axis=0)
        dprev = dz @ Wh.T
    return dx, dprev, dWx, dWh, db


course_rnn_wrong = [
    ("dWx += x[:, t].T @ dz", "dWx = x[:, t].T @ dz", "dWx", "= for +=", "= written for"),
    ("dWh += prev.T @ dz", "dWh = prev.T @ dz", "dWh", "= for +=", "= written for"),
    ("db += dz.sum(axis=0)", "db = dz.sum(axis=0)", "db", "= for +=", "= written for"),
    ("db += dz.sum(axis=0)", "db += dz[0]", "db", "the first sequence only",
     "a sum over axis 0 forgotten"),
    ("dz = (dh[:, t] + dprev) *", "dz = dh[:, t] *", "dz", "the next step's gradient forgotten",
     "next step"),
    ("dWh += prev.T @ dz", "dWh += h[:, t].T @ dz", "dWh", "the state after the step",
     "output f at index 0 of axis 1 where those of h0"),
    ("dprev = dz @ Wh.T", "dprev = dz @ Wh", "dprev", "a square weight not transposed",
     "Wh .*transpose"),
    ("dx[:, t] = dz @ Wx.T", "dx[:, t - 1] = dz @ Wx.T", "dx", "off by one in time",
     "rolled by|shifted by one"),
    ("dx[:, t] = dz @ Wx.T", "dx[:, t] = dz @ Wx", "dx", "a square weight not transposed",
     "Wx .*transpose"),
    ("dx[:, t] = dz @ Wx.T", "dx[:, -1 - t] = dz @ Wx.T", "dx", "reversed in time",
     "reversed along axis 1"),
]


def last_state_inputs(rng):
    N, T, D, H = 2, 4, 3, 5
    shapes = (N, T, D), (N, H), (D, H), (H, H), (H,)
    return [0.7 * rng.normal(size=shape) for shape in shapes]


def last_state_forward(x, h0, Wx, Wh, b):
    states = [h0]
    for t in range(x.shape[1]):
        states.append(np.tanh(x[:, t] @ Wx + states[-1] @ Wh + b))
    return states[-1], (x, Wx, Wh, states)


def last_state_backward(dh, cache):
    x, Wx, Wh, states = cache
    dx, dWx, dWh, db = np.zeros_like(x), np.zeros_like(Wx), np.zeros_like(Wh), np.zeros(len(Wh))
    for t in reversed(range(x.shape[1])):
        dz = dh * (1 - states[t + 1] ** 2)
        dx[:, t] = dz @ Wx.T
        dWx += x[:, t].T @ dz
        dWh += states[t].T @ dz
        db += dz.sum(axis=0)
        dh = dz @ Wh.T
    return dx, dh, dWx, dWh, db


last_state_wrong = [
    ("dWx += x[:, t].T @ dz", "dWx = x[:, t].T @ dz", "dWx", "= for +=", "= written for"),
    ("db += dz.sum(axis=0)", "db = dz.sum(axis=0)", "db", "= for +=", "= written for"),
    ("reversed(range(x.shape[1]))", "range(x.shape[1])", "dz", "the loop forwards in time", ""),
    ("        dh = dz @ Wh.T", "        dh = dz @ Wh.T\n        break", "dx", "the last step only",
     "only the term of x at index 3 of axis 1"),
]


def course_lstm_inputs(rng):
    N, T, D, H = 2, 3, 4, 5
    shapes = (N, T, D), (N, H), (D, 4 * H), (H, 4 * H), (4 * H,)
    return [0.7 * rng.normal(size=shape) for shape in shapes]


def course_lstm_forward(x, h0, Wx, Wh, b):
    N, T, _ = x.shape
    H, prev, c = h0.shape[1], h0, np.zeros_like(h0)
    h, kept = np.zeros((N, T, H)), []
    for t in range(T):
        a = x[:, t] @ Wx + prev @ Wh + b
        i, f, o = (1 / (1 + np.exp(-a[:, k * H : (k + 1) * H])) for k in range(3))
        g = np.tanh(a[:, 3 * H :])
        c_prev, c = c, f * c + i * g
        kept.append((prev, i, f, o, g, c_prev, c))
        prev = o * np.tanh(c)
        h[:, t] = prev
    return h, (x, Wx, Wh, kept)


def course_lstm_backward(dh, cache):
    x, Wx, Wh, kept = cache
    dx, dWx, dWh, db = np.zeros_like(x), np.zeros_like(Wx), np.zeros_like(Wh), np.zeros(len(Wx.T))
    dprev = dc = np.zeros_like(kept[0][0])
    for t in reversed(range(x.shape[1])):
        prev, i, f, o, g, c_prev, c = kept[t]
        dht = dh[:, t] + dprev
        dc = dc + dht * o * (1 - np.tanh(c) ** 2)
        di, df, do, dg = dc * g, dc * c_prev, dht * np.tanh(c), dc * i
        da = np.hstack([di * i * (1 - i), df * f * (1 - f), do * o * (1 - o), dg * (1 - g * g)])
        dx[:, t] = da @ Wx.T
        dWx += x[:, t].T @ da
        dWh += prev.T @ da
        db += da.sum(axis=0)
        dprev = da @ Wh.T
        dc = dc * f
    return dx, dprev, dWx, dWh, db


course_lstm_wrong = [
    ("dWx += x[:, t].T @ da", "dWx = x[:, t].T @ da", "dWx", "= for +=", "= written for"),
    ("dWh += prev.T @ da", "dWh = prev.T @ da", "dWh", "= for +=", "= written for"),
    ("db += da.sum(axis=0)", "db = da.sum(axis=0)", "db", "= for +=", "= written for"),
    ("hstack([di * i * (1 - i), df * f * (1 - f)", "hstack([df * f * (1 - f), di * i * (1 - i)",
     "da", "the gates exchanged", "exchanged"),
    ("dht = dh[:, t] + dprev", "dht = dh[:, t]", "dht", "the next step's gradient forgotten",
     "next step"),
    ("dg * (1 - g * g)", "dg", "da", "the candidate's slope forgotten",
     "wrong only in index 15 to 19"),
    ("do * o * (1 - o)", "-do * o * (1 - o)", "da", "a sign of one gate",
     "index 10 to 14 of axis . it has the reversed sign"),
]
