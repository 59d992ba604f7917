# ruff: noqa: RUF059
"""Layers as courses write them, and mistakes that the checker should call by their name."""

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

SHIFTED = np.array([1, 0, 2, 1])


def decayed_inputs(rng):
    return rng.normal(size=(6, 3)), rng.normal(size=(3, 7)), rng.normal(size=7)


def decayed(x, W, b):
    return np.sum((x @ W + b) ** 2) / len(x) + 0.05 * np.sum(W * W) + 0.3 * np.sum(np.abs(b))


def decayed_gradient(x, W, b):
    dy = 2 * (x @ W + b) / len(x)
    dW = x.T @ dy + 0.1 * W
    db = dy.sum(axis=0) + 0.3 * np.sign(b)
    return dy @ W.T, dW, db


decayed_wrong = [
    ("x.T @ dy + 0.1 * W", "x.T @ dy", "dW", "the weight decay forgotten",
     "lacks .* times W: is weight decay missing"),
    ("x.T @ dy + 0.1 * W", "x.T @ dy + 0.2 * W", "dW", "the weight decay doubled",
     "has .* times W too much: .*weight decay"),
    (" + 0.3 * np.sign(b)", "", "db", "the slope of |b| forgotten",
     "lacks .* times the sign of b"),
    ("0.3 * np.sign(b)", "0.3 * b", "db", "the penalty's slope that of b^2", ""),
    ("2 * (x @ W + b) / len(x)", "(x @ W + b) / len(x)", "dy", "the square's factor 2 forgotten",
     "factor 0.5"),
]


def tanh_layer_inputs(rng):
    return rng.normal(size=(4, 3)), rng.normal(size=(3, 4)), rng.normal(size=4)


def tanh_layer_forward(x, W, b):
    z = x @ W + b
    y = np.tanh(z)
    return y, (x, W, z, y)


def tanh_layer_backward(dy, cache):
    x, W, z, y = cache
    dz = dy * (1 - y**2)
    dx = dz @ W.T
    dW = x.T @ dz
    db = dz.sum(axis=0)
    return dx, dW, db


tanh_layer_wrong = [
    ("dz = dy * (1 - y**2)", "dz = dy", "dz", "the slope forgotten",
     "without the slope of tanh"),
    ("dz = dy * (1 - y**2)", "dz = dy * (1 - z**2)", "dz", "the slope at the pre-activation",
     "slope of tanh.* at its input"),
    ("dz = dy * (1 - y**2)", "dz = dy * (1 - np.tanh(y)**2)", "dz", "tanh taken twice",
     "tanh.* taken twice"),
    ("dz = dy * (1 - y**2)", "dz = dy * y * (1 - y)", "dz", "the sigmoid's slope",
     "slope of the sigmoid where that of tanh"),
    ("dz = dy * (1 - y**2)", "dz = dy * (1 - y)", "dz", "the square forgotten", ""),
    ("db = dz.sum(axis=0)", "db = dz.sum(axis=1)", "db", "a sum over the wrong axis",
     "wrong axis"),
    ("db = dz.sum(axis=0)", "db = dz.mean(axis=0)", "db", "a mean for a sum",
     "factor 0.25 .1/"),
    ("db = dz.sum(axis=0)", "db = dz[-1]", "db", "the last row only",
     "only what comes through index 3 of axis 0"),
    ("dW = x.T @ dz", "dW = np.outer(x[0], dz[0])", "dW", "the first row only",
     "only (the term of|what comes through).* index 0 of axis 0"),
    ("dW = x.T @ dz", "dW = (x.T @ dz)[:, ::-1]", "dW", "reversed", "reversed along axis 1"),
    ("dx = dz @ W.T", "dx = -dz @ W.T", "dx", "a sign", "reversed sign"),
]


def sigmoid_layer_inputs(rng):
    return rng.normal(size=(5, 3)), rng.normal(size=(4, 3)), rng.normal(size=4)


def sigmoid_layer_forward(x, W, b):
    z = x @ W.T + b
    y = 1 / (1 + np.exp(-z))
    return y, (x, W, z, y)


def sigmoid_layer_backward(dy, cache):
    x, W, z, y = cache
    dz = dy * y * (1 - y)
    return dz @ W, dz.T @ x, dz.sum(axis=0)


