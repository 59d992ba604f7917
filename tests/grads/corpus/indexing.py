"""Tables, sorting and scans, right, and the mistakes that people make in them."""

import numpy as np

IDS = np.array([[1, 3, 1], [0, 1, 3]])
SEGMENTS = np.array([0, 2, 0, 1, 2, 2])


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
    ("np.add.at(dE, IDS, dv)", "dE[IDS] += dv", "dE", "repeated words counted once",
     "np.add.at|overwritten"),
    ("np.add.at(dE, IDS, dv)", "np.add.at(dE, IDS, dv / 2)", "dE", "a factor", "factor 0.5"),
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
     "= for +=", "np.add.at|overwritten"),
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
    ("dx[order] = dy * w", "dx = (dy * w)[order]", "dx", "the permutation for its inverse",
     "gather|exchanged|mixed up"),
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
