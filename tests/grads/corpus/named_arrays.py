"""Indexing, moving and solving, and mistakes that the checker should call by their name."""

import numpy as np

PLACES = np.array([2, 0, 3, 2, 1, 0])
ORDER = np.array([3, 0, 4, 1, 2])


def lookup_inputs(rng):
    return rng.normal(size=(6, 3)), rng.normal(size=3)


def lookup_forward(W, b):
    return W[PLACES] + b, W


def lookup_backward(dy, W):
    dW = np.zeros_like(W)
    np.add.at(dW, PLACES, dy)
    return dW, dy.sum(axis=0)


lookup_wrong = [
    ("np.add.at(dW, PLACES, dy)", "dW[PLACES] += dy", "dW", "repeated ids counted once",
     "np.add.at|overwritten"),
    ("np.add.at(dW, PLACES, dy)", "dW[PLACES] = dy", "dW", "repeated ids assigned",
     "np.add.at|overwritten"),
    ("np.add.at(dW, PLACES, dy)", "dW = dy[PLACES]", "dW", "a gather for a scatter", "gather"),
    ("np.add.at(dW, PLACES, dy)", "np.add.at(dW, PLACES, dy); dW /= 6", "dW", "a mean for a sum",
     "factor 0.1666"),
]


def words_inputs(rng):
    return rng.normal(size=(6, 3)), rng.normal(size=(3, 4))


def words_forward(W, V):
    v = W[PLACES]
    y = np.tanh(v @ V)
    return y, (W, V, v, y)


def words_backward(dy, cache):
    W, V, v, y = cache
    dz = dy * (1 - y**2)
    dv = dz @ V.T
    dW = np.zeros_like(W)
    np.add.at(dW, PLACES, dv)
    return dW, v.T @ dz


words_wrong = [
    ("np.add.at(dW, PLACES, dv)", "dW[PLACES] += dv", "dW", "repeated ids counted once",
     "np.add.at|overwritten"),
    ("np.add.at(dW, PLACES, dv)", "dW = dv[PLACES]", "dW", "a gather for a scatter", "gather"),
]


def ordered_inputs(rng):
    return [rng.normal(size=(5, 2))]


def ordered_forward(x):
    return np.sin(x)[ORDER], x


def ordered_backward(dy, x):
    ds = np.zeros_like(x)
    ds[ORDER] = dy
    dx = ds * np.cos(x)
    return dx


ordered_wrong = [
    ("ds[ORDER] = dy", "ds = dy[ORDER]", "ds", "a gather for a scatter", "gather"),
    ("dx = ds * np.cos(x)", "dx = ds", "dx", "the slope forgotten",
     "lacks the factor cos\\(x\\)"),
    ("dx = ds * np.cos(x)", "dx = -ds * np.sin(x)", "dx", "the wrong function's slope",
     ""),
]


def picked_inputs(rng):
    return [rng.normal(size=5)]


def picked_forward(x):
    return x[ORDER], x


def picked_backward(dy, x):
    dx = np.zeros_like(x)
    dx[ORDER] = dy
    return dx


picked_wrong = [
    ("dx[ORDER] = dy", "dx = dy[ORDER]", "dx", "a gather for a scatter",
     "gather|exchanged|mixed up"),
]


def rolled_inputs(rng):
    return rng.normal(size=(7, 2)), rng.normal(size=(7, 2))


def rolled_forward(x, w):
    return np.roll(x, 2, axis=0) * w, (x, w)


def rolled_backward(dy, cache):
    x, w = cache
    dx = np.roll(dy * w, -2, axis=0)
    dw = dy * np.roll(x, 2, axis=0)
    return dx, dw


