"""Precisions, scales and special inputs at which right code is accused and wrong code passes."""

import numpy as np


def float32_mean_inputs(rng):
    return [rng.normal(size=(2, 2000)).astype(np.float32)]


def float32_mean_forward(x):
    m = x.mean(axis=1)
    return np.tanh(m), (x.shape, m)


def float32_mean_backward(dy, cache):
    (_, n), m = cache
    dm = dy / np.cosh(m) ** 2
    dx = np.repeat(dm[:, None] / n, n, axis=1)
    return dx


float32_mean_wrong = [
    ("dx = np.repeat(dm[:, None] / n, n, axis=1)",
     "dx = np.repeat(dm[:, None] / (n - 1), n, axis=1)", "dx",
     "n - 1 for n, one part in 2,000 of a float32"),
]


def small_probabilities_inputs(rng):
    return [np.array([1e-6, 3e-5, 0.4, 0.2]), np.array([0.1, 1e-7, 0.3, 0.6])]


def small_probabilities_forward(p, q):
    return (p * np.log(p / q)).sum() + np.sqrt(q).sum(), (p, q)


def small_probabilities_backward(dout, cache):
    p, q = cache
    dp = (np.log(p / q) + 1) * dout
    dq = (-p / q + 0.5 / np.sqrt(q)) * dout
    return dp, dq


small_probabilities_wrong = [
    ("dp = (np.log(p / q) + 1) * dout", "dp = np.log(p / q) * dout", "dp",
     "the term of the product rule that is 1 forgotten"),
]


def float32_loss_inputs(rng):
    return {"W": rng.normal(size=(4, 3)).astype(np.float32),
            "b": np.zeros(4, dtype=np.float32)}


def float32_loss(p):
    x = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
    return np.mean((np.tanh(x @ p["W"].T + p["b"]) - 1) ** 2)


def float32_loss_gradient(p):
    x = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
    y = np.tanh(x @ p["W"].T + p["b"])
    dy = 2 * (y - 1) / y.size
    dz = dy * (1 - y**2)
    dW = dz.T @ x
    db = dz.sum(axis=0)
    return {"W": dW, "b": db}


float32_loss_wrong = [
    ("dy = 2 * (y - 1) / y.size", "dy = 2 * (y - 1) / len(y)", "dy", "averaged over the rows only",
     "factor 4"),
    ("dz = dy * (1 - y**2)", "dz = dy * (1.002 - y**2)", "dz", "a constant a little too large"),
]


def float32_inside_inputs(rng):
    return [rng.normal(size=(3, 4)), rng.normal(size=4)]


def float32_inside_forward(x, w):
    """A layer that computes in float32 whatever it is given."""
    x, w = x.astype(np.float32), w.astype(np.float32)
    y = np.tanh(x @ w)
    return y, (x, w, y)


def float32_inside_backward(dy, cache):
    x, w, y = cache
    dz = dy.astype(np.float32) * (1 - y**2)
    dx = np.outer(dz, w)
    dw = dz @ x
    return dx, dw


float32_inside_wrong = [
    ("dw = dz @ x", "dw = dz @ (x * x)", "dw", "the square of the input"),
    ("dx = np.outer(dz, w)", "dx = np.outer(dz, w) * 1.05", "dx", "a factor"),
]


def zero_weights_inputs(rng):
    return rng.normal(size=(4, 3)), np.zeros((2, 3)), np.zeros(2)


def zero_weights_forward(x, W, b):
    z = x @ W.T + b
    y = 1 / (1 + np.exp(-z))
    return y, (x, W, y)


def zero_weights_backward(dy, cache):
    """At weights of zero the gradient of x is zero, which hides half of its mistakes."""
    x, W, y = cache
    dz = dy * y * (1 - y)
    dx = dz @ W
    dW = dz.T @ x
    db = dz.sum(axis=0)
    return dx, dW, db


