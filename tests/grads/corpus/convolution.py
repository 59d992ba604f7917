"""Convolution and pooling, right, and the mistakes that people make in them."""

import numpy as np


def im2col(x, k):
    _, _, H, W = x.shape
    i, j = np.meshgrid(np.arange(H - k + 1), np.arange(W - k + 1), indexing="ij")
    rows = i.ravel()[:, None] + np.repeat(np.arange(k), k)
    columns = j.ravel()[:, None] + np.tile(np.arange(k), k)
    return x[:, :, rows, columns], rows, columns


def conv2d_inputs(rng):
    return [rng.normal(size=s) for s in ((2, 2, 4, 5), (3, 2, 2, 2), (3,))]


def conv2d_forward(x, W, b):
    B, C, H, width = x.shape
    patches, rows, columns = im2col(x, 2)
    patches = patches.transpose(0, 2, 1, 3).reshape(B, -1, C * 4)
    y = patches @ W.reshape(len(W), -1).T + b
    y = y.transpose(0, 2, 1).reshape(B, len(W), H - 1, width - 1)
    return y, (x.shape, patches, rows, columns, W)


def conv2d_backward(dy, cache):
    shape, patches, rows, columns, W = cache
    B, C = shape[:2]
    dy = dy.reshape(B, len(W), -1)
    db = dy.sum(axis=(0, 2))
    dW = np.einsum("bop,bpk->ok", dy, patches).reshape(W.shape)
    dpatches = np.einsum("bop,ok->bpk", dy, W.reshape(len(W), -1))
    dpatches = dpatches.reshape(B, -1, C, 4).transpose(0, 2, 1, 3)
    dx = np.zeros(shape)
    np.add.at(dx, (slice(None), slice(None), rows, columns), dpatches)
    return dx, dW, db


conv2d_wrong = [
    ("np.add.at(dx, (slice(None), slice(None), rows, columns), dpatches)",
     "dx[:, :, rows, columns] += dpatches", "dx", "overlapping patches counted once",
     "np.add.at|overwritten"),
    ("db = dy.sum(axis=(0, 2))", "db = dy.sum(axis=2)[0]", "db", "the first example's only",
     "only what comes through index 0 of axis 0"),
    ("dpatches.reshape(B, -1, C, 4).transpose(0, 2, 1, 3)", "dpatches.reshape(B, C, -1, 4)",
     "dpatches", "a reshape for a transposition"),
]


def conv1d_inputs(rng):
    return rng.normal(size=7), rng.normal(size=3)


def conv1d_forward(x, w):
    return np.convolve(x, w, mode="valid"), (x, w)


def conv1d_backward(dy, cache):
    x, w = cache
    dx = np.convolve(dy, w[::-1], mode="full")
    dw = np.convolve(x[::-1], dy, mode="valid")
    return dx, dw


conv1d_wrong = [
    ("dx = np.convolve(dy, w[::-1], mode=\"full\")", "dx = np.convolve(dy, w, mode=\"full\")", "dx",
     "the filter not flipped", "flipped"),
    ("np.convolve(x[::-1], dy, mode=\"valid\")", "np.convolve(x, dy[::-1], mode=\"valid\")", "dw",
     "flipped the wrong way round", "reversed along"),
]


def strided_conv_inputs(rng):
    return [rng.normal(size=s) for s in ((2, 7), (3, 2, 3), (3,))]


def strided_conv_forward(x, W, b):
    y = np.zeros((3, 3))
    for o in range(3):
        for t in range(3):
            y[o, t] = np.sum(x[:, 2 * t : 2 * t + 3] * W[o]) + b[o]
    return y, (x, W)


def strided_conv_backward(dy, cache):
    x, W = cache
    dx, dW, db = np.zeros_like(x), np.zeros_like(W), np.zeros(len(W))
    for o in range(3):
        for t in range(3):
            dx[:, 2 * t : 2 * t + 3] += dy[o, t] * W[o]
            dW[o] += dy[o, t] * x[:, 2 * t : 2 * t + 3]
            db[o] += dy[o, t]
    return dx, dW, db


strided_conv_wrong = [
    ("dx[:, 2 * t : 2 * t + 3] += dy[o, t] * W[o]", "dx[:, 2 * t : 2 * t + 3] = dy[o, t] * W[o]",
     "dx", "= for +=", "overwritten"),
    ("dW[o] += dy[o, t] * x[:, 2 * t : 2 * t + 3]", "dW[o] += dy[o, t] * x[:, t : t + 3]", "dW",
     "the stride forgotten"),
    ("db[o] += dy[o, t]", "db[o] = dy[o, t]", "db", "= for +=", "only what comes through index"),
]


def depthwise_inputs(rng):
    return rng.normal(size=(6, 3)), rng.normal(size=(3, 3))


def depthwise_forward(x, w):
    windows = np.lib.stride_tricks.sliding_window_view(x, 3, axis=0)
    return np.einsum("tck,kc->tc", windows, w), (x, w)


