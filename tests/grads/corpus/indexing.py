"""Tables, sorting, scans, broadcasting, right, and the mistakes that people make in them."""

import numpy as np

IDS = np.array([[1, 3, 1], [0, 1, 3]])
SEGMENTS = np.array([0, 2, 0, 1, 2, 2])
ORDER = np.array([2, 0, 3, 1])


def embedding_inputs(rng):
    return [rng.normal(size=(5, 3))]


def embedding_forward(E):
    return np.tanh(E[IDS]), E


def embedding_backward(dy, E):
    dv = dy * (1 - np.tanh(E[IDS]) ** 2)
    dE = np.zeros_like(E)
    np.add.at(dE, IDS, dv)
    return dE


embedding_wrong = [
    ("np.add.at(dE, IDS, dv)", "dE[IDS] += dv", "dE", "repeated words counted once"),
    ("np.add.at(dE, IDS, dv)", "np.add.at(dE, IDS, dv / 2)", "dE", "a factor"),
    ("np.add.at(dE, IDS, dv)", "np.add.at(dE, IDS[:, ::-1], dv)", "dE", "the words reversed"),
]


def embedding_bag_inputs(rng):
    return rng.normal(size=(4, 2)), rng.normal(size=(2, 3))


def embedding_bag_forward(E, weights):
    return np.einsum("bt,bte->be", weights, E[IDS]), (E, weights)


def embedding_bag_backward(dy, cache):
    E, weights = cache
    dE = np.zeros(E.shape)
    for b in range(2):
        for t in range(3):
            dE[IDS[b, t]] += weights[b, t] * dy[b]
    dweights = np.einsum("bte,be->bt", E[IDS], dy)
    return dE, dweights


embedding_bag_wrong = [
    ("dE[IDS[b, t]] += weights[b, t] * dy[b]", "dE[IDS[b, t]] = weights[b, t] * dy[b]", "dE",
     "= for +="),
    ("dE[IDS[b, t]] += weights[b, t] * dy[b]", "dE[IDS[b, t]] += dy[b]", "dE",
     "the weights forgotten"),
]


def sort_inputs(rng):
    return rng.normal(size=6), rng.normal(size=6)


def sort_forward(x, w):
    return np.sort(x) * w, (x, w)


def sort_backward(dy, cache):
    x, w = cache
    order = np.argsort(x)
    dx = np.empty_like(x)
    dx[order] = dy * w
    dw = dy * x[order]
    return dx, dw


sort_wrong = [
    ("dx[order] = dy * w", "dx = (dy * w)[order]", "dx", "the permutation for its inverse"),
    ("dw = dy * x[order]", "dw = dy * x", "dw", "not sorted"),
]


def top_k_inputs(rng):
    return [rng.normal(size=(3, 6))]


def top_k_forward(x):
    best = np.argpartition(-x, 2, axis=1)[:, :2]
    return np.exp(np.take_along_axis(x, best, axis=1)).sum(axis=1), (x, best)


def top_k_backward(dy, cache):
    x, best = cache
    dx = np.zeros_like(x)
    dbest = np.exp(np.take_along_axis(x, best, axis=1)) * dy[:, None]
    np.put_along_axis(dx, best, dbest, axis=1)
    return dx


top_k_wrong = [
    ("np.put_along_axis(dx, best, dbest, axis=1)",
     "np.put_along_axis(dx, best[::-1], dbest, axis=1)", "dx", "another row's places"),
    ("dbest = np.exp(np.take_along_axis(x, best, axis=1)) * dy[:, None]",
     "dbest = np.take_along_axis(x, best, axis=1) * dy[:, None]", "dbest",
     "the exponential forgotten"),
]


def cumsum_inputs(rng):
    return [rng.normal(size=(2, 5))]


def cumsum_forward(x):
    y = np.tanh(np.cumsum(x, axis=1))
    return y, y


def cumsum_backward(dy, y):
    ds = dy * (1 - y**2)
    dx = np.cumsum(ds[:, ::-1], axis=1)[:, ::-1]
    return dx


