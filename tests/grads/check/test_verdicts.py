"""Verdicts that were wrong once: each right function beside its wrong twin."""

from __future__ import annotations

import math

import numpy as np
import pytest

from grads.check import check_gradients, check_pair
from grads.check.layers import check_layer
from grads.check.losses import check_loss

RNG = np.random.default_rng(0)


def linear(x, W):
    return x @ W, (x, W)


def linear_backward(d, cache):
    x, W = cache
    return d @ W.T, x.T @ d


def relu(x):
    return np.maximum(x, 0), x


def tanh(x):
    y = np.tanh(x)
    return y, y


def sigmoid(x):
    y = 1 / (1 + np.exp(-x))
    return y, y


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    p = e / e.sum(axis=-1, keepdims=True)
    return p, p


def softmax_backward(d, p):
    return p * (d - (d * p).sum(axis=-1, keepdims=True))


def inverse(A):
    B = np.linalg.inv(A)
    return B, B


# --- small gradients, and less than float64 -------------------------------------------------------


@pytest.mark.parametrize("factor, verdict", [(1, "ok"), (0, "wrong"), (2, "wrong")])
def test_a_tiny_gradient_in_float32(factor, verdict):
    x = (1e-8 * RNG.normal(size=(4, 3))).astype(np.float32)
    W = RNG.normal(size=(3, 5)).astype(np.float32)

    def backward(d, cache):
        dx, dW = linear_backward(d, cache)
        return dx, np.float32(factor) * dW

    assert check_pair(linear, backward, [x, W]).verdict == verdict
    x, W = RNG.normal(size=(4, 3)).astype(np.float32), W
    dx, dW = linear_backward(np.ones((4, 5), np.float32), (np.float32(1e-8) * x, W))
    report = check_gradients(lambda x, W: (x @ W).sum(), [np.float32(1e-8) * x, W],
                             [dx, np.float32(factor) * dW])
    assert report.verdict == "undecided" or factor == 1


def products(x, w):
    return x * w, (x, w)


@pytest.mark.parametrize("f, backward, inputs", [
    (products, lambda d, c: (d * c[1], d * c[0]), (1e-4, 1e-4)),
    (lambda x: (x**3, x), lambda d, x: 3 * d * x * x, (1e-4,)),
    (softmax, softmax_backward, (6.0,)),
])
def test_underflow_is_not_blamed_on_the_upstream_gradient(f, backward, inputs):
    for seed in range(4):
        rng = np.random.default_rng(seed)
        arrays = [(scale * rng.normal(size=(5, 4))).astype(np.float16) for scale in inputs]
        report = check_pair(f, backward, arrays)
        assert report.verdict in ("ok", "undecided") and not report.findings, str(report)


def test_a_backward_that_is_not_linear_is_blamed_in_float16_too():
    x = RNG.normal(size=(5, 4)).astype(np.float16)
    assert "quadratic" in check_pair(lambda x: (2 * x, x), lambda d, x: 2 * d * d,
                                     [x]).findings[0].message


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("error", [0.0, 1e-2])
def test_one_entry_of_a_sum_in_float32(seed, error):
    x = np.random.default_rng(seed).normal(size=1000).astype(np.float32)

    def gradient(x):
        d = 1 - np.tanh(x) ** 2
        d[97 * seed] += error
        return d

    report = check_gradients(lambda x: np.tanh(x.astype(np.float32)).sum(dtype=np.float32), [x],
                             gradient, rng=np.random.default_rng(seed))
    assert report.verdict in ("wrong" if error else "ok", "undecided"), str(report)


# --- kinks ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("slope, verdict", [
    (0.0, "ok"), (0.5, "ok"), (1.0, "ok"), (2.0, "wrong"), (-0.5, "wrong")])
