"""Normalisations, right, and the mistakes that people make in them."""

import numpy as np

EPS = 1e-5


def layer_norm_inputs(rng):
    return [rng.normal(size=shape) for shape in ((4, 6), (6,), (6,))]


def layer_norm_forward(x, gain, bias):
    mean = x.mean(axis=-1, keepdims=True)
    rstd = 1 / np.sqrt(np.var(x, axis=-1, keepdims=True) + EPS)
    xhat = (x - mean) * rstd
    return gain * xhat + bias, (xhat, rstd, gain)


def layer_norm_backward(dy, cache):
    xhat, rstd, gain = cache
    dgain = (dy * xhat).sum(axis=0)
    dbias = dy.sum(axis=0)
    dxhat = dy * gain
    dx = dxhat - dxhat.mean(axis=-1, keepdims=True)
    dx -= xhat * (dxhat * xhat).mean(axis=-1, keepdims=True)
    dx *= rstd
    return dx, dgain, dbias


layer_norm_wrong = [
    ("dxhat = dy * gain", "dxhat = dy", "dxhat", "the gain forgotten", "right where gain is 1"),
    ("dx -= xhat * (dxhat * xhat).mean(axis=-1, keepdims=True)", "pass", "dx",
     "the variance taken for a constant", "multiple of x"),
    ("dx = dxhat - dxhat.mean(axis=-1, keepdims=True)", "dx = dxhat - dxhat.mean(axis=0)", "dx",
     "the mean over the batch for the mean over the features", "wrong axis"),
    ("dbias = dy.sum(axis=0)", "dbias = dy.mean(axis=0)", "dbias", "a mean for a sum", "1/"),
]


def layer_norm_std_inputs(rng):
    return rng.normal(size=(3, 5)), rng.normal(size=5)


def layer_norm_std_forward(x, g):
    std = np.std(x, axis=1, keepdims=True)
    xc = x - np.mean(x, axis=1, keepdims=True)
    return g * xc / std, {"xc": xc, "std": std, "g": g}


def layer_norm_std_backward(dy, cache):
    xc, std, g = cache["xc"], cache["std"], cache["g"]
    n = xc.shape[1]
    dg = np.sum(dy * xc / std, axis=0)
    dstd = -np.sum(dy * g * xc, axis=1, keepdims=True) / std**2
    dxc = dy * g / std + dstd * xc / (n * std)
    dx = dxc - np.mean(dxc, axis=1, keepdims=True)
    return dx, dg


layer_norm_std_wrong = [
    ("dstd = -np.sum(dy * g * xc, axis=1, keepdims=True) / std**2",
     "dstd = -np.sum(dy * g * xc, axis=1, keepdims=True) / std", "dstd",
     "one over the standard deviation for one over its square"),
    ("dx = dxc - np.mean(dxc, axis=1, keepdims=True)", "dx = dxc", "dx", "the mean forgotten",
     "mean over axis 1"),
]


def unit_norm_inputs(rng):
    return [rng.normal(size=(4, 3))]


def unit_norm_forward(x):
    n = np.linalg.norm(x, axis=1, keepdims=True)
    y = x / n
    return y, (y, n)


def unit_norm_backward(dy, cache):
    y, n = cache
    dx = (dy - y * np.sum(y * dy, axis=1, keepdims=True)) / n
    return dx


unit_norm_wrong = [
    ("dx = (dy - y * np.sum(y * dy, axis=1, keepdims=True)) / n",
     "dx = (dy - y * np.sum(y * dy, axis=0, keepdims=True)) / n", "dx",
     "a sum over the wrong axis", "wrong axis"),
    ("dx = (dy - y * np.sum(y * dy, axis=1, keepdims=True)) / n", "dx = dy / n", "dx",
     "the norm taken for a constant", "multiple of"),
]


def l1_norm_inputs(rng):
    return [rng.normal(size=(3, 4))]


