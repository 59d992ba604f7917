"""Functions that return a loss and its gradients, in the styles in which people write them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from runpy import run_path
from typing import NamedTuple

import numpy as np
import pytest

from grads.check.losses import check_loss

rng = np.random.default_rng(2)
X, y = rng.normal(size=(7, 5)), rng.integers(3, size=7)
W, b = rng.normal(size=(5, 3)), rng.normal(size=3)
b3 = b, b[::-1].copy(), np.abs(b) + 1


def names_of(report):
    """The names of the tensors of a report."""
    return [row.name for row in report.rows if row.checked]


# --- a course's loss of W, X, y -----------------------------------------------------------------


def svm_loss(W, X, y, reg):
    """Hinge loss of a linear classifier."""
    n = len(X)
    scores = X @ W
    margins = np.maximum(0, scores - scores[np.arange(n), y][:, None] + 1)
    margins[np.arange(n), y] = 0
    active = (margins > 0).astype(float)
    active[np.arange(n), y] = -active.sum(axis=1)
    dW = X.T @ active / n + 2 * reg * W
    return margins.sum() / n + reg * (W * W).sum(), dW


def svm_loss_wrong(W, X, y, reg):
    """The penalty is counted once in the gradient."""
    loss, dW = svm_loss(W, X, y, reg)
    dW = dW - reg * W
    return loss, dW


def softmax_loss(x, y):
    """Without names: the gradient is that of the first argument."""
    p = np.exp(x - x.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    grad = p.copy()
    grad[np.arange(len(y)), y] -= 1
    return -np.log(p[np.arange(len(y)), y]).mean(), grad / len(y)


def affine_loss(x, w, b, target):
    """Several gradients in another order than that of the arguments."""
    error = x @ w + b - target
    dw, db = 2 * x.T @ error, 2 * error.sum(axis=0)
    dx = 2 * error @ w.T
    return (error**2).sum(), db, dw, dx


def propagate(w, b, X, Y):
    """Gradients in a mapping, before the cost."""
    error = w.T @ X + b - Y
    grads = {"dw": X @ error.T, "db": error.sum(axis=1, keepdims=True)}
    cost = 0.5 * np.sum(error**2)
    return grads, cost


def of_mapping(params, x):
    """Parameters in a mapping, gradients in one of the same names."""
    h = np.tanh(x @ params["W"] + params["b"])
    dz = 2 * h * (1 - h * h)
    return (h**2).sum(), {"W": x.T @ dz, "b": dz.sum(axis=0)}


def nested(layers, x):
    """Parameters in nested lists."""
    (W, b), = layers
    h = np.tanh(x @ W + b)
    dz = 2 * h * (1 - h * h)
    return (h**2).sum(), [[x.T @ dz, dz.sum(axis=0)]]


def in_mapping(W, x):
    """All in one mapping, with a figure that is no gradient."""
    z = np.tanh(x @ W)
    return {"loss": (z * z).sum(), "largest": z.max(), "grads": {"W": x.T @ (2 * z * (1 - z * z))}}


def rosenbrock(v):
    """As scipy.optimize.minimize(..., jac=True) takes it."""
    a, c = v[:-1], v[1:]
    grad = np.zeros_like(v)
    grad[:-1] += -400 * a * (c - a * a) - 2 * (1 - a)
    grad[1:] += 200 * (c - a * a)
    return (100 * (c - a * a) ** 2 + (1 - a) ** 2).sum(), grad


@pytest.mark.parametrize("f, inputs, names", [
    (svm_loss, (W, X, y, 0.1), "W"), (softmax_loss, (X, y), "x"),
    (affine_loss, (X, W, b, rng.normal(size=(7, 3))), "b w x"),
    (propagate, (rng.normal(size=(5, 1)), rng.normal(size=(1, 1)), X.T, rng.normal(size=(1, 7))),
     "w b"),
    (of_mapping, ({"W": W, "b": b}, X), "params.W params.b"),
    (in_mapping, (W, X), "W"), (nested, ([[W, b]], X), "layers.0.0 layers.0.1"),
    (rosenbrock, (np.array([0.5, 1.5, -1]),), "v"),
    (rosenbrock, ([0.5, 1.5, -1.0],), "v"),
])
def test_styles_of_functions(f, inputs, names):
    report = check_loss(f, *inputs)
    report.raise_if_wrong()
    assert names_of(report) == names.split()


def test_a_wrong_one():
    assert check_loss(svm_loss_wrong, W, X, y, 0.1).verdict == "wrong"
    assert check_loss(lambda v: (rosenbrock(v)[0], 2 * rosenbrock(v)[1]), W[0]).verdict == "wrong"


# --- a method of a network ----------------------------------------------------------------------


class TwoLayerNet:
    """Parameters in a mapping; the loss of a batch with its gradients."""

    def __init__(self):
        self.params = {"W1": rng.normal(size=(5, 4)), "b1": np.zeros(4),
                       "W2": rng.normal(size=(4, 3)), "b2": np.zeros(3)}
        self.calls = 0

    def loss(self, X, y=None, reg=0.0):
        """The loss and the gradients."""
        self.calls += 1
        W1, b1, W2, b2 = (self.params[name] for name in ("W1", "b1", "W2", "b2"))
        h = np.maximum(0, X @ W1 + b1)
        loss, dscores = softmax_loss(h @ W2 + b2, y)
        grads = {"W2": h.T @ dscores + 2 * reg * W2, "b2": dscores.sum(axis=0)}
        dh = dscores @ W2.T * (h > 0)
        grads |= {"W1": X.T @ dh + 2 * reg * W1, "b1": dh.sum(axis=0)}
        return loss + reg * ((W1**2).sum() + (W2**2).sum()), grads


class WrongNet(TwoLayerNet):
    def loss(self, X, y=None, reg=0.0):
        loss, grads = super().loss(X, y, reg)
        grads["W1"] = grads["W1"] - reg * self.params["W1"]
        return loss, grads


def test_a_method_of_a_network_which_is_left_as_it_is():
    net = TwoLayerNet()
    before = {name: value.copy() for name, value in net.params.items()}
    report = check_loss(net.loss, X, y, keywords={"reg": 0.1})
    report.raise_if_wrong()
    assert set(names_of(report)) == set(net.params) and net.calls == 0
    assert all(np.array_equal(net.params[name], value) for name, value in before.items())
    assert [row.name for row in check_loss(WrongNet().loss, X, y, 0.1).wrong] == ["W1"]


# --- global variables ---------------------------------------------------------------------------

Wxh, Whh, Why = (rng.normal(size=shape) for shape in ((4, 6), (4, 4), (6, 4)))
bh, by = np.zeros((4, 1)), np.zeros((6, 1))
sign = 1


def lossFun(inputs, targets, hprev):
    """A character model: weights are global variables, and the last state is returned, too."""
    hs, ps, xs = {-1: np.copy(hprev)}, {}, {}
    loss = 0
    for k, (char, target) in enumerate(zip(inputs, targets, strict=True)):
        xs[k] = np.zeros((6, 1))
        xs[k][char] = 1
        hs[k] = np.tanh(Wxh @ xs[k] + Whh @ hs[k - 1] + bh)
        scores = Why @ hs[k] + by
        ps[k] = np.exp(scores) / np.sum(np.exp(scores))
        loss += -np.log(ps[k][target, 0])
    dWxh, dWhh, dWhy = np.zeros_like(Wxh), np.zeros_like(Whh), np.zeros_like(Why)
    dbh, dby, dhnext = np.zeros_like(bh), np.zeros_like(by), np.zeros_like(hs[0])
    for k in reversed(range(len(inputs))):
        dy = np.copy(ps[k])
        dy[targets[k]] -= 1
        dWhy += dy @ hs[k].T
        dby += dy
        dhraw = (1 - hs[k] * hs[k]) * (Why.T @ dy + sign * dhnext)
        dbh += dhraw
        dWxh += dhraw @ xs[k].T
        dWhh += dhraw @ hs[k - 1].T
        dhnext = Whh.T @ dhraw
    for dparam in [dWxh, dWhh, dWhy, dbh, dby]:
        np.clip(dparam, -5, 5, out=dparam)
    return loss, dWxh, dWhh, dWhy, dbh, dby, hs[len(inputs) - 1]


def test_weights_that_are_global_variables_are_left_as_they_are(monkeypatch):
    before, arguments = Wxh, ([1, 2, 0, 5], [2, 0, 5, 3], np.zeros((4, 1)))
    report = check_loss(lossFun, *arguments)
    report.raise_if_wrong()
    assert names_of(report) == ["Wxh", "Whh", "Why", "bh", "by"] and Wxh is before
    assert "value 7 of the result: no gradient of anything known, not checked" in report.notes
    monkeypatch.setitem(globals(), "sign", -1)
    assert {row.name for row in check_loss(lossFun, *arguments).wrong} == {"Wxh", "Whh", "bh"}


# --- parameters that are Python's numbers --------------------------------------------------------

theta_0 = 0.5


def line(W, b, X, y, factor=1.0):
    """Gradients in a mapping, under the names of the parameters."""
    error = X @ W + b - y
    return (error**2).sum(), {"W": 2 * X.T @ error, "b": factor * 2 * error.sum()}


def line_of_mapping(theta, X, y, factor=1.0):
    """Parameters in a mapping, too."""
    return line(theta["W"], theta["b"], X, y, factor)


def line_of_variable(W, X, y, factor=1.0):
    """The offset is a global variable, and the result one mapping."""
    loss, grads = line(W, theta_0, X, y, factor)
    return {"loss": loss, "dW": grads["W"], "dtheta_0": grads["b"]}


class Line:
    """The offset is an attribute."""

    def __init__(self, b):
        self.W, self.b = rng.normal(size=5), b

    def loss(self, X, y, factor=1.0):
        return line(self.W, self.b, X, y, factor)


class LineOfMapping(Line):
    """The offset is in a mapping that is an attribute."""

    def __init__(self, b):
        self.params = {"W": rng.normal(size=5), "b": b}

    def loss(self, X, y, factor=1.0):
        return line(self.params["W"], self.params["b"], X, y, factor)


@pytest.mark.parametrize("b", [0.5, np.float64(0.5)])
@pytest.mark.parametrize("make", [
    lambda b: (line, W[:, 0], b), lambda b: (line_of_mapping, {"W": W[:, 0], "b": b}),
    lambda b: (line_of_variable, W[:, 0]), lambda b: (Line(b).loss,),
    lambda b: (LineOfMapping(b).loss,),
])
def test_a_number_that_has_a_gradient_is_checked(make, b):
    f, *inputs = make(b)
    report = check_loss(f, *inputs, X, W[:, 1] @ X.T)
    assert report.ok and len(names_of(report)) == 2
    wrong = check_loss(f, *inputs, X, W[:, 1] @ X.T, 9.0).wrong
    assert [row.name for row in wrong] == [names_of(report)[1]] and theta_0 == 0.5
    assert vars(getattr(f, "__self__", line)).get("b", b) is b


# --- names that are told, and what cannot be checked --------------------------------------------


def unnamed(first, second):
    """Gradients in the reverse order."""
    return (first**2).sum() * second.sum(), (first**2).sum() * np.ones(3), 2 * first * second.sum()


def test_names_may_be_told():
    assert check_loss(unnamed, W, b, gradients=("second", "first")).ok
    assert check_loss(unnamed, W, b).ok  # their shapes say it, too
    assert not check_loss(unnamed, b, b[::-1].copy()).ok
    assert check_loss(unnamed, b, b[::-1].copy(), gradients=("second", "first")).ok


def in_a_tuple(x, y, q, factor=1.0):
    dx, dy = 2 * q * x * factor, 6 * q * y
    return (q * (x**2 + 3 * y**2)).sum(), (dx, dy)


def in_a_variable(q, y, x, factor=1.0):
    gradients = [2 * q * x * factor, 6 * q * y]
    dy, dx = gradients[1], gradients[0]
    both = [dy, dx]
    return (q * (x**2 + 3 * y**2)).sum(), both


def of_numbers(x, y, z, factor=1.0):
    dx, dy, dz = 2 * x * factor, 3 * y**2, z
    return x**2 + y**3 + z * z / 2, [dx, dy, dz]


def of_a_number_and_an_array(W, s, factor=1.0):
    dW, ds = 2 * W * s, (W**2).sum() * factor
    return (W**2).sum() * s, (dW, ds)


def with_the_loss_in_the_name(mu, sd, factor=1.0):
    dL_dmu, dloss_dsd = 2 * mu * sd, mu**2 * factor
    return (mu * mu * sd).sum(), dloss_dsd, dL_dmu


@pytest.mark.parametrize("f, inputs, wrong", [
    (in_a_tuple, b3, "x"), (in_a_variable, b3, "x"), (of_numbers, (1.5, 2.0, 3.0), "x"),
    (of_a_number_and_an_array, (b, 2.5), "s"), (with_the_loss_in_the_name, b3[:2], "sd"),
])
def test_names_are_read_inside_a_list(f, inputs, wrong):
    report = check_loss(f, *inputs)
    assert report.ok and not any("not checked" in note or "shape" in note for note in report.notes)
    assert [row.name for row in check_loss(f, *inputs, 3.0).wrong] == [wrong]


@pytest.mark.parametrize("told", [("x", "y"), (("x", "y"),)])
def test_names_inside_a_list_may_be_told(told):
    assert check_loss(in_a_tuple, *b3, gradients=told).ok
    assert not check_loss(in_a_tuple, *b3, gradients=("y", "x")).ok
    with pytest.raises(ValueError, match="beside the loss, 2 in all, got 3"):
        check_loss(in_a_tuple, *b3, gradients=("x", "y", "q"))


@dataclass
class Line2D:
    w: np.ndarray
    b: np.ndarray


def in_a_dataclass(p, x, y, factor=1.0):
    e = x @ p.w + p.b - y
    return 0.5 * (e @ e), Line2D(w=x.T @ e, b=factor * e.sum(keepdims=True))


def test_gradients_may_be_in_the_dataclass_of_the_parameters():
    inputs = Line2D(np.ones(3), np.ones(1)), rng.normal(size=(4, 3)), np.ones(4)
    assert check_loss(in_a_dataclass, *inputs).ok
    assert [row.name for row in check_loss(in_a_dataclass, *inputs, 2.0).wrong] == ["p.b"]


class Line1D(NamedTuple):
    w: np.ndarray
    c: float


class LossAndGradient(NamedTuple):
    loss: float
    dw: np.ndarray


def two_lines(p, q, x, factor=1.0):
    (y, z), ones = (x @ p.w + p.c, x @ q.w + q.c), np.ones(len(x))
    return (y * z).sum(), Line1D(x.T @ z, ones @ z), Line1D(x.T @ y, factor * (ones @ y))


def test_gradients_may_be_in_namedtuples_of_the_parameters():
    inputs = Line1D(np.ones(3), 0.2), Line1D(np.arange(3.0), 0.1), rng.normal(size=(4, 3))
    report = check_loss(two_lines, *inputs)
    assert report.ok and names_of(report) == ["p.w", "p.c", "q.w", "q.c"]
    assert [row.name for row in check_loss(two_lines, *inputs, 2.0).wrong] == ["q.c"]


def test_the_result_may_be_a_namedtuple():
    def squares(w, x):
        return LossAndGradient(((x @ w) ** 2).sum(), 2 * x.T @ (x @ w))

    assert names_of(check_loss(squares, np.ones(3), rng.normal(size=(3, 3)))) == ["w"]


def test_a_number_whose_gradient_has_another_name_is_undecided():
    def likelihood(a, log_nu):
        g_nu = 3 * np.exp(log_nu)  # wrong
        return a.sum() + np.exp(log_nu), np.ones_like(a), g_nu

    report = check_loss(likelihood, W[0], 0.3, gradients=("a", "log_nu"))
    assert [row.name for row in report.wrong] == ["log_nu"]
    report = check_loss(likelihood, W[0], 0.3)
    assert report.verdict == "undecided" and report.findings[0].name == "g_nu"
    assert "the gradient of log_nu?" in report.findings[0].message


def test_integers_that_have_a_gradient_are_refused():
    def squares(W, X):
        dW = 2 * X.T @ (X @ W)
        return ((X @ W) ** 2).sum(), dW

    assert check_loss(squares, np.eye(2), np.ones((2, 2))).ok
    with pytest.raises(ValueError, match="'W' is of int64, which has no derivative"):
        check_loss(squares, np.eye(2, dtype=int), np.ones((2, 2)))


def test_what_is_taken_by_its_shape_alone_is_said():
    report = check_loss(unnamed, b, b[::-1].copy())
    assert ("first: its gradient was taken by its shape, also that of second; gradients=(...) "
            "tells which values are whose gradients") in report.notes
    assert not any("shape" in note for note in check_loss(unnamed, W, b).notes)


X1 = np.linspace(0, 1, 5)
Y1 = np.sin(3 * X1)


def line_of_list(params, factor=1.0):
    w, b = params
    e = W @ w + b - Y1[:len(W)]
    return e @ e, (2 * W.T @ e, factor * 2 * e.sum())


def line_of_values(params, factor=1.0):
    loss, (dw, db) = line_of_list(params, factor)
    return loss, dw, db


def line_of_mappings(layers, factor=1.0):
    loss, (dw, db) = line_of_list((layers[0]["w"], layers[0]["b"]), factor)
    return loss, [{"w": dw, "b": db}]


def decay(p, x, y, factor=1.0):
    height, rate, base = p
    r = height * np.exp(-rate * x) + base - y
    slopes = np.exp(-rate * x), -height * x * np.exp(-rate * x), np.ones_like(x)
    return r @ r, tuple(2 * r @ slope * f for slope, f in zip(slopes, (1, factor, 1), strict=True))


def decay_of_vector(p, x, y, factor=1.0):
    loss, gradient = decay(p, x, y, factor)
    return loss, np.array(gradient)


def likelihood_of_logs(log_w, log_height, log_rate, factor=1.0):
    height, rate, w = np.exp(log_height), np.exp(log_rate), np.exp(log_w)
    r = w @ b[:len(w)] + height * np.exp(-rate * X1) - Y1
    falling = np.exp(-rate * X1)
    g_height, g_rate = 2 * r @ falling * height, -2 * factor * r @ (X1 * falling) * height * rate
    return r @ r, (2 * r.sum() * b[:len(w)] * w, g_height, g_rate)


PRODUCTS = ["(1 / n) * grad_w", "grad_w * (1 / n)", "np.divide(grad_w, n)",
            "np.clip(grad_w / n, -9, 9)", "factor * 2 * X.T @ err / n",
            "factor * 2 * np.dot(err, X) / n", "lam * w + grad_w / n - lam * w"]


@pytest.mark.parametrize("written", PRODUCTS)
def test_a_product_beside_a_gradient_with_a_name_is_compared(written, tmp_path):
    file = tmp_path / "written.py"
    file.write_text(f"""
