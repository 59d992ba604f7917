"""Upstream gradients that are nobody's input."""

from __future__ import annotations

import numpy as np
import pytest

from grads.check import check_gradients, check_pair
from grads.check.losses import check_loss


def square(x):
    return x**3, x


def input_for_upstream(d, x):
    """Takes x for dy: right where both are the same numbers."""
    return 3 * x**2 * x


@pytest.mark.parametrize("seed", [0, 1, 8])
@pytest.mark.parametrize("with_rng", [False, True])
def test_an_input_from_the_same_seed_does_not_stand_for_the_upstream_gradient(seed, with_rng):
    x = np.random.default_rng(seed).normal(size=(4, 3))
    how = {"rng": np.random.default_rng(seed)} if with_rng else {}
    assert not check_pair(square, input_for_upstream, [x], **how).ok
    assert check_pair(square, lambda d, x: 3 * x**2 * d, [x], **how).ok


def normalize(x):
    """Rows of length 1."""
    r = np.sqrt((x * x).sum(axis=1, keepdims=True))
    return x / r, (x / r, r)


def normalize_backward(dy, cache):
    y, r = cache
    return (dy - y * (y * dy).sum(axis=1, keepdims=True)) / r


def test_a_right_unit_norm_layer_passes_at_seed_0():
    """Its gradient is zero along x, which an upstream gradient of x makes all of it."""
    x = np.random.default_rng(0).normal(size=(4, 3))
    assert check_pair(normalize, normalize_backward, [x]).ok
    assert check_pair(normalize, normalize_backward, [x], rng=np.random.default_rng(0)).ok


@pytest.mark.parametrize("factor", [1.0, -2.0])
def test_an_upstream_gradient_that_is_an_input_is_refused(factor):
    x = np.random.default_rng(3).normal(size=(4, 3))
    with pytest.raises(ValueError, match=r"upstream: expected other numbers than .*'x'"):
        check_pair(square, input_for_upstream, [x], upstream={"f": factor * x})
    ones = np.ones((4, 3))
    assert check_pair(square, lambda d, x: 3 * x**2 * d, [2 * ones], upstream={"f": ones}).ok
    assert check_gradients(np.sin, 1.0, np.cos(1.0)).ok


@pytest.mark.parametrize("upstream", [[1.0, 2.0], (1, 2), np.array([1.0, 2.0])])
def test_the_upstream_gradient_of_an_array_may_be_a_list(upstream):
    x = np.array([0.5, -1.5])
    assert check_gradients(np.sin, [x], [np.cos(x) * upstream], upstream=upstream).ok
    assert not check_gradients(np.sin, [x], [np.cos(x)], upstream=upstream).ok
    pair = check_gradients(lambda x: (np.sin(x[0]), x[1] ** 2), [x],
                           [np.array([np.cos(0.5), -3]) * upstream], upstream=list(upstream))
    assert pair.ok
    with pytest.raises(ValueError, match=r"upstream: expected arrays of the shapes .*\(2,\)"):
        check_gradients(np.sin, [x], [np.cos(x)], upstream=[1.0, 1.0, 1.0])


# --- backwards that are not linear in their upstream gradient -------------------------------------


