"""A right cause is said without the reserve "only with these sizes and settings": trials that say
nothing about it do not count."""

import numpy as np
import pytest

from grads.check.user_code import check_file

ROWS = '''
import numpy as np

def f_forward(table, w, ids, labels):
    """The rows of `labels` pick from the first rows of `p` if there are more ids than labels."""
    mean = table[ids].mean(axis=1)
    e = np.exp(mean @ w)
    p = e / e.sum(axis=1, keepdims=True)
    n = len(labels)
    return -np.log(p[range(n), labels]).sum() / n, (table, w, ids, labels, mean, p)

def f_backward(d, cache):
    table, w, ids, labels, mean, p = cache
    dz = p.copy()
    dz[range(len(labels)), labels] -= 1
    dz *= d / len(labels)
    rows = np.repeat((dz @ w.T / ids.shape[1])[:, None], ids.shape[1], axis=1)
    dtable = np.zeros_like(table)
    dtable[ids] += rows  # np.add.at
    return dtable, mean.T @ dz

def f_inputs(rng):
    ids = np.array([[0, 3, 3, 1], [5, 2, 0, 4], [1, 1, 2, 5]])
    return rng.normal(size=(6, 3)), rng.normal(size=(3, 4)), ids, np.array([2, 0, 3])
'''
NOT_SET = '''
import numpy as np

def f_forward(a, x):
    """The entries of y beyond the length of `a` are never set."""
    y = np.empty_like(x)
    y[0] = x[0]
    for k in range(1, len(a)):
        y[k] = a[k] * y[k - 1] + x[k]
    return y, (a, y)

def f_backward(d, cache):
    a, y = cache
    e, da = np.zeros_like(d), np.zeros_like(a)
    for k in range(len(a) - 1, 0, -1):
        e[k] += d[k]
        e[k - 1] += a[k - 1] * e[k]  # a[k]
        da[k] = e[k] * y[k - 1]
    e[0] += d[0]
    return da, e

def f_inputs(rng):
    return rng.normal(size=6), rng.normal(size=6)
'''
DOMAIN = '''
import numpy as np

def f_forward(c, x):
    return np.polynomial.chebyshev.chebval(x, c), (c, x)

def f_backward(d, cache):
    c, x = cache
    theta = np.arccos(x)
    return np.array([(d * np.cos((k + 1) * theta)).sum() for k in range(len(c))]), d * (
        np.polynomial.chebyshev.chebval(x, np.polynomial.chebyshev.chebder(c)))

def f_inputs(rng):
    return rng.normal(size=4), np.array([-0.9, 0.2, 0.95])
'''
LOOPS = '''
import numpy as np

class Filter:
    def __init__(self, a):
        self.a = np.array(a)

    def forward(self, x):
        self.y = np.zeros_like(x)
        for n in range(len(x)):
            self.y[n] = x[n]
            for k in range(2):
                if n > k:
                    self.y[n] -= self.a[k] * self.y[n - 1 - k]
        return self.y

    def backward(self, d):
        g = np.zeros_like(d)
        for n in reversed(range(len(d))):
            g[n] = d[n]
            for k in range(2):
                if n + 1 + k < len(d):
                    g[n] -= self.a[k] * g[n + 1 + k]
        self.da = np.zeros(2)
        for k in range(2):
            self.da[k] = np.sum(g[k + 1:] * self.y[:len(d) - 1 - k])  # the sign
        return g

class Filters:
    def __init__(self):
        self.parts = [Filter([-0.6, 0.2]), Filter([0.3, -0.1])]

    def forward(self, x):
        for part in self.parts:
            x = part.forward(x)
        return x

    def backward(self, d):
        for part in reversed(self.parts):
            d = part.backward(d)
        return d

f = Filters()

def f_inputs(rng):
    return [rng.normal(size=12)]
'''


@pytest.mark.parametrize("code, cause", [
    (ROWS, "np.add.at(dtable, ids, rows)"), (NOT_SET, "with `0`"), (DOMAIN, "with `0`"),
    (LOOPS, "with `(-g)`"),
])
def test_a_right_cause_has_no_reserve(code, cause, tmp_path):
    (tmp_path / "mine.py").write_text(code)
    wrong = check_file(f"{tmp_path / 'mine.py'}:f", np.random.default_rng(0)).wrong
    assert wrong
    for row in wrong:
        assert cause in row.hints[-1] and "only with" not in row.hints[-1]
