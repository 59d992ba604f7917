"""The bridge from an encoder's last states to a decoder's first."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from literal import assert_close, draw, draw_parameters

from grads.check import check_pair
from lstm.cells import CELLS
from lstm.parameters import Scheme
from lstm.stack import Stack
from nmt.models.bridge import bridge_backward, bridge_forward, bridge_weights

B, H, LAYERS = 3, 2, 2


def make(unit, bidirectional):
    """Places (layer, direction, array of a state), inputs by name, and states out of them."""
    rng, n = np.random.default_rng(12), CELLS[unit].states
    weights = bridge_weights("bridge", Stack(unit, LAYERS, H, bidirectional), Scheme())
    places = list(product(range(LAYERS), range(1 + bidirectional), range(n)))
    inputs = draw_parameters(rng, weights) | {str(place): draw(rng, (B, H)) for place in places}

    def last(v):
        return [[tuple(v[str((layer, d, k))] for k in range(n)) for d in range(1 + bidirectional)]
                for layer in range(LAYERS)]

    return places, inputs, last


@pytest.mark.parametrize("unit, bidirectional", list(product(CELLS, (False, True))))
def test_gradients(unit, bidirectional):
    """Of the last states of every layer and end, and of the matrices, by complex step."""
    places, inputs, last = make(unit, bidirectional)

    def forward(v):
        states, cache = bridge_forward("bridge", v, last(v))
        return [array for state in states for array in state], cache

    def backward(d, cache):
        n = CELLS[unit].states
        d_last, gradients = bridge_backward(
            [tuple(d[n * layer : n * (layer + 1)]) for layer in range(LAYERS)], cache)
        return gradients | {str((layer, end, k)): d_last[layer][end][k] for layer, end, k in places}

    check_pair(forward, backward, inputs, method="complex", vanish=False).raise_if_wrong()


@pytest.mark.parametrize("unit, bidirectional", list(product(CELLS, (False, True))))
def test_values(unit, bidirectional):
    """tanh(W [h; c]), each of them with both ends side by side."""
    _, inputs, last = make(unit, bidirectional)
    states, _ = bridge_forward("bridge", inputs, last(inputs))
    for layer, state in enumerate(states):
        ends = last(inputs)[layer]
        joined = np.hstack([end[k] for k in range(CELLS[unit].states) for end in ends])
        expected = np.tanh(joined @ inputs[f"bridge.{layer}.W"].T)
        assert_close(np.hstack(state), expected)