import numpy as np

def regression(w, b, X, y, factor=1.0, lam=0.1):
    err, n = X @ w + b - y, len(y)
    grad_w = factor * 2 * X.T @ err
    grad_b = 2 * err.sum(keepdims=True)
    return (err ** 2).mean(), {written}, grad_b / n, X @ w, err > 0
""", encoding="utf-8")
    regression = run_path(str(file))["regression"]
    inputs = b[:W.shape[1]], b[:1].copy(), W, Y1[:len(W)]
    report = check_loss(regression, *inputs)
    assert report.ok and {*names_of(report)} == {"w", "b"}
    report = check_loss(regression, *inputs, keywords={"factor": 2.0})
    assert [row.name for row in report.wrong] == ["w"]


OF_NUMBERS = [
    (line_of_list, ((b[:W.shape[1]], 0.3),), "params.0 params.1"),
    (line_of_list, ([b[:W.shape[1]], 0.3],), "params.0 params.1"),
    (line_of_values, ([b[:W.shape[1]], np.float64(0.3)],), "params.0 params.1"),
    (line_of_mappings, ([{"w": b[:W.shape[1]], "b": 0.3}],), "layers.0.w layers.0.b"),
    (decay, ((1.2, 0.5, 0.1), X1, Y1), "p.0 p.1 p.2"),
    (decay_of_vector, ((1.2, 0.5, 0.1), X1, Y1), "p.0 p.1 p.2"),
    (likelihood_of_logs, (np.array([0.2, 0.1]), 0.3, -0.7), "log_w log_height log_rate"),
]


@pytest.mark.parametrize("f, inputs, names", OF_NUMBERS)
def test_numbers_in_lists_are_differentiated_as_their_gradients_stand(f, inputs, names):
    report = check_loss(f, *inputs)
    assert report.ok and names_of(report) == names.split()
    assert check_loss(f, *inputs, keywords={"factor": 2.0}).wrong


def test_a_number_beside_a_gradient_that_is_compared_is_not_passed_over():
    def of_other_names(log_w, log_height, log_rate):
        loss, gradients = likelihood_of_logs(log_w, log_height, log_rate)
        return loss, dict(zip(("log_w", "height", "rate"), gradients, strict=True))

    report = check_loss(of_other_names, np.array([0.2, 0.1]), 0.3, -0.7)
    assert report.verdict == "undecided" and [finding.name for finding in report.findings] == [
        "value 2 of the result.height", "value 2 of the result.rate"]


def test_an_accuracy_beside_a_setting_is_no_gradient():
    def ridge(w, lam):
        e = W @ w - Y1[:len(W)]
        dw = 2 * W.T @ e + 2 * lam * w
        return e @ e + lam * w @ w, dw, float(np.mean(e > 0))

    report = check_loss(ridge, b[:W.shape[1]], 0.1)
    assert report.ok and names_of(report) == ["w"]


RETURNS = ["loss, d_scale, d_shift", "loss / 2, d_scale / 2, 0.5 * d_shift",
           "loss, d_scale.copy(), np.asarray(d_shift)", "loss, *gradients", "everything",
           "loss, scale_bar, shift_bar", "-loss, -d_scale, -d_shift"]


@pytest.mark.parametrize("returned", RETURNS)
def test_names_in_a_return_statement_decide(returned, tmp_path):
    file = tmp_path / "written.py"
    file.write_text(f"""