@pytest.mark.parametrize("number", [7, 300])
def test_the_slope_of_a_relu_at_zero(slope, verdict, number):
    def backward(d, x):
        return d * np.where(x > 0, 1.0, np.where(x == 0, slope, 0.0))

    x = np.append(np.random.default_rng(1).normal(size=number), [0.0, 0.0])
    assert check_pair(relu, backward, [x]).verdict == verdict


def test_where_every_entry_is_at_a_kink_nothing_was_compared():
    report = check_pair(relu, lambda d, x: d * (x > 0), [np.zeros(4)])
    assert report.verdict == "undecided" and "nothing was compared" in str(report)


# --- rounding of the gradient itself --------------------------------------------------------------


def from_output(slope):
    return lambda d, y: d * slope(y)


HILBERT = 1 / (np.arange(6)[:, None] + np.arange(6) + 1)
SATURATED = {
    "tanh": (tanh, lambda d, y: d * (1 - y * y), [16.0, 1, 2, -16.3, 0.5]),
    "all of tanh": (tanh, lambda d, y: d * (1 - y * y), [16.0, -16.3, 17, 15]),
    "sigmoid": (sigmoid, lambda d, y: d * y * (1 - y), [30.0, 31, -3, 2]),
    "all of sigmoid": (sigmoid, lambda d, y: d * y * (1 - y), [30.0, 31, 32]),
    "softmax": (softmax, softmax_backward, [[30.0, 0, -1], [0, 31, 2]]),
    "inverse": (inverse, lambda d, B: -B.T @ d @ B.T, HILBERT),
}
LABELS = np.arange(2), np.array([0, 1])


def cross_entropy(x):
    return -np.log(softmax(x)[0][LABELS]).mean()


def cross_entropy_gradient(x):
    p = softmax(x)[0]
    p[LABELS] -= 1
    return p / 2


@pytest.mark.parametrize("name", SATURATED)
def test_saturated_functions(name):
    f, backward, x = SATURATED[name]
    report = check_pair(f, backward, [np.array(x)])
    assert report.verdict == ("undecided" if "all" in name else "ok"), str(report)
    for factor in (-1, 1.01, 2):
        report = check_pair(f, lambda d, y, k=factor: k * backward(d, y), [np.array(x)])
        assert report.verdict in ("wrong", "undecided") and report.verdict == (
            "wrong" if factor != 1.01 else report.verdict), str(report)


FAR_APART = [[37.0, 0, -1], [0, 38, 2]]


@pytest.mark.parametrize("wrong", [
    lambda d, p: 2 * softmax_backward(d, p), lambda d, p: 1.01 * softmax_backward(d, p),
    lambda d, p: p * d, lambda d, p: np.where(p > 0.5, 0, softmax_backward(d, p))])
def test_what_is_left_of_a_softmax_is_its_rounding(wrong):
    """Where one score is 37 larger than the others, the gradient is less than a rounding of the
    terms that are subtracted: it is zero, or a rounding. Half the scores show that it is right."""
    x = np.array(FAR_APART)
    assert check_pair(softmax, softmax_backward, [x]).verdict == "undecided"
    assert check_pair(softmax, wrong, [x]).verdict == "wrong"


@pytest.mark.parametrize("size", [7, 8, 9])
def test_an_ill_conditioned_inverse(size):
    A = 1 / (np.arange(size)[:, None] + np.arange(size) + 1)
    assert check_pair(inverse, lambda d, B: -B.T @ d @ B.T, [A]).verdict == "ok"
    row = np.zeros(A.shape)
    row[5] = 0.01
    for wrong in (lambda d, B: B.T @ d @ B.T, lambda d, B: -1.01 * B.T @ d @ B.T,
                  lambda d, B: -B.T @ d @ B.T * (1 + row)):
        assert check_pair(inverse, wrong, [A]).verdict == "wrong"


