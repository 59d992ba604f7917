"""Backwards that misuse their upstream gradient: squared, ignored, squashed, with a term added."""

import numpy as np


def _softmax(z):
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def softmax_rows_inputs(rng):
    return [rng.normal(size=(3, 5))]


def softmax_rows_forward(z):
    p = _softmax(z)
    return p, p


def softmax_rows_backward(dp, p):
    dz = p * (dp - (dp * p).sum(axis=1, keepdims=True))
    return dz


softmax_rows_wrong = [
    ("dz = p * (dp - (dp * p).sum(axis=1, keepdims=True))",
     "dz = _softmax(dp) * (dp - (dp * p).sum(axis=1, keepdims=True))", "dz",
     "the softmax of the gradient"),
    ("dz = p * (dp - (dp * p).sum(axis=1, keepdims=True))",
     "dz = p * (dp - (dp * dp).sum(axis=1, keepdims=True))", "dz", "the gradient for p",
     "quadratic in the upstream gradient"),
]


def mse_loss_inputs(rng):
    return rng.normal(size=(4, 2)), rng.normal(size=(4, 2))


def mse_loss_forward(pred, target):
    diff = pred - target
    return (diff**2).mean(), diff


def mse_loss_backward(dloss, diff):
    dpred = dloss * 2 * diff / diff.size
    return dpred, -dpred


mse_loss_wrong = [
    ("dpred = dloss * 2 * diff / diff.size", "dpred = 2 * diff / diff.size", "dpred",
     "the upstream gradient ignored", "ignores the upstream gradient"),
]


def decayed_layer_inputs(rng):
    return {"x": rng.normal(size=(5, 3)), "W": rng.normal(size=(3, 2))}


def decayed_layer_forward(p):
    return p["x"] @ p["W"], p


def decayed_layer_backward(dy, p):
    dx = dy @ p["W"].T
    dW = p["x"].T @ dy
    return {"x": dx, "W": dW}


decayed_layer_wrong = [
    ('dW = p["x"].T @ dy', 'dW = p["x"].T @ dy + 0.01 * p["W"]', "dW",
     "weight decay that the forward does not have", "does not depend on"),
    ('dx = dy @ p["W"].T', 'dx = np.clip(dy, -1, 1) @ p["W"].T', "dx",
     "the gradient clipped on its way", "clipped"),
]


def guided_relu_inputs(rng):
    return [rng.normal(size=(4, 6))]


def guided_relu_forward(x):
    return np.maximum(x, 0), x


def guided_relu_backward(dout, x):
    dx = dout * (x > 0)
    return dx


guided_relu_wrong = [
    ("dx = dout * (x > 0)", "dx = np.maximum(dout, 0) * (x > 0)", "dx",
     "guided backpropagation, which is no gradient", "not linear"),
    ("dx = dout * (x > 0)", "dx = np.abs(dout) * (x > 0)", "dx", "the sign lost", "loses the sign"),
]


def sigmoid_unit_inputs(rng):
    return [rng.normal(size=(2, 4)), rng.normal(size=4)]


def sigmoid_unit_forward(x, w):
    s = 1 / (1 + np.exp(-(x @ w)))
    return s, (x, w, s)


def sigmoid_unit_backward(ds, cache):
    x, w, s = cache
    dz = ds * s * (1 - s)
    dx = np.outer(dz, w)
    dw = x.T @ dz
    return dx, dw


sigmoid_unit_wrong = [
    ("dz = ds * s * (1 - s)", "dz = ds * (1 - ds)", "dz", "the gradient for the output",
     "quadratic in the upstream gradient"),
    ("dz = ds * s * (1 - s)", "dz = np.tanh(ds) * s * (1 - s)", "dz", "the gradient squashed",
     "small upstream gradients only"),
]


def clip_far_away_inputs(rng):
    return [rng.normal(size=(3, 3))]


def clip_far_away_forward(x):
    return np.exp(x), np.exp(x)


def clip_far_away_backward(dy, y):
    """Clips gradients far above any that occur here, as recurrent networks do."""
    dx = np.clip(dy, -1000, 1000) * y
    return dx


clip_far_away_wrong = [
    ("np.clip(dy, -1000, 1000)", "np.clip(dy, -0.1, 0.1)", "dx", "clips what occurs", "clipped"),
    ("np.clip(dy, -1000, 1000)", "np.sign(dy)", "dx", "the sign only", "not linear"),
]


def iterated_solve_inputs(rng):
    A = rng.normal(size=(4, 4))
    return 4 * np.eye(4) + 0.3 * A, rng.normal(size=4)


def _jacobi(A, b):
    x = 0 * b
    for _ in range(200):
        x = x + (b - A @ x) / np.diag(A)
    return x


def iterated_solve_forward(A, b):
    x = _jacobi(A, b)
    return x, (A, x)


def iterated_solve_backward(dx, cache):
    """Solves by iteration, until it changes little."""
    A, x = cache
    db = 0 * x
    while np.abs(dx - A.T @ db).max() > 1e-13:
        db = db + (dx - A.T @ db) / np.diag(A)
    dA = -np.outer(db, x)
    return dA, db


iterated_solve_wrong = [
    ("dA = -np.outer(db, x)", "dA = -np.outer(db, db)", "dA", "a gradient for the solution",
     "quadratic in the upstream gradient"),
    ("dA = -np.outer(db, x)", "dA = -np.outer(x, db)", "dA", "the factors exchanged"),
]


def two_heads_inputs(rng):
    return [rng.normal(size=(3, 4))]


def two_heads_forward(x):
    return {"tanh": np.tanh(x), "sum": x.sum(axis=1)}, np.tanh(x)


def two_heads_backward(d, t):
    dx = d["tanh"] * (1 - t**2)
    dx = dx + d["sum"][:, None]
    return dx


two_heads_wrong = [
    ('dx = dx + d["sum"][:, None]', "dx = dx + 1.0", "dx", "an upstream gradient of 1 assumed",
     "does not depend on"),
    ('dx = dx + d["sum"][:, None]', 'dx = dx * d["sum"][:, None]', "dx",
     "a product for the sum", "quadratic in the upstream gradient"),
]


def float32_gradient_inputs(rng):
    return [rng.normal(size=(40, 30)).astype(np.float32)]


def float32_gradient_forward(x):
    m = np.tanh(x).mean(axis=0)
    return m, np.tanh(x)


def float32_gradient_backward(dm, t):
    """Linear but for the rounding of float32."""
    dx = (dm / np.float32(len(t))) * (1 - t * t)
    return dx


float32_gradient_wrong = [
    ("dx = (dm / np.float32(len(t)))", "dx = (dm * dm / np.float32(len(t)))", "dx", "squared",
     "quadratic in the upstream gradient"),
]
