"""A change that makes a gradient right only by the numbers at hand is not named as its cause."""

import numpy as np
import pytest
from scipy import special

from grads.check import check_gradients, check_pair
from grads.check.losses import check_loss
from grads.check.user_code import check_file, load_module

TWO_BRANCHES = """
def f_forward(x, y, w):
    return x * y * w, (x, y, w)


def f_backward(d, cache):
    x, y, w = cache
    if (w == 1).all():
        return d * x, d * y, d * x * y
    return d * y * w, d * x * w, d * x * y


def f_inputs(rng):
    return rng.normal(size=4), rng.normal(size=4), np.ones(4)
"""
WRONG_BRANCH = """
def f_forward(x):
    return x ** 2 * len(x), (x, len(x))


def f_backward(d, cache):
    x, n = cache
    if n:
        return d
    return 2 * d * x * len(x)


def f_inputs(rng):
    return (rng.normal(size=4),)
"""
MARGINS = """
Y = np.array([0, 2, 1, 1])


def margins(scores):
    m = np.maximum(0, scores - scores[np.arange(4), Y][:, None] + 1)
    m[np.arange(4), Y] = 0
    return m


def f(scores):
    return margins(scores).sum()


def f_gradient(scores):
    g = (margins(scores) > 0).astype(float)
    g[np.arange(4), Y] = -1
    return g


def f_inputs(rng):
    return (0.1 * rng.normal(size=(4, 3)),)
"""
VARIANCE = """
def f(x):
    return ((x - x.mean()) ** 2).sum() / (len(x) - 1)


def f_gradient(x):
    n = len(x)
    return 2 * (x - x.mean()) / n


def f_inputs(rng):
    return (rng.normal(size=6),)
"""
POOLING = """
def f_forward(x):
    h = np.maximum(x, 0)
    n, H, W = h.shape
    blocks = h.reshape(n, H // 2, 2, W // 2, 2).transpose(0, 1, 3, 2, 4).reshape(
        n, H // 2, W // 2, 4)
    winner = blocks.argmax(axis=-1)
    return np.take_along_axis(blocks, winner[..., None], -1)[..., 0], (x, winner)


def f_backward(d, cache):
    x, winner = cache
    n, H, W = x.shape
    blocks = np.zeros((n, H // 2, W // 2, 4))
    np.put_along_axis(blocks, winner[..., None], d[..., None], axis=-1)
    dh = blocks.reshape(n, H // 2, W // 2, 2, 2).transpose(0, 1, 3, 2, 4).reshape(x.shape)
    return (dh * (x >= dh),)


def f_inputs(rng):
    x = rng.normal(size=(2, 4, 6))
    x[0, :2, :2] = -np.abs(x[0, :2, :2])
    x[1, 2:, 4:] = -1.5
    return (x,)
"""
SATURATED = """
def f_forward(x, K, target):
    clipped = np.clip(x @ K, -1, 1)
    return clipped * target, (x, K, clipped, target)


def f_backward(d, cache):
    x, K, clipped, target = cache
    du = d * target
    return du @ K.T, x.T @ du, d * clipped


def f_inputs(rng):
    return 5 + rng.random((4, 3)), 1 + rng.random((3, 2)), rng.normal(size=(4, 2))
"""
SIGN = """
def f(x, y, scale=-1.0):
    return (x * y).sum() * scale - 3 * np.tanh(x).sum()


def f_gradient(x, y, scale=-1.0):
    return scale * y + 3 / np.cosh(x) ** 2, scale * x


def f_inputs(rng):
    return rng.normal(size=5), rng.normal(size=5)
"""

