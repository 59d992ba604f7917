"""What is said about the user's code: a change of the backward that makes the gradient right, or
the expression of the forward whose path the gradient lacks."""

from __future__ import annotations

import sys
import time

import numpy as np
import pytest

from grads.check import check_gradients, check_pair
from grads.check.diagnosis import edits, instrument
from grads.check.user_code import check_file

SCALE = '''
import numpy as np

def f_forward(x, g):
    mean = x.mean(axis=0)
    centred = x - mean
    y = np.tanh(g * centred)
    return y, (y, centred, g)

def f_backward(d, cache):
    y, centred, g = cache
    dz = d * (1 - y ** 2)
    dg = (dz * centred).sum(axis=0)
    dc = dz * g
    dm = -dc.sum(axis=0) / len(dc)
    dx = dc + dm
    return dx, dg

def f_inputs(rng):
    return rng.normal(size=(5, 3)), rng.normal(size=3)
'''
RNN = '''
import numpy as np

def f(xs, W, U):
    hs, loss = {-1: np.zeros(len(U))}, 0.0
    for t in range(len(xs)):
        hs[t] = np.tanh(xs[t] @ W + hs[t - 1] @ U)
        loss += (hs[t] ** 3).sum()
    dW, dU = np.zeros_like(W), np.zeros_like(U)
    dxs, dh = np.zeros_like(xs), 0.0
    for t in reversed(range(len(xs))):
        dz = (dh + 3 * hs[t] ** 2) * (1 - hs[t] ** 2)
        dW += np.outer(xs[t], dz)
        dU += np.outer(hs[t - 1], dz)
        dxs[t] = W @ dz
        dh = U @ dz
    return loss, dxs, dW, dU

def f_inputs(rng):
    return rng.normal(size=(4, 3)), rng.normal(size=(3, 3)), rng.normal(size=(3, 3))
'''
TABLE = '''
import numpy as np
IDS, TARGETS = np.array([2, 0, 2, 1]), np.array([1, 0, 2, 2])

def f_forward(table, temperature):
    z = table[IDS] / temperature
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    return -np.log(p[np.arange(4), TARGETS]), (p, z, temperature)

def f_backward(d, cache):
    p, z, temperature = cache
    dz = p.copy()
    dz[np.arange(4), TARGETS] -= 1
    dz = dz * d[:, None]
    dtable = np.zeros((3, 3))
    np.add.at(dtable, IDS, dz / temperature)
    return dtable, -(dz * z).sum() / temperature

def f_inputs(rng):
    return rng.normal(size=(3, 3)), 1.7
'''
SORTED = '''
import numpy as np

def f_forward(x, n=4):
    order = np.argsort(x)
    y = x[order]
    return y[1:] - y[:-1], order

def f_backward(d, order):
    dy = np.zeros(len(order))
    dy[1:] += d
    dy[:-1] -= d
    dx = np.zeros(len(order))
    dx[order] = dy
    n = len(order)
    while n > 1:
        n -= 1
    return dx

def f_inputs(rng):
    return (rng.normal(size=6),)
'''
NORM = '''
import numpy as np

def f_forward(v, g):
    norm = np.sqrt((v * v).sum())
    return g * v / norm, (v, g, norm)

def f_backward(d, cache):
    v, g, norm = cache
    return g * d / norm - (d * v).sum() * g * v / norm ** 3, (d * v).sum() / norm

def f_inputs(rng):
    return rng.normal(size=4), rng.normal(size=4)
'''.replace("(d * v).sum() * g * v", "(d * v * g).sum() * v").replace(
    "(d * v).sum() / norm\n", "d * v / norm\n")
