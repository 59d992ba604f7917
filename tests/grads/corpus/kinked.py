"""Piecewise linear functions of small numbers, whose kinks are close but not at the inputs."""

import numpy as np


def tiny_relu_inputs(rng):
    return [1e-8 * rng.normal(size=10)]


def tiny_relu(v):
    return np.maximum(v, 0).sum()


def tiny_relu_gradient(v):
    dv = (v > 0).astype(float)
    return dv


tiny_relu_wrong = [
    ("dv = (v > 0).astype(float)", "dv = np.zeros_like(v)", "dv", "nothing is passed on"),
    ("dv = (v > 0).astype(float)", "dv = (v < 0).astype(float)", "dv", "the mask inverted"),
    ("dv = (v > 0).astype(float)", "dv = np.ones_like(v)", "dv", "no mask"),
]


def deep_relu_inputs(rng):
    Ws = [1e-2 * rng.standard_normal(shape) for shape in ((4, 8), (8, 8), (8, 8), (8, 3))]
    return {"X": rng.standard_normal((5, 4)), "W1": Ws[0], "W2": Ws[1], "W3": Ws[2], "W4": Ws[3]}


def deep_relu_forward(p):
    hs = [p["X"]]
    for k in range(1, 4):
        hs.append(np.maximum(0, hs[-1] @ p[f"W{k}"]))
    return hs[-1] @ p["W4"], (p, hs)


def deep_relu_backward(dout, cache):
    p, hs = cache
    grads = {"W4": hs[3].T @ dout}
    dh = dout @ p["W4"].T
    for k in (3, 2, 1):
        dz = dh * (hs[k] > 0)
        grads[f"W{k}"] = hs[k - 1].T @ dz
        dh = dz @ p[f"W{k}"].T
    grads["X"] = dh
    return grads


deep_relu_wrong = [
    ("dz = dh * (hs[k] > 0)", "dz = dh", "dz", "no masks"),
    ("dz = dh * (hs[k] > 0)", "dz = dh * (hs[k] > 1e-4)", "dz", "masks at a threshold of 1e-4"),
    ('grads = {"W4": hs[3].T @ dout}', 'grads = {"W4": 0 * hs[3].T @ dout}', "dW4", "zeros"),
]


class Leaky:
    def __init__(self, slope):
        self.slope = slope

    def __call__(self, z):
        return np.where(z >= 0, z, self.slope * z)

    def prime(self, z):
        return np.where(z >= 0, 1.0, self.slope)


def tiny_leaky_inputs(rng):
    return 1e-9 * rng.normal(size=(3, 4)), rng.normal(size=(4, 2))


def tiny_leaky_forward(x, W):
    act = Leaky(0.01)
    z = x @ W
    return act(z), (x, W, z, act)


def tiny_leaky_backward(dout, cache):
    x, W, z, act = cache
    dz = act.prime(z) * dout
    dx = dz @ W.T
    dW = x.T @ dz
    return dx, dW


tiny_leaky_wrong = [
    ("dz = act.prime(z) * dout", "dz = act(z) * dout", "dz", "the value for the slope"),
    ("dz = act.prime(z) * dout", "dz = (z >= 0) * dout", "dz", "the leak forgotten"),
]


def hinge_of_small_scores_inputs(rng):
    """Scores near the margin."""
    return [1e-7 * rng.normal(size=(6, 3))]


def hinge_of_small_scores(scores):
    y = np.array([0, 1, 2, 0, 1, 2])
    correct = scores[np.arange(6), y][:, None]
    margins = np.maximum(0, scores - correct)
    return margins.sum() / 6


def hinge_of_small_scores_gradient(scores):
    y = np.array([0, 1, 2, 0, 1, 2])
    rows = np.arange(6)
    dscores = (scores > scores[rows, y][:, None]).astype(float)
    dscores[rows, y] -= dscores.sum(axis=1)
    dscores /= 6
    return dscores


