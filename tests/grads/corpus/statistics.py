"""Statistics and distances, right, and the mistakes that people make in them."""

import numpy as np

QUERIES = np.array([0.3, 1.6, 1.7, 3.9])


def covariance_inputs(rng):
    return [rng.normal(size=(3, 5))]


def covariance_forward(x):
    return np.cov(x), x


def covariance_backward(dC, x):
    xc = x - x.mean(axis=1, keepdims=True)
    dx = (dC + dC.T) @ xc / (x.shape[1] - 1)
    return dx


covariance_wrong = [
    ("(dC + dC.T) @ xc", "2 * dC @ xc", "dx", "right only for a symmetric upstream gradient",
     "upstream gradient .*symmetric"),
    ("(x.shape[1] - 1)", "x.shape[1]", "dx", "n for n - 1", "constant factor 0.8"),
]


def correlation_inputs(rng):
    return rng.normal(size=6), rng.normal(size=6)


def correlation_forward(x, y):
    r = np.corrcoef(x, y)[0, 1]
    return r, (x, y, r)


def correlation_backward(dr, cache):
    x, y, r = cache
    xc, yc = x - x.mean(), y - y.mean()
    nx, ny = np.sqrt(xc @ xc), np.sqrt(yc @ yc)
    dx = dr * (yc / ny - r * xc / nx) / nx
    dy = dr * (xc / nx - r * yc / ny) / ny
    return dx, dy


correlation_wrong = [
    ("xc, yc = x - x.mean(), y - y.mean()", "xc, yc = x, y", "dx", "the means forgotten"),
    ("dx = dr * (yc / ny - r * xc / nx) / nx", "dx = dr * yc / ny / nx", "dx",
     "the length taken for a constant"),
]


def median_inputs(rng):
    return [rng.normal(size=(3, 5))]


def median_forward(x):
    return np.median(x, axis=1), x


def median_backward(dm, x):
    dx = np.zeros_like(x)
    middle = np.argsort(x, axis=1)[:, 2]
    dx[np.arange(3), middle] = dm
    return dx


median_wrong = [
    ("np.argsort(x, axis=1)[:, 2]", "np.argsort(x, axis=1)[:, 1]", "dx", "the wrong rank"),
    ("np.argsort(x, axis=1)[:, 2]", "np.argsort(np.argsort(x, axis=1), axis=1)[:, 2]", "dx",
     "the rank of an entry for the entry of a rank"),
]


def quantile_inputs(rng):
    return [rng.normal(size=7)]


def quantile_forward(x):
    return np.quantile(x, 0.3), x


def quantile_backward(dq, x):
    order = np.argsort(x)
    dx = np.zeros_like(x)
    dx[order[1]] = 0.2 * dq
    dx[order[2]] = 0.8 * dq
    return dx


quantile_wrong = [
    ("dx[order[1]] = 0.2 * dq", "dx[order[1]] = 0.8 * dq", "dx", "the wrong share"),
]


def hypot_inputs(rng):
    return rng.normal(size=(2, 4)), rng.normal(size=4)


def hypot_forward(a, b):
    r = np.hypot(a, b)
    return r, (a, b, r)


def hypot_backward(dr, cache):
    a, b, r = cache
    da = dr * a / r
    db = (dr * b / r).sum(axis=0)
    return da, db


hypot_wrong = [
    ("da = dr * a / r", "da = 2 * dr * a", "da", "the slope of the square"),
    ("db = (dr * b / r).sum(axis=0)", "db = (dr * b / r)[-1]", "db", "the sum forgotten"),
]


def angle_inputs(rng):
    return rng.normal(size=5), rng.normal(size=5)


def angle_forward(y, x):
    return np.arctan2(y, x), (y, x)


def angle_backward(dangle, cache):
    y, x = cache
    dy = dangle * x / (x**2 + y**2)
    dx = -dangle * y / (x**2 + y**2)
    return dy, dx


angle_wrong = [
    ("dx = -dangle", "dx = dangle", "dx", "a sign", "reversed sign"),
]