def test_a_confident_cross_entropy():
    for x in (np.array([[30.0, 0, -1], [0, 31, 2]]), np.array(FAR_APART)):
        assert check_gradients(cross_entropy, [x], cross_entropy_gradient).verdict == "undecided"
        assert check_gradients(cross_entropy, [x], lambda x: softmax(x)[0]).verdict == "wrong"
        report = check_gradients(cross_entropy, [x], lambda x: 3 * cross_entropy_gradient(x))
        assert report.verdict == ("wrong" if x[0, 0] == 30 else "undecided")


# --- empty inputs ---------------------------------------------------------------------------------


def test_an_empty_batch():
    W = RNG.normal(size=(3, 2))
    report = check_pair(linear, linear_backward, [np.zeros((0, 3)), W])
    assert report.verdict == "undecided" and "nothing was compared" in str(report)
    with pytest.raises(ValueError, match=r"inputs: expected entries in 'x', got shape \(0, 3\), "):
        check_gradients(lambda x: x.max(axis=0).sum(), [np.zeros((0, 3))], np.ones_like)


# --- values that hide mistakes --------------------------------------------------------------------


def scaled(x, gamma):
    return x * gamma, (x, gamma)


def adapted(x, W, A, B):
    return x @ (W + A @ B), (x, W, A, B)


def adapted_backward(d, cache):
    x, W, A, B = cache
    return d @ (W + A @ B).T, x.T @ d, x.T @ d @ B.T, A.T @ x.T @ d


def without_B(d, cache):
    _, dW, dA, dB = adapted_backward(d, cache)
    return d @ cache[1].T, dW, dA, dB


X = RNG.normal(size=(4, 3))
INITIAL = {
    "gamma is 1 everywhere": (
        scaled, lambda d, c: (d * c[1], (d * c[0]).sum(axis=0)),
        lambda d, c: (d, (d * c[0]).sum(axis=0)), [X, np.ones(3)]),
    "B is 0 everywhere": (adapted, adapted_backward, without_B,
                          [X, RNG.normal(size=(3, 3)), RNG.normal(size=(3, 2)), np.zeros((2, 3))]),
    "W is diagonal": (linear, linear_backward, lambda d, c: (d @ c[1], c[0].T @ d),
                      [X, np.eye(3)]),
}


@pytest.mark.parametrize("said", INITIAL)
def test_initial_values_do_not_hide_a_mistake(said):
    f, right, wrong, inputs = INITIAL[said]
    check_pair(f, right, inputs).raise_if_wrong()
    report = check_pair(f, wrong, inputs)
    assert report.verdict == "wrong" and f"where {said}, and wrong" in str(report)


def test_of_gradients_given_as_arrays_initial_values_are_told():
    report = check_gradients(lambda x, W: (x @ W).sum(), [X, np.eye(3)],
                             [np.ones((4, 3)), X.T @ np.ones((4, 3))])
    assert report.ok and "W is diagonal: what is right only there passes" in str(report)


@pytest.mark.parametrize("size", [1e-6, 1e-8])
def test_a_term_that_changes_fast_is_no_rounding(size):
    """Its slope is other at points nearby, as the errors of rounding are."""
    x = np.random.default_rng(0).normal(size=6) + 2

    def f(x):
        return x + size * np.sin(1e5 * x), x

    assert check_pair(f, lambda d, x: (d * (1 + size * 1e5 * np.cos(1e5 * x)),), [x]).ok
    assert check_pair(f, lambda d, x: (d,), [x]).verdict == "wrong"


# --- functions that iterate, and where gradients are kept -----------------------------------------


@pytest.mark.parametrize("tolerance", [1e-10, 1e-12])
@pytest.mark.parametrize("slope, verdict", [(0.6, "ok"), (0.5, "wrong"), (0.6 + 1e-4, "wrong")])
def test_a_fixed_point_with_an_implicit_gradient(tolerance, slope, verdict):
    def forward(x):
        z = np.zeros_like(x)
        while True:
            z, before = np.tanh(0.6 * z + x), z
            if np.abs(z - before).max() < tolerance:
                return z, z

    def backward(d, z):
        return d * (1 - z * z) / (1 - slope * (1 - z * z))

    report = check_pair(forward, backward, [np.array([0.3, -0.7, 1.1, 0.2])])
    assert report.verdict == verdict, str(report)


