"""Losses and similarities, right, and the mistakes that people make in them."""

import numpy as np

LABELS = np.array([2, 0, 1, 2])
BINARY = np.array([1.0, 0.0, 0.0, 1.0, 1.0, 0.0])
SIGNS = np.array([1, -1, -1, 1, -1])


def binary_cross_entropy_inputs(rng):
    return [3 * rng.normal(size=6)]


def binary_cross_entropy_forward(z):
    loss = np.maximum(z, 0) - z * BINARY + np.log1p(np.exp(-np.abs(z)))
    return loss.mean(), z


def binary_cross_entropy_backward(dloss, z):
    dz = (1 / (1 + np.exp(-z)) - BINARY) / z.size * dloss
    return dz


binary_cross_entropy_wrong = [
    ("- BINARY)", "+ BINARY)", "dz", "a sign"),
    (" / z.size", "", "dz", "the mean forgotten", "length of axis 0 of z"),
]


def log_sum_exp_inputs(rng):
    return [1000 + 3 * rng.normal(size=(3, 3))]


def log_sum_exp_forward(x):
    m = np.max(x, axis=1)
    out = m + np.log(np.exp(x - m[:, None]).sum(axis=1))
    return out, (x, out)


def log_sum_exp_backward(dout, cache):
    x, out = cache
    dx = np.exp(x - out[:, None]) * dout[:, None]
    return dx


log_sum_exp_wrong = [
    ("dx = np.exp(x - out[:, None]) * dout[:, None]",
     "dx = np.exp(x - out[:, None]) * dout", "dx", "the upstream gradient along the wrong axis"),
]


def hinge_inputs(rng):
    return [rng.normal(size=(4, 3))]


def hinge_forward(scores):
    rows = np.arange(len(scores))
    margins = np.maximum(0, scores - scores[rows, LABELS][:, None] + 1)
    margins[rows, LABELS] = 0
    return margins.sum() / len(scores), margins


def hinge_backward(dloss, margins):
    rows = np.arange(len(margins))
    dscores = (margins > 0).astype(float)
    dscores[rows, LABELS] = -dscores.sum(axis=1)
    dscores *= dloss / len(margins)
    return dscores


hinge_wrong = [
    ("dscores[rows, LABELS] = -dscores.sum(axis=1)", "dscores[rows, LABELS] = -1", "dscores",
     "the right class counted once"),
    ("dscores[rows, LABELS] = -dscores.sum(axis=1)", "pass", "dscores",
     "the right class forgotten"),
]


def binary_hinge(w):
    x = np.linspace(-1, 1, 15).reshape(5, 3) ** 3
    score = x @ w
    return np.maximum(0, 1 - SIGNS * score).mean() + 0.05 * (w @ w)


def binary_hinge_gradient(w):
    x = np.linspace(-1, 1, 15).reshape(5, 3) ** 3
    dscore = -SIGNS * (SIGNS * (x @ w) < 1) / len(x)
    dw = dscore @ x + 0.1 * w
    return dw


def binary_hinge_inputs(rng):
    return rng.normal(size=3)


binary_hinge_wrong = [
    ("dw = dscore @ x + 0.1 * w", "dw = dscore @ x", "dw", "the weight decay forgotten",
     "lacks .* times w: is weight decay"),
    ("dw = dscore @ x + 0.1 * w", "dw = dscore @ x + 0.05 * w", "dw",
     "the square's factor 2 forgotten", "lacks .* times w: is weight decay"),
    ("dscore = -SIGNS * ", "dscore = -1.0 * ", "dscore", "the label forgotten"),
]


def huber_inputs(rng):
    return [2 * rng.normal(size=8), rng.normal(size=8)]


def huber_forward(y, t):
    e = y - t
    small = np.abs(e) <= 1
    return np.where(small, 0.5 * e**2, np.abs(e) - 0.5).sum(), (e, small)


def huber_backward(dloss, cache):
    e, small = cache
    de = np.where(small, e, np.sign(e)) * dloss
    dy = de
    dt = -de
    return dy, dt


huber_wrong = [
    ("np.where(small, e, np.sign(e))", "np.where(small, e, 1)", "de", "the sign forgotten",
     "reversed sign"),
    ("dt = -de", "dt = de", "dt", "the sign of what is subtracted", "reversed sign"),
]


def info_nce_inputs(rng):
    return [rng.normal(size=(3, 4)), rng.normal(size=(3, 4))]


def info_nce_forward(a, b):
    s = a @ b.T
    rows = s - np.log(np.exp(s).sum(axis=1, keepdims=True))
    columns = s - np.log(np.exp(s).sum(axis=0, keepdims=True))
    return -(np.trace(rows) + np.trace(columns)), (a, b, np.exp(rows), np.exp(columns))


def info_nce_backward(dloss, cache):
    a, b, rows, columns = cache
    ds = (rows + columns - 2 * np.eye(len(a))) * dloss
    da = ds @ b
    db = ds.T @ a
    return da, db


info_nce_wrong = [
    ("db = ds.T @ a", "db = ds @ a", "db", "right only for a symmetric matrix of scores"),
    ("rows + columns - 2", "2 * rows - 2", "ds", "the columns' softmax forgotten"),
]


def cosine_inputs(rng):
    return rng.normal(size=(2, 4)), rng.normal(size=(2, 4))


def cosine_forward(u, v):
    nu, nv = np.linalg.norm(u, axis=1), np.linalg.norm(v, axis=1)
    c = (u * v).sum(axis=1) / (nu * nv)
    return c, (u, v, nu, nv, c)


def cosine_backward(dc, cache):
    u, v, nu, nv, c = (array if array.ndim == 2 else array[:, None] for array in cache)
    du = dc[:, None] * (v / (nu * nv) - c * u / nu**2)
    dv = dc[:, None] * (u / (nu * nv) - c * v / nv**2)
    return du, dv


cosine_wrong = [
    ("- c * u / nu**2", "- c * u / nu", "du", "one power of the length forgotten"),
    ("- c * v / nv**2", "- c * v / nu**2", "dv", "the other vector's length"),
]