sigmoid_layer_wrong = [
    ("dz = dy * y * (1 - y)", "dz = dy", "dz", "the slope forgotten",
     "without the slope of the sigmoid"),
    ("dz = dy * y * (1 - y)", "dz = dy * z * (1 - z)", "dz", "the slope at the pre-activation",
     "slope of the sigmoid.* at its input"),
    ("dz = dy * y * (1 - y)", "dz = dy * (1 - y**2)", "dz", "the slope of tanh",
     "slope of tanh where that of the sigmoid"),
    ("dz = dy * y * (1 - y)", "s = 1 / (1 + np.exp(-y)); dz = dy * s * (1 - s)", "dz",
     "the sigmoid taken twice", "sigmoid.* taken twice"),
]


def relu_rows_inputs(rng):
    return rng.normal(size=(4, 5)), rng.normal(size=(5, 6))


def relu_rows_forward(x, W):
    y = np.maximum(x @ W, 0)
    return y, (x, W, y)


def relu_rows_backward(dy, cache):
    x, W, y = cache
    dz = dy * (y > 0)
    return dz @ W.T, x.T @ dz


relu_rows_wrong = [
    ("dz = dy * (y > 0)", "dz = dy", "dz", "the mask forgotten",
     "mask forgotten|where the output is 0"),
    ("dz = dy * (y > 0)", "dz = dy * y", "dz", "the output for its mask",
     "slope"),
]


def tanh_elements_inputs(rng):
    return [rng.normal(size=(3, 5))]


def tanh_elements_forward(x):
    y = np.tanh(x)
    return y, (x, y)


def tanh_elements_backward(dy, cache):
    x, y = cache
    dx = dy * (1 - y**2)
    return dx


tanh_elements_wrong = [
    ("1 - y**2", "1 - x**2", "dx", "the slope at the input", "slope of tanh.* at its input"),
    ("dy * (1 - y**2)", "dy", "dx", "the slope forgotten", "without the slope of tanh"),
    ("1 - y**2", "1 - y", "dx", "the square forgotten", ""),
]


def log_scale_inputs(rng):
    return rng.normal(size=(4, 3)), 0.3 * rng.normal(size=3), 1 + rng.random(size=3)


def log_scale_forward(x, s, v):
    y = x * np.exp(s) + np.log(v)
    return y, (x, s, v)


def log_scale_backward(dy, cache):
    x, s, v = cache
    dx = dy * np.exp(s)
    ds = (dy * x * np.exp(s)).sum(axis=0)
    dv = dy.sum(axis=0) / v
    return dx, ds, dv


log_scale_wrong = [
    ("(dy * x * np.exp(s)).sum", "(dy * x).sum", "ds", "with respect to exp(s)",
     "lacks the factor exp\\(s\\)"),
    ("dy.sum(axis=0) / v", "dy.sum(axis=0)", "dv", "with respect to log v",
     "lacks the factor 1/v.*log"),
    ("dy.sum(axis=0) / v", "dy.sum(axis=0) * v", "dv", "multiplied for divided", "factor 1/v\\^2"),
    ("dx = dy * np.exp(s)", "dx = dy * s", "dx", "the exponential forgotten", ""),
]


def gained_batch_norm_inputs(rng):
    return rng.normal(size=(6, 4)), rng.normal(size=4), rng.normal(size=4)


def gained_batch_norm_forward(x, gamma, beta):
    std = np.sqrt(x.var(axis=0) + 1e-5)
    xhat = (x - x.mean(axis=0)) / std
    return gamma * xhat + beta, (xhat, std, gamma)


def gained_batch_norm_backward(dout, cache):
    xhat, std, gamma = cache
    dgamma = (dout * xhat).sum(axis=0)
    dbeta = dout.sum(axis=0)
    dxhat = dout * gamma
    dx = (dxhat - dxhat.mean(axis=0) - xhat * (dxhat * xhat).mean(axis=0)) / std
    return dx, dgamma, dbeta


