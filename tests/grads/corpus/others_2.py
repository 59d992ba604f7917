# ruff: noqa: B905, E501, RUF059
"""More functions of other trades, in odd but legal habits, each with a mistake of its author."""

import functools
import itertools
import math
from collections import deque, namedtuple
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import scipy.linalg as sla
import scipy.sparse as sp
from scipy import ndimage, signal, special
from scipy.integrate import quad
from scipy.optimize import brentq

# --- a softmax regression with momentum of its own, as in an assignment: (W, X, y, reg) with loops


def softmax_naive_inputs(rng):
    return [0.1 * rng.normal(size=(4, 3))]


PIXELS = np.random.default_rng(6).normal(size=(6, 4))
CLASSES = np.array([0, 2, 1, 1, 0, 2])


def softmax_loss_naive(W, X, y, reg):
    loss = 0.0
    dW = np.zeros(W.shape)
    num_train = X.shape[0]
    for i in range(num_train):
        scores = X[i].dot(W)
        scores -= np.max(scores)
        probs = np.exp(scores) / np.sum(np.exp(scores))
        loss -= np.log(probs[y[i]])
        for j in range(W.shape[1]):
            dW[:, j] += (probs[j] - (j == y[i])) * X[i]
    loss = loss / num_train + reg * np.sum(W * W)
    dW = dW / num_train + 2 * reg * W
    return loss, dW


def softmax_naive(W):
    return softmax_loss_naive(W, PIXELS, CLASSES, 0.25)[0]


def softmax_naive_gradient(W):
    return softmax_loss_naive(W, PIXELS, CLASSES, 0.25)[1]


softmax_naive_wrong = [("dW = dW / num_train + 2 * reg * W", "dW = (dW + 2 * reg * W) / num_train", "dW",
                        "the penalty averaged over the samples")]


# --- a structural support vector machine, vectorized with integer indexing


def svm_inputs(rng):
    return [rng.normal(size=(4, 3))]


def svm_loss(W, X, y):
    scores = X @ W
    rows = np.arange(len(y))
    margins = np.maximum(0, scores - scores[rows, y][:, None] + 1)
    margins[rows, y] = 0
    loss = margins.sum() / len(y)
    mask = (margins > 0).astype(float)
    mask[rows, y] = -mask.sum(axis=1)
    dW = X.T @ mask / len(y)
    return loss, dW


def svm(W):
    return svm_loss(W, PIXELS, CLASSES)[0]


def svm_gradient(W):
    return svm_loss(W, PIXELS, CLASSES)[1]


svm_wrong = [("mask[rows, y] = -mask.sum(axis=1)", "mask[rows, y] = -1", "dW",
              "the correct class pays for one margin only")]


# --- physics: a chain of springs with masses, velocity Verlet, views and in-place updates


def verlet_inputs(rng):
    return 0.3 * rng.normal(size=5), rng.normal(size=5), np.array([2.0])


def acceleration(q, k):
    a = np.zeros_like(q)
    a[:-1] += k * (q[1:] - q[:-1])
    a[1:] -= k * (q[1:] - q[:-1])
    return a


def verlet_forward(q0, p0, stiffness, n=6, h=0.1):
    q, p, k = q0.copy(), p0.copy(), stiffness[0]
    positions = [q.copy()]
    for _ in range(n):
        p += 0.5 * h * acceleration(q, k)
        q += h * p
        p += 0.5 * h * acceleration(q, k)
        positions.append(q.copy())
    return np.concatenate([q, p]), SimpleNamespace(positions=positions, k=k, h=h)


def verlet_backward(dout, c):
    dq, dp = dout[:5].copy(), dout[5:].copy()
    dk = 0.0
    for step in range(len(c.positions) - 1, 0, -1):
        before, after = c.positions[step - 1], c.positions[step]
        dq += 0.5 * c.h * acceleration(dp, c.k)
        dk += 0.5 * c.h * (dp @ acceleration(after, 1.0))
        dp += c.h * dq
        dq += 0.5 * c.h * acceleration(dp, c.k)
        dk += 0.5 * c.h * (dp @ acceleration(before, 1.0))
    return dq, dp, np.array([dk])


verlet_wrong = [("dk += 0.5 * c.h * (dp @ acceleration(before, 1.0))",
                 "dk += 0.5 * c.h * (dp @ acceleration(after, 1.0))", "dk",
                 "the position of the wrong end of a step")]


# --- Gaussian process: the log marginal likelihood and its hyperparameters


def gp_inputs(rng):
    return [np.array([0.1, -0.3, -1.0])]


GP_X = np.linspace(0, 3, 7)
GP_Y = np.sin(GP_X) + 0.1 * np.cos(9 * GP_X)


def gp(log_theta):
    ell, sf2, sn2 = np.exp(log_theta) ** np.array([1, 2, 2])
    R2 = np.subtract.outer(GP_X, GP_X) ** 2
    K = sf2 * np.exp(-0.5 * R2 / ell**2) + sn2 * np.eye(len(GP_X))
    L = np.linalg.cholesky(K)
    alpha = np.linalg.solve(L.T, np.linalg.solve(L, GP_Y))
    return 0.5 * GP_Y @ alpha + np.log(np.diag(L)).sum() + 0.5 * len(GP_X) * math.log(2 * math.pi)


def gp_gradient(log_theta):
    ell, sf2, sn2 = np.exp(log_theta) ** np.array([1, 2, 2])
    R2 = np.subtract.outer(GP_X, GP_X) ** 2
    kernel = sf2 * np.exp(-0.5 * R2 / ell**2)
    cho = sla.cho_factor(kernel + sn2 * np.eye(len(GP_X)), lower=True)
    alpha = sla.cho_solve(cho, GP_Y)
    inner = sla.cho_solve(cho, np.eye(len(GP_X))) - np.outer(alpha, alpha)
    slopes = [kernel * R2 / ell**2, 2 * kernel, 2 * sn2 * np.eye(len(GP_X))]
    return np.array([0.5 * np.trace(inner @ s) for s in slopes])