def test_an_early_end_of_an_iteration_is_asked_for():
    """Each entry converges at its own rate, so that few are wrong."""
    def forward(x):
        z = np.zeros_like(x)
        while True:
            z, before = np.tanh(0.6 * z + x), z
            if np.abs(z - before).max() < 1e-8:
                return z, z

    def backward(d, z):
        return d * (1 - z * z) / (1 - 0.6 * (1 - z * z))

    report = check_pair(forward, backward, [np.random.default_rng(3).normal(size=4)])
    assert "digits: " in str(report) and "to a tolerance?" in str(report)
    for seed in (21, 22, 23):  # two entries
        report = check_pair(forward, backward, [np.random.default_rng(seed).normal(size=2)])
        assert "iterat" in str(report) and "to a tolerance?" in str(report), str(report)


@pytest.mark.parametrize("error, verdict", [(0, "undecided"), (1e-6, "wrong")])
def test_an_iteration_whose_derivatives_have_not_converged_is_undecided(error, verdict):
    rng = np.random.default_rng(101)
    x, W = rng.normal(size=(3, 2)), 0.3 * rng.normal(size=(4, 4))
    U, b = rng.normal(size=(4, 2)), rng.normal(size=4)

    def forward(x):
        z = np.zeros((3, 4))
        while True:
            z, before = np.tanh(z @ W.T + x @ U.T + b), z
            if np.abs(z - before).max() < 1e-10:
                return z, z

    def backward(d, z):
        slope = 1 - z * z  # (3, 4)
        g = [s * np.linalg.solve(np.eye(4) - W.T * s, d_row)
             for s, d_row in zip(slope, d, strict=True)]
        return (1 + error) * np.array(g) @ U

    for how in ({}, {"diagnosis": 0}):
        report = check_pair(forward, backward, [x], **how)
        assert report.verdict == verdict and ("to a tolerance? Its" in str(report)) != bool(error)


@pytest.mark.parametrize("mean", [False, True])
def test_parameters_beside_their_gradients_in_a_mapping(mean):
    class Layer:
        def __init__(self):
            rng = np.random.default_rng(4)
            self.W = {"val": rng.normal(size=(3, 2)), "grad": 0}
            self.b = {"val": rng.normal(size=2), "grad": 0}

        def forward(self, x):
            self.x = x
            return x @ self.W["val"] + self.b["val"]

        def backward(self, d):
            self.W["grad"] = self.x.T @ d
            self.b["grad"] = d.mean(axis=0) if mean else d.sum(axis=0)
            return d @ self.W["val"].T

    report = check_layer(Layer(), np.random.default_rng(5).normal(size=(4, 3)))
    assert report.verdict == ("wrong" if mean else "ok"), str(report)
    assert len(report.rows) == 3


@pytest.mark.parametrize("lost", [False, True])
def test_a_list_of_numbers_is_a_gradient(lost):
    def loss(w):
        a, b, c = w
        return a * b + b * c * c, [b, a + (0 if lost else c * c), 2 * b * c]

    report = check_loss(loss, [0.5, -1.5, 2.0])
    assert report.verdict == ("wrong" if lost else "ok"), str(report)


def test_a_path_that_is_dead_where_a_tensor_is_constant_is_no_hint():
    """Where all entries of V are equal, W has the gradient of the weight decay alone."""
    rng = np.random.default_rng(231)
    X, y = rng.normal(size=(6, 5)), np.arange(6) % 4

    def loss(W, V):
        h = np.maximum(X @ W, 0)
        p = softmax(h @ V)[0]
        ds = p.copy()
        ds[np.arange(6), y] -= 1
        dW = X.T @ (ds @ V.T) + 0.05 * W          # without the mask of the ReLU
        return -np.log(p[np.arange(6), y]).sum() + 0.025 * (W * W).sum(), dW, h.T @ ds

    report = check_loss(loss, 0.3 * rng.normal(size=(5, 7)), 0.3 * rng.normal(size=(7, 4)),
                        gradients=("W", "V"))
    assert report.verdict == "wrong" and "same value everywhere" not in str(report)


