"""Linear algebra and iterations, right, and the mistakes that people make in them."""

import numpy as np


def sinkhorn_inputs(rng):
    return [rng.normal(size=(3, 3))]


def sinkhorn_forward(C):
    K, steps = np.exp(-C), []
    for _ in range(3):
        r = K.sum(axis=1, keepdims=True)
        K = K / r
        c = K.sum(axis=0, keepdims=True)
        steps.append((K, r, c))
        K = K / c
    return K, (np.exp(-C), steps, K)


def sinkhorn_backward(dK, cache):
    first, steps, after = cache
    for rows, r, c in reversed(steps):
        dK = (dK - (dK * after).sum(axis=0, keepdims=True)) / c
        dK = (dK - (dK * rows).sum(axis=1, keepdims=True)) / r
        after = rows * r
    dC = -first * dK
    return dC


sinkhorn_wrong = [
    ("(dK - (dK * rows).sum(axis=1, keepdims=True)) / r",
     "(dK - (dK * rows).sum(axis=0, keepdims=True)) / r", "dK", "a sum over the wrong axis"),
    ("dC = -first * dK", "dC = first * dK", "dC", "a sign", "reversed sign"),
    ("dC = -first * dK", "dC = -after * dK * (1 + 1e-4)", "dC", "wrong by one part in 10,000"),
]


def solve_inputs(rng):
    return 3 * np.eye(3) + rng.normal(size=(3, 3)), rng.normal(size=(3, 2))


def solve_forward(A, B):
    X = np.linalg.solve(A, B)
    return X, (A, X)


def solve_backward(dX, cache):
    A, X = cache
    dB = np.linalg.solve(A.T, dX)
    dA = -dB @ X.T
    return dA, dB


solve_wrong = [
    ("dB = np.linalg.solve(A.T, dX)", "dB = np.linalg.solve(A, dX)", "dB",
     "right only for a symmetric matrix", "A .*transpose"),
    ("dA = -dB @ X.T", "dA = dB @ X.T", "dA", "a sign", "reversed sign"),
    ("dA = -dB @ X.T", "dA = -X @ dB.T", "dA", "transposed", "equals the transpose"),
]


def gaussian_nll_inputs(rng):
    return {"x": rng.normal(size=(5, 3)), "mu": rng.normal(size=3),
            "A": np.eye(3) + rng.normal(size=(3, 3)) / 3}


def gaussian_nll(p):
    x, mu, A = p["x"], p["mu"], p["A"]
    e = (x - mu) @ A.T
    return 0.5 * (e * e).sum() - len(e) * np.log(np.linalg.det(A))


def gaussian_nll_gradient(p):
    A, xc = p["A"], p["x"] - p["mu"]
    de = xc @ A.T
    dA = de.T @ xc - len(xc) * np.linalg.inv(A).T
    dx = de @ A
    dmu = -dx.sum(axis=0)
    return {"x": dx, "mu": dmu, "A": dA}


gaussian_nll_wrong = [
    ("np.linalg.inv(A).T", "np.linalg.inv(A)", "dA", "the inverse not transposed",
     "antisymmetric|where A is symmetric"),
    ("- len(xc) * np", "- np", "dA", "the determinant counted once"),
    ("dmu = -dx.sum(axis=0)", "dmu = -dx.mean(axis=0)", "dmu", "a mean for a sum", "1/"),
]


def heun_inputs(rng):
    return [rng.normal(size=s) for s in ((3,), (3, 3))]


def heun_forward(x, A):
    h, steps = 0.2, []
    for _ in range(4):
        k1 = np.tanh(A @ x)
        k2 = np.tanh(A @ (x + h * k1))
        steps.append((x, k1, k2))
        x = x + h / 2 * (k1 + k2)
    return x, (A, h, steps)


def heun_backward(dx, cache):
    A, h, steps = cache
    dA = np.zeros_like(A)
    for x, k1, k2 in reversed(steps):
        dk2 = h / 2 * dx
        dz2 = dk2 * (1 - k2**2)
        dmiddle = A.T @ dz2
        dk1 = h / 2 * dx + h * dmiddle
        dz1 = dk1 * (1 - k1**2)
        dA += np.outer(dz2, x + h * k1) + np.outer(dz1, x)
        dx = dx + dmiddle + A.T @ dz1
    return dx, dA


heun_wrong = [
    ("dk1 = h / 2 * dx + h * dmiddle", "dk1 = h / 2 * dx", "dk1", "one use of k1 forgotten"),
    ("dA += np.outer(dz2, x + h * k1)", "dA += np.outer(dz2, x)", "dA",
     "the point before the step"),
    ("dx = dx + dmiddle + A.T @ dz1", "dx = dmiddle + A.T @ dz1", "dx",
     "the path around the step forgotten"),
]


def horner_inputs(rng):
    return rng.normal(size=4), rng.normal(size=5)


def horner_forward(c, x):
    y, kept = np.zeros_like(x), []
    for a in c:
        kept.append(y)
        y = y * x + a
    return y, (c, x, kept)


def horner_backward(dy, cache):
    c, x, kept = cache
    dc, dx = np.zeros_like(c), np.zeros_like(x)
    for k in reversed(range(len(c))):
        dc[k] = dy.sum()
        dx += dy * kept[k]
        dy = dy * x
    return dc, dx


horner_wrong = [
    ("dx += dy * kept[k]", "dx = dy * kept[k]", "dx", "= for +="),
    ("dc[k] = dy.sum()", "dc[k] = dy[0]", "dc", "the sum over the points forgotten",
     "only what comes through index 0 of axis 0"),
    ("dy = dy * x", "dy *= x", "dy", "the upstream gradient is written over"),
]