zero_weights_wrong = [
    ("dz = dy * y * (1 - y)", "dz = dy * (1 - y)", "dz", "a factor forgotten"),
    ("dx = dz @ W", "dx = dz @ (W + 1)", "dx", "a gradient where there is none"),
]


def mixed_scales_inputs(rng):
    return [np.array([2e-8, 3.0, 5e6, -4e-5]), np.array([1e6, 0.4, -2e-7, 3e3])]


def mixed_scales_forward(x, w):
    z = x * w
    return np.sin(z), (x, w, z)


def mixed_scales_backward(dy, cache):
    x, w, z = cache
    dz = dy * np.cos(z)
    dx = dz * w
    dw = dz * x
    return dx, dw


mixed_scales_wrong = [
    ("dw = dz * x", "dw = dz * z", "dw", "the product for the factor"),
    ("dz = dy * np.cos(z)", "dz = dy", "dz", "the slope forgotten"),
]


def one_of_many_inputs(rng):
    return [rng.normal(size=(40, 50))]


def one_of_many_forward(x):
    return np.log(np.cosh(x)).sum(), x


def one_of_many_backward(dy, x):
    dx = dy * np.tanh(x)
    return dx


one_of_many_wrong = [
    ("dx = dy * np.tanh(x)", "dx = dy * np.tanh(x); dx[17, 31] *= 1.01", "dx",
     "one entry among 2,000 wrong by a hundredth", "only one entry"),
    ("dx = dy * np.tanh(x)", "dx = dy * np.tanh(x); dx[-1, -1] = 0", "dx", "the last entry zero",
     "only one entry"),
]


def inputs_of_seed_0_inputs(_):
    return [np.random.default_rng(0).normal(size=(3, 4))]


def inputs_of_seed_0_forward(x):
    y = np.tanh(x)
    return y, (x, y)


def inputs_of_seed_0_backward(dy, cache):
    x, y = cache
    dx = dy * (1 - y * np.tanh(x))
    return dx


inputs_of_seed_0_wrong = [
    ("dx = dy * (1 - y * np.tanh(x))", "dx = x * (1 - y * np.tanh(x))", "dx",
     "x for dy, which may be equal to it"),
]


def unit_norm_of_seed_0_inputs(_):
    return [np.random.default_rng(0).normal(size=(3, 4))]


def unit_norm_of_seed_0_forward(x):
    n = np.sqrt((x * x).sum(axis=1, keepdims=True))
    return x / n, (x / n, n)


def unit_norm_of_seed_0_backward(dy, cache):
    """Zero where dy is along x."""
    y, n = cache
    dx = (dy - y * (y * dy).sum(axis=1, keepdims=True)) / n
    return dx


unit_norm_of_seed_0_wrong = [
    ("dx = (dy", "dx = 2 * (dy", "dx", "a factor, of a gradient that may be zero"),
]


def closed_relu_inputs(rng):
    return rng.uniform(-3, -1, size=(2, 3)), rng.normal(size=3)


def closed_relu_forward(x, b):
    """No unit is open: all gradients of x are zero, and right."""
    return np.maximum(x, 0) + b, x


def closed_relu_backward(dy, x):
    dx = dy * (x > 0)
    db = dy.sum(axis=0)
    return dx, db


closed_relu_wrong = [
    ("dx = dy * (x > 0)", "dx = dy * (x < 0)", "dx", "the mask inverted"),
]


def unused_input_inputs(rng):
    return rng.normal(size=4), rng.normal(size=(2, 2))


def unused_input_forward(x, table):
    return np.exp(x), (np.exp(x), table.shape)


def unused_input_backward(dy, cache):
    y, shape = cache
    dx = dy * y
    dtable = np.zeros(shape)
    return dx, dtable


unused_input_wrong = [
    ("dtable = np.zeros(shape)", "dtable = np.ones(shape)", "dtable", "ones for zeros"),
]