LEAKY = '''
import numpy as np

def f_forward(x, w):
    a = x * w
    return np.where(a > 0, a, 0.1 * a), (x, w, a)

def f_backward(d, cache):
    x, w, a = cache
    da = d * np.where(a > 0, 1.0, 0.1)
    return da * w, da * x

def f_inputs(rng):
    return rng.normal(size=(4, 3)), rng.normal(size=(4, 3))
'''
ROWS = TABLE.replace("2, 0, 2, 1", "2, 0, 2").replace("1, 0, 2, 2", "1, 0, 2").replace("(4)", "(3)")
SOFTMAX = '''
import numpy as np

def f_forward(z, w):
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    return p @ w, (p, w)

def f_backward(d, cache):
    p, w = cache
    dp = d[:, None] * w
    dz = p * (dp - (p * dp).sum(axis=1, keepdims=True))
    return dz, (d[:, None] * p).sum(axis=0)

def f_inputs(rng):
    return rng.normal(size=(3, 3)), rng.normal(size=3)
'''
TOTAL = '''
import numpy as np

def f_forward(x):
    return np.cumsum(x ** 2), x

def f_backward(d, x):
    return 2 * x * np.flip(np.cumsum(np.flip(d)))

def f_inputs(rng):
    return (rng.normal(size=5),)
'''
EDITS = [
    (SOFTMAX, "(p * dp).sum(axis=1, keepdims=True)", "(p * dp).sum(axis=0)",
     "`(p * dp).sum(axis=1, keepdims=True)` in place of `(p * dp).sum(axis=0)` in line 11"),
    (SOFTMAX, "p * (dp - (p * dp).sum(axis=1, keepdims=True))", "dp * p * (1 - p)",
     "`p * (dp - (p * dp).sum(axis=-1, keepdims=True))` in place of `dp * p * (1 - p)` in line"),
    (SOFTMAX, "dp = d[:, None] * w", "dp = d * w", "`d[:, None]` in place of `d` in line 10"),
    (SOFTMAX, "p * (dp - (p * dp).sum(axis=1, keepdims=True))", "dp.copy()",
     "`(p * (w - (p * w).sum(axis=-1, keepdims=True)))` in place of `w` in line 10"),
    (SOFTMAX, "(d[:, None] * p).sum(axis=0)", "(d[:, None] * p)[-1]",
     "`(d[:, None] * p).sum(axis=0)` in place of `(d[:, None] * p)[-1]` in line 12"),
    (LEAKY, "da * w, da * x", "da * x, da * w",
     "`(da * w, da * x)` in place of `(da * x, da * w)`"),
    (ROWS, "np.add.at(dtable, IDS, dz / temperature)", "dtable = dz[IDS] / temperature",
     "`(np.arange(len(dz[IDS]))[:, None] == IDS) @ dz` in place of `dz[IDS]` in line 16"),
    (SCALE, "dm = -dc.sum", "dm = dc.sum", "`(-dc)` in place of the first `dc`"),
    (SCALE, "dc = dz * g", "scale = g * 1.0; dc = dz", "`dz * scale` in place of"),
    (SCALE, "dc.sum(axis=0)", "np.abs(dc).sum(axis=0)", "`dc` in place of `np.abs(dc)` in line"),
    (SCALE, "dm = -dc.sum(axis=0) / len(dc)", "dm = -dc.sum(axis=0) / len(dc) / 3",
     "`-dc.sum(axis=0) / len(dc)` in place of `-dc.sum(axis=0) / len(dc) / 3` in line 15"),
    (LEAKY, "da = d * np.where(a > 0, 1.0, 0.1)", "da = d * np.where(a > 0, 1.0, 0.2)",
     "`0.1` in place of `0.2` in line 10"),
    (RNN, "dxs[t] = W @ dz", "dxs[t - 1] = W @ dz", "`0` in place of `1` in line 15"),
    (TOTAL, "2 * x * np", "-2 * x * np", "`2` in place of `-2` in line 8"),
    (SCALE, "dc = dz * g", "dc = dz", "`dz * g` in place of `dz` in line 14"),
    (SCALE, "dx = dc + dm", "dx = dc", "`dc + dm` in place of `dc` in line 16"),
    (SCALE, "d * (1 - y ** 2)", "d", "(1 - y ** 2)` in place of `"),
    (SCALE, "(dz * centred).sum(axis=0)", "(dz * centred).mean(axis=0)",
     "`(dz * centred).sum(axis=0)` in place of `(dz * centred).mean(axis=0)` in line 13"),
    (SCALE, "dc.sum(axis=0)", "dc.sum(axis=1)[:3]", None),
    (RNN, "np.outer(hs[t - 1], dz)", "np.outer(hs[t], dz)", "`t - 1` in place of `t` in line 14"),
    (RNN, "dh = U @ dz", "dh = dz", "`U @ dz` in place of `dz` in line 16"),
    (RNN, "dU += np", "dU = np", "`dU += np.outer(hs[t - 1], dz)` in place of `dU = "),
    (RNN, "np.outer(xs[t], dz)", "np.outer(dz, xs[t])",
     "`np.outer(xs[t], dz)` in place of `np.outer(dz, xs[t])` in line 13"),
    (RNN, "dh = U @ dz", "dh = U.T @ dz", "in line 16"),
    (TABLE, "np.add.at(dtable, IDS, dz / temperature)", "dtable[IDS] += dz / temperature",
     "`np.add.at(dtable, IDS, dz / temperature)` in place of `dtable[IDS] += "),
    (TABLE, "sum() / temperature", "sum()", "/ temperature)` in place of `"),
    (TABLE, "    dz[np.arange(4), TARGETS] -= 1\n", "", "np.eye(p"),
    (SORTED, "dx[order] = dy", "dx = dy[order]", "== order) @ dy` in place of `dy[order]`"),
    (SORTED, "dy[1:] += d", "dy[:-1] += d", "`1:` in place of `:-1` in line 11"),
    (SORTED, "    dx[order] = dy\n", "    dx[order] = dy\n    dx[0] = 0\n",
     "is right without `dx[0] = 0` in line 15"),
    (LEAKY, "1.0, 0.1", "0.1, 1.0", "`np.where(a > 0, 1.0, 0.1)` in place of"),
]
PATHS = [
    (NORM, " - (d * v * g).sum() * v / norm ** 3", "",
     "lacks what comes through `v * v` in line 5"),
    (NORM, " - (d * v * g).sum() * v / norm ** 3", " + (d * v * g).sum() * v / norm ** 3",
     "has the wrong sign in what comes through `v * v` in line 5"),
    (NORM, "/ norm - (d", "/ norm - 2 * (d", "has twice what comes through `v * v` in line 5"),
    (NORM, "/ norm - (d", "/ norm - 0.5 * (d", "lacks what comes through the first `v` in line 5"),
    (NORM, "return g * d / norm", "return 0.5 * g * d / norm",
     "has half of what comes through the first `v` in line 6"),
    (NORM, "/ norm - (d", "/ norm - 0.3 * (d",
     "wrong only in what comes through `v * v` in line 5: it has 0.3 times that"),
]


