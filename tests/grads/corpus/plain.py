"""Functions that leave NumPy's arithmetic: Python numbers, casts, branches, masks, views."""

import math
from typing import NamedTuple

import numpy as np

STARTS = np.array([0, 2, 3])


def oscillator_inputs(rng):
    return [rng.normal(size=2), np.array([0.8])]


def oscillator_forward(state, k):
    position, speed, stiffness = float(state[0]), float(state[1]), float(k[0])
    path = []
    for _ in range(4):
        path.append((position, speed))
        speed -= 0.1 * stiffness * math.sin(position)
        position += 0.1 * speed
    return np.array([position, speed]), (path, stiffness)


def oscillator_backward(d, cache):
    path, stiffness = cache
    dposition, dspeed = d
    dk = 0.0
    for position, _ in reversed(path):
        dspeed = dspeed + 0.1 * dposition
        dk -= 0.1 * math.sin(position) * dspeed
        dposition = dposition - 0.1 * stiffness * math.cos(position) * dspeed
    return np.array([dposition, dspeed]), np.array([dk])


oscillator_wrong = [
    ("dk -= 0.1 * math.sin(position) * dspeed", "dk = -0.1 * math.sin(position) * dspeed", "dk",
     "= for -="),
    ("dspeed = dspeed + 0.1 * dposition", "dspeed = dspeed", "dspeed", "one path forgotten"),
]


def neuron_inputs(rng):
    return rng.normal(size=3), rng.normal(size=3), rng.normal(size=1)


def neuron_forward(w, x, b):
    z = sum(wi * xi for wi, xi in zip(w.tolist(), x.tolist(), strict=True)) + b.item()
    y = math.tanh(z)
    return y, (w, x, y)


def neuron_backward(dy, cache):
    w, x, y = cache
    dz = (1 - y * y) * dy
    dw = [dz * xi for xi in x]
    dx = [dz * wi for wi in w]
    return np.array(dw), np.array(dx), np.array([dz])


neuron_wrong = [
    ("dw = [dz * xi for xi in x]", "dw = [dz * xi for xi in w]", "dw", "the weights for the input"),
    ("dz = (1 - y * y) * dy", "dz = (1 + y * y) * dy", "dz", "a sign"),
]


def cast_inputs(rng):
    return [rng.normal(size=(2, 3)), rng.normal(size=3)]


def cast_forward(x, w):
    h = np.asarray(x, dtype=np.float64) * w.astype(np.float64)
    return np.sin(h), (x, w, h)


def cast_backward(dy, cache):
    x, w, h = cache
    dh = dy * np.cos(h)
    dx = dh * w
    dw = (dh * x).sum(axis=0)
    return dx, dw


cast_wrong = [
    ("dw = (dh * x).sum(axis=0)", "dw = (dh * x).sum(axis=1).mean() * w", "dw", "the wrong axis"),
    ("dh = dy * np.cos(h)", "dh = -dy * np.cos(h)", "dh", "a sign", "reversed sign"),
]


class Kept(NamedTuple):
    """What a backward needs."""

    x: np.ndarray
    h: np.ndarray
    W: np.ndarray


def named_outputs_inputs(rng):
    return [rng.normal(size=(2, 3)), rng.normal(size=(4, 3))]


def named_outputs_forward(x, W):
    h = np.tanh(x @ W.T)
    return {"h": h, "penalty": (W**2).sum()}, Kept(x, h, W)


def named_outputs_backward(d, kept):
    dz = d["h"] * (1 - kept.h**2)
    dx = dz @ kept.W
    dW = dz.T @ kept.x
    dW += 2 * d["penalty"] * kept.W
    return dx, dW


named_outputs_wrong = [
    ("dW += 2 * d[\"penalty\"] * kept.W", "pass", "dW", "one output's gradient forgotten",
     "through output penalty is missing"),
    ("dW += 2 * d[\"penalty\"] * kept.W", "dW += 2 * kept.W", "dW", "one for its gradient"),
]


def vectorized_inputs(rng):
    return [2 * rng.normal(size=9)]


@np.vectorize
def smooth_step(v):
    if v < -1:
        return 0.0
    return 1.0 if v > 1 else 0.5 + 0.75 * v - 0.25 * v**3


def vectorized_forward(x):
    return smooth_step(x), x


def vectorized_backward(dy, x):
    dx = dy * np.where(np.abs(x) < 1, 0.75 * (1 - x**2), 0)
    return dx


vectorized_wrong = [
    ("np.where(np.abs(x) < 1, 0.75 * (1 - x**2), 0)", "0.75 * (1 - x**2)", "dx",
     "the flat sides forgotten"),
]


def pieces_inputs(rng):
    return [2 * rng.normal(size=10)]


def pieces_forward(x):
    y = np.select([x < -1, x < 1], [-2 * x - 1, x**2], 2 * x - 1)
    return y, x


def pieces_backward(dy, x):
    dx = dy * np.select([x < -1, x < 1], [-2.0, 2 * x], 2.0)
    return dx


