"""Other precisions, small inputs, caches: what was passed in silence, or refused without need."""

from __future__ import annotations

import numpy as np
import pytest
from tanh_layer import layer_backward, layer_forward

from grads.check import check_gradients, check_pair
from grads.check.differentiate import at_entries

RNG = np.random.default_rng(21)
X32, W32 = (RNG.normal(size=shape).astype(np.float32) for shape in ((16, 6), (5, 6)))


# --- float32 --------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_a_float32_gradient_wrong_by_a_thousandth_is_wrong(seed):
    def wrong(dh, cache):
        dx, dW = layer_backward(dh, cache)
        return dx, dW * np.float32(1.0005)

    rng = np.random.default_rng(seed)
    assert check_pair(layer_forward, layer_backward, [X32, W32], rng=rng).ok
    [row] = check_pair(layer_forward, wrong, [X32, W32], rng=rng).wrong
    assert row.name == "W" and row.analytic != 0


def test_a_float32_gradient_that_is_given_may_be_wrong_by_less():
    x = X32.astype(float)
    upstream = RNG.normal(size=(16, 5))

    def outputs(x, W):
        return layer_forward(x, W)[0]

    right = [g.astype(np.float32) for g in layer_backward(upstream, layer_forward(x, W32)[1])]
    inputs = [x.astype(np.float32), W32]
    assert check_gradients(outputs, inputs, right, upstream=upstream).ok
    wrong = [right[0], right[1] * np.float32(1.0009)]
    assert not check_gradients(outputs, inputs, wrong, upstream=upstream).ok


def test_a_float32_gradient_summed_in_float64_is_held_to_float32():
    ids = np.array([1, 3, 3, 0])

    def backward(d, cache):
        dE = np.zeros((5, 6))
        np.add.at(dE, ids, (d * 2 * cache).astype(np.float32))
        return dE

    E = RNG.normal(size=(5, 6)).astype(np.float32)
    assert check_pair(lambda E: (E[ids] ** 2, E[ids]), backward, [E]).ok


def test_the_noise_of_a_float32_backward_is_observed():
    """Large numbers cancel in the gradient: 1e-3 of it is rounding, and no mistake."""
    x = (1 + 1e-3 * RNG.normal(size=(3, 400))).astype(np.float32)

    def backward(d, x):
        y = (x - 1) * np.float32(1e3)  # rounding of x, a thousand times enlarged
        return [(3 * y**2 * np.float32(1e3)) * d]

    assert check_pair(lambda x: (((x - 1) * 1000) ** 3, x), backward, [x]).ok


@pytest.mark.parametrize("size", [1.0, 1e3])
def test_a_float32_loss_gives_no_false_alarm(size):
    """Steps that float32 does not show are no derivative of zero."""
    def loss(x, W):
        h = np.tanh(np.asarray(x).astype(np.float32) @ np.asarray(W).astype(np.float32).T)
        return float((h * h).sum() + np.float32(size))

    x, W = X32.astype(float), W32.astype(float)
    h = np.tanh(x @ W.T)
    dz = 2 * h * (1 - h * h)
    report = check_gradients(loss, [x, W], [dz @ W, dz.T @ x])
    assert report.ok or (size > 1 and report.verdict == "undecided"), report
    assert not any(row.status == "wrong" for row in report.rows)
    assert "no complex step" in report.notes[0]
    assert not check_gradients(loss, [x, W], [dz @ W, dz.T @ x * 1.1]).ok
    report = check_gradients(lambda x, W: np.float32(loss(x, W)), [x, W], [dz @ W, dz.T @ x],
                             method="ridders", every_entry=True)
    assert not any(row.status == "wrong" for row in report.rows), report


# --- small inputs ---------------------------------------------------------------------------------


@pytest.mark.parametrize("f, slope", [(np.log, lambda x: 1 / x),
                                      (np.sqrt, lambda x: 0.5 / np.sqrt(x))])
