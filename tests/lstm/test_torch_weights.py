"""Weights of PyTorch's recurrent modules as ours, and back: outputs, gradients, bits, errors."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from lstm.cells import CELLS
from lstm.parameters import Scheme, initialise
from lstm.stack import Stack, stack_backward, stack_forward, stack_weights
from lstm.torch_weights import ORDERS, from_torch, to_torch

E, H, B, T = 3, 4, 2, 5
MODULES = {"rnn": "RNN", "lstm": "LSTM", "gru-after": "GRU"}
ALL = pytest.mark.parametrize("unit, layers, bidirectional, biases", list(
    product(MODULES, (1, 2), (False, True), (False, True))))


def stack_of(unit, layers, bidirectional, biases):
    """Our parameters, all of them random."""
    weights = stack_weights("s", Stack(unit, layers, H, bidirectional, biases), {"x": E},
                            Scheme(scale=0.5, uniform_biases=True))
    return initialise(weights, np.random.default_rng(3), np.float64)


def module_of(unit, layers, bidirectional, biases):
    torch = pytest.importorskip("torch", reason="PyTorch (extra `oracle`) is not installed")
    torch.manual_seed(1)
    return torch, getattr(torch.nn, MODULES[unit])(
        E, H, layers, bias=biases, bidirectional=bidirectional, dtype=torch.float64)


@ALL
def test_outputs_and_gradients_are_those_of_torch(unit, layers, bidirectional, biases):
    """A module's random weights are converted to ours. Our bias is the sum of PyTorch's two, so its
    gradient is that of each of them."""
    torch, module = module_of(unit, layers, bidirectional, biases)
    state = {name: value.numpy() for name, value in module.state_dict().items()}
    parameters, rng = from_torch(state, unit, "s"), np.random.default_rng(2)
    directions = 1 + bidirectional
    x, first = rng.normal(size=(T, B, E)), rng.normal(size=(2, layers * directions, B, H))
    initial = [[tuple(array[layer * directions + d] for array in first[: CELLS[unit].states])
                for d in range(directions)] for layer in range(layers)]
    h, last, cache = stack_forward(x, parameters, "s",
                                   Stack(unit, layers, H, bidirectional, biases), initial)

    leaves = [torch.tensor(array, requires_grad=True) for array in (x, *first[:len(initial[0][0])])]
    out, end = module(leaves[0], tuple(leaves[1:]) if unit == "lstm" else leaves[1])
    ends = end if unit == "lstm" else (end,)
    np.testing.assert_allclose(h, out.detach().numpy(), rtol=0, atol=1e-14)
    for k, theirs in enumerate(ends):
        ours = [state[k] for layer in last for state in layer]
        np.testing.assert_allclose(ours, theirs.detach().numpy(), rtol=0, atol=1e-14)

    dh, d_ends = rng.normal(size=h.shape), rng.normal(size=(len(ends), *ends[0].shape))
    sums = (torch.tensor(dh) * out).sum()
    (sums + sum((torch.tensor(d) * theirs).sum()
                for d, theirs in zip(d_ends, ends, strict=True))).backward()
    d_last = [[tuple(array[layer * directions + d] for array in d_ends)
               for d in range(directions)] for layer in range(layers)]
    dx, d_initial, gradients = stack_backward(dh, d_last, cache)
    np.testing.assert_allclose(dx, leaves[0].grad.numpy(), rtol=0, atol=1e-13)
    for k, leaf in enumerate(leaves[1:]):
        ours = [state[k] for layer in d_initial for state in layer]
        np.testing.assert_allclose(ours, leaf.grad.numpy(), rtol=0, atol=1e-13)
    theirs = to_torch(gradients, unit, "s")
    assert theirs.keys() == dict(module.named_parameters()).keys()
    for name, parameter in module.named_parameters():
        expected = parameter.grad.numpy().copy()
        if "bias_hh" in name:  # each has the gradient of the sum, except in a GRU's last block
            expected[: 2 * H if unit == "gru-after" else None] = 0.0
        np.testing.assert_allclose(theirs[name], expected, rtol=0, atol=1e-13, err_msg=name)


@ALL
def test_a_round_trip_is_bit_identical(unit, layers, bidirectional, biases):
    parameters = stack_of(unit, layers, bidirectional, biases)
    again = from_torch(to_torch(parameters, unit, "s"), unit, "s")
    assert again.keys() == parameters.keys()
    for name, value in parameters.items():
        np.testing.assert_array_equal(again[name], value, err_msg=name)


def test_the_order_of_the_blocks():
    """PyTorch's i, f, g, o become i, f, o, h_hat; a GRU's biases of n stay apart."""
    rows = np.repeat([1.0, 2.0, 3.0, 4.0], 2)
    state = {"weight_ih_l0": rows[:, None], "weight_hh_l0": rows[:, None] + np.zeros((8, 2)),
             "bias_ih_l0": rows, "bias_hh_l0": np.zeros(8)}
    ours = from_torch(state, "lstm", "s")
    np.testing.assert_array_equal(ours["s.0.W"][::2, 0], [1.0, 2.0, 4.0, 3.0])
    np.testing.assert_array_equal(ours["s.0.b"][::2], [1.0, 2.0, 4.0, 3.0])
    state = {name: value[:6] for name, value in state.items()} | {"bias_hh_l0": 10.0 * rows[:6]}
    ours = from_torch(state, "gru-after", "s")
    np.testing.assert_array_equal(ours["s.0.b"][::2], [11.0, 22.0, 3.0, 30.0])


@pytest.mark.parametrize("change, unit, message", [
    ({}, "gru", "unit: expected one of lstm, rnn, gru-after, got 'gru'"),
    ({}, "gru-after", "weight_hh_l0: expected 3 blocks of as many rows as columns"),
    ({"weight_hh_l0": None}, "lstm", "state: weight_hh_l0: missing"),
    ({"weight_hr_l0": np.zeros((2, H))}, "lstm", "got weight_hr_l0"),
    (dict.fromkeys(("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")), "lstm",
     "got none"),
])
def test_errors(change, unit, message):
    state = to_torch(stack_of("lstm", 1, False, True), "lstm", "s") | change
    with pytest.raises(ValueError, match=message):
        from_torch({name: value for name, value in state.items() if value is not None}, unit, "s")


def test_there_must_be_such_a_stack():
    with pytest.raises(ValueError, match=r"parameters: expected a stack encoder.0.W"):
        to_torch(stack_of("lstm", 1, False, True), "lstm", "encoder")
    with pytest.raises(ValueError, match="expected one of lstm, rnn, gru-after, got 'gru'"):
        to_torch(stack_of("gru", 1, False, True), "gru", "s")
    assert set(ORDERS) < set(CELLS)
