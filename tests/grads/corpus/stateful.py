"""Layers that keep something from call to call, as frameworks and exercises have them."""

import numpy as np


class Affine:
    """As in "Deep Learning from Scratch"."""

    def __init__(self):
        self.x = None

    def forward(self, x, W, b):
        self.x, self.W = x, W
        return np.dot(x, W) + b

    def backward(self, dout):
        dx = np.dot(dout, self.W.T)
        dW = np.dot(self.x.T, dout)
        db = np.sum(dout, axis=0)
        return dx, dW, db


affine = Affine()


def affine_object_inputs(rng):
    return rng.normal(size=(4, 3)), rng.normal(size=(3, 2)), rng.normal(size=2)


def affine_object_forward(x, W, b):
    return affine.forward(x, W, b), None


def affine_object_backward(dout, _):
    return affine.backward(dout)


affine_object_wrong = [
    ("        self.x, self.W = x, W\n",
     "        self.W = W\n        if self.x is None:\n            self.x = x\n", "first call",
     "the x of the first call is kept"),
    ("        self.x, self.W = x, W\n", "        self.x, self.W = x, getattr(self, 'W', W)\n",
     "first call", "the W of the first call is kept"),
    ("dW = np.dot(self.x.T, dout)", "dW = np.dot(self.x.T, dout * dout)", "dW", "dout twice"),
]


class Rectifier:
    mask = None

    def forward(self, x):
        self.mask = x <= 0
        out = x.copy()
        out[self.mask] = 0
        return out

    def backward(self, dout):
        dx = dout.copy()
        dx[self.mask] = 0
        return dx


rectifier = Rectifier()


def rectifier_object_inputs(rng):
    return [0.02 * rng.normal(size=(8, 6)) + 0.01]


def rectifier_object_forward(x):
    return rectifier.forward(x) + x**2, x


def rectifier_object_backward(dout, x):
    dx = rectifier.backward(dout)
    return dx + 2 * x * dout


rectifier_object_wrong = [
    ("        dx[self.mask] = 0\n", "        dx[~self.mask] = 0\n", "dx", "the mask inverted"),
    ("    return dx + 2 * x * dout", "    return dx + 2 * x * np.abs(dout)", "dx",
     "the sign of the upstream gradient lost"),
]

_saved = {}


def module_cache_inputs(rng):
    return {"a": rng.normal(size=5), "b": rng.normal(size=5)}


def module_cache_forward(p):
    """Keeps its values in a dict of the module."""
    _saved["values"] = (p["a"], p["b"])
    return np.sin(p["a"]) * p["b"], "values"


def module_cache_backward(dy, key):
    a, b = _saved[key]
    da = dy * b * np.cos(a)
    db = dy * np.sin(a)
    return {"a": da, "b": db}


module_cache_wrong = [
    ('_saved["values"] = (p["a"], p["b"])', '_saved.setdefault("values", (p["a"], p["b"]))',
     "first call", "the values of the first call are kept"),
    ("da = dy * b * np.cos(a)", "da = b * np.cos(a)", "da", "the upstream gradient forgotten"),
]


class RunningNorm:
    """Batch normalisation in training, with running statistics that are never used."""

    def __init__(self):
        self.mean, self.var, self.count = np.zeros(3), np.ones(3), 0

    def forward(self, x, gamma, beta):
        mean = x.mean(axis=0)
        centred = x - mean
        var = (centred**2).mean(axis=0)
        self.std = np.sqrt(var + 1e-5)
        self.xhat = centred / self.std
        self.gamma = gamma
        self.mean = 0.9 * self.mean + 0.1 * mean
        self.var = 0.9 * self.var + 0.1 * var
        self.count += 1
        return gamma * self.xhat + beta

    def backward(self, dy):
        dgamma = (dy * self.xhat).sum(axis=0)
        dbeta = dy.sum(axis=0)
        dxhat = dy * self.gamma
        dx = (dxhat - dxhat.mean(axis=0) - self.xhat * (dxhat * self.xhat).mean(axis=0)) / self.std
        return dx, dgamma, dbeta


norm = RunningNorm()