def l1_norm_forward(x):
    s = np.abs(x).sum(axis=1, keepdims=True)
    return x / s, (x, s)


def l1_norm_backward(dy, cache):
    x, s = cache
    ds = -(dy * x).sum(axis=1, keepdims=True) / s**2
    dx = dy / s + ds * np.sign(x)
    return dx


l1_norm_wrong = [
    ("dx = dy / s + ds * np.sign(x)", "dx = dy / s + ds", "dx",
     "the sign of |x|'s slope forgotten"),
]


def batch_norm_inputs(rng):
    return {"x": rng.normal(size=(5, 3)), "gamma": rng.normal(size=3), "beta": rng.normal(size=3)}


def batch_norm_forward(p):
    x, gamma, beta = p["x"], p["gamma"], p["beta"]
    mu = x.mean(axis=0)
    xmu = x - mu
    var = (xmu**2).mean(axis=0)
    ivar = 1 / np.sqrt(var + EPS)
    xhat = xmu * ivar
    return gamma * xhat + beta, (xhat, xmu, ivar, gamma)


def batch_norm_backward(dy, cache):
    xhat, xmu, ivar, gamma = cache
    n = dy.shape[0]
    dbeta = dy.sum(axis=0)
    dgamma = (dy * xhat).sum(axis=0)
    dxhat = dy * gamma
    dvar = (dxhat * xmu).sum(axis=0) * -0.5 * ivar**3
    dxmu = dxhat * ivar + dvar * 2 * xmu / n
    dmu = -dxmu.sum(axis=0)
    dx = dxmu + dmu / n
    return {"x": dx, "gamma": dgamma, "beta": dbeta}


batch_norm_wrong = [
    ("-0.5 * ivar**3", "-0.5 * ivar**2", "dvar", "the wrong power of the deviation",
     "multiple of x"),
    ("dx = dxmu + dmu / n", "dx = dxmu + dmu", "dx", "the mean's 1/n forgotten",
     "mean over axis 0"),
    ("dxmu = dxhat * ivar + dvar * 2 * xmu / n", "dxmu = dxhat * ivar + dvar * xmu / n", "dxmu",
     "the square's factor 2 forgotten", "multiple of x"),
    ("dgamma = (dy * xhat).sum(axis=0)", "dgamma = (dy * xmu).sum(axis=0)", "dgamma",
     "the centred input for the normalised one"),
]


def batch_norm_after_bias_inputs(rng):
    return [rng.normal(size=shape) for shape in ((6, 2), (3, 2), (3,))]


def batch_norm_after_bias_forward(x, W, b):
    z = x @ W.T + b
    rstd = 1 / np.sqrt(z.var(axis=0) + EPS)
    y = (z - z.mean(axis=0)) * rstd
    return y, (x, W, y, rstd)


def batch_norm_after_bias_backward(dy, cache):
    """The bias is subtracted with the mean: its gradient is zero but for rounding."""
    x, W, y, rstd = cache
    dz = rstd * (dy - dy.mean(axis=0) - y * (dy * y).mean(axis=0))
    dx = dz @ W
    dW = dz.T @ x
    db = dz.sum(axis=0)
    return dx, dW, db


batch_norm_after_bias_wrong = [
    ("db = dz.sum(axis=0)", "db = dy.sum(axis=0)", "db", "the output's gradient for the input's"),
    ("dz = rstd * (dy - dy.mean(axis=0) - y * (dy * y).mean(axis=0))",
     "dz = rstd * (dy - dy.mean() - y * (dy * y).mean(axis=0))", "dz",
     "the mean over everything for the mean over the batch"),
]


def rms_norm_inputs(rng):
    return [rng.normal(size=(2, 3, 4)), rng.normal(size=4)]


def rms_norm_forward(x, g):
    r = np.sqrt(np.mean(np.square(x), axis=-1, keepdims=True) + EPS)
    return x / r * g, (x, r, g)