# --- at the end of a domain -----------------------------------------------------------------------


@pytest.mark.parametrize("factor, verdict", [(1.0, "ok"), (1.01, "wrong")])
@pytest.mark.parametrize("x", [0.01, 0.03])
def test_a_function_that_raises_outside_of_its_domain(x, factor, verdict):
    """The steps get shorter; so they do where a table ends."""
    slope = factor / (2 * math.sqrt(x))
    assert check_gradients(lambda x: math.sqrt(x), [x], [slope]).verdict == verdict

    def table(q):
        k = np.searchsorted([0.0, 1.0, 2.0], q.real) - 1
        squares = np.array([0.0, 1.0, 4.0])
        return (squares[k] + (squares[k + 1] - squares[k]) * (q - k)).sum()

    assert check_gradients(table, [np.array([0.5, 2 - x])],
                           [factor * np.array([1.0, 3.0])]).verdict == verdict



def log_difference(a, b):
    """log(exp(a) - exp(b))."""
    return a + np.log(-np.expm1(b - a)), (a, b)


def log_difference_backward(d, cache):
    a, b = cache
    return d / -np.expm1(b - a), -d * np.exp(b - a) / -np.expm1(b - a)


AT_THE_END = {
    "arctanh": (np.arctanh, lambda x: 1 / (1 - x * x)),
    "arccos": (np.arccos, lambda x: -1 / np.sqrt(1 - x * x)),
    "log": (lambda x: np.log(1 - x), lambda x: -1 / (1 - x)),
}


@pytest.mark.parametrize("how", [{}, {"diagnosis": 0}, {"every_entry": True}], ids=str)
@pytest.mark.parametrize("distance", [1e-7, 3e-8, 1e-10])
@pytest.mark.parametrize("f, slope", AT_THE_END.values(), ids=AT_THE_END)
def test_steps_that_leave_the_domain_are_no_witnesses(f, slope, distance, how):
    """The gradient's own rounding is 1e-11 of it, because 1 - x * x loses digits."""
    x = np.array([1 - distance, 0.5])
    report = check_gradients(lambda x: f(x).sum(), [x], [slope(x)], **how)
    assert report.ok and "rtol" not in str(report) and "nan" not in str(report)
    assert check_pair(lambda x: (f(x), x), lambda d, x: d * slope(x), [x], **how).ok
    for factor in (1.01, 2, -1, 0):
        report = check_gradients(lambda x: f(x).sum(), [x], [factor * slope(x)], **how)
        assert report.verdict == "wrong"


def test_the_logarithm_of_a_small_difference():
    a = 100 * np.random.default_rng(0).normal(size=5)
    inputs = [a, a - [1e-6, 1e-3, 1, 10, 30]]
    assert check_pair(log_difference, log_difference_backward, inputs).ok
    assert check_pair(log_difference, lambda d, cache: (
        log_difference_backward(d, cache)[0], d / np.expm1(cache[1] - cache[0])), inputs
        ).verdict == "wrong"


def test_a_method_without_a_step_in_the_domain_is_left_out():
    def strict(x):  # refuses all other real numbers
        return np.where(x == 0.5, x**2, np.nan).sum()

    for slope in (1.0, 2.0):
        report = check_gradients(strict, [np.array([0.5])], [np.array([slope])], method="ridders")
        assert report.verdict == "undecided"
        assert "Ridders: not run, its steps leave the domain" in str(report)


# --- below the rounding of differences ------------------------------------------------------------