def softmax(z):
    e = np.exp(z - z.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


CLIPS = "clips or squashes its upstream gradient, or this gradient"
NONLINEAR = {
    "d ** 2": (lambda d, x: 3 * x**2 * d**2, "quadratic in the upstream gradient"),
    "d * |d|": (lambda d, x: 3 * x**2 * d * np.abs(d), "not linear"),
    "|d|": (lambda d, x: 3 * x**2 * np.abs(d), "loses the sign"),
    "softmax(d)": (lambda d, x: 3 * x**2 * softmax(d), "not linear"),
    "d of ones": (lambda d, x: 3 * x**2, "ignores the upstream gradient"),
    "decayed": (lambda d, x: 3 * x**2 * d + 0.01 * x,
                "something is added to it that does not depend on the upstream gradient"),
    "ReLU of d": (lambda d, x: 3 * x**2 * np.maximum(d, 0), "not linear"),
    "clipped": (lambda d, x: 3 * x**2 * np.clip(d, -0.5, 0.5), CLIPS),
    "clipped far away": (lambda d, x: 3 * x**2 * np.clip(d, -50, 50), CLIPS),
    "tanh of d": (lambda d, x: 3 * x**2 * np.tanh(d), CLIPS),
    "the gradient clipped": (lambda d, x: np.clip(3 * x**2 * d, -20, 20),
                             "clips this gradient at 20"),
    "its length clipped": (lambda d, x: 3 * x**2 * d * min(1, 50 / np.linalg.norm(d)), CLIPS),
    "small ones dropped": (lambda d, x: 3 * x**2 * np.where(np.abs(d) > 1e-2, d, 0),
                           "drops small upstream gradients"),
    "normalised": (lambda d, x: 3 * x**2 * d / np.sqrt((d * d).sum()), "not linear"),
    "d and d ** 2": (lambda d, x: d * (3 * x**2 + d), "quadratic in the upstream gradient"),
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", NONLINEAR)
def test_what_is_not_linear_is_named_first(name, dtype):
    backward, said = NONLINEAR[name]
    x = np.random.default_rng(5).normal(size=(4, 3)).astype(dtype)
    report = check_pair(square, backward, [x])
    assert report.verdict == "wrong"
    assert report.remarks()[0].startswith("upstream: dx: ")
    assert said in report.remarks()[0]
    if " clip" in report.remarks()[0]:
        assert report.remarks()[0].endswith("; a gradient is linear in the upstream gradient")


def iterated(d, x):
    """3 x^2 d, by a division that is iterated to a tolerance."""
    solution, right = np.zeros_like(d), 3 * x**2 * d
    while np.abs(solution - right).max() > 1e-9:
        solution = solution + 0.5 * (right - solution)
    return solution


LINEAR = {
    "float32 sums": lambda d, x: (3 * x**2 * d).astype(np.float32),
    "by a matrix": lambda d, x: 3 * x**2 * np.linalg.solve(np.eye(4) * 3, 3 * d),
    "iterated": iterated,
    "divided by itself": lambda d, x: 3 * x**2 * np.sqrt(np.abs(d)) ** 4 / d,
}


@pytest.mark.parametrize("name", LINEAR)
def test_what_is_linear_but_for_rounding_is_not_accused(name):
    x = np.random.default_rng(5).normal(size=(4, 3))
    report = check_pair(square, LINEAR[name], [x], rtol=1e-6)
    assert not report.findings, str(report)
    x = x.astype(np.float32)
    assert check_pair(square, lambda d, x: 3 * x**2 * d, [x]).ok


def test_a_loss_whose_backward_forgets_its_upstream_gradient():
    x = np.random.default_rng(5).normal(size=(4, 3))
    report = check_pair(lambda x: ((x**2).sum(), x), lambda d, x: 2 * x, [x])
    assert "upstream: dx: it ignores the upstream gradient" in str(report)


def test_a_random_backward_is_called_random():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4, 3))
    report = check_pair(square, lambda d, x: 3 * x**2 * d * (rng.random(x.shape) < 0.5), [x])
    assert [finding.kind for finding in report.findings] == ["random"]


PARTS = (1, 2, 3, 4, 5, 7)


def in_any_order(w):
    """The loss sum(1 - cos(w)^3), and its gradient as a sum whose terms come in any order."""
    terms = np.array([np.cos(w) ** 2 * np.sin(w) / k for k in PARTS])
    order = np.random.default_rng().permutation(len(terms))
    return (1 - np.cos(w) ** 3).sum(), sum(terms[k] for k in order) * 3 / sum(1 / k for k in PARTS)


def test_gradients_that_differ_by_a_rounding_from_run_to_run_are_not_random():
    """As in an engine that sorts its nodes from a set."""
    w = np.random.default_rng(5).normal(size=30)
    for _ in range(5):
        assert check_loss(in_any_order, w).ok


# --- backwards that iterate to an absolute tolerance ----------------------------------------------


@pytest.mark.parametrize("seed", [4, 5, 6])
def test_a_backward_that_iterates_to_an_absolute_tolerance_ends(seed):
    """The tolerance is below one rounding of a gradient that is 64 times larger."""
    W = np.random.default_rng(seed).normal(size=(4, 4))
    W *= 0.6 / np.linalg.norm(W, 2)

    def iterated(step, start):
        while True:
            new = step(start)
            if np.abs(new - start).max() < 1e-14:
                return new
            start = new

    def forward(x):
        z = iterated(lambda z: np.tanh(z @ W.T + x), np.zeros_like(x))
        return z, 1 - z * z

    def backward(d, slope):
        return iterated(lambda g: d + (g * slope) @ W, d) * slope

    x = np.random.default_rng(seed).normal(size=(3, 4))
    check_pair(forward, backward, [x], time_limit=20).raise_if_wrong()
    wrong = check_pair(forward, lambda d, slope: backward(d, slope) * slope, [x], time_limit=20)
    assert wrong.verdict == "wrong"