gp_wrong = [("sla.cho_solve(cho, np.eye(len(GP_X))) - np.outer(alpha, alpha)", "-np.outer(alpha, alpha)",
             "dlog_theta", "the determinant's share forgotten")]


# --- survival analysis: Cox's partial likelihood with reversed cumulative sums


TIMES = np.array([5.0, 1.0, 3.0, 8.0, 2.0, 9.0])
EVENT = np.array([True, True, False, True, True, False])
BY_TIME = np.argsort(TIMES)


def cox_inputs(rng):
    return rng.normal(size=(6, 3)), rng.normal(size=3)


def cox(X, beta):
    eta = (X @ beta)[BY_TIME]
    risk = np.cumsum(np.exp(eta)[::-1])[::-1]
    return -np.sum((eta - np.log(risk))[EVENT[BY_TIME]])


def cox_gradient(X, beta):
    eta = (X @ beta)[BY_TIME]
    w = np.exp(eta)
    risk = w[::-1].cumsum()[::-1]
    event = EVENT[BY_TIME] * 1.0
    deta_sorted = w * np.cumsum(event / risk) - event
    deta = np.zeros(6)
    deta[BY_TIME] = deta_sorted
    return np.outer(deta, beta), X.T @ deta


cox_wrong = [("deta_sorted = w * np.cumsum(event / risk) - event",
              "deta_sorted = w * np.cumsum(1 / risk) - event", "deta_sorted", "the censored ones counted as events")]


# --- state in a module: a layer that caches in a global dictionary


STORE = {}


def squash_inputs(rng):
    return [rng.normal(size=(2, 3, 4))]


def squash_forward(s):
    n2 = (s**2).sum(-1, keepdims=True)
    STORE["s"], STORE["n2"] = s, n2
    return n2 / (1 + n2) * s / np.sqrt(n2), None


def squash_backward(dv, _):
    s, n2 = STORE["s"], STORE["n2"]
    scale = np.sqrt(n2) / (1 + n2)
    dscale = (1 - n2) / (2 * np.sqrt(n2) * (1 + n2) ** 2)
    return scale * dv + 2 * s * dscale * (dv * s).sum(-1, keepdims=True)


squash_wrong = [("2 * s * dscale", "s * dscale", "ds", "the derivative of s^2 without its 2")]


# --- generators and recursion: a tree LSTM's simpler cousin, a recursive network over a tree of tuples


TREE = ((0, 1), (2, (3, 0)))


def tree_net_inputs(rng):
    return rng.normal(size=(4, 3)), rng.normal(size=(3, 6)), rng.normal(size=3)


def tree_net_forward(leaves, W, b):
    def visit(node):
        if isinstance(node, int):
            return leaves[node], node
        left, right = visit(node[0]), visit(node[1])
        pair = np.concatenate([left[0], right[0]])
        return np.tanh(W @ pair + b), (left, right, pair)

    root = visit(TREE)
    return root[0], (root, leaves.shape, W)


def tree_net_backward(dout, cache):
    root, shape, W = cache
    dleaves, dW, db = np.zeros(shape), np.zeros_like(W), np.zeros(shape[1])
    todo = deque([(root, dout)])
    while todo:
        (h, rest), d = todo.popleft()
        if isinstance(rest, int):
            dleaves[rest] += d
            continue
        left, right, pair = rest
        da = d * (1 - h * h)
        dW += np.outer(da, pair)
        db += da
        dpair = W.T @ da
        todo.append((left, dpair[:3]))
        todo.append((right, dpair[3:]))
    return dleaves, dW, db


tree_net_wrong = [("            dleaves[rest] += d\n", "            dleaves[rest] = d\n", "dleaves",
                   "a leaf used twice overwritten")]


# --- two-dimensional FFT convolution (periodic), with real FFTs


def fft_blur_inputs(rng):
    return rng.normal(size=(4, 6)), rng.normal(size=(4, 6))


def fft_blur_forward(image, kernel):
    I, Kf = np.fft.rfft2(image), np.fft.rfft2(kernel)
    return np.fft.irfft2(I * Kf, s=image.shape), (I, Kf, image.shape)


def fft_blur_backward(d, cache):
    I, Kf, shape = cache
    D = np.fft.rfft2(d)
    return np.fft.irfft2(D * np.conj(Kf), s=shape), np.fft.irfft2(D * np.conj(I), s=shape)


fft_blur_wrong = [("np.fft.irfft2(D * np.conj(Kf), s=shape), np", "np.fft.irfft2(D * Kf, s=shape), np", "dimage",
                   "a convolution for a correlation")]


# --- audio: a mel-like log power spectrum of frames


WINDOW = np.hanning(8)
BANK = np.abs(np.random.default_rng(4).normal(size=(3, 5)))


def log_mel_inputs(rng):
    return [1e3 * rng.normal(size=20)]


def log_mel_forward(signal_):
    starts = range(0, 13, 4)
    frames = np.array([signal_[s:s + 8] * WINDOW for s in starts])
    spectrum = np.fft.rfft(frames, axis=1)
    power = spectrum.real**2 + spectrum.imag**2
    mel = power @ BANK.T + 1e-6
    return np.log(mel), (spectrum, mel, list(starts), len(signal_))


def log_mel_backward(dy, cache):
    spectrum, mel, starts, n = cache
    dpower = (dy / mel) @ BANK
    dspectrum = 2 * dpower * spectrum
    # the adjoint of rfft: a full inverse FFT, in which the halves are not doubled
    full = np.zeros((len(starts), 8), dtype=complex)
    full[:, :5] = dspectrum
    dframes = (8 * np.fft.ifft(full, axis=1)).real * WINDOW
    out = np.zeros(n)
    for s, frame in zip(starts, dframes):
        out[s:s + 8] += frame
    return out


log_mel_wrong = [("dframes = (8 * np.fft.ifft(full, axis=1)).real * WINDOW",
                  "dframes = (8 * np.fft.ifft(full, axis=1)).real", "dframes", "the window forgotten")]


# --- scipy.signal and scipy.ndimage as black boxes


def sobel_energy_inputs(rng):
    return [rng.normal(size=(5, 6))]


