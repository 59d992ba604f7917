"""The cause of a mistake is named in every form in which people write functions."""

from __future__ import annotations

import ast
import math
from itertools import pairwise

import numpy as np
import pytest

from grads.check import check_gradients, check_pair
from grads.check.diagnosis.edits import Edits
from grads.check.diagnosis.instrument import ordinal, tree_of
from grads.check.layers import check_layer
from grads.check.user_code import check_file, load_module

LAMBDAS = '''
rule = lambda f, slope: lambda x: (f(x), lambda d: d * slope(x))
f_forward = rule(np.tanh, lambda x: 1 - np.tanh(x))
f_backward = lambda d, pull: pull(d)

def f_inputs(rng):
    return [rng.normal(size=4)]
'''
CLOSURE = '''
def f_forward(x):
    h = np.tanh(x)
    def pull(d):
        return d * (1 - h)
    return h, pull

def f_backward(d, pull):
    return pull(d)

def f_inputs(rng):
    return [rng.normal(size=4)]
'''
COMPREHENSION = '''
def f_forward(x, w):
    y = np.tanh(x * w)
    return np.cumsum(y * x), (x, w, y)

def f_backward(d, cache):
    x, w, y = cache
    s = d[::-1].cumsum()[::-1]
    dx = s * y + s * x * w * (1 - y * y)
    dw = np.array([s[k] * x[k] * x[k] * (1 - x[k] ** 2) for k in range(len(x))])
    return dx, dw

def f_inputs(rng):
    return rng.normal(size=5), rng.normal(size=5)
'''
ATTRIBUTES = '''
class Cache(dict):
    __getattr__ = dict.__getitem__

def f_forward(x, w):
    c = Cache(x=x, w=w, h=np.tanh(x @ w))
    return c.h, c

def f_backward(dh, c):
    dz = dh * (1 - c.h)
    return dz @ c.w.T, c.x.T @ dz

def f_inputs(rng):
    return rng.normal(size=(4, 3)), rng.normal(size=(3, 2))
'''
NUMBERS = '''
def f(x, p):
    return x ** 3 * np.sqrt(p)

def f_gradient(x, p):
    return 3 * x ** 3 * np.sqrt(p), x ** 3 * 0.5 / np.sqrt(p)

def f_inputs(rng):
    return 2.5, 3.0
'''
FLAG = '''
from scipy.linalg import solve_triangular

def f_forward(x, L):
    z = solve_triangular(L, x, lower=True)
    return 0.5 * z @ z, (z, L)

def f_backward(d, cache):
    z, L = cache
    return 2 * d * solve_triangular(L.T, z), -np.tril(np.outer(solve_triangular(L.T, z), z)) * d

def f_inputs(rng):
    return rng.normal(size=3), np.tril(rng.normal(size=(3, 3))) + 2 * np.eye(3)
'''
SQUARE = '''
def f_forward(x):
    return x * x, x

def f_backward(d, x):
    return 6 * x * d

def f_inputs(rng):
    return [rng.normal(size=(3, 4))]
'''
WINDOW = '''
def f_forward(x, w):
    return np.array([x[k:k + 3] @ w for k in range(4)]), (x, w)

def f_backward(d, cache):
    x, w = cache
    dx, dw = np.zeros_like(x), np.zeros_like(w)
    for k in range(4):
        dx[k:k + 3] += d[k] * w
        dw += d[k] * x[:3]
    return dx, dw

def f_inputs(rng):
    return rng.normal(size=6), rng.normal(size=3)
'''
ONE_OF_SEVERAL = '''
def f_forward(w, a, b):
    return (w * a[1:] * b[:-1]).sum(), (w, a, b)

def f_backward(d, cache):
    w, a, b = cache
    return d * a[:-1] * b[1:], np.r_[0, d * w * b[:-1]], np.r_[d * w * a[1:], 0]

def f_inputs(rng):
    return rng.normal(size=4), rng.normal(size=5), rng.normal(size=5)
'''
INVERSE = '''
def f_forward(a):
    return np.log(np.linalg.det(a)), a

def f_backward(d, a):
    b = a.T  # inverted
    return d * b

def f_inputs(rng):
    return [3 * np.eye(3) + rng.normal(size=(3, 3)) / 2]
'''
SUMS = '''
def f_forward(x):
    return np.sin(np.cumsum(x)), x

def f_backward(d, x):
    return np.cumsum(d * np.cos(np.cumsum(x)))

def f_inputs(rng):
    return [rng.normal(size=5)]
'''


