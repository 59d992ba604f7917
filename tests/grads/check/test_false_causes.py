"""A change that makes a gradient right only by accident, or nearly, is not named as its cause, nor
is the deletion of a gradient that is zero in truth."""

import numpy as np
import pytest

from grads.check.user_code import check_file

CONSTANT_ARRAY = """
import numpy as np

Q = np.array([1.0, 1.5, 0.3])
R = np.array([0.1, 0.05, 0.2])

def f_forward(x, u):
    return 5 * Q @ x ** 2 + 0.5 * R @ u ** 2 + x[0] * u[0], (x, u)

def f_backward(d, cache):
    x, u = cache
    dx, du = Q * x, R * u  # 10 * Q, which is Q / R[0]
    dx[0] += u[0]
    du[0] += x[0]
    return d * dx, d * du

def f_inputs(rng):
    return rng.normal(size=3), rng.normal(size=3)
"""
TWO_TAPS = """
import numpy as np

def shifted(x, lag):
    return x if lag == 0 else np.concatenate([np.zeros_like(x[:lag]), x[:-lag]])

class Dilated:
    def __init__(self):
        rng = np.random.default_rng(3)
        self.kernel, self.dilation = 2, 2
        self.w, self.v = rng.normal(size=(2, 3, 3)), rng.normal(size=(2, 3, 3))

    def forward(self, x):
        self.taps = [shifted(x, k * self.dilation) for k in range(self.kernel)]
        self.y = np.tanh(sum(tap @ w for tap, w in zip(self.taps, self.w)))
        return self.y + sum(tap @ v for tap, v in zip(self.taps, self.v))

    def shifted_back(self, g, lag):
        if lag == 0:
            return g
        out = np.zeros_like(g)
        out[:-lag] = g[lag:]
        return out

    def backward(self, d):
        self.dw, self.dv, dx = np.zeros_like(self.w), np.zeros_like(self.v), np.zeros_like(d)
        g = d * (1 - self.y ** 2)
        for k, tap in enumerate(self.taps):
            self.dw[k], self.dv[k] = tap.T @ g, tap.T @ d
            dx += self.shifted_back(g @ self.w[k].T + d @ self.v[k].T, k)  # k * self.dilation
        return dx

f = Dilated()

def f_inputs(rng):
    return [rng.normal(size=(7, 3))]
"""
NO_GRADIENT = """
import numpy as np

def f_forward(x, w, k):
    z = x @ w + k
    e = np.exp(z - z.max(axis=1, keepdims=True))
    p = e / e.sum(axis=1, keepdims=True)
    return p, (x, w, p)

def f_backward(d, cache):
    x, w, p = cache
    dz = p * (d - (d * p).sum(axis=0, keepdims=True))  # axis=1
    dk = np.zeros((len(p), 1))
    dk += dz.sum(axis=1, keepdims=True)
    return dz @ w.T, x.T @ dz, dk

def f_inputs(rng):
    return rng.normal(size=(4, 3)), rng.normal(size=(3, 5)), rng.normal(size=(4, 1))
"""
NEARLY = """
import numpy as np

def f_forward(x, w, u):
    return 3 * np.sin(x) + w ** 2 * u / (1 + 1e-8), (x, w, u)

def f_backward(d, cache):
    x, w, u = cache
    return d * np.cos(x), d * w * u, d * w ** 2 / (1 + 1e-8)  # 3 *, 2 * and / (1 + 1e-8)

def f_inputs(rng):
    return rng.normal(size=4), rng.normal(size=4), rng.normal(size=4)
"""
GLOBAL_NAME = """
import numpy as np

def f_forward(x):
    y = 0 * x
    for k in range(1, 3):
        y = y + k * k * np.sin(x)
    return y, x

def f_backward(d, cache):
    return d * np.cos(cache)  # 5 times

def f_inputs(rng):
    return [rng.normal(size=(3, 2))]

x = np.zeros((5, 2))
"""
HALF_MASK = """
import numpy as np

def f(W, X, y, mask):
    e = (X @ W - y)[mask]
    return (e ** 2).mean(), 2 * X[mask].T @ e / len(y)  # len(e)

def f_inputs(rng):
    return rng.normal(size=3), rng.normal(size=(8, 3)), rng.normal(size=8), np.arange(8) < 4
"""
REGULAR_GROUPS = """
import numpy as np

def f(V, group, w):
    counts = np.bincount(group)
    mean = np.zeros((len(counts), V.shape[1]), V.dtype)
    np.add.at(mean, group, V)
    mean = mean / counts[:, None]
    loss = (np.tanh(mean) @ w).sum()
    dmean = (1 - np.tanh(mean) ** 2) * w  # / counts[:, None]
    return loss, dmean[group]

def f_inputs(rng):
    return rng.normal(size=(4, 2)), np.array([0, 1, 0, 1]), rng.normal(size=2)
"""
EQUAL_COUNTS = """
import numpy as np

def f(beta, X, k, n):
    eta = X @ beta
    loss = (n * np.logaddexp(0, eta) - k * eta).sum()
    return loss, X.T @ (1 / (1 + np.exp(-eta)) - k)  # n

def f_inputs(rng):
    return rng.normal(size=3), rng.normal(size=(6, 3)), np.array([1, 2, 3, 0, 5, 4]), np.full(6, 5)
"""
LEVELS = """
import numpy as np

LEVELS = np.array([0.1, 0.5, 0.9])

def f(B, X, y):
    r = y[:, None] - X @ B.T
    s = np.tanh(r)
    dr = (LEVELS + s + r * (1 - s ** 2)) / r.size  # len(y)
    return (r * (LEVELS + s)).sum(axis=1).mean(), -dr.T @ X

def f_inputs(rng):
    return rng.normal(size=(3, 4)), rng.normal(size=(15, 4)), rng.normal(size=15)
"""
SYMMETRIC = """
import numpy as np

def f(x, target):
    D = x @ x.T - target
    return (D ** 2).sum(), 4 * target @ x  # D

def f_inputs(rng):
    y = rng.normal(size=(3, 4))
    return rng.normal(size=(3, 4)), y @ y.T
"""
EQUAL_LENGTHS = """
import numpy as np

def f(E, ids, lengths, target):
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    e = np.add.reduceat(E[ids], starts, axis=0) / lengths[:, None] - target
    dE = np.zeros_like(E)
    np.add.at(dE, ids, np.repeat(e, lengths, axis=0))  # e / lengths[:, None]
    return 0.5 * (e ** 2).sum(), dE

def f_inputs(rng):
    ids, lengths = np.array([5, 2, 4, 4, 3, 5]), np.array([2, 2, 2])
    return rng.normal(size=(6, 3)), ids, lengths, rng.normal(size=(3, 3))
"""
EQUAL_BAGS = """
import numpy as np

def f(V, offsets, ids):
    bags = [*zip(offsets[:-1], offsets[1:])]
    out = np.stack([V[ids[a:b]].mean(0) for a, b in bags])
    dV = np.zeros(V.shape)
    for o, (a, b) in zip(out, bags):
        for j in ids[a:b]:
            dV[j] += 2 * o  # / (b - a)
    return (out ** 2).sum(), dV

def f_inputs(rng):
    return rng.normal(size=(5, 2)), np.array([0, 2, 4, 6]), np.array([0, 1, 2, 3, 4, 0])
"""