def running_norm_inputs(rng):
    return rng.normal(size=(7, 3)), rng.normal(size=3), rng.normal(size=3)


def running_norm_forward(x, gamma, beta):
    return norm.forward(x, gamma, beta), None


def running_norm_backward(dy, _):
    return norm.backward(dy)


running_norm_wrong = [
    ("self.gamma = gamma\n", "self.gamma = getattr(self, 'gamma', gamma)\n", "first call",
     "the gamma of the first call is kept"),
    ("dgamma = (dy * self.xhat).sum(axis=0)", "dgamma = (dy * self.xhat).mean(axis=0)", "dgamma",
     "the mean for the sum"),
]


def closure_layer():
    """A layer of functions that share variables."""
    kept = []

    def forward(x, w):
        kept[:] = [x, w]
        return x * w

    def backward(d):
        x, w = kept
        dx = d * w
        dw = (d * x).sum(axis=0)
        return dx, dw

    return forward, backward


run, run_back = closure_layer()


def shared_variables_inputs(rng):
    return rng.normal(size=(3, 4)), rng.normal(size=4)


def shared_variables_forward(x, w):
    return run(x, w), ()


def shared_variables_backward(d, _):
    return run_back(d)


shared_variables_wrong = [
    ("        kept[:] = [x, w]\n", "        kept.extend([x, w])\n        del kept[2:]\n",
     "first call", "the values of the first call are kept"),
    ("        dw = (d * x).sum(axis=0)\n", "        dw = (d * x).sum(axis=0) + 0.1 * w\n", "dw",
     "weight decay is added"),
]


class Stack:
    """Two steps of a recurrent cell, each of which puts its values on a stack."""

    def __init__(self):
        self.steps = []

    def forward(self, x, h, W):
        self.steps = []
        for t in range(len(x)):
            h_next = np.tanh(x[t] + W @ h)
            self.steps.append((h, h_next))
            h = h_next
        return h

    def backward(self, dh, W):
        dx, dW = [], np.zeros_like(W)
        for h, h_next in self.steps[::-1]:
            da = dh * (1 - h_next**2)
            dx.insert(0, da)
            dW += np.outer(da, h)
            dh = W.T @ da
        return np.array(dx), dh, dW


stack = Stack()


def stacked_steps_inputs(rng):
    return rng.normal(size=(4, 3)), rng.normal(size=3), rng.normal(size=(3, 3))


def stacked_steps_forward(x, h, W):
    return stack.forward(x, h, W), W


def stacked_steps_backward(dh, W):
    return stack.backward(dh, W)


stacked_steps_wrong = [
    ("for h, h_next in self.steps[::-1]:", "for h, h_next in self.steps:", "da",
     "the steps in the order of the forward"),
    ("            da = dh * (1 - h_next**2)\n", "            da = (1 - h_next**2) * dh**2\n", "da",
     "the gradient squared"),
]


CALLS = {"count": 0}


def annealed_softmax_inputs(rng):
    return rng.normal(size=(3, 4)), rng.normal(size=(4, 5))


def annealed_softmax_forward(x, W):
    CALLS["count"] += 1
    temperature = 1 / (1 + 0.5 * CALLS["count"])
    z = x @ W / temperature
    e = np.exp(z - z.max(axis=1, keepdims=True))
    p = e / e.sum(axis=1, keepdims=True)
    return p, (x, W, p, temperature)


def annealed_softmax_backward(dp, cache):
    x, W, p, temperature = cache
    dz = p * (dp - (dp * p).sum(axis=1, keepdims=True)) / temperature
    dW = x.T @ dz
    dx = dz @ W.T
    return dx, dW


annealed_softmax_wrong = [
    ("keepdims=True)) / temperature", "keepdims=True))", "dz", "the temperature is lost",
     r"factor|temperature"),
    ("keepdims=True)) / temperature", "keepdims=True)) / (1 / (1 + 0.5 * (CALLS['count'] + 1)))",
     "dz", "the temperature of the next call", "factor"),
    ("dW = x.T @ dz", "dW = x.T @ dz / (1 + CALLS['count'])", "dW",
     "divided by the number of calls", "factor"),
]