rolled_wrong = [
    ("np.roll(dy * w, -2, axis=0)", "np.roll(dy * w, 2, axis=0)", "dx", "the wrong direction",
     "rolled by 4 of its 7 rows"),
    ("np.roll(dy * w, -2, axis=0)", "np.roll(dy * w, -1, axis=0)", "dx", "by one for two",
     "rolled by 1 of|shifted by one"),
    ("np.roll(dy * w, -2, axis=0)", "dy * w", "dx", "not rolled back",
     "rolled by 2 of its 7 rows"),
    ("dw = dy * np.roll(x, 2, axis=0)", "dw = dy * np.roll(x, -2, axis=0)", "dw",
     "the input rolled the wrong way", ""),
]


def inverted_inputs(rng):
    return rng.normal(size=(4, 4)) + 3 * np.eye(4), rng.normal(size=(4, 2))


def inverted_forward(A, B):
    inverse = np.linalg.inv(A)
    y = inverse @ B
    return y, (inverse, y)


def inverted_backward(dy, cache):
    inverse, y = cache
    dB = inverse.T @ dy
    dA = -inverse.T @ dy @ y.T
    return dA, dB


inverted_wrong = [
    ("dB = inverse.T @ dy", "dB = inverse @ dy", "dB", "the transpose of the inverse missing",
     "inverse of A .*transpose|right where A is symmetric"),
    ("dA = -inverse.T @ dy", "dA = -inverse @ dy", "dA", "the transpose of the inverse missing",
     "inverse of A .*transpose|where A is symmetric"),
    ("-inverse.T @ dy @ y.T", "-(y @ dy.T) @ inverse", "dA", "all of it transposed",
     "equals the transpose"),
    ("-inverse.T @ dy @ y.T", "inverse.T @ dy @ y.T", "dA", "a sign", "reversed sign"),
]


def energy_inputs(rng):
    return rng.normal(size=(4, 4)) + 3 * np.eye(4), rng.normal(size=4)


def energy(A, b):
    return b @ np.linalg.solve(A, b) + np.log(np.linalg.det(A))


def energy_gradient(A, b):
    x, u = np.linalg.solve(A, b), np.linalg.solve(A.T, b)
    dA = -np.outer(u, x) + np.linalg.inv(A).T
    db = x + u
    return dA, db


energy_wrong = [
    ("np.linalg.inv(A).T", "np.linalg.inv(A)", "dA", "the inverse not transposed",
     "antisymmetric.*transpose|where A is symmetric"),
    ("db = x + u", "db = 2 * x", "db", "right for a symmetric matrix", "where A is symmetric"),
    ("-np.outer(u, x)", "-np.outer(x, u)", "dA", "the first term transposed",
     "antisymmetric.*transpose|where A is symmetric"),
]


def weighted_mean_inputs(rng):
    return rng.normal(size=(4, 4)), rng.normal(size=(4, 4))


def weighted_mean_forward(x, w):
    e = np.exp(w - w.max(axis=1, keepdims=True))
    p = e / e.sum(axis=1, keepdims=True)
    return (p, (x * p).sum(axis=1)), (x, p)


def weighted_mean_backward(d, cache):
    x, p = cache
    dp, dmean = d
    dp = dp + x * dmean[:, None]
    dx = p * dmean[:, None]
    dw = p * (dp - (p * dp).sum(axis=1, keepdims=True))
    return dx, dw


weighted_mean_wrong = [
    ("dw = p * (dp - (p * dp).sum(axis=1, keepdims=True))", "dw = p * dp", "dw",
     "the softmax without cross terms", "multiple of output 0"),
    ("dw = p * (dp - (p * dp).sum(axis=1, keepdims=True))", "dw = p * (1 - p) * dp", "dw",
     "the diagonal only", "cross terms"),
    ("(p * dp).sum(axis=1, keepdims=True)", "(p * dp).sum(axis=0)", "dw",
     "a sum over the wrong axis", "wrong axis"),
    ("dx = p * dmean[:, None]", "dx = p * dmean", "dx",
     "the upstream gradient along the wrong axis", ""),
    ("dp = dp + x * dmean[:, None]", "dp = dp + 0", "dp", "an output's gradient forgotten",
     "through output 1 is missing"),
]