def rms_norm_backward(dy, cache):
    x, r, g = cache
    dg = np.einsum("bti,bti->i", dy, x / r)
    dxhat = dy * g
    dx = dxhat / r - x * np.mean(dxhat * x, axis=-1, keepdims=True) / r**3
    return dx, dg


rms_norm_wrong = [
    ("dx = dxhat / r - x * np.mean(dxhat * x, axis=-1, keepdims=True) / r**3",
     "dx = dxhat / r - x * np.sum(dxhat * x, axis=-1, keepdims=True) / r**3", "dx",
     "a sum for a mean", "multiple of x"),
    ("dx = dxhat / r - x * np.mean(dxhat * x, axis=-1, keepdims=True) / r**3",
     "dx = dxhat / r + x * np.mean(dxhat * x, axis=-1, keepdims=True) / r**3", "dx",
     "the sign of the second term", "multiple of x"),
]


def group_norm_inputs(rng):
    return [rng.normal(size=(2, 4, 3)), rng.normal(size=(4, 1))]


def group_norm_forward(x, g):
    n, c, w = x.shape
    xg = x.reshape(n, 2, -1)
    rstd = (xg.var(axis=2, keepdims=True) + EPS) ** -0.5
    xhat = (xg - xg.mean(axis=2, keepdims=True)) * rstd
    return xhat.reshape(n, c, w) * g, (xhat, rstd, g)


def group_norm_backward(dy, cache):
    xhat, rstd, g = cache
    dg = (dy * xhat.reshape(dy.shape)).sum(axis=(0, 2))[:, None]
    dxhat = (dy * g).reshape(xhat.shape)
    m = xhat.shape[2]
    dx = dxhat - (dxhat.sum(axis=2, keepdims=True)
                  + xhat * (dxhat * xhat).sum(axis=2, keepdims=True)) / m
    dx = (dx * rstd).reshape(dy.shape)
    return dx, dg


group_norm_wrong = [
    ("m = xhat.shape[2]", "m = dy.shape[2]", "dx",
     "divided by the width instead of the group's size"),
    ("dg = (dy * xhat.reshape(dy.shape)).sum(axis=(0, 2))[:, None]",
     "dg = (dy * xhat.reshape(dy.shape))[0].sum(axis=1)[:, None]", "dg",
     "only the first example of the batch counted"),
]


def weight_norm_inputs(rng):
    return [rng.normal(size=shape) for shape in ((3, 4), (2, 4), (2,))]


def weight_norm_forward(x, v, g):
    length = np.sqrt((v * v).sum(axis=1))
    W = (g / length)[:, None] * v
    return x @ W.T, (x, v, g, length, W)


def weight_norm_backward(dy, cache):
    x, v, g, length, W = cache
    dx = dy @ W
    dW = dy.T @ x
    dg = (dW * v).sum(axis=1) / length
    dv = (g / length)[:, None] * dW - (g * dg / length**2)[:, None] * v
    return dx, dv, dg


weight_norm_wrong = [
    ("dv = (g / length)[:, None] * dW - (g * dg / length**2)[:, None] * v",
     "dv = (g / length)[:, None] * dW", "dv", "the length taken for a constant", "multiple of v"),
    ("dW = dy.T @ x", "dW = dy.T @ x / len(x)", "dW", "averaged over the batch", "1/"),
]


def unbiased_std_inputs(rng):
    return [rng.normal(size=(3, 5))]


def unbiased_std_forward(x):
    s = np.std(x, axis=1, ddof=1)
    return s, (x, s)


def unbiased_std_backward(ds, cache):
    x, s = cache
    n = x.shape[1]
    xc = x - x.mean(axis=1, keepdims=True)
    dx = (ds / s)[:, None] * xc / (n - 1)
    return dx


unbiased_std_wrong = [
    ("dx = (ds / s)[:, None] * xc / (n - 1)", "dx = (ds / s)[:, None] * xc / n", "dx",
     "n for n - 1", "constant factor 0.8"),
]
