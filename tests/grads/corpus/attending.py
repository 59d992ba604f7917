"""Attention and products of several factors, right, and the mistakes that people make in them."""

import numpy as np

LENGTHS = np.array([4, 2])
DISTANCE = np.arange(4)[None, :] - np.arange(4)[:, None] + 3
ANGLES = np.outer(np.arange(3), [1.0, 0.1])


def softmax(s):
    e = np.exp(s - np.max(s, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


def softmax_backward(da, a):
    return a * (da - np.sum(da * a, axis=-1, keepdims=True))


def dot_attention_inputs(rng):
    return [rng.normal(size=s) for s in ((2, 3), (2, 4, 3))]


def dot_attention_forward(q, h):
    s = np.einsum("bi,bsi->bs", q, h)
    s = np.where(np.arange(4) < LENGTHS[:, None], s, -np.inf)
    a = softmax(s)
    return np.einsum("bs,bsi->bi", a, h), (q, h, a)


def dot_attention_backward(dc, cache):
    q, h, a = cache
    da = np.einsum("bi,bsi->bs", dc, h)
    ds = softmax_backward(da, a)
    dq = np.einsum("bs,bsi->bi", ds, h)
    dh = np.einsum("bs,bi->bsi", a, dc)
    dh += np.einsum("bs,bi->bsi", ds, q)
    return dq, dh


dot_attention_wrong = [
    ("dh += np.einsum(\"bs,bi->bsi\", ds, q)", "pass", "dh", "the scores' use of h forgotten"),
    ("dh += np.einsum(\"bs,bi->bsi\", ds, q)", "dh = np.einsum(\"bs,bi->bsi\", ds, q)", "dh",
     "= for +="),
    ("ds = softmax_backward(da, a)", "ds = softmax_backward(a, da)", "ds", "arguments exchanged"),
    ("ds = softmax_backward(da, a)", "ds = da", "ds", "the softmax forgotten"),
]


def additive_attention_inputs(rng):
    return [rng.normal(size=s) for s in ((3,), (4, 3), (5, 3), (5, 3), (5,))]


def additive_attention_forward(s, h, W, U, v):
    z = W @ s + h @ U.T
    t = np.tanh(z)
    e = t @ v
    a = softmax(e)
    c = a @ h
    return (c, a), (s, h, W, U, v, t, a)


def additive_attention_backward(d, cache):
    dc, da = d
    s, h, W, U, v, t, a = cache
    da = da + h @ dc
    dh = np.outer(a, dc)
    de = softmax_backward(da, a)
    dv = t.T @ de
    dt = np.outer(de, v)
    dz = dt * (1 - t**2)
    dW = np.outer(dz.sum(axis=0), s)
    dU = dz.T @ h
    ds = W.T @ dz.sum(axis=0)
    dh += dz @ U
    return ds, dh, dW, dU, dv


additive_attention_wrong = [
    ("dW = np.outer(dz.sum(axis=0), s)", "dW = np.outer(dz[0], s)", "dW",
     "the sum over the positions forgotten"),
    ("ds = W.T @ dz.sum(axis=0)", "ds = W.T @ dz.mean(axis=0)", "ds", "a mean for a sum",
     "factor 0.25"),
    ("da = da + h @ dc", "da = h @ dc", "da", "the weights' own upstream gradient forgotten",
     "through output 1 is missing"),
    ("dh += dz @ U", "dh += dz @ W", "dh", "the other weight"),
    ("dz = dt * (1 - t**2)", "dz = dt * t * (1 - t)", "dz", "the sigmoid's slope for tanh's"),
]


def causal_attention_inputs(rng):
    return [rng.normal(size=s) for s in ((4, 3), (3, 3), (3, 3), (3, 3))]


def causal_attention_forward(x, Wq, Wk, Wv):
    q, k, v = x @ Wq, x @ Wk, x @ Wv
    scale = 1 / np.sqrt(k.shape[1])
    s = q @ k.T * scale
    s[np.triu_indices(len(x), 1)] = -1e9
    a = softmax(s)
    return a @ v, (x, Wq, Wk, Wv, q, k, v, a, scale)


def causal_attention_backward(dy, cache):
    x, Wq, Wk, Wv, q, k, v, a, scale = cache
    dv = a.T @ dy
    da = dy @ v.T
    ds = softmax_backward(da, a)
    dq = ds @ k * scale
    dk = ds.T @ q * scale
    dx = dq @ Wq.T + dk @ Wk.T + dv @ Wv.T
    return dx, x.T @ dq, x.T @ dk, x.T @ dv


causal_attention_wrong = [
    ("dk = ds.T @ q * scale", "dk = ds.T @ q", "dk", "the scale forgotten", "constant factor"),
    ("dv = a.T @ dy", "dv = a @ dy", "dv", "a square matrix not transposed"),
    ("dq = ds @ k * scale", "dq = ds.T @ k * scale", "dq", "a square matrix transposed"),
    ("+ dv @ Wv.T", "+ dv @ Wv", "dx", "a square weight not transposed", "Wv .*transpose"),
    ("dq @ Wq.T + dk @ Wk.T", "dq @ Wk.T + dk @ Wq.T", "dx", "query and key exchanged"),
]


def multi_head_inputs(rng):
    B, T, E = 2, 3, 4
    return {"x": rng.normal(size=(B, T, E)), "W_qkv": rng.normal(size=(E, 3 * E)),
            "W_o": rng.normal(size=(E, E))}


def multi_head_forward(p):
    x, W_qkv, W_o = p["x"], p["W_qkv"], p["W_o"]
    B, T, E = x.shape
    qkv = x @ W_qkv
    q, k, v = qkv.reshape(B, T, 3, 2, E // 2).transpose(2, 0, 3, 1, 4)
    s = q @ k.swapaxes(-1, -2)
    a = softmax(s / np.sqrt(E // 2))
    heads = a @ v
    y = heads.transpose(0, 2, 1, 3).reshape(B, T, E)
    return y @ W_o, (x, W_qkv, W_o, q, k, v, a, y)


def multi_head_backward(dout, cache):
    x, W_qkv, W_o, q, k, v, a, y = cache
    B, T, E = x.shape
    dy = dout @ W_o.T
    dW_o = np.einsum("bte,btf->ef", y, dout)
    dheads = dy.reshape(B, T, 2, E // 2).transpose(0, 2, 1, 3)
    dv = a.swapaxes(-1, -2) @ dheads
    da = dheads @ v.swapaxes(-1, -2)
    ds = softmax_backward(da, a) / np.sqrt(E // 2)
    dq = ds @ k
    dk = ds.swapaxes(-1, -2) @ q
    dqkv = np.stack([dq, dk, dv]).transpose(1, 3, 0, 2, 4).reshape(B, T, 3 * E)
    dW_qkv = np.einsum("bte,btf->ef", x, dqkv)
    dx = dqkv @ W_qkv.T
    return {"x": dx, "W_qkv": dW_qkv, "W_o": dW_o}


multi_head_wrong = [
    ("dheads = dy.reshape(B, T, 2, E // 2).transpose(0, 2, 1, 3)",
     "dheads = dy.reshape(B, 2, T, E // 2)", "dheads", "a reshape for a transposition"),
    ("np.stack([dq, dk, dv])", "np.stack([dk, dq, dv])", "dqkv", "query and key exchanged",
     "exchanged"),
    ("dW_o = np.einsum(\"bte,btf->ef\", y, dout)", "dW_o = np.einsum(\"bte,btf->fe\", y, dout)",
     "dW_o", "a square matrix transposed", "equals the transpose"),
    ("ds = softmax_backward(da, a) / np.sqrt(E // 2)", "ds = softmax_backward(da, a) / np.sqrt(E)",
     "ds", "scaled by all heads' width"),
    (".transpose(1, 3, 0, 2, 4)", ".transpose(1, 3, 2, 0, 4)", "dqkv", "two axes exchanged"),
]


def bilinear_inputs(rng):
    return [rng.normal(size=s) for s in ((3, 4), (3, 5), (4, 5))]


def bilinear_forward(x, y, W):
    return np.einsum("ni,ij,nj->n", x, W, y), (x, y, W)


def bilinear_backward(ds, cache):
    x, y, W = cache
    dx = ds[:, None] * (y @ W.T)
    dy = ds[:, None] * (x @ W)
    dW = np.einsum("n,ni,nj->ij", ds, x, y)
    return dx, dy, dW


bilinear_wrong = [
    ("dx = ds[:, None] * (y @ W.T)", "dx = y @ W.T", "dx", "the upstream gradient forgotten"),
    ("dW = np.einsum(\"n,ni,nj->ij\", ds, x, y)", "dW = np.outer(ds @ x, y.sum(axis=0))", "dW",
     "a product of sums for a sum of products"),
]


def quadratic_form_inputs(rng):
    return rng.normal(size=4), rng.normal(size=(4, 4))


def quadratic_form_forward(x, A):
    return x @ A @ x, (x, A)


def quadratic_form_backward(dy, cache):
    x, A = cache
    dx = dy * (A + A.T) @ x
    dA = dy * np.outer(x, x)
    return dx, dA


quadratic_form_wrong = [
    ("(A + A.T) @ x", "2 * A @ x", "dx", "right only for a symmetric matrix", "A is symmetric"),
    ("(A + A.T) @ x", "A @ x", "dx", "one of two uses forgotten"),
]


def gaussian_window_inputs(rng):
    return [rng.uniform(1, 3, size=2), rng.normal(size=(2, 5))]


def gaussian_window_forward(centre, h):
    d = np.arange(5) - centre[:, None]
    w = np.exp(-(d**2) / 2)
    return (w * h).sum(axis=1), (d, w, h)


def gaussian_window_backward(dy, cache):
    d, w, h = cache
    dh = dy[:, None] * w
    dw = dy[:, None] * h
    dcentre = (dw * w * d).sum(axis=1)
    return dcentre, dh


gaussian_window_wrong = [
    ("dcentre = (dw * w * d).sum(axis=1)", "dcentre = -(dw * w * d).sum(axis=1)", "dcentre",
     "a sign", "reversed sign"),
    ("dcentre = (dw * w * d).sum(axis=1)", "dcentre = (dw * w).sum(axis=1)", "dcentre",
     "the square's slope forgotten"),
]


def relative_position_inputs(rng):
    return rng.normal(size=(4, 4)), rng.normal(size=7)


def relative_position_forward(s, bias):
    a = softmax(s + bias[DISTANCE])
    return a, a


def relative_position_backward(da, a):
    ds = softmax_backward(da, a)
    dbias = np.zeros(7)
    np.add.at(dbias, DISTANCE, ds)
    return ds, dbias


relative_position_wrong = [
    ("np.add.at(dbias, DISTANCE, ds)", "dbias[DISTANCE] += ds", "dbias",
     "repeated indices counted once", "np.add.at|overwritten"),
    ("np.add.at(dbias, DISTANCE, ds)", "np.add.at(dbias, DISTANCE.T, ds)", "dbias",
     "distances of the opposite sign", "reversed along"),
]


def rotary_inputs(rng):
    return [rng.normal(size=(3, 4))]


def rotary_forward(x):
    c, s = np.cos(ANGLES), np.sin(ANGLES)
    y = np.empty_like(x)
    y[:, ::2] = c * x[:, ::2] - s * x[:, 1::2]
    y[:, 1::2] = s * x[:, ::2] + c * x[:, 1::2]
    return y, (c, s)


def rotary_backward(dy, cache):
    c, s = cache
    dx = np.empty_like(dy)
    dx[:, ::2] = c * dy[:, ::2] + s * dy[:, 1::2]
    dx[:, 1::2] = -s * dy[:, ::2] + c * dy[:, 1::2]
    return dx


rotary_wrong = [
    ("dx[:, ::2] = c * dy[:, ::2] + s * dy[:, 1::2]",
     "dx[:, ::2] = c * dy[:, ::2] - s * dy[:, 1::2]", "dx", "turned the same way again"),
]
