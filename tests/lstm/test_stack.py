"""Stacked layers: padded batches, both directions, single steps."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from literal import assert_close, assert_same_gradients, draw, draw_parameters, total

from lstm.cells import CELLS
from lstm.parameters import Scheme
from lstm.recurrent import make_padding
from lstm.stack import (
    Stack,
    stack_backward,
    stack_forward,
    stack_step,
    stack_weights,
    zero_state,
)

E, H, STEPS, LENGTHS = 3, 2, 6, (6, 4, 1)
BOTH = [*product(CELLS, (False, True), (False,)), ("gru", True, True), ("lstm-norm", False, True)]


def stack_of(unit, bidirectional=False, residual=False):
    return Stack(unit, 2, H, bidirectional, residual=residual)


def make(unit, bidirectional):
    """Parameters of two layers, and the state that each starts from."""
    rng, B = np.random.default_rng(2), len(LENGTHS)
    weights = stack_weights("s", stack_of(unit, bidirectional), {"x": E}, Scheme())
    initial = [[tuple(draw(rng, (B, H)) for _ in range(CELLS[unit].states))
                for _ in range(1 + bidirectional)] for _ in range(2)]
    return rng, draw_parameters(rng, weights), initial


@pytest.mark.parametrize("unit, bidirectional, residual", BOTH)
def test_a_padded_stack_is_the_sum_of_its_sequences(unit, bidirectional, residual):
    """Outputs at padding are not read and get no gradient."""
    directions = 1 + bidirectional
    rng, parameters, _ = make(unit, bidirectional)
    x, dh = draw(rng, (STEPS, 3, E)), draw(rng, (STEPS, 3, directions * H))
    dh *= np.arange(STEPS)[:, None, None] < np.array(LENGTHS)[:, None]

    def through(columns, steps, padding):
        zero = zero_state(np, unit, len(columns), H, "f8")
        h, _, cache = stack_forward(
            x[:steps, columns], parameters, "s", stack_of(unit, bidirectional, residual),
            [[zero] * directions] * 2, padding=padding)
        return h, stack_backward(dh[:steps, columns], None, cache)

    h, (dx, _, gradients) = through([0, 1, 2], STEPS, make_padding(np.array(LENGTHS), STEPS))
    alone = [through([s], length, None) for s, length in enumerate(LENGTHS)]
    for s, (length, (h_alone, (dx_alone, _, _))) in enumerate(zip(LENGTHS, alone, strict=True)):
        assert_close(h[:length, [s]], h_alone)
        assert_close(dx[:length, [s]], dx_alone)
    assert_same_gradients(gradients, total(alone_gradients for _, (_, _, alone_gradients) in alone))


@pytest.mark.parametrize("unit, residual", [*product(CELLS, (False,)), ("rnn", True)])
def test_a_step_of_all_layers_is_a_sequence_of_one(unit, residual):
    rng, parameters, initial = make(unit, False)
    x = draw(rng, (1, 3, E))
    h, last, _ = stack_forward(x, parameters, "s", stack_of(unit, residual=residual), initial)
    top, after = stack_step(x[0], [states[0] for states in initial], parameters, "s",
                            stack_of(unit, residual=residual))
    assert_close(top, h[0])
    assert_close(top, after[1][0] + residual * after[0][0])
    for layer, states in zip(after, last, strict=True):
        for actual, expected in zip(layer, states[0], strict=True):
            assert_close(actual, expected)