@pytest.mark.parametrize("size", [1e-6, 1e-9, 1e-3, 1.0])
def test_steps_stay_within_the_domain_of_small_inputs(f, slope, size):
    x = size * (1 + RNG.random(12))
    x[:3] *= 1e3
    numeric = at_entries(lambda a: {"y": f(a["x"]).sum()}, {"x": x}, {"y": np.array(1.0)},
                         {"x": np.arange(12)}, "ridders")["x"]
    np.testing.assert_allclose(numeric.value[0], slope(x), rtol=1e-6)
    assert (np.abs(numeric.value[0] - slope(x)) <= 10 * numeric.error[0]).all()
    for how in ({}, {"method": "ridders"}, {"every_entry": True}):
        numeric = check_gradients(lambda x: f(x).sum(), [x], [slope(x)], **how)
        assert numeric.ok and numeric.rows[0].status == "ok", numeric
    assert not check_gradients(lambda x: f(x).sum(), [x], [1.01 * slope(x)], method="ridders").ok


# --- caches ---------------------------------------------------------------------------------------


def test_a_backward_that_destroys_its_cache_is_told():
    def destroys(d, cache):
        _, y = cache
        y *= d
        return [2 * y]

    [finding] = check_pair(lambda x: (x * x, (x, x.copy())), destroys, [X32.astype(float)]).findings
    assert (finding.kind, finding.name) == ("cache", "backward")
    assert "second call" in finding.message and "changes its cache" in finding.message


BUFFER = np.zeros((16, 6))


def test_a_cache_that_shares_a_buffer_is_told():
    def forward(x):
        buffer = BUFFER if x.dtype == float else np.zeros(x.shape, x.dtype)
        np.tanh(x, out=buffer)
        return buffer.copy(), buffer

    [finding] = check_pair(forward, lambda d, y: [(1 - y * y) * d], [X32.astype(float)]).findings
    assert (finding.kind, finding.name) == ("aliased", "cache") and "another run" in finding.message


def test_a_backward_that_empties_its_cache_is_told():
    [finding] = check_pair(lambda x: (x * x, [x]), lambda d, cache: [2 * cache.pop() * d],
                           [X32.astype(float)]).findings
    assert (finding.kind, finding.name) == ("cache", "backward") and "IndexError" in finding.message


def test_a_layer_that_keeps_its_state_in_itself_is_right():
    class Layer:
        def forward(self, x):
            self.stack = [x]
            return x * x, None

        def backward(self, d, _):
            return [2 * self.stack.pop() * d]

    layer = Layer()
    assert check_pair(layer.forward, layer.backward, [X32.astype(float)]).ok


def test_a_backward_that_keeps_its_cache_is_right():
    def pops(d, cache):
        x = cache["x"]
        return [2 * x * d]

    assert check_pair(lambda x: (x * x, {"x": x}), pops, [X32.astype(float)]).ok


# --- arguments ------------------------------------------------------------------------------------


@pytest.mark.parametrize("gradients, message", [
    ([np.tanh], "gradients: expected numbers for 'x', got a function; it is called if it is"),
    ([None], "gradients: expected an array for 'x', got None: does the backward return nothing"),
    ([["a"]], "gradients: expected numbers for 'x', got str"),
])  # fmt: skip
def test_gradients_that_are_no_numbers(gradients, message):
    with pytest.raises(ValueError, match=message):
        check_gradients(lambda x: (x**2).sum(), [np.ones(3)], gradients)
    with pytest.raises(ValueError, match=message):
        check_pair(lambda x: (x**2, x), lambda d, x: gradients, [np.ones(3)])


def test_a_backward_that_returns_nothing():
    with pytest.raises(ValueError, match="got None: does the backward return nothing"):
        check_pair(lambda x: (x**2, x), lambda d, x: None, [np.ones(3)])
    with pytest.raises(ValueError, match="gradients: expected 2, one for each of x, y, got None"):
        check_pair(lambda x, y: (x * y, x), lambda d, x: None, [np.ones(3), np.ones(3)])


@pytest.mark.parametrize("inputs, message", [
    ([np.ones(3), np.tanh], "inputs: expected numbers in 'y', got a function; expected it inside"),
    ([np.ones(3), "relu"], "inputs: expected numbers in 'y', got str"),
    ([np.ones(3), None], "inputs: expected numbers in 'y', got None"),
])
def test_inputs_that_are_no_numbers(inputs, message):
    with pytest.raises(ValueError, match=message):
        check_gradients(lambda x, y: (x**2).sum(), inputs, [np.ones(3), np.ones(3)])