def log_cosh_inputs(rng):
    return rng.normal(size=6), rng.normal(size=6)


def log_cosh_forward(y, target):
    e = y - target
    return np.mean(np.log(np.cosh(e))), e


def log_cosh_backward(dloss, e):
    de = np.tanh(e) * dloss / e.size
    dy = de
    dtarget = -de
    return dy, dtarget


log_cosh_wrong = [
    ("np.tanh(e) * dloss", "np.tanh(e) * np.cosh(e) * dloss", "de", "the logarithm forgotten"),
]


def average_inputs(rng):
    return rng.normal(size=(4, 2)), rng.uniform(0.5, 2, size=4)


def average_forward(x, w):
    y = np.average(x, axis=0, weights=w)
    return y, (x, w, y)


def average_backward(dy, cache):
    x, w, y = cache
    dx = np.outer(w, dy) / w.sum()
    dw = (x - y) @ dy / w.sum()
    return dx, dw


average_wrong = [
    ("dw = (x - y) @ dy / w.sum()", "dw = x @ dy / w.sum()", "dw", "the sum of weights constant"),
    ("dx = np.outer(w, dy) / w.sum()", "dx = np.outer(w, dy) / len(w)", "dx", "a plain mean"),
]


def spread_inputs(rng):
    return [rng.normal(size=(2, 6))]


def spread_forward(x):
    return np.ptp(x, axis=1), x


def spread_backward(dy, x):
    dx = np.zeros_like(x)
    dx[[0, 1], x.argmax(axis=1)] += dy
    dx[[0, 1], x.argmin(axis=1)] -= dy
    return dx


spread_wrong = [
    ("dx[[0, 1], x.argmin(axis=1)] -= dy", "dx[[0, 1], x.argmin(axis=1)] += dy", "dx", "a sign"),
]


def inner_product_inputs(rng):
    return rng.normal(size=(2, 3)), rng.normal(size=(2, 3))


def inner_product_forward(u, v):
    s = np.vdot(u, v)
    return s**2, (u, v, s)


def inner_product_backward(dy, cache):
    u, v, s = cache
    ds = 2 * s * dy
    du = ds * v
    dv = ds * u
    return du, dv


inner_product_wrong = [
    ("dv = ds * u", "dv = -ds * u", "dv", "a sign", "reversed sign"),
    ("ds = 2 * s * dy", "ds = s * dy", "ds", "the square's factor 2 forgotten", "factor 0.5"),
]


def power_inputs(rng):
    return rng.uniform(0.5, 3, size=(3, 2)), rng.normal(size=2)


def power_forward(x, p):
    y = np.power(x, p)
    return y + np.cbrt(x), (x, p, y)


def power_backward(dout, cache):
    x, p, y = cache
    dx = dout * (p * y / x + np.cbrt(x) / (3 * x))
    dp = (dout * y * np.log(x)).sum(axis=0)
    return dx, dp


power_wrong = [
    ("dp = (dout * y * np.log(x)).sum(axis=0)", "dp = (dout * y).sum(axis=0)", "dp",
     "the logarithm forgotten"),
    ("np.cbrt(x) / (3 * x)", "np.cbrt(x) / 3", "dx", "one power of x"),
]


def interpolation_inputs(rng):
    return [rng.normal(size=5)]


def interpolation_forward(f):
    return np.interp(QUERIES, np.arange(5), f), None


def interpolation_backward(dy, cache):
    left = QUERIES.astype(int)
    share = QUERIES - left
    df = np.zeros(5)
    np.add.at(df, left, (1 - share) * dy)
    np.add.at(df, left + 1, share * dy)
    return df


interpolation_wrong = [
    ("np.add.at(df, left, (1 - share) * dy)", "df[left] += (1 - share) * dy", "df",
     "a node that two queries use counted once", "np.add.at|overwritten"),
    ("np.add.at(df, left + 1, share * dy)", "np.add.at(df, left + 1, (1 - share) * dy)", "df",
     "the share of the other neighbour"),
]