pieces_wrong = [
    ("[-2.0, 2 * x], 2.0)", "[2.0, 2 * x], 2.0)", "dx", "a sign in one piece"),
]


def safe_root_inputs(rng):
    return [rng.normal(size=8)]


def safe_root_forward(x):
    above = x > 0
    safe = np.where(above, x, 1.0)
    return np.where(above, np.sqrt(safe), 0.0), (above, safe)


def safe_root_backward(dy, cache):
    above, safe = cache
    dx = np.where(above, 0.5 * dy / np.sqrt(safe), 0.0)
    return dx


safe_root_wrong = [
    ("dx = np.where(above, 0.5 * dy / np.sqrt(safe), 0.0)", "dx = 0.5 * dy / np.sqrt(safe)", "dx",
     "the branch without slope forgotten"),
]


def masked_write_inputs(rng):
    return [rng.normal(size=(3, 4))]


def masked_write_forward(x):
    y = np.zeros_like(x)
    chosen = x > 0
    y[chosen] = np.log1p(x[chosen])
    return y, (x, chosen)


def masked_write_backward(dy, cache):
    x, chosen = cache
    dx = np.zeros_like(x)
    dx[chosen] = dy[chosen] / (1 + x[chosen])
    return dx


masked_write_wrong = [
    ("dx[chosen] = dy[chosen] / (1 + x[chosen])", "dx = dy / (1 + np.abs(x))", "dx",
     "the mask forgotten"),
    ("dy[chosen] / (1 + x[chosen])", "dy[chosen] / x[chosen]", "dx", "log x for log (1 + x)"),
]


def segment_sum_inputs(rng):
    return [rng.normal(size=(5, 2))]


def segment_sum_forward(x):
    return np.add.reduceat(x, STARTS, axis=0) ** 2, np.add.reduceat(x, STARTS, axis=0)


def segment_sum_backward(dy, sums):
    dsums = 2 * sums * dy
    dx = np.repeat(dsums, [2, 1, 2], axis=0)
    return dx


segment_sum_wrong = [
    ("[2, 1, 2]", "[1, 2, 2]", "dx", "the wrong lengths"),
]


def phase_inputs(rng):
    return [3 * rng.normal(size=6)]


def phase_forward(x):
    fraction = x - np.floor(x)
    return np.sin(fraction) * (x % 2.0), (fraction, x % 2.0)


def phase_backward(dy, cache):
    fraction, rest = cache
    dfraction = dy * np.cos(fraction) * rest
    drest = dy * np.sin(fraction)
    dx = dfraction + drest
    return dx


phase_wrong = [
    ("dx = dfraction + drest", "dx = dfraction", "dx", "one of two uses forgotten"),
]


def rowwise_inputs(rng):
    return [rng.normal(size=(3, 4)), rng.normal(size=(4, 2))]


def rowwise_forward(x, W):
    p = np.apply_along_axis(lambda row: np.exp(row) / np.exp(row).sum(), 1, x)
    y = np.empty((3, 2))
    np.dot(p, W, out=y)
    return y, (p, W)


def rowwise_backward(dy, cache):
    p, W = cache
    dp = np.tensordot(dy, W, axes=(1, 1))
    dx = p * (dp - np.sum(p * dp, axis=1)[:, None])
    dW = np.tensordot(p, dy, axes=(0, 0))
    return dx, dW


rowwise_wrong = [
    ("dx = p * (dp - np.sum(p * dp, axis=1)[:, None])", "dx = p * (dp - np.sum(p * dp))", "dx",
     "a sum over everything"),
    ("dW = np.tensordot(p, dy, axes=(0, 0))", "dW = np.tensordot(dx, dy, axes=(0, 0))", "dW",
     "a gradient for its value"),
]


def ragged_inputs(rng):
    return [rng.normal(size=(2, 4, 3)), rng.normal(size=(3, 3))]


def ragged_forward(x, U):
    """Sequences of lengths 4 and 2; a finished one keeps its state."""
    alive = np.arange(4)[:, None] < [4, 2]
    h, kept = np.zeros((2, 3)), []
    for t in range(4):
        new = np.tanh(x[:, t] + h @ U.T)
        kept.append((h, new))
        h = np.where(alive[t][:, None], new, h)
    return h, (alive, kept, U)


def ragged_backward(dh, cache):
    alive, kept, U = cache
    dx, dU = np.zeros((2, 4, 3)), np.zeros_like(U)
    for t in range(3, -1, -1):
        h, new = kept[t]
        dnew = np.where(alive[t][:, None], dh, 0)
        dz = dnew * (1 - new**2)
        dx[:, t] = dz
        dU += dz.T @ h
        dh = np.where(alive[t][:, None], 0, dh) + dz @ U
    return dx, dU


ragged_wrong = [
    ("dh = np.where(alive[t][:, None], 0, dh) + dz @ U", "dh = dz @ U", "dh",
     "a finished sequence's gradient lost"),
    ("dnew = np.where(alive[t][:, None], dh, 0)", "dnew = dh", "dnew", "the mask forgotten"),
]
