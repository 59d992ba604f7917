"""A layer as a user writes it, right; tests of the checker import it, or read this file."""

import numpy as np


def layer_inputs(rng):
    return [rng.normal(size=(4, 3)), rng.normal(size=(2, 3))]


def layer_forward(x, W):
    h = np.tanh(x @ W.T)
    return h, (x, W, h)


def layer_backward(dh, cache):
    x, W, h = cache
    dz = (1 - h * h) * dh
    return dz @ W, dz.T @ x
