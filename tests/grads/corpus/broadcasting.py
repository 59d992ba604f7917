"""Broadcasting, rearranging and writing in place, right, and the mistakes that people make."""

import numpy as np

ORDER = np.array([2, 0, 3, 1])


def broadcast_inputs(rng):
    return [rng.normal(size=s) for s in ((3, 1), (4,), (2, 1, 1))]


def broadcast_forward(a, b, c):
    p = a * b
    return np.sin(p) + c * a, (a, b, c)


def broadcast_backward(dy, cache):
    a, b, c = cache
    dp = (dy * np.cos(a * b)).sum(axis=0)
    da = (dp * b + (dy * c).sum(axis=0)).sum(axis=1, keepdims=True)
    db = (dp * a).sum(axis=0)
    dc = (dy * a).sum(axis=(1, 2), keepdims=True)
    return da, db, dc


broadcast_wrong = [
    ("dc = (dy * a).sum(axis=(1, 2), keepdims=True)",
     "dc = (dy * a)[:, :1].sum(axis=2, keepdims=True)", "dc",
     "one axis of the broadcast not summed", "only what comes through index 0 of axis 1"),
    ("(dp * b + (dy * c).sum(axis=0))", "(dp * b)", "da", "the second use forgotten"),
    ("dy * np.cos(a * b)", "-dy * np.sin(a * b)", "dp", "the slope of the cosine"),
    ("db = (dp * a).sum(axis=0)", "db = (dp * a).sum(axis=1)[[0, 1, 2, 2]]", "db",
     "a sum over the wrong axis, made to fit"),
]


def scale_shift_inputs(rng):
    return np.abs(rng.normal(size=(4, 3))) + 0.1, rng.normal(size=3), rng.normal(size=())


def scale_shift_forward(x, gain, shift):
    return gain * np.log(x) + shift, (x, gain)


def scale_shift_backward(dy, cache):
    x, gain = cache
    dx = dy * gain / x
    dgain = (dy * np.log(x)).sum(axis=0)
    dshift = dy.sum()
    return dx, dgain, dshift


scale_shift_wrong = [
    ("dshift = dy.sum()", "dshift = dy.mean()", "dshift", "a mean for a sum", "1/"),
    ("dgain = (dy * np.log(x)).sum(axis=0)", "dgain = (dy * x).sum(axis=0)", "dgain",
     "the logarithm forgotten"),
]


def rearrange_inputs(rng):
    return [rng.normal(size=(4, 3)), rng.normal(size=(2, 3))]


def rearrange_forward(a, b):
    y = np.concatenate([np.roll(a, 1, axis=0)[ORDER], np.flip(b, 1)])
    return y * np.arange(1, 7)[:, None], None


def rearrange_backward(dy, cache):
    dy = dy * np.arange(1, 7)[:, None]
    da = np.roll(dy[:4][np.argsort(ORDER)], -1, axis=0)
    db = dy[4:, ::-1]
    return da, db


rearrange_wrong = [
    ("np.argsort(ORDER)", "ORDER", "da", "the permutation for its inverse",
     "gather|exchanged|mixed up"),
    ("-1, axis=0)", "1, axis=0)", "da", "rolled the wrong way",
     "rolled by 2 of"),
    ("db = dy[4:, ::-1]", "db = dy[4:]", "db", "not flipped", "reversed along axis 1"),
]


def trilinear_inputs(rng):
    return [rng.normal(size=s) for s in ((3, 2), (3, 3), (2, 3, 2))]


def trilinear_forward(x, y, W):
    return np.einsum("ni,nj,ijk->nk", x, y, W), (x, y, W)


def trilinear_backward(dz, cache):
    x, y, W = cache
    dx = np.einsum("nk,nj,ijk->ni", dz, y, W)
    dy = np.einsum("nk,ni,ijk->nj", dz, x, W)
    dW = np.einsum("nk,ni,nj->ijk", dz, x, y)
    return dx, dy, dW


trilinear_wrong = [
    ("dx = np.einsum(\"nk,nj,ijk->ni\", dz, y, W)", "dx = np.einsum(\"nk,nj,kji->ni\", dz, y, W)",
     "dx", "two indices of equal length exchanged"),
    ("dy = np.einsum(\"nk,ni,ijk->nj\", dz, x, W)", "dy = np.einsum(\"nk,ni,ijk->nj\", dz, dx, W)",
     "dy", "a gradient for its value"),
]


def in_place_inputs(rng):
    return rng.normal(size=(3, 4)), rng.normal(size=4)


def in_place_forward(x, b):
    y = x + b
    y *= 2
    np.tanh(y, out=y)
    return y, y


def in_place_backward(dy, y):
    dz = 1 - y**2
    dz *= dy
    dx = 2 * dz
    return dx, dx.sum(axis=0)


in_place_wrong = [
    ("dz = 1 - y**2", "dz = y; dz *= -y; dz += 1", "second call", "the cache is written over"),
    ("dz *= dy", "dy *= dz; dz = dy", "dy", "the upstream gradient is written over"),
    ("dx = 2 * dz", "dx = dz", "dx", "the factor forgotten", "factor 0.5"),
]