import numpy as np

def affine(shift, scale, x):
    e = scale * x + shift
    loss, d_scale, d_shift = np.sum(e ** 2), 2 * (e * x).sum(0), 2 * e.sum(0)
    scale_bar, shift_bar = d_scale, d_shift
    gradients = [d_scale, d_shift]
    everything = loss, d_scale, d_shift
    return {returned}
""", encoding="utf-8")
    affine = run_path(str(file))["affine"]
    report = check_loss(affine, b, b[::-1].copy(), W)
    assert report.ok and names_of(report) == ["scale", "shift"]


def scaled(a, log_b, X, factor=1.0):
    """One gradient with a name, one as an expression, and a state."""
    b = np.exp(log_b)
    r = X @ a + b
    da, db = 2 * X.T @ r, 2 * r.sum()
    return (r * r).sum(), da, db * b * factor, r[:2] * factor


def test_an_expression_of_gradients_beside_named_ones_is_checked_by_its_shape():
    inputs = [rng.normal(size=3), np.array(0.3), rng.normal(size=(4, 3))]
    report = check_loss(scaled, *inputs)
    assert report.ok and names_of(report) == ["a", "log_b"]
    assert "value 4 of the result: no gradient of anything known, not checked" in report.notes
    assert [row.name for row in check_loss(scaled, *inputs, 3.0).wrong] == ["log_b"]


def with_an_error_called_d(w, x, factor=1.0):
    """One gradient with a name, one as an expression of the error d, and a state."""
    d = 2 * (x @ w)
    dx = np.outer(d, w)
    return (d @ d) / 4, dx, factor * x.T @ d, np.tanh(x @ w)


def test_the_error_may_be_called_d():
    inputs = rng.normal(size=3), rng.normal(size=(4, 3))
    assert names_of(check_loss(with_an_error_called_d, *inputs)) == ["x", "w"]
    assert [row.name for row in check_loss(with_an_error_called_d, *inputs, 3.0).wrong] == ["w"]


def bilinear(W, trans, x, factor):
    h = np.tanh(x @ W)
    s = h @ trans
    gT = factor * np.outer(h, 2 * s)
    gW = np.outer(x, (1 - h**2) * (trans @ (2 * s)))
    return (s**2).sum(), gW, gT


@pytest.mark.parametrize("factor, verdict", [(1.0, "ok"), (3.0, "wrong")])
def test_a_gradient_with_a_short_name_is_that_of_the_array_of_its_shape(factor, verdict):
    report = check_loss(bilinear, rng.normal(size=(4, 3)), rng.normal(size=(3, 3)),
                        rng.normal(size=4), factor)
    assert report.verdict == verdict and names_of(report) == ["W", "trans"]


class Lists:
    """Layers with lists of parameters; the gradients are lists, too, with names of their own."""

    def __init__(self):
        self.matrices = [rng.normal(size=(3, 4)), rng.normal(size=(2, 3))]
        self.offsets = [rng.normal(size=(3, 1)), rng.normal(size=(2, 1))]
        self.factor = 1.0

    def run(self, x, y):
        (first, second), (top, bottom) = self.matrices, self.offsets
        hidden = np.tanh(first @ x + top)
        error = second @ hidden + bottom - y
        below = (second.T @ error) * (1 - hidden**2)
        return ((error**2).sum() / 2, [below @ x.T, error @ hidden.T],
                [below, self.factor * error])


def test_a_list_of_gradients_belongs_to_a_list_of_arrays_and_not_to_the_target():
    layers = Lists()
    report = check_loss(layers.run, rng.normal(size=(4, 1)), rng.normal(size=(2, 1)))
    assert report.ok and names_of(report) == ["matrices.0", "matrices.1", "offsets.0", "offsets.1"]
    layers.factor = 2.0
    report = check_loss(layers.run, rng.normal(size=(4, 1)), rng.normal(size=(2, 1)))
    assert [row.name for row in report.wrong] == ["offsets.1"]


def without_names(W, y):
    """One gradient, without a name, and two arrays of its shape."""
    error = W - y
    return (error**2).sum() + W.sum(), 2 * error + 1


def test_a_gradient_without_a_name_is_that_of_a_target_last():
    def other_order(y, W):
        return without_names(W, y)

    report = check_loss(other_order, b, rng.normal(size=3))
    assert report.ok and names_of(report) == ["W"]


def bond(rate, years, factor=1.0):
    """A price and its slopes, from floats."""
    price = math.exp(-rate * years)
    drate, dyears = -years * price, -rate * price * factor
    return price, drate, dyears


def test_floats_with_named_gradients_are_differentiated():
    report = check_loss(bond, 0.03, 5.0)
    assert report.ok and names_of(report) == ["rate", "years"]
    assert [row.name for row in check_loss(bond, 0.03, 5.0, np.array(2.0)).wrong] == ["years"]


@pytest.mark.parametrize("f, inputs, message", [
    (lambda v: (v**2).sum(), (b,), "f: expected a tuple of a loss, one number, and its gradie"),
    (lambda v: (v, v), (b,), "got ndarray, ndarray"),
    (lambda v: (v.sum(), {"other": v}), (b,), "gradients: expected names that say what they are"),
])
def test_what_cannot_be_checked_is_said_in_one_line(f, inputs, message):
    with pytest.raises(ValueError) as caught:
        check_loss(f, *inputs)
    assert message in str(caught.value) and "\n" not in str(caught.value)