def hints_of(tmp_path, text, old="", new=""):
    """The hints of all rows of a text in which a mistake was made, by tensor."""
    assert text.count(old) == 1 or not old
    file = tmp_path / f"code{len(list(tmp_path.iterdir()))}.py"
    file.write_text(text.replace(old, new) if old else text, encoding="utf-8")
    report = check_file(f"{file}:f", np.random.default_rng(0))
    assert report.ok == (not old)
    return {row.name: " ".join(row.hints) for row in report.wrong if row.upstream == "all"}


@pytest.mark.parametrize("text", [SCALE, RNN, TABLE, SORTED, NORM, LEAKY])
def test_right_functions_get_no_hint(text, tmp_path):
    assert hints_of(tmp_path, text) == {}


@pytest.mark.parametrize("text, old, new, said", [case for case in EDITS if case[3]])
def test_the_change_that_makes_the_gradient_right(text, old, new, said, tmp_path):
    hints = hints_of(tmp_path, text, old, new)
    assert hints and all(said in hint for hint in hints.values())


@pytest.mark.parametrize("text, old, new, said", PATHS)
def test_the_path_through_which_it_is_wrong(text, old, new, said, tmp_path, monkeypatch):
    monkeypatch.setattr(edits.Edits, "search", lambda self: None)
    assert said in hints_of(tmp_path, text, old, new)["v"]