def hints_on(code, file):
    """What the check says about the wrong gradients of a function `f`."""
    file.write_text(code)
    wrong = check_file(f"{file}:f", np.random.default_rng(0)).wrong
    return [hint for row in wrong for hint in row.hints]


@pytest.mark.parametrize("code, cause, accident", [
    (GLOBAL_NAME, "constant factor 0.2", "x.shape"), (HALF_MASK, "`e` in place of `y`", "`4`"),
    (REGULAR_GROUPS, "w / counts[:, None]", "w / 2"), (EQUAL_COUNTS, " * n`", "`5`"),
    (EQUAL_LENGTHS, "e / lengths", "e / 2"), (LEVELS, "B.shape[0]", "3 *"),
    (SYMMETRIC, "`D` in place of `target`", "only here"),
    (CONSTANT_ARRAY, "has 0.1 times", "R[0]"), (TWO_TAPS, "k * self.dilation", "every"),
    (NO_GRADIENT, "`1` in place of `0`", "without"), (NEARLY, "`3 * d`", "2 * "),
])
def test_a_cause_is_no_accident(code, cause, accident, tmp_path):
    hints = hints_on(code, tmp_path / "mine.py")
    assert any(cause in hint for hint in hints), hints
    assert not any(accident in hint or "only with" in hint for hint in hints)


def test_offsets_of_equal_distance_are_changed(tmp_path):
    """No other change is found, so it is named with a reserve."""
    *_, hint = hints_on(EQUAL_BAGS, tmp_path / "mine.py")
    assert hint.endswith("but only with these sizes and settings")
