"""The bridge from an encoder's last states to a decoder's first."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from literal import assert_close, draw, draw_parameters

from lstm.cells import CELLS
from lstm.parameters import Scheme
from lstm.stack import Stack
from nmt.models.bridge import bridge_forward, bridge_weights

B, H, LAYERS = 3, 2, 2


def make(unit, bidirectional):
    """Inputs by name, and states out of them."""
    rng, n = np.random.default_rng(12), CELLS[unit].states
    weights = bridge_weights("bridge", Stack(unit, LAYERS, H, bidirectional), Scheme())
    places = list(product(range(LAYERS), range(1 + bidirectional), range(n)))
    inputs = draw_parameters(rng, weights) | {str(place): draw(rng, (B, H)) for place in places}

    def last(v):
        return [[tuple(v[str((layer, d, k))] for k in range(n)) for d in range(1 + bidirectional)]
                for layer in range(LAYERS)]

    return inputs, last


@pytest.mark.parametrize("unit, bidirectional", list(product(CELLS, (False, True))))
def test_values(unit, bidirectional):
    """tanh(W [h; c]), each of them with both ends side by side."""
    inputs, last = make(unit, bidirectional)
    states, _ = bridge_forward("bridge", inputs, last(inputs))
    for layer, state in enumerate(states):
        ends = last(inputs)[layer]
        joined = np.hstack([end[k] for k in range(CELLS[unit].states) for end in ends])
        expected = np.tanh(joined @ inputs[f"bridge.{layer}.W"].T)
        assert_close(np.hstack(state), expected)
