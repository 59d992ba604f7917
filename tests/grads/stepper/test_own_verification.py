"""A user's own functions: nothing right is red; what is wrong is, from the first variable on."""

from __future__ import annotations

import numpy as np
import pytest

from grads.stepper.explorer.data import build
from grads.stepper.explorer.examples import open_example
from grads.stepper.explorer.settings import Settings
from grads.stepper.walk import walk

SOURCE = '''
import numpy as np

def norm_forward(x, g, b):
    mean = x.mean(axis=1, keepdims=True)
    inv = 1 / np.sqrt(x.var(axis=1, keepdims=True) + 1e-5)
    xhat = (x - mean) * inv
    return g * xhat + b, (xhat, inv, g)

def norm_backward(dy, cache):
    xhat, inv, g = cache
    dx = np.zeros_like(xhat)
    dg, db = np.zeros_like(g), np.zeros_like(g)
    for i in range(len(xhat)):
        dg += dy[i] * xhat[i]
        db += dy[i]
        dxhat = dy[i] * g
        dx[i] = inv[i] * (dxhat - dxhat.mean() - xhat[i] * (dxhat * xhat[i]).mean())
    return dx, dg, db

def norm_inputs(rng):
    return rng.normal(size=(3, 5)), rng.normal(size=5), rng.normal(size=5)

def loop_forward(x, h0, W, U):
    h = {-1: h0}
    states = np.zeros((len(x), len(h0)))
    for t in range(len(x)):
        h[t] = np.tanh(W @ x[t] + U @ h[t - 1])
        states[t] = h[t]
    return states, (x, h, W, U)

def loop_backward(dh_all, cache):
    x, h, W, U = cache
    dx, dW, dU = np.zeros_like(x), np.zeros_like(W), np.zeros_like(U)
    dh = np.zeros(len(U))
    for t in reversed(range(len(x))):
        dh = dh + dh_all[t]
        da = (1 - h[t] ** 2) * dh
        dW += np.outer(da, x[t])
        dU += np.outer(da, h[t - 1])
        dx[t] = W.T @ da
        dh = U.T @ da
    return dx, dh, dW, dU

def loop_inputs(rng):
    return [rng.normal(size=shape) for shape in ((3, 2), (4,), (4, 2), (4, 4))]

def attention_forward(q, K, V):
    s = q @ K.T / np.sqrt(len(K[0]))
    e = np.exp(s - s.max(axis=1, keepdims=True))
    a = e / e.sum(axis=1, keepdims=True)
    return a @ V, (q, K, V, a)

def attention_backward(do, cache):
    q, K, V, a = cache
    da = do @ V.T
    dV = a.T @ do
    ds = a * (da - (da * a).sum(axis=1, keepdims=True)) / np.sqrt(len(K[0]))
    dq = ds @ K
    dK = ds.T @ q
    return {"q": dq, "K": dK, "V": dV}

def attention_inputs(rng):
    return [rng.normal(size=shape) for shape in ((2, 3), (4, 3), (4, 5))]

def scale_forward(x):
    x = x - x.mean()
    return np.abs(x), x

def scale_backward(dy, x):
    dx = dy * np.sign(x)
    dx -= dx.mean()
    return dx

def picked(x, W):
    ys, ps, loss = {}, {}, 0
    for t in range(len(x)):
        ys[t] = W @ x[t]
        ps[t] = np.exp(ys[t]) / np.sum(np.exp(ys[t]))
        loss += -np.log(ps[t][t])
    dW = np.zeros_like(W)
    for t in reversed(range(len(x))):
        dy = np.copy(ps[t])
        dy[t] -= 1
        dW += np.outer(dy, x[t])
    return loss, dW

def picked_inputs(rng):
    return rng.normal(size=(2, 3)), rng.normal(size=(5, 3))

def scale_inputs(rng):
    return rng.normal(size=6)

def kink_forward(x):
    y = np.maximum(x, 0)
    return y, x

def kink_backward(dy, x):
    dx = dy * (x > 0)
    return dx

def kink_inputs(rng):
    return np.array([0.0, 1.0, -1.0])

def bias_forward(x, b):
    z = x + b
    return z - z.mean(axis=0), ()

def bias_backward(dy, cache):
    dx = dy - dy.mean(axis=0)
    db = dx.sum(axis=0)
    return dx, db

def bias_inputs(rng):
    return rng.normal(size=(5, 3)), rng.normal(size=3)

def filled_forward(x):
    y = np.zeros_like(x)
    for i in range(len(x)):
        y[i] = np.tanh(x[i])
    return y, y

def filled_backward(dy, y):
    dx = (1 - y**2) * dy
    return dx

def filled_inputs(rng):
    return rng.normal(size=4)

def halves_forward(x, y):
    left, right = np.tanh(x), np.sin(y)
    return np.hstack([left[1:], right[1:][::-1]]), (left, y)

def halves_backward(d, cache):
    left, y = cache
    dx, dy = np.zeros_like(left), np.zeros_like(y)
    dleft, dright = np.hsplit(d, 2)
    dx[1:] = dleft * (1 - left[1:] ** 2)
    dy[1:] = dright[::-1] * np.cos(y[1:])
    return dx, dy

def halves_inputs(rng):
    return rng.normal(size=4), rng.normal(size=4)

def helper(dout, x, w):
    dx = dout @ w.T
    dw = x.T @ dout
    db = dout.sum(axis=0)
    return dx, dw, db

def penalised(x, W, b):
    s = x @ W + b
    loss = (s * s).sum() / 2 + (W * W).sum()
    grads = {}
    _, grads["W"], grads["b"] = helper(s, x, W)
    grads["W"] += 2 * W
    return loss, grads

def penalised_inputs(rng):
    return [rng.normal(size=shape) for shape in ((5, 3), (3, 2), (2,))]
'''
RIGHT = ("norm", "loop", "attention", "scale", "kink", "bias", "filled", "halves", "penalised")