cumsum_wrong = [
    ("dx = np.cumsum(ds[:, ::-1], axis=1)[:, ::-1]", "dx = np.cumsum(ds, axis=1)", "dx",
     "summed from the wrong end"),
    ("dx = np.cumsum(ds[:, ::-1], axis=1)[:, ::-1]",
     "dx = np.cumsum(ds[:, ::-1], axis=1)[:, ::-1] - ds", "dx", "a sum without its own term"),
]


def cumprod_inputs(rng):
    return [rng.normal(size=5)]


def cumprod_forward(x):
    p = np.cumprod(x)
    return p, (x, p)


def cumprod_backward(dp, cache):
    x, p = cache
    dx = np.cumsum((dp * p)[::-1])[::-1] / x
    return dx


cumprod_wrong = [
    ("dx = np.cumsum((dp * p)[::-1])[::-1] / x", "dx = np.cumsum(dp[::-1])[::-1] * p / x", "dx",
     "the product outside of the sum"),
    ("dx = np.cumsum((dp * p)[::-1])[::-1] / x", "dx = dp * p / x", "dx",
     "later products forgotten"),
]


def running_max_inputs(rng):
    return [rng.normal(size=8)]


def running_max_forward(x):
    y = np.maximum.accumulate(x)
    return y, (x, y)


def running_max_backward(dy, cache):
    x, y = cache
    dx = np.array([np.sum(dy[y == v]) for v in x])
    return dx


running_max_wrong = [
    ("dx = np.array([np.sum(dy[y == v]) for v in x])", "dx = dy * (x == y)", "dx",
     "counted where it is reached, not as long as it lasts"),
]


def segment_mean_inputs(rng):
    return [rng.normal(size=(6, 2))]


def segment_mean_forward(x):
    counts = np.bincount(SEGMENTS)
    sums = np.zeros((3, 2))
    np.add.at(sums, SEGMENTS, x)
    return sums / counts[:, None], counts


def segment_mean_backward(dy, counts):
    dsums = dy / counts[:, None]
    dx = dsums[SEGMENTS]
    return dx


segment_mean_wrong = [
    ("dsums = dy / counts[:, None]", "dsums = dy / 2", "dsums", "right for equal counts only"),
    ("dsums = dy / counts[:, None]", "dsums = dy", "dsums", "a sum for a mean"),
]


def broadcast_inputs(rng):
    return [rng.normal(size=s) for s in ((3, 1), (4,), (2, 1, 1))]


def broadcast_forward(a, b, c):
    return np.sin(a * b) + c * a, (a, b, c)


def broadcast_backward(dy, cache):
    a, b, c = cache
    dp = dy * np.cos(a * b)
    da = (dp * b + dy * c).sum(axis=(0, 2))[:, None]
    db = (dp * a).sum(axis=(0, 1))
    dc = (dy * a).sum(axis=(1, 2), keepdims=True)
    return da, db, dc


broadcast_wrong = [
    ("dc = (dy * a).sum(axis=(1, 2), keepdims=True)",
     "dc = (dy * a)[:, :1].sum(axis=2, keepdims=True)", "dc",
     "one axis of the broadcast not summed"),
    ("da = (dp * b + dy * c)", "da = (dp * b)", "da", "the second use forgotten"),
    ("dp = dy * np.cos(a * b)", "dp = -dy * np.sin(a * b)", "dp", "the slope of the cosine"),
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
    ("dshift = dy.sum()", "dshift = dy.mean()", "dshift", "a mean for a sum"),
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
    ("np.argsort(ORDER)", "ORDER", "da", "the permutation for its inverse"),
    ("-1, axis=0)", "1, axis=0)", "da", "rolled the wrong way"),
    ("db = dy[4:, ::-1]", "db = dy[4:]", "db", "not flipped"),
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
    ("dx = 2 * dz", "dx = dz", "dx", "the factor forgotten"),
]