def test_a_change_must_be_right_at_other_inputs(tmp_path, monkeypatch):
    old, new = "dc = dz * g", "dc = dz"
    monkeypatch.setattr(edits, "right_elsewhere", lambda *arguments: False)
    assert "is right with" not in hints_of(tmp_path, SCALE, old, new)["x"]


def test_a_mistake_that_no_single_change_mends(tmp_path):
    hints = hints_of(tmp_path, SCALE, "d * (1 - y ** 2)", "np.sin(9 * d) * np.cos(y) ** 3")
    assert "is right with" not in hints["x"] and "comes through" not in hints["x"]


def test_a_changed_loop_that_does_not_end_is_left(tmp_path):
    hints = hints_of(tmp_path, SORTED, "dy[1:] += d", "dy[1:] += d * d.sum()")
    assert "is right" not in hints["x"] or "sum" in hints["x"]


def test_the_users_functions_stay_as_they_are(tmp_path):
    file = tmp_path / "kept.py"
    file.write_text(SCALE.replace("dc = dz * g", "dc = dz"), encoding="utf-8")
    sys.path.insert(0, str(tmp_path))
    try:
        import kept
    finally:
        sys.path.remove(str(tmp_path))
    codes, names = (kept.f_forward.__code__, kept.f_backward.__code__), set(vars(kept))
    inputs = kept.f_inputs(np.random.default_rng(0))
    assert "dz * g" in str(check_pair(kept.f_forward, kept.f_backward, inputs))
    assert codes == (kept.f_forward.__code__, kept.f_backward.__code__)
    assert names == set(vars(kept)) and instrument.HOOK not in names


def test_code_that_is_not_in_its_file_any_longer(tmp_path):
    """As of a function that was changed after it was imported."""
    file = tmp_path / "code.py"
    file.write_text(SCALE, encoding="utf-8")
    space = {"__name__": "code"}
    exec(compile(SCALE.replace("dc = dz * g", "dc = dz"), str(file), "exec"), space)
    inputs = space["f_inputs"](np.random.default_rng(0))
    report = check_pair(space["f_forward"], space["f_backward"], inputs)
    assert "line" not in str(report.wrong[0].hints[0]) and not report.ok


def test_a_change_does_not_damage_the_cache(tmp_path):
    """A tried change may write into an array of the cache: the next try gets the right one."""
    hints = hints_of(tmp_path, SORTED.replace("dx[order] = dy", "np.put(dx, order, dy)"),
                     "    return dx\n", "    return dx * 1.0 + dy\n")
    assert hints["x"]


def test_a_gradient_that_is_far_too_large_is_not_compared_with_zero():
    A = np.array([1e13, 2e13, 3e13])
    [row] = check_gradients(lambda A: A.sum() * 1e-12, [A], [np.ones(3)]).wrong
    assert row.hints[0] == "it is off by the constant factor 1e+12"


def test_all_tensors_get_the_same_change(tmp_path):
    hints = hints_of(tmp_path, SCALE, "d * (1 - y ** 2)", "2 * d * (1 - y ** 2)")
    assert len(set(hints.values())) == 1 and hints.keys() == {"x", "g"}


def test_the_search_is_made_once_for_all_tensors(tmp_path, monkeypatch):
    runs = []
    search = edits.Edits.search
    monkeypatch.setattr(edits.Edits, "search", lambda self: (runs.append(self), search(self)))
    hints_of(tmp_path, SCALE, "d * (1 - y ** 2)", "d * (1 - y ** 2) * 2")
    assert len(runs) == 1


def test_what_the_tried_code_prints_is_not_shown(tmp_path, capsys):
    """The search alone runs the backward some hundred times."""
    hints_of(tmp_path, SCALE, "dc = dz * g", "print('in it'); dc = dz")
    assert 0 < capsys.readouterr().out.count("in it") < 50