@pytest.mark.parametrize("text, said", [
    (ONE_OF_SEVERAL, "`d * a[1:] * b[:-1]` in place of `d * a[:-1] * b[1:]` in line 8"),
    (INVERSE, "`np.linalg.inv("),
    (SUMS, "`np.cumsum((d * np.cos(np.cumsum(x)))[::-1])[::-1]` in place of"),
    (WINDOW, "`x[k:k + 3]` in place of `x[:3]` in line 11"),
    (LAMBDAS, "`np.tanh(x) ** 2` in place of `np.tanh(x)` in line 4"),
    (CLOSURE, "`h ** 2` in place of `h` in line 6"),
    (COMPREHENSION, "`y` in place of the third `x` in line 11"),
    (ATTRIBUTES, "`c.h ** 2` in place of `c.h` in line 11"),
    (NUMBERS, "`2` in place of the second `3` in line 7"),
    (FLAG, "`1` in place of `2` in line 11"),
    (SQUARE, "`2` in place of `6` in line 7"),
])
def test_the_cause_is_named(text, said, tmp_path):
    (tmp_path / "mine.py").write_text("import numpy as np\n" + text)
    report = check_file(f"{tmp_path / 'mine.py'}:f", np.random.default_rng(0))
    assert report.wrong and all(any(said in hint for hint in row.hints) for row in report.wrong)
    assert "True" not in str(report)


class Parameter(np.ndarray):
    """An array that carries its gradient."""


class Scale:
    """A layer with such a parameter; wrong if its factor is not 1."""

    def __init__(self, factor):
        self.w, self.factor = np.array([2.0, 3.0]).view(Parameter), factor

    def forward(self, x):
        self.x = x
        return x * np.asarray(self.w)

    def backward(self, dy):
        self.w.grad = self.factor * (dy * self.x).sum(axis=0)
        return dy * np.asarray(self.w)


def test_an_array_of_a_users_class_carries_its_gradient():
    x = np.random.default_rng(0).normal(size=(4, 2))
    report = check_layer(Scale(1), x)
    assert report.ok and [row.name for row in report.rows] == ["x", "w"]
    assert [row.name for row in check_layer(Scale(2), x).wrong] == ["w"]


def decay(t, rate):
    """A function of times, whose differences matter; with Python's math."""
    return sum(math.exp(-(b - a) * rate) for a, b in pairwise(t))


def decay_gradient(t, rate):
    steps = np.diff(t)
    e = np.exp(-steps * rate)
    return rate * (np.append(e, 0) - np.append(0, e)), -float(steps @ e)


@pytest.mark.parametrize("start", [0.0, 1.7e9])
def test_times_with_a_large_offset(start):
    """Epoch seconds: steps in proportion to them are too long by far."""
    t = start + np.array([0, 1.5, 2, 4.25])
    assert check_gradients(decay, [t, 0.5], decay_gradient).ok
    wrong = check_gradients(decay, [t, 0.5], lambda t, rate: (
        1.01 * decay_gradient(t, rate)[0], decay_gradient(t, rate)[1]), diagnosis=0)
    assert [row.name for row in wrong.wrong] == ["t"]


def test_an_offset_is_the_reason_where_nothing_is_decided():
    """Milliseconds: their last bit is 2e-4."""
    t = 1.7e12 + np.array([0, 1.5, 2, 4.25])
    report = check_gradients(decay, [t, 0.5], decay_gradient)
    assert report.verdict == "undecided" and "Subtract the offset" in str(report)
    assert "low precision" not in str(report)


def test_many_wrong_tensors_are_not_halved():
    """An error that is everywhere needs no search for its place."""
    rng = np.random.default_rng(0)
    x, weights = rng.normal(size=(3, 40)), [rng.normal(size=(40, 40)) / 6 for _ in range(6)]

    def forward(x, *weights):
        hs = [x]
        for w in weights:
            hs.append(np.tanh(hs[-1] @ w))
        return hs[-1], (hs, weights)

    def backward(d, cache):
        hs, weights = cache
        gradients = []
        for h, after, w in zip(hs[-2::-1], hs[:0:-1], weights[::-1], strict=True):
            d = d * (1 - after)  # not squared
            gradients.insert(0, h.T @ d)
            d = d @ w.T
        return d, *gradients

    report = check_pair(forward, backward, [x, *weights])
    assert len(report.wrong) == 7 and report.evaluations < 900


