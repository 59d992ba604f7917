"""Cells over padded batches: each sequence has its own results, states are copied through, dh is
clipped."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from literal import DTYPES, assert_close, draw
from literal_cells import literal_step, literal_step_grad

from backend.workspace import ENOUGH, Workspace
from lstm.cells import CELLS, clipped
from lstm.recurrent import (
    make_padding,
    recurrent_backward,
    recurrent_forward,
    recurrent_step,
)

E, H, STEPS = 3, 2, 6
LENGTHS = (6, 4, 0, 1)
UNITS = pytest.mark.parametrize("unit", CELLS)


def make(unit, dtype=np.float64, lengths=LENGTHS, steps=STEPS):
    """x, state, W, b and upstream gradients of h and of the last state."""
    rng, B, cell = np.random.default_rng(1), len(lengths), CELLS[unit]
    G, biases = len(cell.gates) * H, len(cell.gates + cell.biases) * H
    states, d_last = ([draw(rng, (B, H), dtype) for _ in range(cell.states)]
                      for _ in range(2))  # fmt: skip
    return (draw(rng, (steps, B, E), dtype), tuple(states), draw(rng, (G, E + H), dtype),
            draw(rng, biases, dtype), draw(rng, (steps, B, H), dtype), tuple(d_last))  # fmt: skip


def run(unit, x, state, W, b, lengths=None, reverse=False, workspace=None, clip=None):
    padding = None if lengths is None else make_padding(np.array(lengths), len(x))
    cell = CELLS[unit] if clip is None else clipped(CELLS[unit], clip)
    return recurrent_forward(cell, x, state, W, b, padding=padding, reverse=reverse,
                             workspace=workspace)


def row_of(states, b):
    """The state or gradient of sequence b alone."""
    return tuple(a[b : b + 1] for a in states)


def literal_states(unit, x, state, W, b, steps):
    """h at each of `steps`, and the last state, by the derivation, of one sequence."""
    states = {}
    for t in steps:
        state = literal_step(unit, x[t], state, W, b)
        states[t] = state[0]
    return states, state


@pytest.mark.parametrize("unit, reverse, dtype", list(product(CELLS, (False, True), DTYPES)))
def test_every_sequence_is_the_derivation(unit, reverse, dtype):
    x, state, W, b, _, _ = make(unit, dtype)
    h, last, _ = run(unit, x, state, W, b, LENGTHS, reverse)
    for s, length in enumerate(LENGTHS):
        steps = range(length)[:: -1 if reverse else 1]
        expected_states, end = literal_states(unit, x[:, s : s + 1], row_of(state, s), W, b, steps)
        for t, expected in expected_states.items():
            assert_close(h[t, s : s + 1], expected)
        for ours, theirs in zip(row_of(last, s), end, strict=True):
            assert_close(ours, theirs)


@pytest.mark.parametrize("unit, reverse", list(product(CELLS, (False, True))))
def test_padded_steps_copy_the_state(unit, reverse):
    """Bit for bit: the last real state is copied through padding, forward and backward."""
    x, state, W, b, _, _ = make(unit)
    h, last, _ = run(unit, x, state, W, b, LENGTHS, reverse)
    for s, length in enumerate(LENGTHS):
        waiting = state[0][s] if reverse or length == 0 else h[length - 1, s]
        for t in range(length, STEPS):
            np.testing.assert_array_equal(h[t, s], waiting)
        if length == 0:
            for ours, first in zip(last, state, strict=True):
                np.testing.assert_array_equal(ours[s], first[s])


@pytest.mark.parametrize("unit, reverse, clip", list(product(CELLS, (False, True), (None, 0.3))))
def test_gradients_of_a_padded_batch_are_those_of_sequences_alone(unit, reverse, clip):
    x, state, W, b, dh, d_last = make(unit)
    dh *= np.arange(STEPS)[:, None, None] < np.array(LENGTHS)[:, None]
    _, _, cache = run(unit, x, state, W, b, LENGTHS, reverse, clip=clip)
    dx, d_state, dW, db = recurrent_backward(dh, d_last, cache)
    dW_sum, db_sum = np.zeros_like(W), np.zeros_like(b)
    for s, length in enumerate(LENGTHS):
        assert not dx[length:, s].any()
        if length == 0:
            for ours, upstream in zip(d_state, d_last, strict=True):
                np.testing.assert_array_equal(ours[s], upstream[s])
            continue
        alone = x[:length, s : s + 1], row_of(state, s), W, b
        _, _, cache = run(unit, *alone, reverse=reverse, clip=clip)
        alone_gradients = recurrent_backward(dh[:length, s : s + 1], row_of(d_last, s), cache)
        assert_close(dx[:length, s : s + 1], alone_gradients[0])
        for ours, theirs in zip(row_of(d_state, s), alone_gradients[1], strict=True):
            assert_close(ours, theirs)
        dW_sum, db_sum = dW_sum + alone_gradients[2], db_sum + alone_gradients[3]
    assert_close(dW, dW_sum)
    assert_close(db, db_sum)


@pytest.mark.parametrize("unit, reverse, steps, clip", [
    *((unit, reverse, STEPS, 0.4) for unit in CELLS for reverse in (False, True)),
    *((unit, False, ENOUGH + 2, None) for unit in CELLS)])
def test_backward_is_the_literal_loop(unit, reverse, steps, clip):
    """dh_t is clipped once, after the gradient from above is added and before the cell. From
    `ENOUGH` steps on the loop multiplies by a transposed copy."""
    x, state, W, b, dh_out, d_last = make(unit, lengths=(steps,), steps=steps)
    _, _, cache = run(unit, x, state, W, b, reverse=reverse, clip=clip)
    dx, d_state, dW, db = recurrent_backward(dh_out, d_last, cache)
    order, states = list(range(steps))[:: -1 if reverse else 1], [state]
    for t in order:
        states.append(literal_step(unit, x[t], states[-1], W, b))
    d, dx_rows, dW_sum, db_sum = d_last, np.empty_like(x), 0.0, 0.0
    for place, t in reversed(list(enumerate(order))):
        d = (d[0] + dh_out[t], *d[1:])
        d, dx_rows[t], dW_t, db_t = literal_step_grad(unit, d, x[t], states[place], W, b, clip)
        dW_sum, db_sum = dW_sum + dW_t, db_sum + db_t
    assert_close(dx, dx_rows)
    assert_close(dW, dW_sum)
    assert_close(db, db_sum)
    for ours, theirs in zip(d_state, d, strict=True):
        assert_close(ours, theirs)
    free, wide = (recurrent_backward(dh_out, d_last, run(
        unit, x, state, W, b, reverse=reverse, clip=limit)[2])[2] for limit in (None, 1e3))
    assert clip is None or np.abs(free - dW).max() > 0.01  # the limit acts
    np.testing.assert_array_equal(wide, free)


@pytest.mark.parametrize("unit, reverse", list(product(CELLS, (False, True))))
def test_gradients_that_are_not_given_are_zero(unit, reverse):
    """None for h, for the last state, or for an array of it."""
    x, state, W, b, dh, d_last = make(unit)
    _, _, cache = run(unit, x, state, W, b, LENGTHS, reverse)
    zero = np.zeros((len(LENGTHS), H))
    for gradients in ((dh, None), (None, d_last), (dh, (None, *d_last[1:])), (None, None)):
        full = (np.zeros_like(dh) if gradients[0] is None else dh,
                tuple(zero if d is None else d for d in gradients[1] or [None] * len(state)))
        actual, expected = (recurrent_backward(*upstream, cache) for upstream in (gradients, full))
        for a, b_ in zip((actual[0], *actual[1], *actual[2:]),
                         (expected[0], *expected[1], *expected[2:]), strict=True):
            np.testing.assert_array_equal(a, b_)


@UNITS
def test_two_forwards_before_two_backwards_share_a_workspace(unit):
    """Two caches keep their numbers side by side, and arguments are not changed."""
    workspace, kept, lengths = Workspace(), [], ((20, 3, 17), (5, 18, 18, 1))
    pairs = [make(unit, lengths=sentence_lengths, steps=max(sentence_lengths))
             for sentence_lengths in lengths]
    for x, state, W, b, dh, d_last in pairs:
        kept.append([array.copy() for array in (x, *state, W, b, dh, *d_last)])
    for clip in (None, 0.1):
        caches = [run(unit, *pair[:4], pair_lengths, workspace=workspace, clip=clip)[2]
                  for pair, pair_lengths in zip(pairs, lengths, strict=True)]
        actual = [recurrent_backward(*pair[4:], cache) for pair, cache in
                  zip(pairs, caches, strict=True)]
        for pair, pair_lengths, ours in zip(pairs, lengths, actual, strict=True):
            expected = recurrent_backward(
                *pair[4:], run(unit, *pair[:4], pair_lengths, clip=clip)[2])
            for a, b_ in zip((ours[0], *ours[1], *ours[2:]),
                             (expected[0], *expected[1], *expected[2:]), strict=True):
                np.testing.assert_array_equal(a, b_)
        del caches, actual, ours
    for (x, state, W, b, dh, d_last), before in zip(pairs, kept, strict=True):
        for array, copy in zip((x, *state, W, b, dh, *d_last), before, strict=True):
            np.testing.assert_array_equal(array, copy)


@pytest.mark.parametrize("unit, dtype", list(product(CELLS, [*DTYPES, np.float32])))
def test_one_step_alone_is_a_sequence_of_one(unit, dtype):
    """The step that search uses."""
    x, state, W, b, _, _ = make(unit, dtype)
    for bias in (b, None):
        actual = recurrent_step(CELLS[unit], x[0], state, W, bias)
        expected = run(unit, x[:1], state, W, bias)[1]
        for ours, theirs in zip(actual, expected, strict=True):
            assert_close(ours, theirs, 1e-6 if dtype == np.float32 else 1e-14)


@UNITS
def test_large_pre_activations_neither_overflow_nor_warn(unit):
    x, state, W, b, dh, d_last = make(unit)
    with np.errstate(all="raise", under="ignore"):
        h, _, cache = run(unit, 1e3 * x, state, W, b)
        gradients = recurrent_backward(dh, d_last, cache)
    assert np.isfinite(h).all() and np.isfinite(gradients[0]).all()


# --- padding --------------------------------------------------------------------------------------


def test_make_padding():
    padding = make_padding(np.array([3, 1, 0]), 3)
    np.testing.assert_array_equal(padding, [[[0], [0], [1]], [[0], [1], [1]], [[0], [1], [1]]])
    assert make_padding(np.array([3, 3]), 3) is None
    for lengths in ([4, 1], [-1, 2]):
        with pytest.raises(ValueError, match="lengths: expected 0 to 3, got"):
            make_padding(np.array(lengths), 3)


def test_steps_have_a_mask_from_the_first_padded_step_on():
    padding = make_padding(np.array([4, 2]), 4)
    assert padding[0] is None and padding[1] is None
    np.testing.assert_array_equal(padding[2], [[False], [True]])
    np.testing.assert_array_equal(padding[3], [[False], [True]])