STRIDED = """
import numpy as np


def f_forward(x):
    return windows(x, 3).sum(axis=1) ** 2, x


def windows(x, k):
    return np.lib.stride_tricks.as_strided(x, (len(x) - k + 1, k), (x.strides[0], x.strides[0]))


def f_backward(d, x):
    d = np.pad(2 * d, 2)
    return windows(d, 3).sum(axis=1) * x ** 3


def f_inputs(rng):
    return (rng.normal(size=9),)
"""


def test_a_changed_view_does_not_leave_its_memory(tmp_path):
    assert "x" in hints_of(tmp_path, STRIDED, "* x ** 3", "* x ** 2")
    x = np.arange(9.0)
    with instrument.safe_views():
        view = np.lib.stride_tricks.as_strided(x[2:], (3, 3), (8, 8))
        assert view[2, 2] == 6
        assert np.lib.stride_tricks.as_strided(x[8:], (3,), (-8,))[2] == 6
        for shape, strides in (((4, 7), (8, 8)), ((10,), None), ((3,), (-16,))):
            with pytest.raises(ValueError, match="leaves the memory"):
                np.lib.stride_tricks.as_strided(x[2:], shape, strides)
    assert np.lib.stride_tricks.as_strided(x, (10,)).shape == (10,)


PARTLY = """
import numpy as np


def f_forward(x, y):
    return x * y ** 2, (x, y)


def f_backward(d, cache):
    x, y = cache
    s = d * y
    del y
    return s, np.sin(3 * s) * x


def f_inputs(rng):
    return rng.normal(size=4), rng.normal(size=4)
"""


def test_a_change_that_mends_one_of_two_gradients_says_what_it_leaves(tmp_path):
    hints = hints_of(tmp_path, PARTLY, "s = d * y\n", "s = 1 * d * y\n")
    assert "`y ** 2` in place of" in hints["x"] and "which leaves y wrong" in hints["x"]
    assert "is right" not in hints["y"]


def test_a_backward_that_calls_itself(tmp_path):
    text = """
def f_forward(x, n=3):
    return (x, (x, n)) if n == 1 else (f_forward(x, n - 1)[0] * x, (x, n))


def f_backward(d, cache):
    x, n = cache
    if n == 1:
        return d
    return f_backward(d, (x, n - 1)) * x + d * x ** (n - 1)


def f_inputs(rng):
    return (rng.normal(size=4),)
"""
    assert "`(n - 1)" in hints_of(tmp_path, text, "d * x ** (n - 1)", "d * x ** n")["x"].replace(
        "`n - 1`", "`(n - 1)`")


def test_rows_with_ids_are_a_gradient_whose_code_can_be_changed(tmp_path):
    text = TABLE.replace("    dtable = np.zeros((3, 3))\n", "").replace(
        "    np.add.at(dtable, IDS, dz / temperature)\n", "").replace(
        "return dtable, ", "return (IDS, dz / temperature), ")
    assert "`dz / temperature` in place of" in hints_of(
        tmp_path, text, "(IDS, dz / temperature)", "(IDS, dz)")["table"]


NEWTON = """
import numpy as np


def newton(a):
    x = a
    for _ in range(50):
        x = x - (x * x - a) / (2 * x)
    return x.sum()


def newton_gradient(a):
    x = a
    for _ in range(50):
        x = x - (x * x - a) / (2 * x)
    return [1 / (2 * x * x + np.cos(9 * a))]


def newton_inputs(rng):
    return [rng.uniform(0.5, 3, 5)]
"""


def test_a_change_in_a_loop_does_not_fill_the_memory(tmp_path):
    """A changed line lets x grow in each turn; no change makes the gradient right."""
    (tmp_path / "mine.py").write_text(NEWTON)
    before = time.process_time()
    report = check_file(f"{tmp_path / 'mine.py'}:newton", np.random.default_rng(0))
    assert not report.ok and time.process_time() - before < 10