GROUPS = """
def f_forward(x, G=2):
    N, C, H, W = x.shape
    xg = x.reshape(N, G, C // G, H, W)
    return (xg - xg.mean(axis=(2, 3, 4), keepdims=True)).reshape(x.shape) ** 3, (x, G)


def f_backward(d, cache):
    x, G = cache
    N, C, H, W = x.shape
    xg = x.reshape(N, G, C // G, H, W)
    m = H * W
    u = xg - xg.mean(axis=(2, 3, 4), keepdims=True)
    dg = d.reshape(xg.shape) * 3 * u ** 2
    return (dg - dg.sum(axis=(2, 3, 4), keepdims=True) / m).reshape(x.shape)


def f_inputs(rng):
    return (rng.normal(size=(2, 4, 3, 2)),)
"""
CLOSURE = """
def make(X, wet):
    k = X.shape[1]

    def f(theta):
        return wet.sum() * theta[-1] + np.exp(-theta[-1]) * ((X @ theta[:k]) ** 2).sum()

    def gradient(theta):
        e = X @ theta[:k]
        g = np.zeros_like(theta)
        g[:k] = 2 * np.exp(-theta[-1]) * X.T @ e
        g[-1] = len(X) - np.exp(-theta[-1]) * (e ** 2).sum()
        return g
    return f, gradient


f, f_gradient = make(np.random.default_rng(0).normal(size=(12, 3)), np.arange(12) % 2 > 0)


def f_inputs(rng):
    return (rng.normal(size=4),)
"""
SETTING = """
def f_forward(mu, h, beta=2.0):
    return beta * mu ** 2 + mu * h, (mu, h, beta)


def f_backward(d, cache):
    mu, h, beta = cache
    return d * (2 * mu + h), d * mu


def f_inputs(rng):
    return rng.normal(size=4), rng.normal(size=4)
"""
LOOP = """
def f(r):
    return sum(np.log(np.exp(r[i]) + np.exp(r[j]) + np.exp(0.5 * (r[i] + r[j])))
               for i, j in ((0, 1), (1, 2), (2, 0), (3, 1), (1, 3), (3, 2)))


def f_gradient(r):
    g = np.zeros_like(r)
    for i, j in ((0, 1), (1, 2), (2, 0), (3, 1), (1, 3), (3, 2)):
        t = np.exp(0.5 * (r[i] + r[j]))
        Z = np.exp(r[i]) + np.exp(r[j]) + t
        g[i] += (np.exp(r[i]) + t) / Z
        g[j] += (np.exp(r[j]) + 0.5 * t) / Z
    return g


def f_inputs(rng):
    return (rng.normal(size=4),)
"""
ALIAS = """
def f(x):
    s = np.zeros(3)
    for t in range(len(x)):
        s = s + 0.1 * np.roll(s, -1) - 0.2 * np.roll(s, 1) + x[t]
    return s @ np.arange(1.0, 4.0) + s @ s


def f_gradient(x):
    s = np.zeros(3)
    for t in range(len(x)):
        s = s + 0.1 * np.roll(s, -1) - 0.2 * np.roll(s, 1) + x[t]
    dx, ds = np.zeros(len(x)), np.arange(1.0, 4.0) + 2 * s
    for t in reversed(range(len(x))):
        dx[t] = ds.sum()
        before = ds
        for j in range(3):
            before[j] = ds[j] + 0.1 * ds[j - 1] - 0.2 * ds[(j + 1) % 3]
        ds = before
    return dx


def f_inputs(rng):
    return (rng.normal(size=5),)
"""
KEYS = """
def f_forward(x, w):
    a = np.tanh(x)
    return a ** 2 @ w, dict(x=x, w=w, a=a, u=a ** 2)


def f_backward(d, c):
    return np.outer(d, c["w"]) * 2 * c["a"] * (1 - c["a"] ** 2), c["a"].T @ d


def f_inputs(rng):
    return rng.normal(size=(4, 3)), rng.normal(size=3)
"""
FLIPPED = """
def f_forward(x, w, p=1):
    return np.array([(np.pad(x, p)[i:i + 3] * w).sum() for i in range(len(x))]), (x, w, p)


def f_backward(d, cache):
    x, w, p = cache
    dx, dw = np.zeros(len(x) + 2 * p), np.zeros(3)
    for i in range(len(x)):
        dx[i:i + 3] += d[i] * w[::-1]
        dw += d[i] * np.pad(x, p)[i:i + 3]
    return dx[p:len(x) + p], dw


def f_inputs(rng):
    return rng.normal(size=6), rng.normal(size=3)
"""


