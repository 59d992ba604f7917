"""Algorithms 1 and 2 against complex step through Eq. 2.8, and the errata they decide."""

from __future__ import annotations

import numpy as np
import pytest

from grads.check import check_gradients
from grads.derivations import lstm, rnn
from grads.derivations.calculus import sigm

V, E, H = 6, 3, 4
SENTENCES = {1: ([1], [3]), 4: ([1, 3, 2, 3], [3, 2, 3, 1])}  # word 3 is read twice
STATES = {rnn: ["h_0"], lstm: ["h_0", "c_0"]}


def example(model, biases):
    """Parameters and initial states of one model, all random."""
    rows = {rnn: H, lstm: 4 * H}[model]
    shapes = {"W_e": (V, E), "T": (rows, E + H), "W_hy": (V, H)}
    if biases:
        shapes |= {"b": (rows,), "b_hy": (V,)}
    shapes |= dict.fromkeys(STATES[model], (H, 1))
    rng = np.random.default_rng(2)
    return {name: rng.normal(scale=0.7, size=shape) for name, shape in shapes.items()}


def loss_of(model, x, y):
    """The loss as a function of parameters and initial states together."""
    def loss(values):
        parameters = {k: v for k, v in values.items() if k not in STATES[model]}
        return model.forward(parameters, x, y, *(values[name] for name in STATES[model]))[0]
    return loss


def report(model, T=4, biases=True, **options):
    x, y = SENTENCES[T]
    values = example(model, biases)
    parameters = {k: v for k, v in values.items() if k not in STATES[model]}
    _, trace = model.forward(parameters, x, y, *(values[name] for name in STATES[model]))
    gradients, *d_states = model.backward(parameters, x, y, trace)
    gradients = gradients | dict(zip(STATES[model], d_states, strict=True))
    return check_gradients(loss_of(model, x, y), values, gradients, **options), gradients


@pytest.mark.parametrize("model", [rnn, lstm])
@pytest.mark.parametrize("T", [1, 4])
@pytest.mark.parametrize("biases", [False, True])
def test_gradients(model, T, biases):
    result, gradients = report(model, T, biases)
    result.raise_if_wrong()
    assert all(np.abs(d).max() > 1e-3 for d in gradients.values())


@pytest.mark.parametrize("model", [rnn, lstm])
def test_loss_is_the_sum_of_nats_and_states_default_to_zero(model):
    x, y = SENTENCES[4]
    parameters = {k: v for k, v in example(model, False).items() if k not in STATES[model]}
    zeros = [np.zeros((H, 1))] * len(STATES[model])
    J, trace = model.forward(parameters, x, y)
    assert J == model.forward(parameters, x, y, *zeros)[0]
    expected = -sum(np.log(trace.p[t][y[t - 1], 0]) for t in range(1, 5))
    np.testing.assert_allclose(J, expected, rtol=1e-15)
    np.testing.assert_array_equal(trace.h[0], zeros[0])
    assert sorted(trace.p) == [1, 2, 3, 4]


def test_recurrent_product_carries_the_gradient_back():
    """Section 2.2.2: dh_{t-K} without losses in between; printed order is wrong (erratum 30)."""
    rng = np.random.default_rng(5)
    T, x = rng.normal(size=(H, E + H)), rng.normal(size=(4, E, 1))
    h, a = [rng.normal(size=(H, 1))], []
    for x_t in x:
        a.append(T @ np.vstack([x_t, h[-1]]))
        h.append(rnn.rnn(x_t, h[-1], T))
    d_last = rng.normal(size=(H, 1))
    dh = d_last
    for t in range(4, 0, -1):
        dh = rnn.rnn_grad(dh, x[t - 1], h[t - 1], T)[0]
    np.testing.assert_allclose(rnn.recurrent_product(T, a) @ d_last, dh, rtol=1e-12)
    printed = rnn.recurrent_product(T, a[::-1]) @ d_last
    assert np.abs(printed - dh).max() > 0.1 * np.abs(dh).max()


def test_g_prime_is_taken_at_the_pre_activation():
    """Erratum 4: g'(a) is u (1 - u) on the gates and 1 - u^2 on h_hat, unlike g'(u)."""
    a = np.random.default_rng(3).normal(size=(4 * H, 1))
    u = lstm.g(a)
    gates, h_hat = u[: 3 * H], u[3 * H :]
    kept = np.vstack([gates * (1 - gates), 1 - h_hat**2])
    np.testing.assert_allclose(lstm.g_prime(a), kept, rtol=1e-14)
    np.testing.assert_allclose(lstm.g(a + 1e-30j).imag / 1e-30, kept, rtol=1e-14)
    assert np.abs(lstm.g_prime(u) - kept).max() > 0.01


def test_gate_order():
    """Erratum 5: the blocks of T are i, f, o, h_hat."""
    T = np.zeros((4, 2))
    b = np.array([[0.1], [0.2], [0.3], [0.4]])
    h, c = lstm.lstm(np.zeros((1, 1)), np.ones((1, 1)), np.zeros((1, 1)), T, b)
    np.testing.assert_allclose(c, sigm(0.2) + sigm(0.1) * np.tanh(0.4), rtol=1e-15)
    np.testing.assert_allclose(h, sigm(0.3) * np.tanh(c), rtol=1e-15)