def opened(directory, name, old="", new=""):
    """The example of a function of SOURCE, with a mistake if one is given."""
    assert SOURCE.count(old) == 1 or not old
    file = directory / "mine.py"
    file.write_text(SOURCE.replace(old, new) if old else SOURCE)
    return open_example(f"{file}:{name}", Settings())


@pytest.mark.parametrize("name", RIGHT)
def test_nothing_right_is_wrong(name, tmp_path):
    example = opened(tmp_path, name)
    checks = example.verifications()
    assert not [(check.name, check.line) for check in checks if check.status == "wrong"]
    ends = {check.name for check in checks if check.status == "verified"}
    assert ends or name == "kink"
    assert "WRONG" not in example.said[-1]


def test_what_initialisations_and_parts_are_called(tmp_path):
    by_place = {(check.name, check.line): check
                for check in opened(tmp_path, "norm").verifications()}
    starts = [check for (name, _), check in by_place.items() if "zeros_like" in check.text]
    assert {check.status for check in starts} == {"partial"} and len(starts) == 3
    parts = [check for check in opened(tmp_path, "norm").verifications()
             if check.name.startswith("dx[")]
    assert [check.status for check in parts] == ["verified"] * 3
    scaled = {check.name: check for check in opened(tmp_path, "attention").verifications()}["ds"]
    assert scaled.status == "verified" and scaled.forward not in ("s", "")


def test_an_array_that_is_changed_entry_by_entry_is_verified_where_it_is_complete(tmp_path):
    """As the gradient of a softmax is often written: a copy of p, and 1 less at the word."""
    changed = [check for check in opened(tmp_path, "picked").verifications()
               if check.text == "dy[t] -= 1"]
    assert [(check.status, check.reason) for check in changed] == [
        ("verified", f"complete here: d loss / d ys[{t}]") for t in (1, 0)]


def test_a_kink_is_undecided(tmp_path):
    example = opened(tmp_path, "kink")
    assert {check.status for check in example.verifications()} == {"undecided"}
    assert "undecided for x" in example.said[-1]


def test_the_method_that_decides(tmp_path):
    """`var` and `abs` are continued to complex numbers, as `grads check` has them."""
    dx = [check for check in opened(tmp_path, "scale").verifications() if check.name == "dx"][-1]
    assert (dx.status, dx.method) == ("verified", "complex step") and dx.error < 1e-8
    dx = [check for check in opened(tmp_path, "bias").verifications() if check.name == "dx"][-1]
    assert (dx.status, dx.method) == ("verified", "complex step") and dx.error < 1e-14


@pytest.mark.parametrize(("name", "old", "new", "first"), [
    ("norm", "dxhat - dxhat.mean() -", "dxhat -", "dx"),
    ("norm", "dg += dy[i] * xhat[i]", "dg = dy[i] * xhat[i]", "dg"),
    ("loop", "dU += np.outer(da, h[t - 1])", "dU += np.outer(da, h[t])", "dU"),
    ("attention", "da = do @ V.T", "da = 2 * do @ V.T", "da"),
    ("attention", "dq = ds @ K", "dq = ds @ K[::-1]", "dq"),
    ("scale", "dx = dy * np.sign(x)", "dx = dy * x", "dx"),
    ("bias", "db = dx.sum(axis=0)", "db = dy.sum(axis=0)", "db"),
])
def test_the_first_wrong_variable_is_red(name, old, new, first, tmp_path):
    example = opened(tmp_path, name, old, new)
    wrong = [check.name.partition("[")[0] for check in example.verifications()
             if check.status == "wrong"]
    assert wrong and wrong[0] == first
    assert "WRONG" in example.said[-1]


