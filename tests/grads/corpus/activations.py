"""Activations, right, and the mistakes that people make in them."""

import math

import numpy as np

C = math.sqrt(2 / math.pi)


def relu_layer_inputs(rng):
    return [rng.normal(size=shape) for shape in ((4, 3), (3, 5), (5,))]


def relu_layer_forward(x, W, b):
    z = x @ W + b
    a = np.maximum(z, 0)
    return a, (x, W, a)


def relu_layer_backward(da, cache):
    x, W, a = cache
    dz = da * (a > 0)
    dx = dz @ W.T
    dW = x.T @ dz
    db = dz.sum(axis=0)
    return dx, dW, db


relu_layer_wrong = [
    ("dz = da * (a > 0)", "dz = da", "dz", "the ReLU's mask forgotten", "mask forgotten"),
    ("dW = x.T @ dz", "dW = x.T @ da", "dW", "the gradient before the ReLU forgotten"),
    ("db = dz.sum(axis=0)", "db = dz[0]", "db", "the sum over the batch forgotten",
     "only what comes through index 0 of axis 0"),
]


def leaky_relu_inputs(rng):
    return [rng.normal(size=12)]


def leaky_relu_forward(x):
    y = np.where(x > 0, x, 0.1 * x)
    return y, x


def leaky_relu_backward(dy, x):
    dx = np.where(x > 0, 1.0, 0.1) * dy
    return dx


leaky_relu_wrong = [
    ("np.where(x > 0, 1.0, 0.1)", "np.where(x > 0, 0.1, 1.0)", "dx", "the two branches exchanged"),
]


def squared_relu_inputs(rng):
    return [rng.normal(size=(3, 4))]


def squared_relu_forward(x):
    r = np.maximum(0, x)
    return r**2, r


def squared_relu_backward(dy, r):
    dx = 2 * r * dy
    return dx


squared_relu_wrong = [
    ("dx = 2 * r * dy", "dx = 2 * (r > 0) * dy", "dx", "the slope of the ReLU, not of its square"),
    ("dx = 2 * r * dy", "dx = r * dy", "dx", "the square's factor 2 forgotten", "factor 0.5"),
]


def softplus_inputs(rng):
    return [4 * rng.normal(size=10)]


def softplus_forward(x):
    return np.logaddexp(0, x), x


def softplus_backward(dy, x):
    dx = dy / (1 + np.exp(-x))
    return dx


softplus_wrong = [
    ("dx = dy / (1 + np.exp(-x))", "dx = dy / (1 + np.exp(x))", "dx", "sigmoid of -x"),
]


def elu_inputs(rng):
    return [rng.normal(size=(2, 6))]


def elu_forward(x):
    y = np.where(x > 0, x, np.expm1(np.minimum(x, 0)))
    return y, (x, y)


def elu_backward(dy, cache):
    x, y = cache
    dx = dy * np.where(x > 0, 1, y + 1)
    return dx


elu_wrong = [
    ("np.where(x > 0, 1, y + 1)", "np.where(x > 0, 1, y)", "dx", "exp(x) - 1 for exp(x)"),
]


def gelu_inputs(rng):
    return [rng.normal(size=(3, 4))]


def gelu_forward(x):
    u = C * (x + 0.044715 * x**3)
    t = np.tanh(u)
    return 0.5 * x * (1 + t), (x, t)


def gelu_backward(dy, cache):
    x, t = cache
    dt = 0.5 * x * dy
    du = (1 - t**2) * dt
    dx = 0.5 * (1 + t) * dy + C * (1 + 3 * 0.044715 * x**2) * du
    return dx


gelu_wrong = [
    ("3 * 0.044715 * x**2", "0.044715 * x**2", "dx", "the cube's factor 3 forgotten"),
    ("dx = 0.5 * (1 + t) * dy + C", "dx = C", "dx", "one branch of the product rule forgotten"),
    ("du = (1 - t**2) * dt", "du = (1 - t) * dt", "du", "1 - t for 1 - t^2"),
]


def gelu_erf_inputs(rng):
    return [rng.normal(size=7)]


def gelu_erf_forward(x):
    phi = 0.5 * (1 + np.array([math.erf(v / math.sqrt(2)) for v in x]))
    return x * phi, (x, phi)


def gelu_erf_backward(dy, cache):
    x, phi = cache
    dx = dy * (phi + x * np.exp(-x * x / 2) / math.sqrt(2 * math.pi))
    return dx


gelu_erf_wrong = [
    ("math.sqrt(2 * math.pi)", "math.sqrt(math.pi)", "dx", "the density's constant"),
]


def swish_inputs(rng):
    return [rng.normal(size=(2, 3)), rng.normal(size=3)]


def swish_forward(x, beta):
    z = beta * x
    s = 1 / (1 + np.exp(-z))
    return x * s, (x, beta, s)


def swish_backward(dy, cache):
    x, beta, s = cache
    ds = dy * x
    dz = ds * s * (1 - s)
    dx = dy * s + dz * beta
    dbeta = np.sum(dz * x, axis=0)
    return dx, dbeta


swish_wrong = [
    ("dz = ds * s * (1 - s)", "dz = ds * (1 - s * s)", "dz", "tanh's slope for the sigmoid's"),
    ("dx = dy * s + dz * beta", "dx = dy * s + dz", "dx", "the factor beta forgotten",
     "beta is 1"),
    ("dbeta = np.sum(dz * x, axis=0)", "dbeta = np.sum(dz, axis=0)", "dbeta",
     "the input forgotten"),
]


def hard_tanh_inputs(rng):
    return [2 * rng.normal(size=(3, 5))]


def hard_tanh_forward(x):
    return np.clip(x, -1, 1), x


def hard_tanh_backward(dy, x):
    dx = dy * ((x > -1) & (x < 1))
    return dx


hard_tanh_wrong = [
    ("(x > -1) & (x < 1)", "(x < 1)", "dx", "only one side clipped"),
]


def stable_sigmoid_inputs(rng):
    return [np.concatenate([rng.normal(size=5), [40.0, -40.0, 710.5, -710.5]])]


def stable_sigmoid_forward(x):
    e = np.exp(-np.abs(x))
    s = np.where(x >= 0, 1 / (1 + e), e / (1 + e))
    return s, s


def stable_sigmoid_backward(ds, s):
    dx = ds * s * (1 - s)
    return dx


stable_sigmoid_wrong = [
    ("dx = ds * s * (1 - s)", "dx = ds * s", "dx", "a factor forgotten"),
]
