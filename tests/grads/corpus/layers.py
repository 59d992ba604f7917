"""Gates, masks and layers, right, and the mistakes that people make in them."""

import numpy as np

MASK = np.array([[1, 0, 1, 1, 0], [0, 1, 1, 0, 1], [1, 1, 0, 1, 1]]) / 0.6


def glu_inputs(rng):
    return [rng.normal(size=(3, 6))]


def glu_forward(x):
    a, b = np.split(x, 2, axis=1)
    g = 1 / (1 + np.exp(-b))
    return a * g, (a, g)


def glu_backward(dy, cache):
    a, g = cache
    da = dy * g
    dg = dy * a
    db = dg * g * (1 - g)
    dx = np.concatenate([da, db], axis=1)
    return dx


glu_wrong = [
    ("dx = np.concatenate([da, db], axis=1)", "dx = np.concatenate([db, da], axis=1)", "dx",
     "the halves exchanged", "exchanged"),
    ("dg = dy * a", "dg = dy * g", "dg", "the gate for what it gates"),
]


def highway_inputs(rng):
    return {"x": rng.normal(size=(2, 3)), "W_h": rng.normal(size=(3, 3)),
            "W_t": rng.normal(size=(3, 3)), "b_t": rng.normal(size=3)}


def highway_forward(p):
    x = p["x"]
    h = np.tanh(x @ p["W_h"])
    t = 1 / (1 + np.exp(-(x @ p["W_t"] + p["b_t"])))
    return t * h + (1 - t) * x, (p, h, t)


def highway_backward(dy, cache):
    p, h, t = cache
    x = p["x"]
    dh = dy * t
    dt = dy * (h - x)
    dx = dy * (1 - t)
    dz_h = dh * (1 - h**2)
    dz_t = dt * t * (1 - t)
    dx += dz_h @ p["W_h"].T + dz_t @ p["W_t"].T
    return {"x": dx, "W_h": x.T @ dz_h, "W_t": x.T @ dz_t, "b_t": dz_t.sum(axis=0)}


highway_wrong = [
    ("dx = dy * (1 - t)", "dx = np.zeros_like(x)", "dx", "the path around the layer forgotten"),
    ("dt = dy * (h - x)", "dt = dy * h", "dt", "the gate's second use forgotten"),
    ("dx += dz_h @ p[\"W_h\"].T + dz_t @ p[\"W_t\"].T", "dx += (dz_h + dz_t) @ p[\"W_h\"].T", "dx",
     "one weight for both"),
    ("dz_h @ p[\"W_h\"].T", "dz_h @ p[\"W_h\"]", "dx", "a square matrix not transposed",
     "W_h .*transpose"),
]


def maxout_inputs(rng):
    return [rng.normal(size=shape) for shape in ((4, 3), (2, 5, 3))]


def maxout_forward(x, W):
    z = np.einsum("bi,kji->kbj", x, W)
    return np.max(z, axis=0), (x, W, np.argmax(z, axis=0))


def maxout_backward(dy, cache):
    x, W, best = cache
    dz = (np.arange(len(W))[:, None, None] == best) * dy
    dx = np.einsum("kbj,kji->bi", dz, W)
    dW = np.einsum("kbj,bi->kji", dz, x)
    return dx, dW


maxout_wrong = [
    ("dz = (np.arange(len(W))[:, None, None] == best) * dy", "dz = np.stack([dy, dy]) / 2", "dz",
     "the maximum taken for a mean"),
]


def dropout_inputs(rng):
    return [rng.normal(size=(3, 5))]


def dropout_forward(x):
    return np.tanh(x * MASK), x


def dropout_backward(dy, x):
    dz = dy / np.cosh(x * MASK) ** 2
    dx = dz * MASK
    return dx


dropout_wrong = [
    ("dx = dz * MASK", "dx = dz * (MASK > 0)", "dx", "the scale of the mask forgotten",
     "constant factor"),
    ("dx = dz * MASK", "dx = dz", "dx", "the mask forgotten"),
]


class Dense:
    """A layer as an object, which keeps what its backward needs."""

    def __init__(self, W, b):
        self.W, self.b = W, b

    def forward(self, x):
        self.x = x
        self.y = np.tanh(self.W.dot(x) + self.b)
        return self.y

    def backward(self, dy):
        dz = (1 - self.y**2) * dy
        self.dW = np.outer(dz, self.x)
        self.db = dz
        dx = self.W.T.dot(dz)
        return dx


def dense_object_inputs(rng):
    return rng.normal(size=3), rng.normal(size=(4, 3)), rng.normal(size=4)


def dense_object_forward(x, W, b):
    layer = Dense(W, b)
    return layer.forward(x), layer


def dense_object_backward(dy, layer):
    return layer.backward(dy), layer.dW, layer.db


dense_object_wrong = [
    ("self.dW = np.outer(dz, self.x)", "self.dW = np.outer(self.y, self.x)", "self.dW",
     "the output for the gradient"),
    ("dz = (1 - self.y**2) * dy", "dz = self.y * (1 - self.y) * dy", "dz",
     "the sigmoid's slope for tanh's", "slope of the sigmoid where that of tanh"),
    ("self.db = dz", "self.db = dy", "self.db", "the gradient before the activation forgotten",
     "without the slope of tanh"),
]