def depthwise_backward(dy, cache):
    x, w = cache
    dx, dw = np.zeros_like(x), np.empty_like(w)
    for k in range(3):
        dx[k : k + len(dy)] += dy * w[k]
        dw[k] = (dy * x[k : k + len(dy)]).sum(axis=0)
    return dx, dw


depthwise_wrong = [
    ("dx[k : k + len(dy)] += dy * w[k]", "dx[k : k + len(dy)] += dy * w[2 - k]", "dx",
     "the filter flipped", "flipped"),
    ("dw[k] = (dy * x[k : k + len(dy)]).sum(axis=0)", "dw[k] = (dy * x[: len(dy)]).sum(axis=0)",
     "dw", "every tap with the first window"),
]


def padded_conv_inputs(rng):
    return rng.normal(size=(3, 4)), rng.normal(size=(3, 3))


def padded_conv_forward(x, w):
    p = np.pad(x, 1)
    y = sum(w[i, j] * p[i : i + 3, j : j + 4] for i in range(3) for j in range(3))
    return y, (p, w)


def padded_conv_backward(dy, cache):
    p, w = cache
    dp, dw = np.zeros_like(p), np.zeros_like(w)
    for i in range(3):
        for j in range(3):
            dp[i : i + 3, j : j + 4] += w[i, j] * dy
            dw[i, j] = np.sum(p[i : i + 3, j : j + 4] * dy)
    dx = dp[1:-1, 1:-1]
    return dx, dw


padded_conv_wrong = [
    ("dx = dp[1:-1, 1:-1]", "dx = dp[:-2, :-2]", "dx", "the wrong part of the padded gradient"),
    ("dp[i : i + 3, j : j + 4] += w[i, j] * dy", "dp[i : i + 3, j : j + 4] += w[j, i] * dy", "dp",
     "right only for a symmetric filter", "w is symmetric"),
    ("dw[i, j] = np.sum(", "dw[i, j] = (i != 2 or j != 2) * np.sum(", "dw", "only one entry wrong",
     "only one entry"),
]


def transposed_conv_inputs(rng):
    return rng.normal(size=4), rng.normal(size=3), rng.normal(size=1)


def transposed_conv_forward(x, w, b):
    y = np.zeros(9) + b
    for t in range(4):
        y[2 * t : 2 * t + 3] += x[t] * w
    return y, (x, w)


def transposed_conv_backward(dy, cache):
    x, w = cache
    dx = np.array([dy[2 * t : 2 * t + 3] @ w for t in range(4)])
    dw = sum(x[t] * dy[2 * t : 2 * t + 3] for t in range(4))
    db = dy.sum(keepdims=True)
    return dx, dw, db


transposed_conv_wrong = [
    ("dw = sum(x[t] * dy[2 * t : 2 * t + 3] for t in range(4))",
     "dw = sum(x[t] * dy[2 * t : 2 * t + 3] for t in range(3))", "dw", "the last step forgotten"),
    ("db = dy.sum(keepdims=True)", "db = dy[:8].sum(keepdims=True)", "db",
     "the last output forgotten", "lacks what comes through index 8 of axis 0"),
]


def max_pool_inputs(rng):
    return [rng.normal(size=(2, 4, 6))]


def max_pool_forward(x):
    C, H, W = x.shape
    blocks = x.reshape(C, H // 2, 2, W // 2, 2)
    y = blocks.max(axis=(2, 4))
    return y, (blocks, y)


def max_pool_backward(dy, cache):
    blocks, y = cache
    best = blocks == y[:, :, None, :, None]
    dx = (best * dy[:, :, None, :, None]).reshape(dy.shape[0], 2 * dy.shape[1], -1)
    return dx


max_pool_wrong = [
    ("best = blocks == y[:, :, None, :, None]", "best = np.full(blocks.shape, 0.25)", "dx",
     "the gradient of average pooling"),
]


def max_pool_loop_inputs(rng):
    return [rng.normal(size=8)]


def max_pool_loop_forward(x):
    where = [2 * t + int(np.argmax(x[2 * t : 2 * t + 4])) for t in range(3)]
    return np.array([x[i] for i in where]), where


def max_pool_loop_backward(dy, where):
    dx = np.zeros(8)
    for t in range(3):
        dx[where[t]] += dy[t]
    return dx


max_pool_loop_wrong = [
    ("dx[where[t]] += dy[t]", "dx[where[t] - 2 * t] += dy[t]", "dx", "an index within the window"),
    ("dx[where[t]] += dy[t]", "dx[where[t]] = t * dy[t]", "dx",
     "a factor that is 1 at one step only"),
]


def average_pool_inputs(rng):
    return [rng.normal(size=(2, 6))]


def average_pool_forward(x):
    return x.reshape(2, 3, 2).mean(axis=2), None


def average_pool_backward(dy, cache):
    dx = np.repeat(dy, 2, axis=1) / 2
    return dx


average_pool_wrong = [
    ("np.repeat(dy, 2, axis=1) / 2", "np.tile(dy, 2) / 2", "dx", "tiled for repeated"),
    ("np.repeat(dy, 2, axis=1) / 2", "np.repeat(dy, 2, axis=1)", "dx", "the mean's 1/n forgotten",
     "factor 2"),
]
