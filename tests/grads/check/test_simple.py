"""The page that shows the idea agrees with the tool: the same derivatives and verdicts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import grads.check
from grads.check import check_gradients, simple
from grads.check.differentiate import derivatives
from grads.check.evaluate import Evaluator, Line

RNG = np.random.default_rng(4)
X, W, D = RNG.normal(size=(3, 4)), RNG.normal(size=(4, 4)), RNG.normal(size=(3, 4))


def softmax(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def softmax_gradient(x, d):
    p = softmax(x)
    return p * (d - (p * d).sum(axis=1, keepdims=True))


def relu(x):
    return np.where(x.real > 0, x, 0.0)


FUNCTIONS = {  # a function, and its gradient
    "tanh": (np.tanh, lambda x, d: d * (1 - np.tanh(x) ** 2)),
    "layer": (lambda x: np.sin(x @ W), lambda x, d: (d * np.cos(x @ W)) @ W.T),
    "softmax": (softmax, softmax_gradient),
    "relu": (relu, lambda x, d: d * (x > 0)),
    "power": (lambda x: x**3 / (1 + x * x), lambda x, d: d * (3 * x**2 + x**4) / (1 + x * x) ** 2),
}


@pytest.mark.parametrize("f, gradient", FUNCTIONS.values(), ids=FUNCTIONS)
def test_same_derivative_and_same_verdict(f, gradient):
    v = np.random.default_rng(5).normal(size=X.shape)
    for method, compute in (("complex", simple.complex_step),
                            ("central", simple.central_difference)):
        evaluate = Evaluator(lambda a: {"y": f(a["x"])}, {"x": X})
        ours = derivatives(evaluate, {"y": D}, [Line({"x": v})], method).value[0, 0]
        allowed = 1e-12 if method == "complex" else 1e-9
        assert abs(np.sum(D * compute(f, X, v)) - ours) <= allowed * abs(ours)
    dx = gradient(X, D)
    slightly = dx.copy()
    slightly[1, 2] += 1e-6
    for analytic, verdict in ((dx, "ok"), (1.001 * dx, "wrong"), (-dx, "wrong"), (0 * dx, "wrong"),
                              (slightly, "wrong"), (np.nan * dx, "wrong")):
        assert simple.check(f, X, analytic, D, np.random.default_rng(1)) == verdict
        if np.isfinite(analytic).all():
            assert check_gradients(f, X, analytic, upstream=D).verdict == verdict


def test_what_is_not_analytic_is_undecided():
    """The tool continues `abs`; the page says that its methods disagree."""
    assert simple.check(lambda x: np.abs(x) * x, X, 2 * np.abs(X)) == "undecided"


def test_it_is_one_page_and_the_tool_begins_there():
    assert len(Path(simple.__file__).read_text("utf-8").splitlines()) <= 60
    assert "The idea on one page: grads/check/simple.py." in grads.check.__doc__.split("\n\n")[1]