@pytest.mark.parametrize("factor", [1, 2, 0])
@pytest.mark.parametrize("large", [1e6, 1e3])
def test_a_gradient_that_differences_cannot_see_is_undecided(large, factor):
    def forward(x, s):  # float() drops the imaginary part
        return float((large * x + 1e-9 * np.sin(s)).sum()), s

    def backward(d, s):
        return large * d * np.ones(4), factor * 1e-9 * d * np.cos(s)

    rng = np.random.default_rng(3)
    report = check_pair(forward, backward, [rng.normal(size=4), rng.normal(size=4)])
    assert [row.name for row in report.wrong] == ["s"]
    if factor == 1:
        assert report.verdict == "undecided" and "fewer than three digits" in str(report)


@pytest.mark.parametrize("zeros", [True, False])
def test_a_gradient_that_is_only_rounding_is_right_without_a_complex_step(zeros):
    """A softmax does not change with a shift of all scores."""
    def forward(z, shift):
        e = np.exp(np.array((z + shift).tolist(), float))
        p = e / e.sum(axis=1, keepdims=True)
        return p, p

    def backward(d, p):
        dz = p * (d - (d * p).sum(axis=1, keepdims=True))
        return dz, dz.sum(axis=1, keepdims=True) * (not zeros)

    rng = np.random.default_rng(0)
    report = check_pair(forward, backward, [rng.normal(size=(8, 4)), rng.normal(size=(8, 1))],
                        method="ridders")
    assert report.ok


@pytest.mark.parametrize("gradients", [
    lambda d, c: (d * c[1], None), lambda d, c: {"x": d * c[1]}], ids=["None", "a mapping"])
def test_an_input_without_a_gradient_leaves_the_check_undecided(gradients):
    def product(x, w):
        return x * w, (x, w)

    inputs = [np.array([0.3, -1.2]), np.array([2.0, 0.7])]
    report = check_pair(product, gradients, inputs)
    assert report.verdict == "undecided" and [row.name for row in report.rows] == ["x"]
    assert "unchecked: w: it has no gradient" in str(report) and "names=['x']" in str(report)
    assert check_pair(product, gradients, inputs, names=["x"]).ok
    half = check_pair(product, lambda d, c: {"x": d * c[1] / 2}, inputs)
    assert half.verdict == "wrong" and "off by the factor 0.5" in str(half)


def test_a_function_of_its_inputs_without_a_gradient_of_one():
    x, w = np.array([0.3, -1.2]), np.array([2.0, 0.7])
    report = check_gradients(lambda x, w: (x * w).sum(), [x, w], lambda x, w: (w, None))
    assert report.verdict == "undecided" and report.rows[0].status == "ok"


class Updating:
    """A layer that updates its parameters: without an upstream gradient there is no update."""

    def __init__(self):
        self.W, self.b = np.array([[0.3, -1.2], [0.7, 0.4]]), np.array([[0.1, -0.5]])

    def forward(self, x):
        self.x = x
        return x @ self.W + self.b

    def backward(self, d, learning_rate):
        dx = d @ self.W.T
        self.W -= learning_rate * self.x.T @ d
        self.b -= d  # the learning rate is forgotten
        return dx


def test_gradients_that_vanish_with_the_upstream_gradient_are_not_missing():
    report = check_layer(Updating(), np.array([[1.5, -0.3]]))
    assert report.verdict == "wrong" and [row.name for row in report.wrong] == ["b"]


@pytest.mark.parametrize("factor", [1, 2])
def test_a_given_gradient_that_differences_cannot_see_is_undecided(factor):
    report = check_gradients(lambda a, b: float(1e12 * np.sin(a) + 1e-12 * np.sin(b)), [0.5, 0.7],
                             [1e12 * np.cos(0.5), factor * 1e-12 * np.cos(0.7)])
    assert report.verdict == "undecided" and [row.name for row in report.wrong] == ["b"]