hinge_of_small_scores_wrong = [
    ("dscores[rows, y] -= dscores.sum(axis=1)", "dscores[rows, y] -= 1", "dscores",
     "one violated margin a row assumed"),
    ("    dscores /= 6\n", "", "dscores", "the mean forgotten"),
    ("dscores = (scores > scores[rows, y][:, None]).astype(float)",
     "dscores = (scores > scores[rows, y][:, None] + 1.0).astype(float)", "dscores",
     "a margin of 1 that the loss does not have"),
]


def l1_of_small_weights_inputs(rng):
    return [1e-10 * rng.standard_normal((4, 4))]


def l1_of_small_weights(w):
    return 0.1 * np.abs(w).sum()


def l1_of_small_weights_gradient(w):
    dw = 0.1 * np.sign(w)
    return dw


l1_of_small_weights_wrong = [
    ("dw = 0.1 * np.sign(w)", "dw = 0.1 * w", "dw", "that of half the square"),
    ("dw = 0.1 * np.sign(w)", "dw = 0.1 * np.tanh(w / 1e-6)", "dw", "a smooth sign"),
]


def plain_relu_inputs(rng):
    return [1e-8 * rng.normal(size=(2, 5))]


def plain_relu(x):
    """In plain Python, which takes no complex numbers."""
    total = 0.0
    for row in x.tolist():
        for a in row:
            total += a if a > 0 else 0.25 * a
    return total


def plain_relu_gradient(x):
    dx = np.array([[1.0 if a > 0 else 0.25 for a in row] for row in x.tolist()])
    return dx


plain_relu_wrong = [
    ("else 0.25 for a in row", "else 0.0 for a in row", "dx", "the slope of the other side"),
]


def soft_threshold_inputs(rng):
    return [3e-9 * rng.choice([-1, 1], 9) * (1 + 0.2 * rng.normal(size=9))]


def soft_threshold_forward(x):
    """All inputs are near the threshold."""
    return np.sign(x) * np.maximum(np.abs(x) - 3e-9, 0), x


def soft_threshold_backward(dy, x):
    dx = dy * (np.abs(x) > 3e-9)
    return dx


soft_threshold_wrong = [
    ("dx = dy * (np.abs(x) > 3e-9)", "dx = dy * (np.abs(x) > 1e-10)", "dx", "another threshold"),
    ("dx = dy * (np.abs(x) > 3e-9)", "dx = 0 * dy", "dx", "nothing is passed on"),
]


def close_maxima_inputs(rng):
    """The largest of each window is larger by about 1e-9."""
    return [1e-9 * (1 + rng.permutation(16).reshape(4, 4))]


def close_maxima_forward(x):
    windows = x.reshape(2, 2, 2, 2).transpose(0, 2, 1, 3).reshape(4, 4)
    return windows.max(axis=1), windows.argmax(axis=1)


def close_maxima_backward(dy, at):
    dwindows = np.zeros((4, 4))
    dwindows[np.arange(4), at] = dy
    dx = dwindows.reshape(2, 2, 2, 2).transpose(0, 2, 1, 3).reshape(4, 4)
    return dx


close_maxima_wrong = [
    ("dwindows[np.arange(4), at] = dy", "dwindows[:, 0] = dy", "dwindows", "to the first of each"),
    ("dwindows[np.arange(4), at] = dy", "dwindows += dy[:, None] / 4", "dwindows", "spread evenly"),
]


def tiny_norm_inputs(rng):
    return [1e-12 * rng.normal(size=5)]


def tiny_norm(v):
    return float(np.sqrt(np.dot(v, v))) if not np.iscomplexobj(v) else np.sqrt(np.dot(v, v))


def tiny_norm_gradient(v):
    dv = v / np.sqrt(np.dot(v, v))
    return dv


tiny_norm_wrong = [
    ("dv = v / np.sqrt(np.dot(v, v))", "dv = v / (np.sqrt(np.dot(v, v)) + 1e-12)", "dv",
     "an epsilon that the function does not have"),
    ("dv = v / np.sqrt(np.dot(v, v))", "dv = 2 * v", "dv", "that of the square"),
]
