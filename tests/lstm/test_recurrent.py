"""Units over padded batches: each sequence as if alone, states carried, dh clipped literally."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from literal import DTYPES, assert_close, clipping, draw
from lstm.lstm import GATES, lstm_step_forward

from grads.derivations import gru as literal_gru
from grads.derivations import lstm as literal_lstm
from grads.derivations import rnn as literal_rnn
from lstm import gru
from lstm.parameters import Scheme
from lstm.recurrent import make_padding
from lstm.stack import UNITS, stack_backward, stack_forward, stack_weights

E, H, STEPS = 3, 2, 6
LENGTHS = (6, 4, 0, 1)


def make(unit, dtype=np.float64, lengths=LENGTHS):
    """x, state, T, b and upstream gradients of h and of the last state."""
    rng, B, G = np.random.default_rng(1), len(lengths), UNITS[unit].blocks * H
    states, d_last = ([draw(rng, (B, H), dtype) for _ in range(UNITS[unit].states)]
                      for _ in range(2))  # fmt: skip
    return (draw(rng, (STEPS, B, E), dtype), tuple(states), draw(rng, (G, E + H), dtype),
            draw(rng, G, dtype), draw(rng, (STEPS, B, H), dtype), tuple(d_last))  # fmt: skip


def run(unit, x, state, T, b, lengths=None, reverse=False):
    padding = None if lengths is None else make_padding(np.array(lengths), len(x))
    return UNITS[unit].forward(x, state, T, b, padding=padding, reverse=reverse)


def one(states, b):
    """The state or gradient of sequence b alone."""
    return tuple(a[b : b + 1] for a in states)


def literal_gru_unit(T, b):
    """Stacked weights as the derivation names them; blocks are in the order of `gru.GATES`."""
    names = {"r": "_r", "z": "_z", "h~": ""}
    blocks = {name: {"W": block[:, :-H], "U": block[:, -H:], "b": bias}
              for name, block, bias in zip(gru.GATES, np.split(T, 3), np.split(b, 3), strict=True)}
    return literal_gru.Unit(**{f"{kind}{names[gate]}": matrix for gate, block in blocks.items()
                               for kind, matrix in block.items()})


def stacked(unit):
    """The reverse of `literal_gru_unit`."""
    rows = [np.hstack([unit.W_r, unit.U_r]), np.hstack([unit.W_z, unit.U_z]),
            np.hstack([unit.W, unit.U])]
    return np.vstack(rows), np.vstack([unit.b_r, unit.b_z, unit.b])


def literal_gru_grad(dh, x, h_prev, T, b):
    """As `rnn_grad`: dh_prev, dx, dT, db."""
    dx, dh_prev, d_unit = literal_gru.gru_grad(dh, x, h_prev, literal_gru_unit(T, b))
    return dh_prev, dx, *stacked(d_unit)


GRADS = {"lstm": literal_lstm.lstm_grad, "rnn": literal_rnn.rnn_grad, "gru": literal_gru_grad}


def literal_states(unit, x, state, T, b, steps):
    """h at each of `steps`, and the last state, by the derivation: columns, one sequence."""
    state, found = [a.T for a in state], {}
    for t in steps:
        if unit == "lstm":
            state = list(literal_lstm.lstm(*state, x[t].T, T, b[:, None]))
        elif unit == "gru":
            state = [literal_gru.gru(x[t].T, *state, literal_gru_unit(T, b[:, None]))]
        else:
            state = [literal_rnn.rnn(x[t].T, *state, T, b[:, None])]
        found[t] = state[0].T
    return found, [a.T for a in state]


@pytest.mark.parametrize("unit, reverse, dtype", list(product(UNITS, (False, True), DTYPES)))
def test_every_sequence_is_the_derivation(unit, reverse, dtype):
    x, state, T, b, _, _ = make(unit, dtype)
    h, last, _ = run(unit, x, state, T, b, LENGTHS, reverse)
    for s, length in enumerate(LENGTHS):
        steps = range(length)[:: -1 if reverse else 1]
        found, end = literal_states(unit, x[:, s : s + 1], one(state, s), T, b, steps)
        for t, expected in found.items():
            assert_close(h[t, s : s + 1], expected)
        for ours, theirs in zip(one(last, s), end, strict=True):
            assert_close(ours, theirs)


@pytest.mark.parametrize("unit, reverse", list(product(UNITS, (False, True))))
def test_padded_steps_carry_the_state(unit, reverse):
    """To the last bit: forward the last real state goes on, backward the first one waits."""
    x, state, T, b, _, _ = make(unit)
    h, last, _ = run(unit, x, state, T, b, LENGTHS, reverse)
    for s, length in enumerate(LENGTHS):
        waiting = state[0][s] if reverse or length == 0 else h[length - 1, s]
        for t in range(length, STEPS):
            np.testing.assert_array_equal(h[t, s], waiting)
        if length == 0:
            for ours, first in zip(last, state, strict=True):
                np.testing.assert_array_equal(ours[s], first[s])


@pytest.mark.parametrize("unit, reverse, clip", list(product(UNITS, (False, True), (None, 0.3))))
def test_gradients_of_a_padded_batch_are_those_of_sequences_alone(unit, reverse, clip):
    x, state, T, b, dh, d_last = make(unit)
    dh *= np.arange(STEPS)[:, None, None] < np.array(LENGTHS)[:, None]
    _, _, cache = run(unit, x, state, T, b, LENGTHS, reverse)
    dx, d_state, dT, db = UNITS[unit].backward(dh, d_last, cache, clip)
    dT_sum, db_sum = np.zeros_like(T), np.zeros_like(b)
    for s, length in enumerate(LENGTHS):
        assert not dx[length:, s].any()
        if length == 0:
            for ours, upstream in zip(d_state, d_last, strict=True):
                np.testing.assert_array_equal(ours[s], upstream[s])
            continue
        alone = x[:length, s : s + 1], one(state, s), T, b
        _, _, cache = run(unit, *alone, reverse=reverse)
        found = UNITS[unit].backward(dh[:length, s : s + 1], one(d_last, s), cache, clip)
        assert_close(dx[:length, s : s + 1], found[0])
        for ours, theirs in zip(one(d_state, s), found[1], strict=True):
            assert_close(ours, theirs)
        dT_sum, db_sum = dT_sum + found[2], db_sum + found[3]
    assert_close(dT, dT_sum)
    assert_close(db, db_sum)


@pytest.mark.parametrize("unit", UNITS)
def test_clipping_is_the_literal_loop(unit):
    """dh_t is clipped once, after the gradient from above is added and before the cell."""
    lengths, limit = (STEPS,), 0.4
    x, state, T, b, dh_out, d_last = make(unit, lengths=lengths)
    _, _, cache = run(unit, x, state, T, b)
    dx, d_state, dT, db = UNITS[unit].backward(dh_out, d_last, cache, limit)
    grad = clipping(GRADS[unit], limit)
    h = {-1: [a.T for a in state]}
    for t in range(STEPS):
        h[t] = [a.T for a in literal_states(unit, x[t : t + 1], [a.T for a in h[t - 1]], T, b,
                                            [0])[1]]  # fmt: skip
    d, dx_rows, dT_sum, db_sum = [a.T for a in d_last], [], 0.0, 0.0
    for t in reversed(range(STEPS)):
        d[0] = d[0] + dh_out[t].T
        if unit == "lstm":
            d[0], d[1], dx_t, dT_t, db_t = grad(*d, *h[t - 1], x[t].T, T, b[:, None])
        else:
            d[0], dx_t, dT_t, db_t = grad(d[0], x[t].T, h[t - 1][0], T, b[:, None])
        dx_rows.insert(0, dx_t.T)
        dT_sum, db_sum = dT_sum + dT_t, db_sum + db_t
    assert_close(dx, np.stack(dx_rows))
    assert_close(dT, dT_sum)
    assert_close(db, db_sum[:, 0])
    for ours, theirs in zip(d_state, d, strict=True):
        assert_close(ours, theirs.T)
    free = UNITS[unit].backward(dh_out, d_last, cache, None)[2]
    assert np.abs(free - dT).max() > 0.01  # the limit was felt
    wide = UNITS[unit].backward(dh_out, d_last, cache, 1e3)[2]
    np.testing.assert_array_equal(wide, free)


def test_gate_order():
    """Blocks of T and b are i, f, o, h_hat: a large bias opens exactly that gate."""
    assert GATES == ("i", "f", "o", "h_hat")
    x, zero, T = np.zeros((1, 1)), np.zeros((1, 1)), np.zeros((4, 2))
    b = np.array([0.1, 0.2, 0.3, 0.4])
    (h, c), _ = lstm_step_forward(x, zero, zero + 1.0, T, b)
    i, f, o = (1 / (1 + np.exp(-v)) for v in b[:3])
    np.testing.assert_allclose(c, f + i * np.tanh(0.4), rtol=1e-15)
    np.testing.assert_allclose(h, o * np.tanh(c), rtol=1e-15)


def test_gru_gate_order():
    """Blocks of T and b are r, z, h~: z weighs the proposal (erratum 17)."""
    assert gru.GATES == ("r", "z", "h~")
    x, before, T = np.zeros((1, 1)), np.full((1, 1), 0.7), np.zeros((3, 2))
    T[2, 1] = 1.0                                                          # U
    b = np.array([0.1, 0.2, 0.3])
    h, _ = gru.gru_step_forward(x, before, T, b)
    r, z = (1 / (1 + np.exp(-v)) for v in b[:2])
    np.testing.assert_allclose(h, (1 - z) * 0.7 + z * np.tanh(r * 0.7 + 0.3), rtol=1e-15)


@pytest.mark.parametrize("unit", UNITS)
def test_large_pre_activations_neither_overflow_nor_warn(unit):
    x, state, T, b, dh, d_last = make(unit)
    with np.errstate(all="raise", under="ignore"):
        h, _, cache = run(unit, 1e3 * x, state, T, b)
        gradients = UNITS[unit].backward(dh, d_last, cache, None)
    assert np.isfinite(h).all() and np.isfinite(gradients[0]).all()


@pytest.mark.parametrize("unit, bidirectional", list(product(UNITS, (False, True))))
def test_a_padded_stack_is_the_sum_of_its_sequences(unit, bidirectional):
    """Two layers; outputs at padding are not looked at and get no gradient."""
    lengths, directions = (6, 4, 1), 1 + bidirectional
    rng = np.random.default_rng(2)
    weights = stack_weights("s", unit, 2, {"x": E}, H, Scheme(), bidirectional=bidirectional)
    parameters = {name: draw(rng, weight.shape) for name, weight in weights.items()}
    x, dh = draw(rng, (STEPS, 3, E)), draw(rng, (STEPS, 3, directions * H))
    dh *= np.arange(STEPS)[:, None, None] < np.array(lengths)[:, None]

    def through(columns, steps, padding):
        zero = tuple(np.zeros((len(columns), H)) for _ in range(UNITS[unit].states))
        h, _, cache = stack_forward(x[:steps, columns], parameters, "s", unit,
                                    [[zero] * directions] * 2, padding=padding)
        return h, stack_backward(dh[:steps, columns], None, cache)

    h, (dx, _, gradients) = through([0, 1, 2], STEPS, make_padding(np.array(lengths), STEPS))
    sums = dict.fromkeys(gradients, 0.0)
    for s, length in enumerate(lengths):
        h_alone, (dx_alone, _, alone) = through([s], length, None)
        assert_close(h[:length, [s]], h_alone)
        assert_close(dx[:length, [s]], dx_alone)
        sums = {name: sums[name] + alone[name] for name in sums}
    for name, gradient in gradients.items():
        assert_close(gradient, sums[name])


def test_make_padding():
    padding = make_padding(np.array([3, 1, 0]), 3)
    assert padding.full == 0
    np.testing.assert_array_equal(padding.live[:, :, 0], [[1, 1, 0], [1, 0, 0], [1, 0, 0]])
    np.testing.assert_array_equal(padding.dead, ~padding.live)
    assert make_padding(np.array([3, 2]), 3).full == 2
    assert make_padding(np.array([3, 3]), 3) is None
    for lengths in ([4, 1], [-1, 2]):
        with pytest.raises(ValueError, match="lengths: expected 0 to 3, got"):
            make_padding(np.array(lengths), 3)