LOSSES = """
import numpy as np


def mean(W, X, y, p):
    e = X @ W - y
    return (e ** 2).mean(), 2 * X.T @ e


def power(W, X, y, p):
    r = np.abs(X @ W - y) + 1
    return (r ** p).sum(), X.T @ (2 * r ** (p - 1) * np.sign(X @ W - y))


def ridge(W, X, y, p):
    e = X @ W - y
    return 0.5 * e @ e + p * W @ W, X.T @ e + p * W
"""
TWO_COLUMNS = """
def f_forward(x, w):
    n, W = x.shape
    return x @ w, (x, w)


def f_backward(d, cache):
    x, w = cache
    n, W = x.shape
    return d @ w[::-1].T, x.T @ d


def f_inputs(rng):
    return rng.normal(size=(4, 2)), rng.normal(size=(2, 3))
"""
TIED = """
def f_forward(x, w):
    return (x @ w).mean(axis=1), (x, w)


def f_backward(d, cache):
    x, w = cache
    g = np.outer(d, np.ones(w.shape[1]))
    return g @ w.T, x.T @ g / w.shape[1]


def f_inputs(rng):
    return rng.normal(size=(3, 3)), rng.normal(size=(3, 3))
"""
ATTENTION = """
def f_forward(x, a, b):
    s = (x @ a)[None, :] + (x @ b)[:, None]
    l = np.where(s > 0, s, 0.2 * s)
    e = np.exp(l - l.max(1, keepdims=True))
    p = e / e.sum(1, keepdims=True)
    return p @ x, (x, a, b, s, p)


def f_backward(d, cache):
    x, a, b, s, p = cache
    dp = d @ x.T
    ds = p * (dp - (dp * p).sum(1, keepdims=True))
    return (p.T @ d + np.outer(ds.sum(0), a) + np.outer(ds.sum(1), b),
            x.T @ ds.sum(0), x.T @ ds.sum(1))


def f_inputs(rng):
    return rng.normal(size=(5, 3)), rng.normal(size=3), rng.normal(size=3)
"""
NAMED = """
def f_forward(x, gain):
    return np.tanh(x) * gain, dict(x=x, gain=gain, slope=1 - np.tanh(x) ** 2)


def f_backward(d, cache):
    return d * cache["gain"], (d * np.tanh(cache["x"])).sum(0)


def f_inputs(rng):
    return rng.normal(size=(4, 3)), rng.normal(size=3)
"""


@pytest.mark.parametrize("text, accident, said", [
    (TWO_COLUMNS, "W", "`w` in place of `w[::-1]` in line 11"),
    (TIED, "x.shape", "/ w.shape[1]"),
    (NAMED, "only", "* cache['slope']"),
    (GROUPS, "in place of `W`", "`(dg / (C // G))` in place of the second `dg`"),
    (CLOSURE, "2 * k", "it has twice what comes through"),
    (SETTING, "such as", "`2 * beta` in place of `2` in line 9"),
    (LOOP, "such as", "`t / 2` in place of `t` in line 13"),
    (ALIAS, ".T", "`ds.copy()` in place of `ds` in line 17"),
    (KEYS, "mean", "`'u'` in place of the third `'a'` in line 9"),
    (FLIPPED, "`p`", "`w` in place of `w[::-1]` in line 11"),
    (SIGN, "** 2", "with `-"),
    (TWO_BRANCHES, "`0`", "`(d * y, d * x, d * x * y)` in place of"),
    (WRONG_BRANCH, "argsort", "`False` in place of `n` in line 9"),
    (MARGINS, "`2`", "`g.sum(-1)` in place of `1`"),
    (VARIANCE, "2.4", "`(n - 1)` in place of `n`"),
    (POOLING, "[::-1]", "`x + dh` in place of `x`"),
    (SATURATED, "clipped ** 2", "although the numerical gradient is zero"),
])
def test_a_change_that_works_by_accident_is_not_named(text, accident, said, tmp_path):
    (tmp_path / "rule.py").write_text("import numpy as np\n" + text)
    report = check_file(f"{tmp_path / 'rule.py'}:f", np.random.default_rng(3))
    assert report.wrong
    for row in report.wrong:
        assert accident not in " ".join(row.hints)
        assert said in " ".join(row.hints)


def test_a_factor_that_is_an_input_gets_no_name_of_a_length():
    def forward(x, p):
        return (x ** p).sum(axis=1), (x, p)

    def backward(d, cache):
        x, p = cache
        by_p = (d[:, None] * x ** p * np.log(x)).sum()
        return d[:, None] * x ** (p - 1), np.array(by_p)

    x = np.random.default_rng(0).uniform(1, 2, size=(4, 3))
    wrong, = check_pair(forward, backward, [x, np.array(3.0)]).wrong
    assert "factor 0.333333" in wrong.hints[0]
    assert "the length of" not in " ".join(wrong.hints)


