"""The steps towards the LSTM (2.31 to 2.37): each unit is the next one with a part fixed."""

from __future__ import annotations

import numpy as np
import pytest

from grads.derivations.adding_memory import adding_backward, adding_forward, adding_memory_grad
from grads.derivations.gated_memory import gated_backward, gated_forward
from grads.derivations.lstm import backward, forward
from grads.stepper.explorer.flow import LAGS, flow_json

V, E, H = 6, 3, 4
X, Y = [1, 3, 2, 3], [3, 2, 3, 1]


def parameters(rows, biases=4 * H):
    rng = np.random.default_rng(2)
    shapes = {"W_e": (V, E), "T": (rows, E + H), "W_hy": (V, H), "b": (biases,), "b_hy": (V,)}
    return {name: rng.normal(scale=0.7, size=shape) for name, shape in shapes.items()}


def test_constant_gates_are_an_lstm_whose_gates_read_nothing():
    gated = parameters(H)
    full = {**gated, "T": np.vstack([np.zeros((3 * H, E + H)), gated["T"]])}
    J, trace = gated_forward(gated, X, Y)
    expected, theirs = forward(full, X, Y)
    np.testing.assert_allclose(J, expected, rtol=1e-14)
    gradients, (wanted, _, _) = gated_backward(gated, X, Y, trace), backward(full, X, Y, theirs)
    wanted["T"] = wanted["T"][3 * H :]
    for name, gradient in gradients.items():
        np.testing.assert_allclose(gradient, wanted[name], rtol=1e-12, atol=1e-15, err_msg=name)


def test_open_gates_only_add():
    """With i = f = 1 the memories are equal; the states differ by o and tanh."""
    gated = parameters(H)
    gated["T"][:, E:] = 0.0  # so that the states do not matter
    gated["b"][: 2 * H] = 40.0
    adding = {**gated, "b": gated["b"][3 * H :]}
    c, expected = gated_forward(gated, X, Y)[1].c, adding_forward(adding, X, Y)[1].c
    for t in expected:
        np.testing.assert_allclose(c[t], expected[t], rtol=1e-12, atol=1e-12)


def test_the_path_through_the_memories_keeps_its_gradient():
    """dc_{t-1} = dc_t, whatever the weights are."""
    rng = np.random.default_rng(3)
    h, dc, x, T = (rng.normal(size=s) for s in ((H, 1), (H, 1), (E, 1), (H, E + H)))
    _, dc_prev, *_ = adding_memory_grad(np.zeros((H, 1)), dc, h, x, T)
    np.testing.assert_array_equal(dc_prev, dc)


def test_without_biases_every_gate_is_half_open():
    gated = parameters(H)
    open_ = {name: value for name, value in gated.items() if not name.startswith("b")}
    zero = {**gated, "b": np.zeros(4 * H), "b_hy": np.zeros(V)}
    assert gated_forward(open_, X, Y)[0] == gated_forward(zero, X, Y)[0]
    _, trace = adding_forward({**open_}, X, Y)
    assert set(adding_backward(open_, X, Y, trace)) == {"W_e", "T", "W_hy"}


@pytest.mark.parametrize(("unit", "bias", "low", "high"), [
    ("rnn", None, 0, 1e-6), ("gated-memory", 0.0, 0, 1e-5), ("gated-memory", 4.0, 0.05, 1),
    ("adding-memory", None, 1, 1e3)])


def test_the_reach_of_each_step_is_drawn(unit, bias, low, high):
    """|dh| after 20 steps, at a spectral radius of one half."""
    norms = next(series["norms"] for series in flow_json()["series"]
                 if (series["unit"], series["radius"], series["forget_bias"]) == (unit, 0.5, bias))
    assert low < norms[LAGS] < high