ORDINALS = """
import numpy as np

def f(x):
    g = dict(x=3 * x)
    g["x"][1:] -= 2 * x[1:]
    return (3 * x * x / 2).sum() - (x[1:] * x[:-1]).sum() * 2, g["x"]

def f_inputs(rng):
    return [rng.normal(size=6)]
"""


@pytest.mark.parametrize("text, said", [
    ("x=3 * x", "the second `x`"), ("2 * x[1:]", "the second `1:`"), ("2 * x", "the second `x`"),
    ("g = dict(x=3 * x)", "`g"),
])
def test_an_ordinal_counts_what_stands_in_the_line(text, said, tmp_path):
    (tmp_path / "mine.py").write_text(ORDINALS)
    function = load_module(tmp_path / "mine.py").f
    tree = tree_of(function.__code__)
    line = next(k for k, line in enumerate(ORDINALS.splitlines(), 1) if text in line)
    word = said.split("`")[1]
    nodes = [node for node in ast.walk(tree) if getattr(node, "lineno", 0) == line
             and isinstance(node, (ast.Name, ast.Slice)) and ast.unparse(node) == word]
    last = max(nodes, key=lambda node: node.col_offset)
    assert f"{ordinal(function, last)}`{word}" == said.rstrip("`")


HALF = """
import numpy as np

H = 0.3

def f_forward(x):
    tape = []
    for _ in range(4):
        m = x + H / 2 * np.sin(x)
        tape.append((x, m))
        x = x + H * np.sin(m)
    return x, tape

def f_backward(d, tape):
    for x, m in reversed(tape):
        dm = H * np.cos(m) * d
        d = d + dm + H * np.cos(x) * dm  # H / 2
    return d

def f_inputs(rng):
    return [rng.normal(size=5)]
"""
ONE_ENTRY = """
import numpy as np

def f(theta, x, y):
    a, b, c, s = theta
    u = np.exp(-x / s)
    r = np.tanh(a + b * x + c * u) - y
    dr = 2 * r * (1 - (r + y) ** 2)
    d_a, d_b, d_c = dr.sum(), dr @ x, dr @ u
    d_s = c * (dr @ u) / s ** 2  # u * x
    return r @ r, [np.array([d_a, d_b, d_c, d_s])]

f_names = ["theta"]

def f_inputs(rng):
    return rng.uniform(0.5, 1.5, size=4), rng.uniform(0, 2, size=6), rng.normal(size=6)
"""


@pytest.mark.parametrize("code, cause, most", [
    (HALF, "`H / 2` in place of `H`", 200), (ONE_ENTRY, "`(u * x)` in place of `u`", 600),
])
def test_a_likely_cause_is_tried_first(code, cause, most, tmp_path, monkeypatch):
    """Each change that is tried is a run of the backward, and the time for these is limited."""
    (tmp_path / "mine.py").write_text(code)
    runs, works = [], Edits.works
    monkeypatch.setattr(Edits, "works", lambda *a: runs.append(a) or works(*a))
    wrong = check_file(f"{tmp_path / 'mine.py'}:f", np.random.default_rng(0)).wrong
    assert any(cause in hint for row in wrong for hint in row.hints) and len(runs) < most


LONG_LOOP = """
import numpy as np

def states(w):
    hs = [w]
    for _ in range(20):
        hs.append(np.tanh(w * hs[-1]))
    return hs

def f(w):
    return states(w)[-1].sum()

def gradient(w):
    hs, d, dw = states(w), np.ones_like(w), np.zeros_like(w)
    for k in range(20)[::-1]:
        a = d * (1 - hs[k] ** 2)  # k + 1
        dw += a * hs[k]
        d = a * w
    return dw + d
"""


def test_a_change_is_run_as_often_as_it_must_be(tmp_path):
    """The runs at other inputs do not count as the iterations of a loop that does not end."""
    (tmp_path / "mine.py").write_text(LONG_LOOP)
    mine = load_module(tmp_path / "mine.py")
    (row,) = check_gradients(mine.f, np.random.default_rng(0).normal(size=4), mine.gradient).wrong
    assert any("`k + 1` in place of `k`" in hint for hint in row.hints)
