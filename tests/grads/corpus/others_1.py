# ruff: noqa: B905, C408, E501
"""Functions of other trades, in the styles of different people, each with a mistake of its author."""

import math
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import logsumexp, ndtr

# --- statistics: a Gaussian whose scale is predicted


def gauss_nll_inputs(rng):
    return {"mu": rng.normal(size=7), "log_sigma": 0.3 * rng.normal(size=7)}


TARGETS = np.array([0.3, -1.2, 0.7, 2.1, -0.4, 0.05, 1.6])


def gauss_nll(p):
    sigma = np.exp(p["log_sigma"])
    z = (TARGETS - p["mu"]) / sigma
    return 0.5 * np.sum(z**2) + np.sum(p["log_sigma"]) + 0.5 * len(z) * np.log(2 * np.pi)


def gauss_nll_gradient(p):
    sigma = np.exp(p["log_sigma"])
    z = (TARGETS - p["mu"]) / sigma
    return {"mu": -z / sigma, "log_sigma": 1 - z**2}


gauss_nll_wrong = [('"log_sigma": 1 - z**2', '"log_sigma": -(z**2)', "dlog_sigma",
                    "the normalisation's share forgotten")]


# --- a Kalman filter's update


def kalman_step_inputs(rng):
    A = rng.normal(size=(3, 3))
    return (rng.normal(size=3), A @ A.T + np.eye(3), np.eye(3) + 0.1 * rng.normal(size=(3, 3)),
            rng.normal(size=(2, 3)), rng.normal(size=2))


Q_NOISE = 0.1 * np.eye(3)
R_NOISE = np.diag([0.5, 0.8])


def kalman_step_forward(x, P, F, H, z):
    x_pred = F @ x
    P_pred = F @ P @ F.T + Q_NOISE
    innovation = z - H @ x_pred
    S = H @ P_pred @ H.T + R_NOISE
    S_inv = np.linalg.inv(S)
    K = P_pred @ H.T @ S_inv
    x_new = x_pred + K @ innovation
    P_new = P_pred - K @ H @ P_pred
    return (x_new, P_new), (x, P, F, H, x_pred, P_pred, innovation, S_inv, K)


def kalman_step_backward(grads, cache):
    dx_new, dP_new = grads
    x, P, F, H, x_pred, P_pred, innovation, S_inv, K = cache
    dK = np.outer(dx_new, innovation) - dP_new @ P_pred.T @ H.T
    dinnovation = K.T @ dx_new
    dx_pred = dx_new - H.T @ dinnovation
    dP_pred = dP_new - H.T @ K.T @ dP_new
    dH = -K.T @ dP_new @ P_pred.T - np.outer(dinnovation, x_pred)
    # K = P_pred H' S^-1
    dP_pred = dP_pred + dK @ S_inv.T @ H
    dH = dH + (P_pred.T @ dK @ S_inv.T).T
    dS_inv = H @ P_pred.T @ dK
    dS = -S_inv.T @ dS_inv @ S_inv.T
    dP_pred = dP_pred + H.T @ dS @ H
    dH = dH + dS @ H @ P_pred.T + dS.T @ H @ P_pred
    dF = np.outer(dx_pred, x) + dP_pred @ F @ P.T + dP_pred.T @ F @ P
    return F.T @ dx_pred, F.T @ dP_pred @ F, dF, dH, dinnovation


kalman_step_wrong = [("    dP_pred = dP_pred + H.T @ dS @ H\n", "", "dP_pred",
                      "the innovation covariance forgotten")]


# --- NLP: the partition function of a linear-chain CRF, in log space


def linear_crf_inputs(rng):
    return rng.normal(size=(5, 3)), rng.normal(size=(3, 3))


def linear_crf(emissions, transitions):
    alpha = emissions[0]
    for t in range(1, len(emissions)):
        alpha = logsumexp(alpha[:, None] + transitions, axis=0) + emissions[t]
    return logsumexp(alpha)


def linear_crf_gradient(emissions, transitions):
    T, K = emissions.shape
    alphas = np.zeros((T, K))
    betas = np.zeros((T, K))
    alphas[0] = emissions[0]
    for t in range(1, T):
        alphas[t] = logsumexp(alphas[t - 1][:, None] + transitions, axis=0) + emissions[t]
    for t in range(T - 2, -1, -1):
        betas[t] = logsumexp(transitions + (emissions[t + 1] + betas[t + 1])[None, :], axis=1)
    log_z = logsumexp(alphas[-1])
    dtrans = np.zeros((K, K))
    for t in range(1, T):
        for i in range(K):
            for j in range(K):
                dtrans[i, j] += np.exp(alphas[t - 1, i] + transitions[i, j] + emissions[t, j]
                                       + betas[t, j] - log_z)
    return np.exp(alphas + betas - log_z), dtrans


linear_crf_wrong = [("for t in range(1, T):\n        for i", "for t in range(2, T):\n        for i", "dtrans",
              "the first transition left out")]


# --- vision: a triplet loss over a batch


def triplet_inputs(rng):
    return rng.normal(size=(5, 4)), rng.normal(size=(5, 4)), rng.normal(size=(5, 4))


def triplet_loss(anchor, positive, negative, margin=0.5):
    d_pos = np.linalg.norm(anchor - positive, axis=1)
    d_neg = np.linalg.norm(anchor - negative, axis=1)
    return np.mean(np.maximum(d_pos - d_neg + margin, 0))


triplet = triplet_loss


def triplet_gradient(anchor, positive, negative, margin=0.5):
    diff_p, diff_n = anchor - positive, anchor - negative
    d_pos = np.sqrt(np.sum(diff_p**2, axis=1, keepdims=True))
    d_neg = np.sqrt(np.sum(diff_n**2, axis=1, keepdims=True))
    active = (d_pos - d_neg + margin > 0) / len(anchor)
    u, v = active * diff_p / d_pos, active * diff_n / d_neg
    d_anchor = u - v
    return d_anchor, -u, v


triplet_wrong = [("d_anchor = u - v", "d_anchor = u", "d_anchor",
                  "the anchor is in the negative distance, too")]


# --- a focal loss as a layer object with labels