SOBEL = np.array([[1.0, 0, -1], [2, 0, -2], [1, 0, -1]])


def sobel_energy(img):
    gx = signal.convolve2d(img, SOBEL, mode="valid")
    gy = signal.convolve2d(img, SOBEL.T, mode="valid")
    return 0.5 * float((gx**2).sum() + (gy**2).sum())


def sobel_energy_gradient(img):
    gx = signal.convolve2d(img, SOBEL, mode="valid")
    gy = signal.convolve2d(img, SOBEL.T, mode="valid")
    return (signal.correlate2d(gx, SOBEL, mode="full") + signal.correlate2d(gy, SOBEL.T, mode="full"))


sobel_energy_wrong = [("signal.correlate2d(gy, SOBEL.T, mode=\"full\")",
                       "signal.convolve2d(gy, SOBEL.T, mode=\"full\")", "dimg",
                       "the kernel not turned round")]


def gaussian_filter_inputs(rng):
    return [rng.normal(size=(6, 7))]


def gaussian_filter_forward(img):
    return ndimage.gaussian_filter(img, 0.8, mode="wrap"), None


def gaussian_filter_backward(d, _):
    return ndimage.gaussian_filter(d, 0.8, mode="wrap")


gaussian_filter_wrong = [("ndimage.gaussian_filter(d, 0.8, mode=\"wrap\")",
                          "ndimage.gaussian_filter(d, 0.8, mode=\"nearest\")", "dimg",
                          "another rule at the border")]


# --- an implicit function by a root finder: yield to maturity of bonds


CASH = np.array([5.0, 5, 5, 105])


def bond_yield_inputs(rng):
    return [np.array([95.0, 100.0, 108.0])]


def bond_price(y):
    return sum(c / (1 + y) ** (t + 1) for t, c in enumerate(CASH))


def bond_yield_forward(prices):
    y = np.array([brentq(lambda r, p=p: bond_price(r) - p, -0.5, 1.0, xtol=1e-15, rtol=1e-14) for p in prices])
    return y, y


def bond_yield_backward(dy, y):
    slope = -sum((t + 1) * c / (1 + y) ** (t + 2) for t, c in enumerate(CASH))
    return dy / slope


bond_yield_wrong = [("return dy / slope", "return dy * slope", "dprices", "not inverted")]


# --- numerical quadrature as a black box


def arc_length_inputs(rng):
    return [np.array([1.3, 0.4])]


def arc_length(p):
    return quad(lambda t: math.sqrt(1 + (p[0] * math.cos(t) + 2 * p[1] * t) ** 2), 0, 2)[0]


def arc_length_gradient(p):
    def weighted_length(weight):
        def integrand(t):
            s = p[0] * math.cos(t) + 2 * p[1] * t
            return s / math.sqrt(1 + s * s) * weight(t)
        return quad(integrand, 0, 2)[0]
    return np.array([weighted_length(math.cos), weighted_length(lambda t: 2 * t)])


arc_length_wrong = [("return s / math.sqrt(1 + s * s) * weight(t)", "return s / (1 + s * s) * weight(t)", "dp",
                     "the root forgotten in the denominator")]


# --- robotics: quaternions turned into rotation matrices, then applied


def quaternion_inputs(rng):
    return rng.normal(size=(2, 4)), rng.normal(size=(2, 5, 3))