def test_variables_that_one_line_exchanges_are_both_red(tmp_path):
    """Each is compared with the part of an expression that has its own name."""
    example = opened(tmp_path, "halves", "dleft, dright =", "dright, dleft =")
    red = [(check.name, check.forward) for check in example.verifications()
           if check.status == "wrong"]
    assert red[:2] == [("dright", "right[1:][::-1]"), ("dleft", "left[1:]")]


@pytest.mark.parametrize(("old", "new", "first"), [
    ("db = dout.sum(axis=0)", "db = dout[1:].sum(axis=0)", "db"),  # grads["b"] of the caller
    ("dw = x.T @ dout", "dw = x[1:].T @ dout[1:]", "dw"),  # a term of grads["W"]
])
def test_a_mistake_in_a_helper_without_a_forward_is_red_in_the_helper(old, new, first, tmp_path):
    red = [check for check in opened(tmp_path, "penalised", old, new).verifications()
           if check.status == "wrong"]
    assert (red[0].name, red[0].text) == (first, new)


def test_a_term_is_compared_with_the_line_of_the_forward_that_it_comes_from(tmp_path):
    by_name = {check.name: check for check in opened(tmp_path, "penalised").verifications()}
    line = SOURCE[: SOURCE.index("s = x @ W + b")].count("\n") + 1
    assert (by_name["dw"].status, by_name["dw"].forward) == ("verified", f"W in line {line}")
    assert (by_name["db"].status, by_name["db"].forward) == ("verified", "b")


@pytest.mark.parametrize("name", RIGHT)
def test_pages_and_walks_of_right_functions(name, tmp_path, capsys):
    opened(tmp_path, name)
    target = f"{tmp_path / 'mine.py'}:{name}"
    data = build(target)
    assert all(check["status"] != "wrong" for check in data["verifications"])
    assert {source["file"] for source in data["sources"]} == {"mine.py"}
    walk(target)
    printed = capsys.readouterr().out
    assert "wrong" not in printed.lower() and "null" not in printed
    assert printed.count(str(tmp_path)) <= 1  # the target, as it was given


def test_arguments_that_are_written_into_stay_as_they_were(tmp_path):
    run = opened(tmp_path, "scale").run
    np.testing.assert_array_equal(run.arguments[0], np.random.default_rng(1).normal(size=6))


def test_arrays_filled_by_the_forward_are_shown_as_they_are_read(tmp_path):
    """Not as they were made: full of zeros."""
    example = opened(tmp_path, "filled")
    data = build(example.run.derivation.name)
    [read] = [read_entry["tensor"] for step in data["steps"] if step["text"].startswith("dx =")
              for read_entry in step["reads"] if read_entry["written"] == "y"]
    shown = data["tensors"][read]
    assert shown["same_as"] is None
    np.testing.assert_allclose(shown["value"], example.run.forward.result[1], rtol=1e-8)
    assert data["title"] == "mine.py:filled" and str(tmp_path) not in str(data["command"])


FITTED = """
from dataclasses import dataclass

import numpy as np

@dataclass
class P:
    w: np.ndarray
    b: np.ndarray

def fit(p, x, y):
    e = x @ p.w + p.b - y
    grads = P(w=x.T @ e, b=e.sum(keepdims=True))
    return 0.5 * (e @ e), grads

def fit_inputs(rng):
    return P(rng.normal(size=3), np.ones(1)), rng.normal(size=(4, 3)), rng.normal(size=4)
"""


@pytest.mark.parametrize("old, wrong", [("", []), ("sum(k", ["b"]), ("x.T @ e", ["w"])])
def test_gradients_in_a_dataclass_are_verified_by_their_fields(old, wrong, tmp_path):
    file = tmp_path / "mine.py"
    new = {"sum(k": "mean(k", "x.T @ e": "-x.T @ e", "": ""}[old]
    file.write_text(FITTED.replace(old, new) if old else FITTED)
    checks = open_example(f"{file}:fit", Settings()).verifications()
    found = {check.name.rpartition(".")[2]: check.status for check in checks}
    assert found == {name: "wrong" if name in wrong else "verified" for name in ("w", "b")}


SEVERAL = """
import numpy as np

def product_forward(x, y, z):
    return x * y * z, (x, y, z)

def product_backward(d, cache):
    x, y, z = cache
    dlast = d * x * y
    return d * y * z, -d * x * z, dlast

def product_inputs(rng):
    return rng.normal(size=3), rng.normal(size=3), rng.normal(size=3)
"""


def test_of_several_gradients_in_a_return_only_the_wrong_one_is_red(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(SEVERAL)
    red = [check.name for check in open_example(f"{file}:product", Settings()).verifications()
           if check.status == "wrong"]
    assert red == ["return 2"]