gained_batch_norm_wrong = [
    ("dxhat = dout * gamma", "dxhat = dout", "dxhat", "gamma forgotten",
     "lacks the factor gamma|right where gamma is 1"),
    ("dxhat - dxhat.mean(axis=0) - xhat", "dxhat - xhat", "dx", "the mean taken for a constant",
     "mean over axis 0"),
    (" - xhat * (dxhat * xhat).mean(axis=0)", "", "dx", "the variance taken for a constant",
     "variance|multiple of x"),
    ("dxhat.mean(axis=0) - xhat", "dxhat.mean(axis=1, keepdims=True) - xhat", "dx",
     "a mean over the wrong axis", "wrong axis"),
    ("dgamma = (dout * xhat).sum(axis=0)", "dgamma = dout.sum(axis=0)", "dgamma",
     "dbeta for dgamma", "equals the gradient of beta"),
    ("(dout * xhat).sum(axis=0)", "(dout * xhat).mean(axis=0)", "dgamma", "a mean for a sum",
     "factor 0.1666"),
]


def gained_layer_norm_inputs(rng):
    return rng.normal(size=(4, 6)), rng.normal(size=6), rng.normal(size=6)


def gained_layer_norm_forward(x, gamma, beta):
    std = np.sqrt(x.var(axis=1, keepdims=True) + 1e-5)
    xhat = (x - x.mean(axis=1, keepdims=True)) / std
    return gamma * xhat + beta, (xhat, std, gamma)


def gained_layer_norm_backward(dout, cache):
    xhat, std, gamma = cache
    dxhat = dout * gamma
    dx = dxhat - dxhat.mean(axis=1, keepdims=True)
    dx -= xhat * (dxhat * xhat).mean(axis=1, keepdims=True)
    return dx / std, (dout * xhat).sum(axis=0), dout.sum(axis=0)


gained_layer_norm_wrong = [
    ("dxhat = dout * gamma", "dxhat = dout", "dxhat", "gamma forgotten",
     "right where gamma is 1"),
    ("dx = dxhat - dxhat.mean(axis=1, keepdims=True)", "dx = dxhat + 0", "dx",
     "the mean taken for a constant", "mean over axis 1"),
    ("(dxhat * xhat).mean(axis=1, keepdims=True)", "(dxhat * xhat).mean(axis=0)", "dx",
     "a mean over the wrong axis", "wrong axis"),
    ("(dxhat * xhat).mean(axis=1, keepdims=True)", "(dxhat * xhat).sum(axis=1, keepdims=True)",
     "dx", "a sum for a mean", "multiple of x"),
]


def residual_inputs(rng):
    return rng.normal(size=(3, 4)), rng.normal(size=(4, 4))


def residual_forward(x, W):
    y = np.tanh(x @ W)
    return x + y, (x, W, y)


def residual_backward(dout, cache):
    x, W, y = cache
    dz = dout * (1 - y**2)
    dx = dout + dz @ W.T
    return dx, x.T @ dz


residual_wrong = [
    ("dx = dout + dz @ W.T", "dx = dz @ W.T", "dx", "the path around the layer forgotten",
     "lacks the upstream gradient"),
    ("dx = dout + dz @ W.T", "dx = 2 * dout + dz @ W.T", "dx", "the path around it twice",
     "upstream gradient .*too much"),
    ("dz @ W.T", "dz @ W", "dx", "a square weight not transposed", "W .*transpose"),
]


def conv_layer_inputs(rng):
    return rng.normal(size=(2, 2, 5, 5)), rng.normal(size=(3, 2, 3, 3)), rng.normal(size=3)


def conv_layer_forward(x, w, b):
    windows = sliding_window_view(x, (3, 3), (2, 3))
    return np.einsum("nchwij,fcij->nfhw", windows, w) + b[:, None, None], (windows, x, w)


def conv_layer_backward(dout, cache):
    windows, x, w = cache
    dw = np.einsum("nfhw,nchwij->fcij", dout, windows)
    dx = np.zeros_like(x)
    for i in range(3):
        for j in range(3):
            dx[:, :, i : i + 3, j : j + 3] += np.einsum(
                "nfhw,fc->nchw", dout, w[:, :, i, j])
    db = dout.sum(axis=(0, 2, 3))
    return dx, dw, db