def test_float16_gradients_wrong_by_a_tenth_do_not_pass():
    x = np.random.default_rng(0).normal(size=6).astype(np.float16)

    def check(factor):
        return check_pair(lambda x: (np.tanh(x), x),
                          lambda d, x: np.float16(factor) * d * (1 - np.tanh(x) ** 2), [x])

    assert check(1.0).ok and check(1.1).verdict == "wrong"
    analytic = (1 - np.tanh(x) ** 2).astype(np.float16)
    assert check_gradients(lambda x: np.tanh(x).sum(), [x], [analytic]).ok
    assert not check_gradients(lambda x: np.tanh(x).sum(), [x], [np.float16(1.1) * analytic]).ok


@pytest.mark.parametrize("seed", [13, 28, 32])
@pytest.mark.parametrize("extent", [{}, {"diagnosis": 0}])
def test_a_verdict_on_ill_conditioned_code_does_not_depend_on_the_diagnosis(seed, extent):
    rng = np.random.default_rng(seed)
    X, labels = rng.normal(size=(8, 2)), rng.integers(0, 2, 8)

    def probabilities(w, b):
        return 1 / (1 + np.exp(-(X @ w + b)))

    def loss(w, b):
        p = probabilities(w, b)
        return -np.mean(labels * np.log(p) + (1 - labels) * np.log(1 - p))

    def gradients(w, b):
        d = (probabilities(w, b) - labels) / 8
        return X.T @ d, d.sum()

    inputs = [6 * rng.normal(size=2), np.array(rng.normal())]
    assert check_gradients(loss, inputs, gradients, **extent).ok
    w, b = gradients(*inputs)
    assert check_gradients(loss, inputs, [1.001 * w, b], **extent).verdict == "wrong"


@pytest.mark.parametrize("factor, ok", [(1.0, True), (1.01, False)])
def test_a_saturated_logistic_loss(factor, ok):
    """1 - sigm(11.5) has eleven digits, so no difference over a short step has its slope."""
    def sigm(t):
        return 1 / (1 + np.exp(-t))

    def loss(b):
        p = sigm(logits + b)
        return -np.mean(labels * np.log(p) + (1 - labels) * np.log(1 - p))

    logits, labels = np.array([7.0, 10.0, -7.4]), np.array([1, 0, 1])
    report = check_gradients(loss, [1.5], lambda b: [factor * np.mean(sigm(logits + b) - labels)])
    assert report.ok == ok and report.verdict == ("ok" if ok else "wrong")
    assert not any("no complex step" in note for note in report.notes)
    assert report.rows[0].analytic == factor * np.mean(sigm(logits + 1.5) - labels)


# --- large arrays in float32 ----------------------------------------------------------------------


@pytest.mark.parametrize("factor, verdict", [(1.0, "ok"), (1.005, "wrong")])
def test_a_large_gradient_that_is_given_as_an_array(factor, verdict):
    x, W = (RNG.normal(size=shape).astype(np.float32) for shape in ((4, 200), (200, 200)))
    z = np.tanh(x @ W / 14)
    d = 2 * z * (1 - z * z) / 14
    report = check_gradients(lambda x, W: (np.tanh(x @ W / 14) ** 2).sum(), [x, W],
                             [d @ W.T, np.float32(factor) * x.T @ d], diagnosis=0)
    assert report.verdict == verdict


@pytest.mark.parametrize("entries", [slice(100, 101), slice(1000, 1100), slice(0, None, 2)])
@pytest.mark.parametrize("extent", [{}, {"diagnosis": 0}])
def test_of_a_large_array_in_float32_three_digits_are_checked(entries, extent):
    x = np.random.default_rng(5).normal(size=20_000).astype(np.float32)
    gradient = 1 - np.tanh(x) ** 2

    def wrong(factor):
        made = gradient.copy()
        made[entries] += factor * gradient.max()
        return made

    def check(gradient):
        return check_gradients(lambda x: np.tanh(x).sum(), [x], [gradient], **extent)

    [row] = check(gradient).rows
    assert (row.status, row.floor) == ("ok", 1e-3)
    assert check(gradient).evaluations < 1000
    assert check(wrong(2e-3)).verdict == "wrong"