def rotation(q):
    w, x, y, z = np.moveaxis(q, -1, 0)
    return np.array([[1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
                     [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
                     [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)]]).transpose(2, 0, 1)


def quaternion_forward(q, points):
    n = np.sqrt(np.einsum("bi,bi->b", q, q))[:, None]
    u = q / n
    R = rotation(u)
    return np.einsum("bij,bpj->bpi", R, points), (u, n, R, points)


def quaternion_backward(dout, cache):
    u, n, R, points = cache
    dpoints = np.einsum("bpi,bij->bpj", dout, R)
    G = np.einsum("bpi,bpj->bij", dout, points)
    w, x, y, z = u.T
    g = lambda i, j: G[:, i, j]  # noqa: E731
    dw = 2 * (-z * g(0, 1) + y * g(0, 2) + z * g(1, 0) - x * g(1, 2) - y * g(2, 0) + x * g(2, 1))
    dx = 2 * (y * g(0, 1) + z * g(0, 2) + y * g(1, 0) - 2 * x * g(1, 1) - w * g(1, 2) + z * g(2, 0)
              + w * g(2, 1) - 2 * x * g(2, 2))
    dy = 2 * (-2 * y * g(0, 0) + x * g(0, 1) + w * g(0, 2) + x * g(1, 0) + z * g(1, 2) - w * g(2, 0)
              + z * g(2, 1) - 2 * y * g(2, 2))
    dz = 2 * (-2 * z * g(0, 0) - w * g(0, 1) + x * g(0, 2) + w * g(1, 0) - 2 * z * g(1, 1) + y * g(1, 2)
              + x * g(2, 0) + y * g(2, 1))
    du = np.stack([dw, dx, dy, dz], axis=1)
    dq = (du - u * (du * u).sum(1, keepdims=True)) / n
    return dq, dpoints


quaternion_wrong = [("dq = (du - u * (du * u).sum(1, keepdims=True)) / n", "dq = du / n", "dq",
                     "the projection of the normalisation forgotten")]


# --- a Householder product, with lists and reversed loops


def householder_inputs(rng):
    return [rng.normal(size=(3, 4)), rng.normal(size=4)]


def householder_forward(V, x):
    history = []
    for v in V:
        history.append(x)
        x = x - 2 * (v @ x) / (v @ v) * v
    return x, (V, history)


def householder_backward(d, cache):
    V, history = cache
    dV = np.zeros_like(V)
    for k in reversed(range(len(V))):
        v, x = V[k], history[k]
        vv, vx, vd = v @ v, v @ x, v @ d
        dV[k] = -2 * (vx * d + vd * x) / vv + 4 * vx * vd / vv**2 * v
        d = d - 2 * vd / vv * v
    return dV, d


householder_wrong = [("-2 * (vx * d + vd * x) / vv + 4 * vx * vd / vv**2 * v", "-2 * (vx * d + vd * x) / vv",
                      "dV", "the norm's share forgotten")]


# --- logistic regression on scipy.sparse, with a data matrix in a closure


DATA = sp.csr_matrix(np.array([[1.0, 0, 2, 0], [0, 0, 1, 3], [4, 0, 0, 0], [0, 1, 0, 1], [0, 0, 0, 2]]))
SIGNS = np.array([1, -1, 1, 1, -1])


def sparse_logistic_inputs(rng):
    return [rng.normal(size=4)]


def sparse_logistic_loss(w, l2=1e-3):
    margin = SIGNS * (DATA @ w)
    loss = np.logaddexp(0, -margin).sum() + 0.5 * l2 * w @ w
    grad = DATA.T @ (-SIGNS * special.expit(-margin)) + l2 * w
    return loss, grad


def sparse_logistic(w):
    return sparse_logistic_loss(w)[0]


def sparse_logistic_gradient(w):
    return sparse_logistic_loss(w)[1]


sparse_logistic_wrong = [("DATA.T @ (-SIGNS * special.expit(-margin))", "DATA.T @ (-SIGNS * special.expit(margin))",
                          "dw", "the sign inside the logistic function")]


# --- matrix factorization with biases; observed entries as integer triples


RATED = [(0, 1, 4), (0, 2, 3), (1, 0, 5), (2, 2, 1), (2, 1, 2), (1, 1, 4)]


def ratings_inputs(rng):
    return {"users": rng.normal(size=(3, 2)), "items": rng.normal(size=(3, 2)), "bias": rng.normal(size=3)}


def ratings(p):
    total = 0.0
    for u, i, r in RATED:
        total += (r - p["users"][u] @ p["items"][i] - p["bias"][i]) ** 2
    return total / 2 + 0.05 * ((p["users"] ** 2).sum() + (p["items"] ** 2).sum())


def ratings_gradient(p):
    g = {k: 0.1 * v if k != "bias" else np.zeros(3) for k, v in p.items()}
    for u, i, r in RATED:
        e = r - p["users"][u] @ p["items"][i] - p["bias"][i]
        g["users"][u] -= e * p["items"][i]
        g["items"][i] -= e * p["users"][u]
        g["bias"][i] -= e
    return g


ratings_wrong = [("g[\"items\"][i] -= e * p[\"users\"][u]", "g[\"items\"][i] -= e * p[\"users\"][i]", "ditems",
                  "the item's index for the user's")]


# --- an object cache with slots; layer normalization after a cast to float64


class Saved:
    __slots__ = ("rstd", "w", "xhat")


def cast_layernorm_inputs(rng):
    return (50 + rng.normal(size=(3, 8))).astype(np.float32), rng.normal(size=8).astype(np.float32)


def cast_layernorm_forward(x, w):
    c = Saved()
    y = x.astype(np.float64)
    y = y - y.mean(-1, keepdims=True)
    c.rstd = 1 / np.sqrt((y * y).mean(-1, keepdims=True) + 1e-5)
    c.xhat, c.w = y * c.rstd, w
    return (c.xhat * w).astype(x.dtype), c


def cast_layernorm_backward(dy, c):
    dw = (dy * c.xhat).sum(0)
    g = dy * c.w
    dx = c.rstd * (g - g.mean(-1, keepdims=True) - c.xhat * (g * c.xhat).mean(-1, keepdims=True))
    return dx.astype(np.float32), dw.astype(np.float32)


cast_layernorm_wrong = [("g - g.mean(-1, keepdims=True) - c.xhat", "g - c.xhat", "dx", "the mean's share forgotten")]


# --- functools.reduce over layers made by a factory


def make_layer(activation, slope):
    return (lambda h, W: (activation(h @ W), (h, W)), lambda d, y, h, W: (d * slope(y) @ W.T, h.T @ (d * slope(y))))


LAYERS = [make_layer(np.tanh, lambda y: 1 - y**2), make_layer(lambda a: np.log1p(np.exp(a)), lambda y: 1 - np.exp(-y)),
          make_layer(lambda a: a / (1 + np.abs(a)), lambda y: (1 - np.abs(y)) ** 2)]


def reduced_inputs(rng):
    return [rng.normal(size=(2, 3)), rng.normal(size=(3, 4)), rng.normal(size=(4, 3)), rng.normal(size=(3, 2))]


def reduced_forward(x, *weights):
    def apply_layer(carry, item):
        h, tape = carry
        (fwd, bwd), W = item
        y, saved = fwd(h, W)
        return y, [*tape, (functools.partial(bwd, y=y), saved)]

    return functools.reduce(apply_layer, zip(LAYERS, weights), (x, []))


def reduced_backward(d, tape):
    grads = []
    for bwd, saved in reversed(tape):
        d, dW = bwd(d, h=saved[0], W=saved[1])
        grads.append(dW)
    return (d, *reversed(grads))


reduced_wrong = [("lambda y: 1 - np.exp(-y)", "lambda y: 1 - np.exp(y)", "d", "the softplus' slope's sign")]


# --- contrastive divergence's energy: log(1 + e^a) in a restricted Boltzmann machine, large activations


def free_energy_inputs(rng):
    return {"v": 30 * rng.normal(size=(3, 4)), "W": 10 * rng.normal(size=(4, 5)), "b": rng.normal(size=4),
            "c": rng.normal(size=5)}


def free_energy(p):
    a = p["v"] @ p["W"] + p["c"]
    return np.sum(-p["v"] @ p["b"] - np.logaddexp(0, a).sum(axis=1))


def free_energy_gradient(p):
    a = p["v"] @ p["W"] + p["c"]
    h = 0.5 * (1 + np.tanh(a / 2))
    return {"v": -p["b"] - h @ p["W"].T, "W": -p["v"].T @ h, "b": -p["v"].sum(0), "c": -h.sum(0)}


free_energy_wrong = [('"v": -p["b"] - h @ p["W"].T', '"v": -h @ p["W"].T', "dv", "the visible bias forgotten")]


# --- astronomy: a Keplerian's flux chi^2 at scales of 1e8 and 1e-8


def flux_inputs(rng):
    return [np.array([1.5e8, 3.0]), np.array([2e-8, -1e-8])]


T_OBS = np.linspace(0, 1, 9)


def flux(amplitude_period, drift):
    model = amplitude_period[0] * np.cos(T_OBS * amplitude_period[1]) * (1 + 1e8 * drift[0] * T_OBS + 1e8 * drift[1] * T_OBS**2)
    return np.sum((model / 1e8 - 1) ** 2)


def flux_gradient(amplitude_period, drift):
    A, w = amplitude_period
    poly = 1 + 1e8 * drift[0] * T_OBS + 1e8 * drift[1] * T_OBS**2
    c = np.cos(T_OBS * w)
    r = 2 * (A * c * poly / 1e8 - 1) / 1e8
    return (np.array([np.sum(r * c * poly), np.sum(-r * A * T_OBS * np.sin(T_OBS * w) * poly)]),
            np.array([np.sum(r * A * c * 1e8 * T_OBS), np.sum(r * A * c * 1e8 * T_OBS**2)]))


flux_wrong = [("np.sum(-r * A * T_OBS * np.sin(T_OBS * w) * poly)", "np.sum(-r * A * np.sin(T_OBS * w) * poly)",
               "damplitude_period", "the inner derivative forgotten")]


# --- a hierarchical softmax over a path of signs


PATHS = [(0, +1, 1, -1), (0, -1, 2, +1), (0, +1, 1, +1)]


def tree_softmax_inputs(rng):
    return rng.normal(size=(3, 4)), rng.normal(size=(3, 4))


def tree_softmax_loss(h, nodes):
    loss, dh, dnodes = 0.0, np.zeros_like(h), np.zeros_like(nodes)
    for k, path in enumerate(PATHS):
        for node, sign in zip(path[::2], path[1::2]):
            p = special.expit(sign * (h[k] @ nodes[node]))
            loss -= np.log(p)
            dh[k] -= (1 - p) * sign * nodes[node]
            dnodes[node] -= (1 - p) * sign * h[k]
    return loss, dh, dnodes


def tree_softmax(h, nodes):
    return tree_softmax_loss(h, nodes)[0]


def tree_softmax_gradient(h, nodes):
    return tree_softmax_loss(h, nodes)[1:]


tree_softmax_wrong = [("dh[k] -= (1 - p) * sign * nodes[node]", "dh[k] -= (1 - p) * nodes[node]", "dh",
                       "the direction at a node forgotten")]


# --- an IIR filter (a recursion over time), by lists


def iir_inputs(rng):
    return rng.normal(size=8), np.array([0.5, -0.3]), np.array([0.4, -0.2])


def iir_forward(x, b, a):
    y = []
    for n in range(len(x)):
        v = b[0] * x[n]
        if n >= 1:
            v = v + b[1] * x[n - 1] - a[0] * y[n - 1]
        if n >= 2:
            v = v - a[1] * y[n - 2]
        y.append(v)
    return np.array(y), (x, b, a, y)


def iir_backward(dy, cache):
    x, b, a, y = cache
    dx, db, da = np.zeros(8), np.zeros(2), np.zeros(2)
    g = list(dy)
    for n in range(len(x) - 1, -1, -1):
        dx[n] += g[n] * b[0]
        db[0] += g[n] * x[n]
        if n >= 1:
            db[1] += g[n] * x[n - 1]
            dx[n - 1] += g[n] * b[1]
            da[0] -= g[n] * y[n - 1]
            g[n - 1] = g[n - 1] - g[n] * a[0]
        if n >= 2:
            da[1] -= g[n] * y[n - 2]
            g[n - 2] = g[n - 2] - g[n] * a[1]
    return dx, db, da


iir_wrong = [("            g[n - 2] = g[n - 2] - g[n] * a[1]\n", "", "dx", "the second tap's feedback forgotten")]


# --- a histogram loss with soft bins, broadcasting to three axes


BINS = np.linspace(-2, 2, 5)


def soft_histogram_inputs(rng):
    return [rng.normal(size=(2, 6))]


def soft_histogram_forward(x, width=0.7):
    d = x[..., None] - BINS
    k = np.exp(-0.5 * (d / width) ** 2)
    h = k / k.sum(-1, keepdims=True)
    return h.mean(axis=1), (d, h, width)


def soft_histogram_backward(dh, cache):
    d, h, width = cache
    g = np.broadcast_to(dh[:, None, :], h.shape) / h.shape[1]
    dlog = h * (g - (g * h).sum(-1, keepdims=True))
    return (-dlog * d / width**2).sum(-1)


soft_histogram_wrong = [("-dlog * d / width**2", "-dlog * d / width", "dx", "the width to another power")]


# --- eigen-decomposition: a spectral loss of a symmetric matrix


def spectral_gap_inputs(rng):
    A = rng.normal(size=(4, 4))
    return [A + A.T]


def spectral_gap(A):
    w = np.linalg.eigvalsh((A + A.T) / 2)
    return w[-1] - w[-2] + 0.1 * np.sum(w**2)


def spectral_gap_gradient(A):
    w, v = np.linalg.eigh((A + A.T) / 2)
    weights = 0.2 * w
    weights[-1] += 1
    weights[-2] -= 1
    return (v * weights) @ v.T


spectral_gap_wrong = [("return (v * weights) @ v.T", "return (v.T * weights) @ v", "dA",
                       "the eigenvectors are columns")]


# --- QR: an orthogonalization by Gram and Schmidt, by hand


def gram_schmidt_inputs(rng):
    return [rng.normal(size=(4, 2))]


def gram_schmidt_forward(A):
    a, b = A[:, 0], A[:, 1]
    na = math.sqrt(a @ a) if not np.iscomplexobj(A) else np.sqrt(a @ a)
    q = a / na
    c = q @ b
    r = b - c * q
    nr = np.sqrt(r @ r)
    return np.stack([q, r / nr], axis=1), (na, q, b, c, r / nr, nr)


def gram_schmidt_backward(dQ, cache):
    na, q, b, c, p, nr = cache
    dq, dp = dQ[:, 0], dQ[:, 1]
    dr = (dp - p * (p @ dp)) / nr
    dc = -(dr @ q)
    dq = dq - c * dr + dc * b
    db = dr + dc * q
    da = (dq - q * (q @ dq)) / na
    return np.stack([da, db], axis=1)


gram_schmidt_wrong = [("dq = dq - c * dr + dc * b", "dq = dq - c * dr", "dq",
                       "the coefficient's use of q forgotten")]


# --- a perceptual loss: SSIM of two patches


def ssim_inputs(rng):
    return rng.uniform(size=(4, 4)), rng.uniform(size=(4, 4))


def ssim(x, y, c1=1e-4, c2=9e-4):
    mx, my = x.mean(), y.mean()
    vx, vy = x.var(), y.var()
    cov = ((x - mx) * (y - my)).mean()
    return (2 * mx * my + c1) * (2 * cov + c2) / ((mx**2 + my**2 + c1) * (vx + vy + c2))


def ssim_gradient(x, y, c1=1e-4, c2=9e-4):
    mx, my = x.mean(), y.mean()
    vx, vy = x.var(), y.var()
    cov = ((x - mx) * (y - my)).mean()
    A1, A2, B1, B2 = 2 * mx * my + c1, 2 * cov + c2, mx**2 + my**2 + c1, vx + vy + c2
    s = A1 * A2 / (B1 * B2)
    n = x.size
    dx = s * (2 * my / n / A1 + 2 * (y - my) / n / A2 - 2 * mx / n / B1 - 2 * (x - mx) / n / B2)
    dy = s * (2 * mx / n / A1 + 2 * (x - mx) / n / A2 - 2 * my / n / B1 - 2 * (y - my) / n / B2)
    return dx, dy


ssim_wrong = [("dx = s * (2 * my / n / A1 + 2 * (y - my) / n / A2", "dx = s * (2 * my / n / A1 + 2 * (y - my) / n",
               "dx", "a division by A2 forgotten")]


# --- reinforcement learning: a policy gradient loss with entropy, discounted returns in place


REWARDS = np.array([0.0, 1.0, 0.0, -1.0, 2.0])
ACTIONS = (0, 2, 1, 1, 0)


def policy_inputs(rng):
    return [rng.normal(size=(5, 3))]


def policy_loss(logits):
    returns = REWARDS.copy()
    for t in range(3, -1, -1):
        returns[t] += 0.9 * returns[t + 1]
    logp = logits - special.logsumexp(logits, axis=1, keepdims=True)
    p = np.exp(logp)
    picked = logp[np.arange(5), ACTIONS]
    entropy = -(p * logp).sum(axis=1)
    loss = -(picked * returns).mean() - 0.01 * entropy.mean()
    onehot = np.eye(3)[list(ACTIONS)]
    dlogits = (p - onehot) * returns[:, None] + 0.01 * p * (logp + entropy[:, None])
    return loss, dlogits / 5


def policy(logits):
    return policy_loss(logits)[0]


def policy_gradient(logits):
    return policy_loss(logits)[1]


policy_wrong = [("0.01 * p * (logp + entropy[:, None])", "0.01 * p * (logp + 1)", "dlogits",
                 "the derivative of p log p, taken for that of the logits")]


# --- a neural ODE by Runge and Kutta's fourth order, matrices


def rk4_inputs(rng):
    return rng.normal(size=3), 0.5 * rng.normal(size=(3, 3))


RK = [(Fraction(0), Fraction(1, 6)), (Fraction(1, 2), Fraction(1, 3)), (Fraction(1, 2), Fraction(1, 3)),
      (Fraction(1), Fraction(1, 6))]


def rk4_forward(y, A, h=0.4):
    k = np.zeros(3)
    total, saved = y, []
    for shift, weight in RK:
        u = y + h * float(shift) * k
        k = np.tanh(A @ u)
        saved.append((u, k))
        total = total + h * float(weight) * k
    return total, (A, saved, h)


def rk4_backward(d, cache):
    A, saved, h = cache
    dy, dA, carried = d.copy(), np.zeros_like(A), np.zeros(3)
    for (shift, weight), (u, k) in zip(reversed(RK), reversed(saved)):
        dk = h * float(weight) * d + carried
        da = (1 - k**2) * dk
        dA += np.outer(da, u)
        du = A.T @ da
        dy += du
        carried = h * float(shift) * du
    return dy, dA


rk4_wrong = [("dk = h * float(weight) * d + carried", "dk = h * float(weight) * d", "dk",
              "the stage after it forgotten")]


# --- a convolution by im2col and a class hierarchy


class Module:
    def parameters(self):
        return self.__dict__.get("weights", {})


class Im2Col(Module):
    def __init__(self):
        rng = np.random.default_rng(8)
        self.weights = {"kernel": rng.normal(size=(2, 2 * 3 * 3)), "bias": rng.normal(size=(2, 1))}
        self.dweights = {}

    def forward(self, x):
        self.x_shape = x.shape
        c, h, w = x.shape
        self.cols = np.array([x[:, i:i + 3, j:j + 3].ravel() for i in range(h - 2) for j in range(w - 2)]).T
        return (self.weights["kernel"] @ self.cols + self.weights["bias"]).reshape(2, h - 2, w - 2)

    def backward(self, dout):
        d = dout.reshape(2, -1)
        self.dweights = {"kernel": d @ self.cols.T, "bias": d.sum(axis=1, keepdims=True)}
        dcols = self.weights["kernel"].T @ d
        c, h, w = self.x_shape
        dx = np.zeros(self.x_shape)
        for column, (i, j) in enumerate(itertools.product(range(h - 2), range(w - 2))):
            dx[:, i:i + 3, j:j + 3] += dcols[:, column].reshape(c, 3, 3)
        return dx


def im2col_inputs(rng):
    return [rng.normal(size=(2, 4, 5))]


def im2col_forward(x):
    layer = Im2Col()
    return layer.forward(x), layer


def im2col_backward(dout, layer):
    return layer.backward(dout)


im2col_wrong = [("dx[:, i:i + 3, j:j + 3] += dcols", "dx[:, i:i + 3, j:j + 3] = dcols", "dx",
                 "overlapping windows overwritten")]


# --- a Transformer's feed-forward with a gate, outputs as a namedtuple


Out = namedtuple("Out", "y gate")


def swiglu_inputs(rng):
    return [rng.normal(size=s) for s in ((2, 3), (3, 4), (3, 4), (4, 3))]


def swiglu_forward(x, W, V, W2):
    a, v = x @ W, x @ V
    s = 1 / (1 + np.exp(-a))
    h = a * s * v
    return Out(h @ W2, s), (x, W, V, W2, a, v, s, h)


def swiglu_backward(d, cache):
    x, W, V, W2, a, v, s, h = cache
    dy, dgate = d
    dh = dy @ W2.T
    dv = dh * a * s
    da = dh * v * (s + a * s * (1 - s)) + dgate * s * (1 - s)
    return da @ W.T + dv @ V.T, x.T @ da, x.T @ dv, h.T @ dy


swiglu_wrong = [("dh * v * (s + a * s * (1 - s))", "dh * v * s * (1 - s)", "da",
                 "swish's slope taken for the sigmoid's")]


# --- the peaks of blocks: maxima of absolute values


def peak_inputs(rng):
    return [rng.uniform(1, 2, size=9) * [1, -1, 1, -1, -1, -1, 1, 1, 1]]


def peak_forward(x, block=3):
    groups = x.reshape(-1, block)
    where = np.abs(groups).argmax(axis=1)
    peaks = groups[np.arange(len(groups)), where]
    return np.abs(peaks), (x.shape, block, where, peaks)


def peak_backward(d, cache):
    shape, block, where, peaks = cache
    g = np.zeros((len(where), block))
    g[range(len(where)), where] = d * np.sign(peaks)
    return g.reshape(shape)


peak_wrong = [("d * np.sign(peaks)", "d", "dx", "the sign of the absolute value forgotten")]


# --- meteorology: upwind advection, np.roll, the velocity's sign decides


def upwind_inputs(rng):
    return rng.normal(size=8), np.array([0.6, 0.8, -0.5, -0.7, 0.3, 0.9, -0.2, 0.4])


def upwind_forward(c, u):
    left = c - np.roll(c, 1)
    right = np.roll(c, -1) - c
    new = c - 0.3 * np.where(u > 0, u * left, u * right)
    return new, (u, left, right)


def upwind_backward(d, cache):
    u, left, right = cache
    pos, neg = np.where(u > 0, -0.3 * u * d, 0), np.where(u > 0, 0, -0.3 * u * d)
    dc = d + pos - np.roll(pos, -1) - neg + np.roll(neg, 1)
    du = -0.3 * d * np.where(u > 0, left, right)
    return dc, du


upwind_wrong = [("np.roll(pos, -1)", "np.roll(pos, 1)", "dc", "rolled to the same side again")]


# --- the negative binomial's log-likelihood, integer counts


COUNTS = np.array([3, 0, 7, 1, 2])


def negative_binomial_inputs(rng):
    return rng.normal(size=5), np.array([0.4])


def negative_binomial(eta, log_r):
    r, mu = np.exp(log_r), np.exp(eta)
    return -np.sum(special.gammaln(COUNTS + r) - special.gammaln(r) - special.gammaln(COUNTS + 1.0)
                   + r * np.log(r / (r + mu)) + COUNTS * np.log(mu / (r + mu)))


def negative_binomial_gradient(eta, log_r):
    r, mu = np.exp(log_r), np.exp(eta)
    deta = -(COUNTS - mu * (COUNTS + r) / (r + mu))
    dr = -np.sum(special.digamma(COUNTS + r) - special.digamma(r) + np.log(r / (r + mu)) + 1
                 - (r + COUNTS) / (r + mu))
    return deta, np.array([dr * r[0]])


negative_binomial_wrong = [("np.array([dr * r[0]])", "np.array([dr])", "dlog_r",
                            "the derivative with respect to r, not to its logarithm")]


# --- CTC-like alignment with blank, probabilities rather than logs


def alignment_inputs(rng):
    return [rng.normal(size=(5, 3))]


SYMBOLS = np.array([0, 1, 0, 2, 0])


def alignment_forward(logits):
    e = np.exp(logits - logits.max(axis=1, keepdims=True))
    p = e / e.sum(axis=1, keepdims=True)
    T, S = len(p), len(SYMBOLS)
    alpha = np.zeros((T, S))
    alpha[0, :2] = p[0, SYMBOLS[:2]]
    for t in range(1, T):
        for s in range(S):
            total = alpha[t - 1, s] + (alpha[t - 1, s - 1] if s else 0)
            if s > 1 and SYMBOLS[s] and SYMBOLS[s] != SYMBOLS[s - 2]:
                total = total + alpha[t - 1, s - 2]
            alpha[t, s] = total * p[t, SYMBOLS[s]]
    return -np.log(alpha[-1, -1] + alpha[-1, -2]), (p, alpha)


def alignment_backward(d, cache):
    p, alpha = cache
    T, S = alpha.shape
    dalpha, dp = np.zeros((T, S)), np.zeros_like(p)
    dalpha[-1, -2:] = -d / (alpha[-1, -1] + alpha[-1, -2])
    for t in range(T - 1, 0, -1):
        for s in range(S):
            y = p[t, SYMBOLS[s]]
            dp[t, SYMBOLS[s]] += dalpha[t, s] * alpha[t, s] / y
            dalpha[t - 1, s] += dalpha[t, s] * y
            if s:
                dalpha[t - 1, s - 1] += dalpha[t, s] * y
            if s > 1 and SYMBOLS[s] and SYMBOLS[s] != SYMBOLS[s - 2]:
                dalpha[t - 1, s - 2] += dalpha[t, s] * y
    for s in range(2):
        dp[0, SYMBOLS[s]] += dalpha[0, s]
    return p * (dp - (dp * p).sum(axis=1, keepdims=True))


alignment_wrong = [("dp[t, SYMBOLS[s]] += dalpha[t, s] * alpha[t, s] / y",
                    "dp[t, SYMBOLS[s]] = dalpha[t, s] * alpha[t, s] / y", "dp", "the blanks' shares overwritten")]


# --- a module whose parameters are shared by two branches, Siamese


class Siamese:
    def __init__(self):
        rng = np.random.default_rng(12)
        self.W = rng.normal(size=(4, 3))
        self.grad_W = np.zeros_like(self.W)

    def embed(self, x):
        return np.tanh(x @ self.W)

    def forward(self, pair):
        self.pair = pair
        self.za, self.zb = self.embed(pair[:, 0]), self.embed(pair[:, 1])
        self.diff = self.za - self.zb
        return np.sum(self.diff**2, axis=1)

    def backward(self, dout):
        dz = 2 * self.diff * dout[:, None]
        da = dz * (1 - self.za**2)
        db = -dz * (1 - self.zb**2)
        self.grad_W = self.pair[:, 0].T @ da + self.pair[:, 1].T @ db
        return np.stack([da @ self.W.T, db @ self.W.T], axis=1)


def siamese_inputs(rng):
    return rng.normal(size=(3, 2, 4)), rng.normal(size=(4, 3))


def siamese_forward(pair, W):
    net = Siamese()
    net.W = W
    return net.forward(pair), net


def siamese_backward(dout, net):
    return net.backward(dout), net.grad_W


siamese_wrong = [("self.pair[:, 0].T @ da + self.pair[:, 1].T @ db", "self.pair[:, 0].T @ da", "dW",
                  "one of the two branches only")]


# --- Legendre polynomials by their recurrence; a regression on them, Fortran order


def legendre_inputs(rng):
    return np.asfortranarray(rng.uniform(-1, 1, size=(3, 2))), rng.normal(size=5)


def legendre_forward(x, c):
    P = [np.ones_like(x), x]
    for n in range(1, 4):
        P.append(((2 * n + 1) * x * P[n] - n * P[n - 1]) / (n + 1))
    return sum(ci * Pi for ci, Pi in zip(c, P)), (x, c, P)


def legendre_backward(d, cache):
    x, c, P = cache
    dc = np.array([np.vdot(d, Pi) for Pi in P])
    dP = [np.zeros_like(x), np.ones_like(x)]
    for n in range(1, 4):
        dP.append(((2 * n + 1) * (P[n] + x * dP[n]) - n * dP[n - 1]) / (n + 1))
    return d * sum(ci * g for ci, g in zip(c, dP)), dc


legendre_wrong = [("(2 * n + 1) * (P[n] + x * dP[n])", "(2 * n + 1) * x * dP[n]", "dP",
                   "one half of the product rule")]


# --- Sinkhorn-free optimal transport in one dimension: sorted differences


def wasserstein_inputs(rng):
    return rng.normal(size=7), rng.normal(size=7)


def wasserstein(a, b):
    return np.mean(np.abs(np.sort(a) - np.sort(b)) ** 1.5)


def wasserstein_gradient(a, b):
    ia, ib = np.argsort(a), np.argsort(b)
    d = a[ia] - b[ib]
    g = 1.5 * np.sign(d) * np.abs(d) ** 0.5 / len(a)
    da, db = np.zeros(7), np.zeros(7)
    da[ia], db[ib] = g, -g
    return da, db


wasserstein_wrong = [("da[ia], db[ib] = g, -g", "da, db = g[ia], -g[ib]", "da", "a gather for a scatter")]


# --- genetics: a mixture of Gaussians by responsibilities, parameters in one flat vector


SAMPLES = np.array([-2.1, -1.7, 0.3, 0.4, 2.2, 2.9, 3.1])


def unpack(theta):
    logits, means, logs = np.split(theta, 3)
    return logits, means, np.exp(logs)


def mixture_inputs(rng):
    return [np.concatenate([rng.normal(size=2), [-1.0, 2.0], 0.3 * rng.normal(size=2)])]


def mixture(theta):
    logits, mu, s = unpack(theta)
    logp = (logits - special.logsumexp(logits) - np.log(s) - 0.5 * ((SAMPLES[:, None] - mu) / s) ** 2)
    return -special.logsumexp(logp, axis=1).sum()


def mixture_gradient(theta):
    logits, mu, s = unpack(theta)
    pi = np.exp(logits - special.logsumexp(logits))
    z = (SAMPLES[:, None] - mu) / s
    logp = np.log(pi) - np.log(s) - 0.5 * z**2
    r = np.exp(logp - special.logsumexp(logp, axis=1, keepdims=True))
    dlogits = len(SAMPLES) * pi - r.sum(axis=0)
    return np.concatenate([dlogits, -(r * z / s).sum(axis=0), (r * (1 - z**2)).sum(axis=0)])


mixture_wrong = [("dlogits = len(SAMPLES) * pi - r.sum(axis=0)", "dlogits = pi - r.sum(axis=0)", "dlogits",
                  "the softmax' share of one sample only")]


# --- chemistry: Michaelis and Menten's rates with products of powers, a dictionary of outputs


def kinetics_inputs(rng):
    return {"s": rng.uniform(0.5, 2, size=4), "vmax": np.array(3.0), "km": np.array(0.7), "n": np.array(1.8)}


def kinetics_forward(p):
    sn, kn = p["s"] ** p["n"], p["km"] ** p["n"]
    rate = p["vmax"] * sn / (kn + sn)
    return {"rate": rate, "total": rate.sum()}, (p, sn, kn)


def kinetics_backward(d, cache):
    p, sn, kn = cache
    dr = d["rate"] + d["total"]
    inner = p["vmax"] * kn * sn / (kn + sn) ** 2
    return {"s": dr * inner * p["n"] / p["s"], "vmax": np.sum(dr * sn / (kn + sn)),
            "km": -np.sum(dr * inner) * p["n"] / p["km"],
            "n": np.sum(dr * inner * (np.log(p["s"]) - np.log(p["km"])))}


kinetics_wrong = [("(np.log(p[\"s\"]) - np.log(p[\"km\"]))", "np.log(p[\"s\"])", "dn", "the exponent of km forgotten")]