conv_layer_wrong = [
    ("w[:, :, i, j]", "w[:, :, 2 - i, 2 - j]", "dx", "the kernel flipped", "flipped"),
    ("w[:, :, i, j]", "w[:, :, j, i]", "dx", "the kernel transposed", "transpose"),
    ("dx[:, :, i : i + 3, j : j + 3] += np", "dx[:, :, i : i + 3, j : j + 3] = np", "dx",
     "overlapping windows assigned", "assigned|overwritten"),
    ("db = dout.sum(axis=(0, 2, 3))", "db = dout.sum(axis=(2, 3))[-1]", "db",
     "the last image only", "only what comes through index 1 of axis 0"),
    ("db = dout.sum(axis=(0, 2, 3))", "db = dout.mean(axis=(0, 2, 3))", "db",
     "a mean for a sum", "factor 0.0555"),
    ('dw = np.einsum("nfhw,nchwij->fcij", dout, windows)',
     'dw = np.einsum("nfhw,nchwij->fcij", dout, windows)[:, :, ::-1, ::-1]', "dw",
     "the kernel's gradient flipped", "reversed along axis 2 and axis 3"),
]


def windows_loop_inputs(rng):
    return rng.normal(size=(2, 9)), rng.normal(size=3)


def windows_loop_forward(x, w):
    columns = np.stack([x[:, 2 * t : 2 * t + 3] for t in range(4)], axis=1)
    return columns @ w, (columns, x, w)


def windows_loop_backward(dy, cache):
    columns, x, w = cache
    dcolumns = dy[:, :, None] * w
    dx = np.zeros_like(x)
    for t in range(4):
        dx[:, 2 * t : 2 * t + 3] += dcolumns[:, t]
    dw = np.einsum("bt,bti->i", dy, columns)
    return dx, dw


windows_loop_wrong = [
    ("dx[:, 2 * t : 2 * t + 3] += dc", "dx[:, 2 * t : 2 * t + 3] = dc", "dx",
     "overlapping windows assigned", "assigned|overwritten"),
    ("dcolumns = dy[:, :, None] * w", "dcolumns = dy[:, :, None] * w[::-1]", "dcolumns",
     "the kernel flipped", "flipped"),
    ('np.einsum("bt,bti->i", dy, columns)', "dy[-1] @ columns[-1]", "dw", "the last row only",
     "only what comes through index 1 of axis 0"),
]


class Accumulating:
    """A layer that adds to its gradients, which must be set to zero before each call."""

    def __init__(self, W):
        self.W, self.dW = W, np.zeros_like(W)

    def forward(self, x):
        self.x = x
        return x @ self.W

    def backward(self, dy):
        self.dW[:] = 0
        self.dW += self.x.T @ dy
        return dy @ self.W.T


def accumulating_inputs(rng):
    return rng.normal(size=(4, 3)), rng.normal(size=(3, 2))


def accumulating_forward(x, W):
    layer = Accumulating(W)
    return layer.forward(x), layer


def accumulating_backward(dy, layer):
    dx = layer.backward(dy)
    return dx, layer.dW


accumulating_wrong = [
    ("self.dW[:] = 0", "pass", "second call", "not set to zero before the second call",
     "the second is twice the first"),
]


def ignored_output_inputs(rng):
    return rng.normal(size=(3, 4)), rng.normal(size=4)


def ignored_output_forward(x, a):
    y = np.tanh(x * a)
    return (y, (y * y).sum(axis=1), y.mean()), (x, a, y)


def ignored_output_backward(d, cache):
    x, a, y = cache
    dy, dsquares, dmean = d
    dy = dy + 2 * y * dsquares[:, None]
    dy = dy + dmean / y.size
    dz = dy * (1 - y**2)
    return dz * a, (dz * x).sum(axis=0)


ignored_output_wrong = [
    ("dy = dy + 2 * y * dsquares[:, None]", "dy = dy + 0", "dy", "the second output forgotten",
     "through output 1 is missing"),
    ("dy = dy + dmean / y.size", "dy = dy + 0", "dy", "the third output forgotten",
     "through output 2 is missing"),
    ("dmean / y.size", "dmean", "dy", "the mean's 1/n forgotten",
     "through output 2 .*factor 12"),
    ("2 * y * dsquares", "y * dsquares", "dy", "the square's factor 2 forgotten",
     "through output 1 .*factor 0.5"),
]