def test_a_gradient_that_is_zero_gets_no_factor_of_a_path(tmp_path):
    (tmp_path / "rule.py").write_text("import numpy as np\n" + ATTENTION)
    x, _, b = check_file(f"{tmp_path / 'rule.py'}:f", np.random.default_rng(3)).wrong
    assert "comes through the third `s` in line 5: it has 5 times that" in x.hints[0]
    assert b.hints == ("it is zero everywhere",)


@pytest.mark.parametrize("name, n, p, said", [
    *(("mean", n, 2.0, "is right with `2 / X.shape[0]` in place of the second `2`")
      for n in (4, 5, 10)),
    *(("power", 6, p, "is right with `p` in place of `2`") for p in (1.5, 3, 4)),
    ("ridge", 6, 0.5, "is right with `2 * p` in place of the second `p`"),
])
def test_sizes_and_settings_among_the_arguments_are_named(name, n, p, said, tmp_path):
    (tmp_path / "losses.py").write_text(LOSSES)
    loss = getattr(load_module(tmp_path / "losses.py"), name)
    rng = np.random.default_rng(0)
    W, X, y = (rng.normal(size=size) for size in (3, (n, 3), n))
    row, = check_loss(loss, W, X, y, p).wrong
    assert said in row.hints[-1]
    assert "only with" not in row.hints[-1]


def test_a_replacement_can_be_pasted():
    def forward(x, a):
        return x / (a + x), (x, a)

    def backward(d, cache):
        x, a = cache
        return d / (a + x) - d * x / (a + x) ** 2, -d * x / a ** 2

    rng = np.random.default_rng(0)
    row, = check_pair(forward, backward, [rng.uniform(1, 2, 4), rng.uniform(1, 2, 4)]).wrong
    assert "is right with `(a + x)` in place of the third `a`" in row.hints[0]


def test_a_note_names_the_users_line_that_calls_a_library():
    def f(x):
        return special.multigammaln(x[0], 2)

    note = next(note for note in check_gradients(
        f, np.array([2.2]), lambda x: special.digamma(x) + special.digamma(x - 0.5)).notes
        if "complex" in note)
    assert __file__ in note


MORSE = """
import numpy as np

def morse(x):
    i, j = np.triu_indices(len(x), 1)
    r = np.sqrt(((x[i] - x[j]) ** 2).sum(axis=1))
    e = np.exp(-1.5 * (r - 1.0))
    return (2.0 * (1 - e) ** 2).sum()

def morse_gradient(x):
    i, j = np.triu_indices(len(x), 1)
    d = x[i] - x[j]
    r = np.sqrt((d ** 2).sum(axis=1))
    e = np.exp(-1.5 * (r - 1.0))
    f = (6.0 * (1 - e) * e)[:, None] * d  # / r is forgotten
    g = np.zeros_like(x)
    np.add.at(g, i, f)
    np.subtract.at(g, j, f)
    return g

def morse_inputs(rng):
    return rng.normal(size=(6, 2))
"""


def test_other_data_has_no_equal_points_where_a_distance_has_a_kink(tmp_path):
    (tmp_path / "mine.py").write_text(MORSE)
    row, = check_file(f"{tmp_path / 'mine.py'}:morse", np.random.default_rng(0)).wrong
    assert "/ r" in row.hints[-1] and "only with" not in row.hints[-1]


def test_a_zero_gradient_has_no_path_of_the_wrong_sign():
    H = np.diag([1.0, 2.0])

    def energy(theta):
        psi = np.array([np.cos(theta[0]) + theta[1], np.sin(theta[0])])
        return psi @ H @ psi

    row, = check_gradients(energy, np.array([0.4, 0.3]), lambda theta: 0 * theta).wrong
    assert row.hints == ("it is zero everywhere",)


PENALTY = """
import numpy as np

RHO = 4.0

def penalty(x):
    h = x @ x - 1
    return np.exp(-x).sum() + RHO / 2 * h ** 2

def penalty_gradient(x):
    eq = RHO * (x @ x - 1)
    return -np.exp(-x) + eq * x  # 2 * x

def penalty_inputs(rng):
    return rng.normal(size=4)
"""


def test_constants_of_the_module_are_other_numbers_too(tmp_path):
    (tmp_path / "mine.py").write_text(PENALTY)
    row, = check_file(f"{tmp_path / 'mine.py'}:penalty", np.random.default_rng(0)).wrong
    assert "2 *" in row.hints[-1] and "RHO" not in row.hints[-1]