class FocalLoss:
    def __init__(self, gamma=2.0, alpha=0.25):
        self.gamma, self.alpha = gamma, alpha

    def forward(self, logits, labels):
        p = 1 / (1 + np.exp(-logits))
        self.p_t = np.where(labels == 1, p, 1 - p)
        self.sign = np.where(labels == 1, 1.0, -1.0)
        self.a_t = np.where(labels == 1, self.alpha, 1 - self.alpha)
        return np.mean(-self.a_t * (1 - self.p_t) ** self.gamma * np.log(self.p_t))

    def backward(self):
        p, g = self.p_t, self.gamma
        modulating = g * p * (1 - p) ** g * np.log(p)
        return self.a_t * self.sign * (modulating - (1 - p) ** (g + 1)) / p.size


CLICKS = np.array([[0, 1, 1], [1, 0, 0], [0, 0, 1], [1, 1, 0]])


def focal_inputs(rng):
    return [rng.normal(size=(4, 3))]


def focal(logits):
    return FocalLoss().forward(logits, CLICKS)


def focal_gradient(logits):
    layer = FocalLoss()
    layer.forward(logits, CLICKS)
    return layer.backward()


focal_wrong = [("(modulating - (1 - p) ** (g + 1))", "(-((1 - p) ** (g + 1)))", "dlogits",
                "the modulating factor taken as a constant")]


# --- CS231n: spatial group normalization