PARTS = """
import numpy as np

def f_forward(x, A, B):
    t, v = np.tanh(x @ A), x @ B
    h = t * v
    return (np.pad(h, ((1, 1), (0, 0))), h.mean()), (x, A, B, t, v)

def f_backward(d, cache):
    x, A, B, t, v = cache
    dpadded, dmean = d
    dh = dpadded[1:-1] + dmean / v.size
    du, dv = dh * v * (1 - t ** 2), dh * t
    dx = du @ A.T + dv @ B.T
    return dx, x.T @ du, x.T @ dv

def f_inputs(rng):
    return [rng.normal(size=shape) for shape in ((5, 3), (3, 4), (3, 4))]
"""


@pytest.mark.parametrize("old, new, said", [
    ("dmean / v.size", "dmean", "`dmean / t.size` in place of `dmean` in line 12"),
    ("du @ A.T + dv @ B.T", "du @ B.T + dv @ A.T", "with `dx = du @ A.T + dv @ B.T` in place"),
    ("[1:-1]", "[2:]", "`1:-1` in place of `2:` in line 12"),
])
def test_a_mistake_of_a_frequent_kind(old, new, said, tmp_path):
    hints = hints_of(tmp_path, PARTS, old, new)
    assert hints and all(said in hint for hint in hints.values())


SWEEP = """
import numpy as np

def solved(a, b):
    x = np.array(b)
    for k in range(1, len(x)):
        x[k] -= a[k] * x[k - 1]
    return x

def f_forward(a, b):
    x = solved(a, b)
    return x, (a, x)

def f_backward(dx, cache):
    a, x = cache
    db = solved(np.append(0, a[:0:-1]), dx[::-1])[::-1]
    return np.append(0, -db[1:] * x[:-1]), db

def f_inputs(rng):
    return rng.normal(size=5), rng.normal(size=5)
"""


def test_a_change_does_not_write_into_the_upstream_gradient(tmp_path):
    hints = hints_of(tmp_path, SWEEP, "x[:-1]), db", "x[:-1]), dx")
    assert "in place of `np.array(b)`" not in hints["b"]


ENDLESS = """
import numpy as np

def integral(slope, start):
    x, t = np.array(start), 0.0
    while t < 1:
        step = 0.1 / (1 + np.abs(x).max())
        x, t = x + step * slope(x), t + step
    return x

def f(a):
    return integral(lambda x: a * x - x * x, [0.5])[0]

def f_gradient(a):
    def both(w):
        x, s = w
        return np.array([a * x - x * x, (a - x) * s + x + np.cos(9 * a)])
    return [np.array(integral(both, [0.5, 0.0])[1])]

def f_inputs(rng):
    return [np.array(1.2)]
"""


def test_a_change_by_which_a_loop_never_ends_is_given_up(tmp_path):
    (tmp_path / "mine.py").write_text(ENDLESS)
    before = time.process_time()
    assert not check_file(f"{tmp_path / 'mine.py'}:f", np.random.default_rng(0)).ok
    assert time.process_time() - before < 10


CANCELLED = """
def f_forward(x, b):
    a = x + b
    c = a - a.mean(axis=0)
    return c ** 3, c

def f_backward(d, c):
    da = 2 * c ** 2 * d
    da = da - da.mean(axis=0)
    return da, da.sum(axis=0)

def f_inputs(rng):
    return rng.normal(size=(6, 2)), rng.normal(size=2)
"""


def test_a_gradient_that_is_zero_up_to_rounding_is_not_called_wrong_in_the_cause(tmp_path):
    """The mean removes b: its gradient is what rounding leaves of terms that cancel."""
    (tmp_path / "mine.py").write_text(CANCELLED)
    report = check_file(f"{tmp_path / 'mine.py'}:f", np.random.default_rng(0))
    assert [row.name for row in report.wrong] == ["x"]
    said = [hint for hint in report.wrong[0].hints if "`3` in place of" in hint]
    assert said and "leaves" not in said[0]


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
def test_a_matrix_with_three_axes_is_not_tried():
    m = np.matrix(np.eye(3))
    with instrument.safe_views():
        assert m[:, 0].shape == (3, 1) and m[0, 0] == 1 and m[1:].shape == (2, 3)
        with pytest.raises(IndexError, match="two axes"):
            m[..., None]
    assert np.ndim(m[..., None]) == 3
