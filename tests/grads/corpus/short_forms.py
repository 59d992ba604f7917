"""Functions in the short forms in which people write them: comprehensions, plain numbers, a
window of an array, a flag of a library; and times with a large offset."""

import math

import numpy as np
from scipy.linalg import solve_triangular


def in_brackets_inputs(rng):
    return rng.normal(size=5), rng.normal(size=5)


def in_brackets_forward(x, w):
    y = np.tanh(x * w)
    return np.cumsum(y * x), (x, w, y)


def in_brackets_backward(d, cache):
    x, w, y = cache
    s = d[::-1].cumsum()[::-1]
    dx = np.array([s[k] * y[k] + s[k] * x[k] * w[k] * (1 - y[k] ** 2) for k in range(len(x))])
    dw = np.array([s[k] * x[k] * x[k] * (1 - y[k] ** 2) for k in range(len(x))])
    return dx, dw


in_brackets_wrong = [
    ("x[k] * x[k] * (1 - y[k] ** 2)", "x[k] * x[k] * (1 - x[k] ** 2)", "dw",
     "the input for the output"),
    ("s[k] * y[k] + ", "s[k] * w[k] + ", "dx", "the weight for the output"),
]


def powers_inputs(rng):
    return 2.5, 3.0


def powers(x, p):
    return x**3 * np.sqrt(p)


def powers_gradient(x, p):
    dx = 3 * x**2 * np.sqrt(p)
    dp = x**3 * 0.5 / np.sqrt(p)
    return dx, dp


powers_wrong = [
    ("dx = 3 * x**2 * np.sqrt(p)", "dx = 3 * x**3 * np.sqrt(p)", "dx", "the power not lowered"),
    ("dp = x**3 * 0.5 / np.sqrt(p)", "dp = x**3 / np.sqrt(p)", "dp", "the root's half forgotten"),
]


def sliding_inputs(rng):
    return rng.normal(size=6), rng.normal(size=3)


def sliding_forward(x, w):
    return np.array([x[k:k + 3] @ w for k in range(4)]), (x, w)


def sliding_backward(d, cache):
    x, w = cache
    dx, dw = np.zeros_like(x), np.zeros_like(w)
    for k in range(4):
        dx[k:k + 3] += d[k] * w
        dw += d[k] * x[k:k + 3]
    return dx, dw


sliding_wrong = [
    ("dw += d[k] * x[k:k + 3]", "dw += d[k] * x[:3]", "dw", "always the first window"),
    ("dx[k:k + 3] += d[k] * w", "dx[k:k + 3] = d[k] * w", "dx", "= for +="),
]


def whitened_inputs(rng):
    return rng.normal(size=3), np.tril(rng.normal(size=(3, 3))) + 2 * np.eye(3)


def whitened_forward(x, L):
    z = solve_triangular(L, x, lower=True)
    return 0.5 * z @ z, (z, L)


def whitened_backward(d, cache):
    z, L = cache
    dx = d * solve_triangular(L, z, lower=True, trans=1)
    dL = -np.tril(np.outer(dx, z))
    return dx, dL


whitened_wrong = [
    ("dx = d * solve_triangular", "dx = 2 * d * solve_triangular", "dx", "the half forgotten"),
    ("-np.tril(np.outer(dx, z))", "np.tril(np.outer(dx, z))", "dL", "the inverse's sign"),
]


def decay_inputs(rng):
    """Epoch seconds, and a rate."""
    return 1.7e9 + np.array([0.0, 1.5, 2.0, 4.25]), np.array(0.7)


def decay(t, rate):
    return sum(math.exp(-(t[k + 1] - t[k]) * rate) for k in range(len(t) - 1))


def decay_gradient(t, rate):
    steps = np.diff(t)
    e = np.exp(-steps * rate)
    dt = rate * (np.append(e, 0) - np.append(0, e))
    drate = -np.sum(steps * e)
    return dt, drate


decay_wrong = [
    ("dt = rate * (np", "dt = (np", "dt", "the rate forgotten"),
    ("drate = -np.sum(steps * e)", "drate = -np.sum(e)", "drate", "the steps forgotten"),
]