def spatial_groupnorm_forward(x, gamma, beta):
    N, C, H, W = x.shape
    G, eps = 2, 1e-5
    xg = x.reshape(N, G, C // G, H, W)
    mu = xg.mean(axis=(2, 3, 4), keepdims=True)
    var = xg.var(axis=(2, 3, 4), keepdims=True)
    std = np.sqrt(var + eps)
    xhat = ((xg - mu) / std).reshape(N, C, H, W)
    out = gamma * xhat + beta
    cache = (G, xhat, std, gamma)
    return out, cache


def spatial_groupnorm_backward(dout, cache):
    G, xhat, std, gamma = cache
    N, C, H, W = dout.shape
    dgamma = np.sum(dout * xhat, axis=(0, 2, 3), keepdims=True)
    dbeta = np.sum(dout, axis=(0, 2, 3), keepdims=True)
    dxhat = (dout * gamma).reshape(N, G, C // G, H, W)
    xhat = xhat.reshape(N, G, C // G, H, W)
    m = C // G * H * W
    s1 = dxhat.sum(axis=(2, 3, 4), keepdims=True)
    s2 = (dxhat * xhat).sum(axis=(2, 3, 4), keepdims=True)
    dx = (dxhat - s1 / m - xhat * s2 / m) / std
    return dx.reshape(N, C, H, W), dgamma, dbeta


def spatial_groupnorm_inputs(rng):
    return (2 * rng.normal(size=(2, 4, 3, 2)) + 1, rng.normal(size=(1, 4, 1, 1)),
            rng.normal(size=(1, 4, 1, 1)))


spatial_groupnorm_wrong = [("m = C // G * H * W", "m = C * H * W", "dx",
                            "the count is that of all groups")]


# --- a grouped convolution written with loops


def grouped_conv_inputs(rng):
    return rng.normal(size=(2, 4, 6)), rng.normal(size=(6, 2, 3)), rng.normal(size=6)


def grouped_conv_forward(x, w, b):
    n, cin, length = x.shape
    cout, per, k = w.shape
    groups = cin // per
    out = np.zeros((n, cout, length - k + 1))
    for i in range(n):
        for o in range(cout):
            g = o // (cout // groups)
            for t in range(length - k + 1):
                out[i, o, t] = np.sum(x[i, g * per:(g + 1) * per, t:t + k] * w[o]) + b[o]
    return out, (x, w)


def grouped_conv_backward(dout, cache):
    x, w = cache
    n, cin, length = x.shape
    cout, per, k = w.shape
    groups = cin // per
    dx, dw = np.zeros_like(x), np.zeros_like(w)
    for i in range(n):
        for o in range(cout):
            g = o // (cout // groups)
            for t in range(length - k + 1):
                dw[o] += dout[i, o, t] * x[i, g * per:(g + 1) * per, t:t + k]
                dx[i, g * per:(g + 1) * per, t:t + k] += dout[i, o, t] * w[o]
    return dx, dw, dout.sum(axis=(0, 2))


grouped_conv_wrong = [("dw[o] += dout[i, o, t] * x[i, g * per:(g + 1) * per, t:t + k]",
                       "dw[o] += dout[i, o, t] * x[i, :per, t:t + k]", "dw",
                       "always the channels of the first group")]


# --- bilinear upsampling with align_corners, tables of indices made once


def table(n_in, n_out):
    position = np.arange(n_out) * (n_in - 1) / (n_out - 1)
    low = np.minimum(position.astype(int), n_in - 2)
    return low, position - low


ROW_LOW, ROW_PART = table(3, 5)
COL_LOW, COL_PART = table(4, 7)


def upsample_inputs(rng):
    return [rng.normal(size=(2, 3, 4))]


def upsample_forward(img):
    a = ROW_PART[:, None]
    b = COL_PART[None, :]
    top = img[:, ROW_LOW][:, :, COL_LOW] * (1 - b) + img[:, ROW_LOW][:, :, COL_LOW + 1] * b
    bottom = img[:, ROW_LOW + 1][:, :, COL_LOW] * (1 - b) + img[:, ROW_LOW + 1][:, :, COL_LOW + 1] * b
    return top * (1 - a) + bottom * a, img.shape


def upsample_backward(dout, shape):
    dimg = np.zeros(shape)
    for r in range(len(ROW_LOW)):
        for c in range(len(COL_LOW)):
            i, j, a, b = ROW_LOW[r], COL_LOW[c], ROW_PART[r], COL_PART[c]
            dimg[:, i, j] += dout[:, r, c] * (1 - a) * (1 - b)
            dimg[:, i, j + 1] += dout[:, r, c] * (1 - a) * b
            dimg[:, i + 1, j] += dout[:, r, c] * a * (1 - b)
            dimg[:, i + 1, j + 1] += dout[:, r, c] * a * b
    return dimg


upsample_wrong = [("dimg[:, i + 1, j] += dout[:, r, c] * a * (1 - b)",
                   "dimg[:, i + 1, j] += dout[:, r, c] * (1 - a) * b", "dimg",
                   "the weights of two corners exchanged")]


# --- attention with a padding mask of integers, float32 as in deployment


def masked_attention_inputs(rng):
    mask = np.array([[1, 1, 1, 0], [1, 1, 0, 0]])
    shapes = ((2, 3, 5), (2, 4, 5), (2, 4, 6))
    return *(rng.normal(size=s).astype(np.float32) for s in shapes), mask


def masked_attention_forward(q, k, v, mask):
    scores = np.matmul(q, k.transpose(0, 2, 1)) / np.sqrt(np.float32(q.shape[-1]))
    scores = scores + (1 - mask[:, None, :]) * np.float32(-1e9)
    scores -= scores.max(axis=-1, keepdims=True)
    w = np.exp(scores)
    w /= w.sum(axis=-1, keepdims=True)
    return w @ v, (q, k, v, w)


def masked_attention_backward(dout, cache):
    q, k, v, w = cache
    scale = 1 / np.sqrt(np.float32(q.shape[-1]))
    dv = w.transpose(0, 2, 1) @ dout
    dw = dout @ v.transpose(0, 2, 1)
    ds = w * (dw - (dw * w).sum(axis=-1, keepdims=True))
    dq = scale * (ds @ k)
    dk = scale * (ds.transpose(0, 2, 1) @ q)
    return dq, dk, dv, None


masked_attention_wrong = [("dk = scale * (ds.transpose(0, 2, 1) @ q)", "dk = ds.transpose(0, 2, 1) @ q",
                           "dk", "the scale forgotten for the keys")]


# --- rotary embedding, halves rather than pairs


def rope_inputs(rng):
    return [rng.normal(size=(5, 2, 6))]


def rope_angles(length, half):
    return np.outer(np.arange(length), 10000.0 ** (-np.arange(half) / half))[:, None, :]


def rotate_half(x):
    half = x.shape[-1] // 2
    return np.concatenate([-x[..., half:], x[..., :half]], axis=-1)


def rope_forward(x):
    angles = rope_angles(len(x), x.shape[-1] // 2)
    cos = np.concatenate([np.cos(angles)] * 2, axis=-1)
    sin = np.concatenate([np.sin(angles)] * 2, axis=-1)
    return x * cos + rotate_half(x) * sin, (cos, sin)


def rope_backward(dy, cache):
    cos, sin = cache
    return dy * cos - rotate_half(dy) * sin


rope_wrong = [("dy * cos - rotate_half(dy) * sin", "dy * cos + rotate_half(dy) * sin", "dx",
               "turned forth, not back")]


# --- layer scale on a residual branch


class ScaledBranch:
    def __init__(self, dim):
        rng = np.random.default_rng(5)
        self.params = {"W": rng.normal(size=(dim, dim)), "gamma": np.full(dim, 1e-4)}
        self.grads = {}

    def __call__(self, x):
        self.x = x
        self.h = np.tanh(x @ self.params["W"])
        return x + self.params["gamma"] * self.h

    def backward(self, dy):
        self.grads["gamma"] = np.sum(dy * self.h, axis=(0, 1))
        da = dy * self.params["gamma"] * (1 - self.h**2)
        self.grads["W"] = np.einsum("bti,btj->ij", self.x, da)
        return dy + da @ self.params["W"].T


branch = ScaledBranch(4)


def layer_scale_inputs(rng):
    return rng.normal(size=(2, 3, 4)), rng.normal(size=(4, 4)), np.full(4, 1e-4)


def layer_scale_forward(x, W, gamma):
    branch.params.update(W=W, gamma=gamma)
    return branch(x), None


def layer_scale_backward(dy, _):
    return branch.backward(dy), branch.grads["W"], branch.grads["gamma"]


layer_scale_wrong = [("da = dy * self.params[\"gamma\"] * (1 - self.h**2)", "da = dy * (1 - self.h**2)",
                      "da", "the layer's scale forgotten on the way back")]


# --- low-rank adapter: the frozen weight is in a closure


def make_lora(rank=2, alpha=8.0):
    frozen = np.random.default_rng(0).standard_normal((6, 5))
    scaling = alpha / rank

    def fwd(x, A, B):
        down = x @ A.T
        return x @ frozen.T + scaling * (down @ B.T), (x, A, B, down)

    def bwd(g, res):
        x, A, B, down = res
        gs = scaling * g
        d_down = gs @ B
        return g @ frozen + d_down @ A, d_down.T @ x, gs.T @ down

    return fwd, bwd


lora_forward, lora_backward = make_lora()


def lora_inputs(rng):
    return rng.normal(size=(3, 5)), rng.normal(size=(2, 5)), rng.normal(size=(6, 2))


lora_wrong = [("d_down = gs @ B", "d_down = g @ B", "d_down", "the scaling in one of its two places")]


# --- a Gaussian log-likelihood through its Cholesky factor


def mvn_inputs(rng):
    L = np.tril(rng.normal(size=(3, 3)), -1) + np.diag(rng.uniform(0.5, 2, size=3))
    return rng.normal(size=(4, 3)), rng.normal(size=3), L


def mvn(X, mu, L):
    z = np.linalg.solve(np.tril(L), (X - mu).T)
    return -0.5 * (z * z).sum() - len(X) * np.log(np.diag(L)).sum()


def mvn_gradient(X, mu, L):
    L = np.tril(L)
    z = solve_triangular(L, (X - mu).T, lower=True)
    w = solve_triangular(L.T, z, lower=False)
    dX = -w.T
    dL = np.tril(w @ z.T) - len(X) * np.diag(1 / np.diag(L))
    return dX, -dX.sum(axis=0), dL


mvn_wrong = [("- len(X) * np.diag(1 / np.diag(L))", "- np.diag(1 / np.diag(L))", "dL",
              "the log-determinant of one sample only")]


# --- a matrix exponential by its series


def expm_inputs(rng):
    return [0.5 * rng.normal(size=(3, 3))]


def expm_forward(A, terms=12):
    powers = [np.eye(len(A))]
    for k in range(1, terms):
        powers.append(powers[-1] @ A / k)
    return sum(powers), (A, powers)


def expm_backward(dE, cache):
    A, powers = cache
    dA = np.zeros_like(A)
    dP = np.zeros_like(A)
    for k in range(len(powers) - 1, 0, -1):
        dP = dP + dE
        dA += powers[k - 1].T @ dP / k
        dP = dP @ A.T / k
    return dA


expm_wrong = [("        dA += powers[k - 1].T @ dP / k\n", "        dA += powers[k - 1].T @ dP\n", "dA",
               "the k-th term is also divided by k")]


# --- physics: explicit Euler for predators and prey, Python numbers


def lotka_inputs(rng):
    return np.array([1.5, 0.8]), np.array([1.1, 0.4, 0.1, 0.4])


def lotka_forward(state, theta):
    x, y = state
    a, b, c, d = theta
    dt = 0.05
    trajectory = [(x, y)]
    for _ in range(10):
        x, y = x + dt * (a * x - b * x * y), y + dt * (c * x * y - d * y)
        trajectory.append((x, y))
    return np.array([x, y]), (trajectory, theta)


def lotka_backward(dout, cache):
    trajectory, (a, b, c, d) = cache
    dt = 0.05
    gx, gy = dout
    ga = gb = gc = gd = 0.0
    for x, y in reversed(trajectory[:-1]):
        ga += gx * dt * x
        gb -= gx * dt * x * y
        gc += gy * dt * x * y
        gd -= gy * dt * y
        gx, gy = (gx * (1 + dt * (a - b * y)) + gy * dt * c * y,
                  gy * (1 + dt * (c * x - d)) - gx * dt * b * x)
    return np.array([gx, gy]), np.array([ga, gb, gc, gd])


lotka_wrong = [("reversed(trajectory[:-1])", "reversed(trajectory[1:])", "dstate",
                "the states after the steps for those before")]


# --- vision: an image warped by an optical flow


def warp_inputs(rng):
    return rng.normal(size=(5, 6)), 0.7 * rng.normal(size=(5, 6, 2))


def warp_forward(image, flow):
    h, w = image.shape
    rows, cols = np.mgrid[:h, :w]
    r = np.clip(rows + flow[..., 0], 0, h - 1.001)
    c = np.clip(cols + flow[..., 1], 0, w - 1.001)
    inside = ((rows + flow[..., 0] > 0) & (rows + flow[..., 0] < h - 1.001),
              (cols + flow[..., 1] > 0) & (cols + flow[..., 1] < w - 1.001))
    i, j = np.floor(r).astype(int), np.floor(c).astype(int)
    a, b = r - i, c - j
    out = ((1 - a) * (1 - b) * image[i, j] + (1 - a) * b * image[i, j + 1]
           + a * (1 - b) * image[i + 1, j] + a * b * image[i + 1, j + 1])
    return out, (image, i, j, a, b, inside)


def warp_backward(dout, cache):
    image, i, j, a, b, inside = cache
    dimage = np.zeros_like(image)
    np.add.at(dimage, (i, j), dout * (1 - a) * (1 - b))
    np.add.at(dimage, (i, j + 1), dout * (1 - a) * b)
    np.add.at(dimage, (i + 1, j), dout * a * (1 - b))
    np.add.at(dimage, (i + 1, j + 1), dout * a * b)
    da = (1 - b) * (image[i + 1, j] - image[i, j]) + b * (image[i + 1, j + 1] - image[i, j + 1])
    db = (1 - a) * (image[i, j + 1] - image[i, j]) + a * (image[i + 1, j + 1] - image[i + 1, j])
    dflow = np.stack([dout * da * inside[0], dout * db * inside[1]], axis=-1)
    return dimage, dflow


warp_wrong = [("np.stack([dout * da * inside[0], dout * db * inside[1]], axis=-1)",
               "np.stack([dout * da, dout * db], axis=-1)", "dflow",
               "a slope where the coordinate was clipped")]


# --- econometrics: quantile regression for several quantiles at once


def pinball_inputs(rng):
    return rng.normal(size=(6, 2)), rng.normal(size=(2, 3)), rng.normal(size=6)


TAUS = np.array([0.1, 0.5, 0.9])


def pinball(X, beta, y):
    u = y[:, None] - X @ beta
    return np.maximum(TAUS * u, (TAUS - 1) * u).mean()


def pinball_gradient(X, beta, y):
    u = y[:, None] - X @ beta
    g = np.where(u > 0, TAUS, TAUS - 1) / u.size
    return -g @ beta.T, -X.T @ g, g.sum(axis=1)


pinball_wrong = [("np.where(u > 0, TAUS, TAUS - 1)", "np.where(u > 0, 1 - TAUS, -TAUS)", "dX",
                  "the quantile's complement")]


# --- similarity of two sets of vectors, float32


def cosine_matrix_inputs(rng):
    return rng.normal(size=(3, 4)).astype("f"), (100 * rng.normal(size=(5, 4))).astype("f")


def cosine_matrix_forward(A, B):
    na = np.sqrt((A * A).sum(1, keepdims=True))
    nb = np.sqrt((B * B).sum(1, keepdims=True))
    Ah, Bh = A / na, B / nb
    S = Ah @ Bh.T
    return S, dict(Ah=Ah, Bh=Bh, na=na, nb=nb)


def cosine_matrix_backward(dS, c):
    dAh = dS @ c["Bh"]
    dBh = dS.T @ c["Ah"]
    dA = (dAh - c["Ah"] * (dAh * c["Ah"]).sum(1, keepdims=True)) / c["na"]
    dB = (dBh - c["Bh"] * (dBh * c["Bh"]).sum(1, keepdims=True)) / c["nb"]
    return dA, dB


cosine_matrix_wrong = [("dB = (dBh - c[\"Bh\"] * (dBh * c[\"Bh\"]).sum(1, keepdims=True)) / c[\"nb\"]",
                        "dB = dBh / c[\"nb\"]", "dB", "the norm taken as a constant")]


# --- a mixture of experts with top-2 gating


def top2_inputs(rng):
    return rng.normal(size=(3, 4)), rng.normal(size=(4, 5)), rng.normal(size=(5, 4, 2))


def top2_forward(x, Wg, We):
    logits = x @ Wg
    chosen = np.argsort(-logits, axis=1)[:, :2]
    kept = np.take_along_axis(logits, chosen, axis=1)
    e = np.exp(kept - kept.max(axis=1, keepdims=True))
    gates = e / e.sum(axis=1, keepdims=True)
    out = np.zeros((len(x), We.shape[2]))
    expert_out = np.zeros((len(x), 2, We.shape[2]))
    for n in range(len(x)):
        for k in range(2):
            expert_out[n, k] = x[n] @ We[chosen[n, k]]
            out[n] += gates[n, k] * expert_out[n, k]
    return out, (x, Wg, We, chosen, gates, expert_out)


def top2_backward(dout, cache):
    x, Wg, We, chosen, gates, expert_out = cache
    dx, dWe = np.zeros_like(x), np.zeros_like(We)
    dgates = np.zeros_like(gates)
    for n in range(len(x)):
        for k in range(2):
            dgates[n, k] = dout[n] @ expert_out[n, k]
            dWe[chosen[n, k]] += np.outer(x[n], gates[n, k] * dout[n])
            dx[n] += gates[n, k] * We[chosen[n, k]] @ dout[n]
    dkept = gates * (dgates - (dgates * gates).sum(axis=1, keepdims=True))
    dlogits = np.zeros((len(x), Wg.shape[1]))
    np.put_along_axis(dlogits, chosen, dkept, axis=1)
    dWg = x.T @ dlogits
    dx += dlogits @ Wg.T
    return dx, dWg, dWe


top2_wrong = [("    dx += dlogits @ Wg.T\n", "", "dx", "the gate's use of x forgotten")]


# --- an embedding bag with offsets and a mean


TOKENS = np.array([3, 0, 3, 5, 1, 3, 2])
OFFSETS = np.array([0, 2, 3])


def bag_mean_inputs(rng):
    return [rng.normal(size=(6, 3))]


def bag_mean_forward(table):
    ends = np.append(OFFSETS[1:], len(TOKENS))
    return np.stack([table[TOKENS[s:e]].mean(axis=0) for s, e in zip(OFFSETS, ends)]), ends


def bag_mean_backward(dout, ends):
    dtable = np.zeros((6, 3))
    for row, (s, e) in enumerate(zip(OFFSETS, ends)):
        for token in TOKENS[s:e]:
            dtable[token] += dout[row] / (e - s)
    return dtable


bag_mean_wrong = [("dtable[token] += dout[row] / (e - s)", "dtable[token] += dout[row]", "dtable",
                   "the mean's count forgotten")]


# --- a soft edit distance: a dynamic program with a table


def soft_edit_inputs(rng):
    return rng.uniform(size=(3, 4)), np.array([0.7])


def soft_edit_forward(cost, gap):
    n, m = cost.shape
    D = np.zeros((n + 1, m + 1))
    W = {}
    for i in range(n + 1):
        for j in range(m + 1):
            if i == j == 0:
                continue
            moves = []
            if i and j:
                moves.append((i - 1, j - 1, D[i - 1, j - 1] + cost[i - 1, j - 1]))
            if i:
                moves.append((i - 1, j, D[i - 1, j] + gap[0]))
            if j:
                moves.append((i, j - 1, D[i, j - 1] + gap[0]))
            values = np.array([v for _, _, v in moves])
            low = -logsumexp(-values)
            D[i, j] = low
            for (a, b, _), value in zip(moves, values):
                W[i, j, a, b] = np.exp(low - value)
    return D[n, m], (n, m, W)


def soft_edit_backward(d, cache):
    n, m, W = cache
    E = np.zeros((n + 1, m + 1))
    E[n, m] = d
    dcost, dgap = np.zeros((n, m)), np.zeros(1)
    for i in range(n, -1, -1):
        for j in range(m, -1, -1):
            for (a, b) in ((i - 1, j - 1), (i - 1, j), (i, j - 1)):
                if (i, j, a, b) not in W:
                    continue
                share = E[i, j] * W[i, j, a, b]
                E[a, b] += share
                if a == i - 1 and b == j - 1:
                    dcost[a, b] += share
                else:
                    dgap[0] += share
    return dcost, dgap


soft_edit_wrong = [("                    dgap[0] += share\n", "                    dgap[0] = share\n", "dgap",
                    "= for +=")]


# --- a sparse product in CSR form


class CSR(NamedTuple):
    indptr: np.ndarray
    indices: np.ndarray


PATTERN = CSR(np.array([0, 2, 3, 6]), np.array([0, 3, 1, 0, 2, 3]))


def csr_product_inputs(rng):
    return rng.normal(size=6), rng.normal(size=(4, 2))


def csr_product_forward(values, X):
    out = np.zeros((3, X.shape[1]), dtype=X.dtype)
    for row in range(3):
        for p in range(PATTERN.indptr[row], PATTERN.indptr[row + 1]):
            out[row] += values[p] * X[PATTERN.indices[p]]
    return out, (values, X)


def csr_product_backward(dout, cache):
    values, X = cache
    dvalues, dX = np.zeros_like(values), np.zeros_like(X)
    for row in range(3):
        for p in range(PATTERN.indptr[row], PATTERN.indptr[row + 1]):
            column = PATTERN.indices[p]
            dvalues[p] = dout[row] @ X[column]
            dX[column] += values[p] * dout[row]
    return dvalues, dX


csr_product_wrong = [("dX[column] += values[p] * dout[row]", "dX[column] = values[p] * dout[row]", "dX",
                      "a column that occurs in several rows overwritten")]


# --- physics: real spherical harmonics up to degree 2 of directions


def harmonics_inputs(rng):
    return [3 * rng.normal(size=(4, 3))]


C1, C2, C3 = math.sqrt(3 / (4 * math.pi)), math.sqrt(15 / (4 * math.pi)), math.sqrt(5 / (16 * math.pi))


def harmonics_forward(r):
    length = np.sqrt(np.sum(r * r, axis=1, keepdims=True))
    x, y, z = (r / length).T
    Y = np.stack([C1 * y, C1 * z, C1 * x, C2 * x * y, C2 * y * z, C3 * (3 * z * z - 1), C2 * x * z,
                  0.5 * C2 * (x * x - y * y)], axis=1)
    return Y, (r / length, length)


def harmonics_backward(dY, cache):
    unit, length = cache
    x, y, z = unit.T
    gy, gz, gx, gxy, gyz, gzz, gxz, gxx = dY.T
    dx = C1 * gx + C2 * (y * gxy + z * gxz + x * gxx)
    dy = C1 * gy + C2 * (x * gxy + z * gyz - y * gxx)
    dz = C1 * gz + C2 * (y * gyz + x * gxz) + 6 * C3 * z * gzz
    dunit = np.stack([dx, dy, dz], axis=1)
    return (dunit - unit * np.sum(unit * dunit, axis=1, keepdims=True)) / length


harmonics_wrong = [("6 * C3 * z * gzz", "3 * C3 * z * gzz", "dz", "the derivative of z^2 without its 2")]


# --- Fourier features, functional


def fourier_inputs(rng):
    return rng.normal(size=(5, 2)), rng.normal(size=(2, 3))


def fourier_forward(x, B):
    phase = 2 * np.pi * (x @ B)
    return np.hstack((np.cos(phase), np.sin(phase))), (x, B, phase)


def fourier_backward(g, saved):
    x, B, phase = saved
    gc, gs = np.hsplit(g, 2)
    dphase = gs * np.cos(phase) - gc * np.sin(phase)
    dphase = dphase * 2 * np.pi
    return dphase @ B.T, x.T @ dphase


fourier_wrong = [("    dphase = dphase * 2 * np.pi\n", "", "dphase", "2 pi forgotten")]


# --- a cubic B-spline on uniform knots


def bspline_inputs(rng):
    return rng.normal(size=9), rng.uniform(0.1, 2.9, size=5)


STEP = 0.5


def bspline_forward(coefficients, x):
    i = np.floor(x / STEP).astype(int)
    t = x / STEP - i
    basis = np.stack([(1 - t) ** 3, 3 * t**3 - 6 * t**2 + 4, -3 * t**3 + 3 * t**2 + 3 * t + 1, t**3]) / 6
    y = sum(basis[k] * coefficients[i + k] for k in range(4))
    return y, (coefficients, i, t, basis)


def bspline_backward(dy, cache):
    coefficients, i, t, basis = cache
    slopes = np.stack([-((1 - t) ** 2), 3 * t**2 - 4 * t, -3 * t**2 + 2 * t + 1, t**2]) / 2
    dc, dx = np.zeros_like(coefficients), np.zeros_like(t)
    for k in range(4):
        np.add.at(dc, i + k, dy * basis[k])
        dx += dy * slopes[k] * coefficients[i + k] / STEP
    return dc, dx


bspline_wrong = [("dx += dy * slopes[k] * coefficients[i + k] / STEP",
                  "dx += dy * slopes[k] * coefficients[i + k]", "dx", "the step of the knots forgotten")]


# --- dropout whose mask comes from a generator with a fixed seed


class Dropout:
    def __init__(self, p, seed):
        self.p, self.seed = p, seed

    def forward(self, x):
        self.mask = np.random.default_rng(self.seed).random(x.shape) >= self.p
        return x * self.mask / (1 - self.p)

    def backward(self, dy):
        return dy * self.mask / (1 - self.p)


dropout = Dropout(0.4, 11)


def fixed_dropout_inputs(rng):
    return [rng.normal(size=(4, 5))]


def fixed_dropout_forward(x):
    return dropout.forward(x), None


def fixed_dropout_backward(dy, _):
    return dropout.backward(dy)


fixed_dropout_wrong = [("return dy * self.mask / (1 - self.p)", "return dy * self.mask", "dx",
                        "the rescaling forgotten")]


# --- a deep equilibrium layer


def equilibrium_inputs(rng):
    return rng.normal(size=3), 0.25 * rng.normal(size=(4, 4)), rng.normal(size=(4, 3)), rng.normal(size=4)


def equilibrium_forward(x, W, U, b):
    z = np.zeros(4)
    for _ in range(200):
        z = np.tanh(W @ z + U @ x + b)
    return z, (x, W, U, z)


def equilibrium_backward(dz, cache):
    x, W, U, z = cache
    slope = 1 - z * z
    J = slope[:, None] * W
    u = np.linalg.solve((np.eye(4) - J).T, dz)
    da = slope * u
    return U.T @ da, np.outer(da, z), np.outer(da, x), da


equilibrium_wrong = [("u = np.linalg.solve((np.eye(4) - J).T, dz)", "u = np.linalg.solve(np.eye(4) - J, dz)",
                      "da", "the transpose in the adjoint equation forgotten")]


# --- Kepler's equation by Newton's iterations


def kepler_inputs(rng):
    return rng.uniform(0.2, 3, size=6), rng.uniform(0.1, 0.7, size=6)


def kepler_forward(M, e):
    E = M + e * np.sin(M)
    for _ in range(30):
        E = E - (E - e * np.sin(E) - M) / (1 - e * np.cos(E))
    return E, (E, e)


def kepler_backward(dE, cache):
    E, e = cache
    common = dE / (1 - e * np.cos(E))
    return common, common * np.sin(E)


kepler_wrong = [("common = dE / (1 - e * np.cos(E))", "common = dE / (1 + e * np.cos(E))", "dM",
                 "a sign in the denominator")]


# --- batch normalization with running statistics


class BatchNorm:
    def __init__(self, n, momentum=0.9):
        self.gamma, self.beta = np.linspace(0.5, 1.5, n), np.zeros(n)
        self.running_mean, self.running_var = np.zeros(n), np.ones(n)
        self.momentum = momentum

    def forward(self, x, training=True):
        if training:
            self.mean, self.var = x.mean(0), x.var(0)
            self.running_mean = self.momentum * self.running_mean + (1 - self.momentum) * self.mean
            self.running_var = self.momentum * self.running_var + (1 - self.momentum) * self.var
        else:
            self.mean, self.var = self.running_mean, self.running_var
        self.istd = 1 / np.sqrt(self.var + 1e-5)
        self.xhat = (x - self.mean) * self.istd
        return self.gamma * self.xhat + self.beta

    def backward(self, dout):
        self.dgamma = (dout * self.xhat).sum(0)
        self.dbeta = dout.sum(0)
        g = dout * self.gamma
        return self.istd * (g - g.mean(0) - self.xhat * (g * self.xhat).mean(0))


def running_batchnorm_inputs(rng):
    return [rng.normal(size=(6, 3)) * [1.0, 10.0, 0.1] + 2]


def running_batchnorm_forward(x):
    norm = BatchNorm(3)
    return norm.forward(x), norm


def running_batchnorm_backward(dout, norm):
    return norm.backward(dout)


running_batchnorm_wrong = [
    ("return self.istd * (g - g.mean(0) - self.xhat * (g * self.xhat).mean(0))",
     "return (g - g.mean(0) - self.xhat * (g * self.xhat).mean(0)) / np.sqrt(self.running_var + 1e-5)", "dx",
     "the running variance for the batch's")]


# --- finance: the Black-Scholes price and its Greeks


def black_scholes_inputs(rng):
    return (np.array([100.0, 90.0, 120.0]), np.array([95.0, 100.0, 100.0]), np.array([0.5, 1.0, 2.0]),
            np.array([0.2, 0.3, 0.15]), np.array([0.03]))


def d1_d2(S, K, T, sigma, r):
    d1 = (np.log(S / K) + (r + sigma**2 / 2) * T) / (sigma * np.sqrt(T))
    return d1, d1 - sigma * np.sqrt(T)


def black_scholes(S, K, T, sigma, r):
    d1, d2 = d1_d2(S, K, T, sigma, r)
    return np.sum(S * ndtr(d1) - K * np.exp(-r * T) * ndtr(d2))


def black_scholes_gradient(S, K, T, sigma, r):
    d1, d2 = d1_d2(S, K, T, sigma, r)
    pdf = np.exp(-(d1**2) / 2) / np.sqrt(2 * np.pi)
    discount = np.exp(-r * T)
    delta = ndtr(d1)
    strike = -discount * ndtr(d2)
    vega = S * pdf * np.sqrt(T)
    maturity = S * pdf * sigma / (2 * np.sqrt(T)) + r * K * discount * ndtr(d2)
    rho = np.array([np.sum(K * T * discount * ndtr(d2))])
    return delta, strike, maturity, vega, rho


black_scholes_wrong = [(" + r * K * discount * ndtr(d2)", "", "dT", "the discount's share forgotten")]


# --- physics: the energy of a Lennard-Jones cluster, and forces


def lennard_jones_inputs(rng):
    grid = np.array([[0, 0, 0], [1.1, 0, 0], [0, 1.2, 0], [0.1, 0.2, 1.15]])
    return [grid + 0.05 * rng.normal(size=grid.shape)]


def lennard_jones(pos):
    energy = 0.0
    for i in range(len(pos)):
        for j in range(i):
            r2 = np.sum((pos[i] - pos[j]) ** 2)
            s6 = 1.0 / r2**3
            energy += 4 * (s6 * s6 - s6)
    return energy


def lennard_jones_gradient(pos):
    grad = np.zeros_like(pos)
    for i in range(len(pos)):
        for j in range(i):
            rij = pos[i] - pos[j]
            r2 = rij @ rij
            s6 = 1.0 / r2**3
            g = -24 * (2 * s6 * s6 - s6) / r2 * rij
            grad[i] += g
            grad[j] -= g
    return grad


lennard_jones_wrong = [("            grad[j] -= g\n", "", "dpos", "the other atom of a pair forgotten")]


# --- NLP: a smoothed cross entropy that ignores padding


def smoothed_inputs(rng):
    return [rng.normal(size=(5, 4))]


PADDED = np.array([2, -100, 0, 3, -100])


def smoothed_loss(logits, labels, eps=0.1):
    """Loss and gradient, averaged over the tokens that count."""
    keep = labels != -100
    shifted = logits - logits.max(axis=1, keepdims=True)
    logp = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    target = np.full(logits.shape, eps / logits.shape[1])
    target[np.arange(len(labels)), np.where(keep, labels, 0)] += 1 - eps
    loss = -(target * logp).sum(axis=1)[keep].sum() / keep.sum()
    dlogits = (np.exp(logp) - target) * keep[:, None] / keep.sum()
    return loss, dlogits


def smoothed(logits):
    return smoothed_loss(logits, PADDED)[0]


def smoothed_gradient(logits):
    return smoothed_loss(logits, PADDED)[1]


smoothed_wrong = [("* keep[:, None] / keep.sum()", "* keep[:, None] / len(labels)", "dlogits",
                   "padding counted")]


# --- vision: pixel shuffle


def pixel_shuffle_inputs(rng):
    return [rng.normal(size=(2, 4, 3, 2))]


def pixel_shuffle_forward(x, r=2):
    n, c, h, w = x.shape
    y = x.reshape(n, c // r**2, r, r, h, w).transpose(0, 1, 4, 2, 5, 3)
    return y.reshape(n, c // r**2, h * r, w * r), (x.shape, r)


def pixel_shuffle_backward(dy, cache):
    (n, c, h, w), r = cache
    dx = dy.reshape(n, c // r**2, h, r, w, r).transpose(0, 1, 3, 5, 2, 4)
    return dx.reshape(n, c, h, w)


pixel_shuffle_wrong = [("transpose(0, 1, 3, 5, 2, 4)", "transpose(0, 1, 5, 3, 2, 4)", "dx",
                        "the two offsets inside a block exchanged")]


# --- JAX style: a minimal GRU over a tree of parameters


def min_gru_inputs(rng):
    params = {"update": {"w": rng.normal(size=(3, 4)), "u": rng.normal(size=(4, 4))},
              "candidate": {"w": rng.normal(size=(3, 4)), "u": rng.normal(size=(4, 4))}}
    return {"params": params, "h": rng.normal(size=(2, 4)), "xs": rng.normal(size=(3, 2, 3))}


def sigmoid(a):
    return 1 / (1 + np.exp(-a))


def min_gru_step(params, h, x):
    z = sigmoid(x @ params["update"]["w"] + h @ params["update"]["u"])
    c = np.tanh(x @ params["candidate"]["w"] + h @ params["candidate"]["u"])
    return (1 - z) * h + z * c, (x, h, z, c)


def min_gru(tree):
    h = tree["h"]
    for x in tree["xs"]:
        h, _ = min_gru_step(tree["params"], h, x)
    return np.sum(np.sin(h))


def min_gru_gradient(tree):
    params, h, residuals = tree["params"], tree["h"], []
    for x in tree["xs"]:
        h, saved = min_gru_step(params, h, x)
        residuals.append(saved)
    g = np.cos(h)
    out = {name: {k: np.zeros_like(v) for k, v in p.items()} for name, p in params.items()}
    dxs = []
    for x, h, z, c in reversed(residuals):
        da_z = g * (c - h) * z * (1 - z)
        da_c = g * z * (1 - c * c)
        for name, da in (("update", da_z), ("candidate", da_c)):
            out[name]["w"] += x.T @ da
            out[name]["u"] += h.T @ da
        dxs.insert(0, da_z @ params["update"]["w"].T + da_c @ params["candidate"]["w"].T)
        g = g * (1 - z) + da_z @ params["update"]["u"].T + da_c @ params["candidate"]["u"].T
    return {"params": out, "h": g, "xs": np.stack(dxs)}


min_gru_wrong = [("g = g * (1 - z) + da_z", "g = g * z + da_z", "da_z", "the gate's sense reversed")]


# --- a variational autoencoder's reparametrization and KL


@dataclass
class Posterior:
    mean: np.ndarray
    logvar: np.ndarray


NOISE = np.random.default_rng(3).normal(size=(4, 2))


def vae_inputs(rng):
    return rng.normal(size=(4, 2)), rng.normal(size=(4, 2))


def vae_forward(mean, logvar):
    z = mean + np.exp(0.5 * logvar) * NOISE
    kl = -0.5 * np.sum(1 + logvar - mean**2 - np.exp(logvar))
    return {"z": z, "kl": kl}, Posterior(mean, logvar)


def vae_backward(d, q):
    dmean = d["z"] + d["kl"] * q.mean
    dlogvar = 0.5 * d["z"] * NOISE * np.exp(0.5 * q.logvar) + 0.5 * d["kl"] * (np.exp(q.logvar) - 1)
    return dmean, dlogvar


vae_wrong = [("dlogvar = 0.5 * d[\"z\"] * NOISE", "dlogvar = d[\"z\"] * NOISE", "dlogvar",
              "the half of the exponent forgotten")]


# --- econometrics: a GARCH(1,1) likelihood


def garch_inputs(rng):
    return [np.array([0.1, 0.15, 0.7])]


RETURNS = np.array([0.3, -0.7, 1.2, 0.1, -0.4, 0.9, -1.5, 0.2])


def garch(theta):
    omega, alpha, beta = theta
    h = np.var(RETURNS)
    total = 0.0
    for t in range(len(RETURNS)):
        if t > 0:
            h = omega + alpha * RETURNS[t - 1] ** 2 + beta * h
        total += 0.5 * (np.log(h) + RETURNS[t] ** 2 / h)
    return total


def garch_gradient(theta):
    omega, alpha, beta = theta
    h = np.var(RETURNS)
    dh = np.zeros(3)
    grad = np.zeros(3)
    for t in range(len(RETURNS)):
        if t > 0:
            dh = np.array([1.0, RETURNS[t - 1] ** 2, h]) + beta * dh
            h = omega + alpha * RETURNS[t - 1] ** 2 + beta * h
        grad += 0.5 * (1 / h - RETURNS[t] ** 2 / h**2) * dh
    return grad


garch_wrong = [("dh = np.array([1.0, RETURNS[t - 1] ** 2, h]) + beta * dh",
                "dh = np.array([1.0, RETURNS[t - 1] ** 2, h])", "dh", "the recursion of dh forgotten")]


# --- imaging: Charbonnier total variation, by slices in place


def total_variation_inputs(rng):
    return [rng.normal(size=(4, 5))]


def total_variation(u):
    dr = u[1:, :] - u[:-1, :]
    dc = u[:, 1:] - u[:, :-1]
    return np.sqrt(dr**2 + 1e-3).sum() + np.sqrt(dc**2 + 1e-3).sum()


def total_variation_gradient(u):
    g = np.zeros_like(u)
    dr = u[1:, :] - u[:-1, :]
    dc = u[:, 1:] - u[:, :-1]
    gr = dr / np.sqrt(dr**2 + 1e-3)
    gc = dc / np.sqrt(dc**2 + 1e-3)
    g[1:, :] += gr
    g[:-1, :] -= gr
    g[:, 1:] += gc
    g[:, :-1] -= gc
    return g


total_variation_wrong = [("    g[:, :-1] -= gc\n", "    g[:, :-1] = -gc\n", "du", "what was there overwritten")]


# --- a float32 layer whose inputs are tiny


def tiny_layer_inputs(rng):
    return ((1e-8 * rng.normal(size=(3, 4))).astype(np.float32), rng.normal(size=(4, 5)).astype(np.float32),
            (1e-8 * rng.normal(size=5)).astype(np.float32))


def tiny_layer_forward(x, w, b):
    a = x @ w + b
    return np.where(a > 0, a, np.float32(0.2) * a), (x, w, a)


def tiny_layer_backward(dy, cache):
    x, w, a = cache
    da = np.where(a > 0, dy, np.float32(0.2) * dy)
    return da @ w.T, x.T @ da, da.sum(axis=0)


tiny_layer_wrong = [("da = np.where(a > 0, dy, np.float32(0.2) * dy)",
                     "da = np.where(a > 0, dy, np.float32(0))", "da", "the slope of a plain ReLU")]


# --- physics in SI units: the Coulomb energy of ions


def coulomb_inputs(rng):
    return 1e-10 * rng.normal(size=(4, 3)), 1.6e-19 * np.array([1.0, -1.0, 2.0, -1.0])


K_E = 8.9875e9


def coulomb(r, q):
    i, j = np.triu_indices(len(q), 1)
    d = np.sqrt(((r[i] - r[j]) ** 2).sum(axis=1))
    return K_E * np.sum(q[i] * q[j] / d)


def coulomb_gradient(r, q):
    i, j = np.triu_indices(len(q), 1)
    rij = r[i] - r[j]
    d = np.sqrt((rij**2).sum(axis=1))
    pair = -(K_E * q[i] * q[j] / d**3)[:, None] * rij
    dr, dq = np.zeros_like(r), np.zeros_like(q)
    np.add.at(dr, i, pair)
    np.add.at(dr, j, -pair)
    np.add.at(dq, i, K_E * q[j] / d)
    np.add.at(dq, j, K_E * q[i] / d)
    return dr, dq


coulomb_wrong = [("    np.add.at(dr, j, -pair)\n", "    np.add.at(dr, j, pair)\n", "dr",
                  "Newton's third law: the sign of the reaction")]


# --- squeeze and excitation


def squeeze_excite_forward(w1, w2, x):
    s = x.mean(axis=(2, 3))
    a = np.maximum(s @ w1, 0)
    g = sigmoid(a @ w2)
    return x * g[:, :, None, None], (x, s, a, g, w1, w2)


def squeeze_excite_backward(w_shape, dy, cache):
    x, s, a, g, w1, w2 = cache
    dx = dy * g[:, :, None, None]
    dg = (dy * x).sum(axis=(2, 3)) * g * (1 - g)
    dw2 = a.T @ dg
    da = (dg @ w2.T) * (a > 0)
    dw1 = s.T @ da
    ds = da @ w1.T
    dx = dx + ds[:, :, None, None] / (x.shape[2] * x.shape[3])
    return dw1, dw2, dx


squeeze_excite_backward = partial(squeeze_excite_backward, None)


def squeeze_excite_inputs(rng):
    x = rng.normal(size=(2, 4, 3, 2)) + 1
    return rng.uniform(0.1, 1, size=(4, 3)), rng.normal(size=(3, 4)), x


squeeze_excite_wrong = [("    dx = dx + ds[:, :, None, None] / (x.shape[2] * x.shape[3])\n", "", "dx",
                         "the path through the pooled channels forgotten")]
