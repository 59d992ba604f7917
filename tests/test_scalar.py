"""The kernels against `scalar`: plain Python loops over every index, one sentence at a time."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import scalar
import scalar_translator

from attention.attend import (
    Memory,
    attend_backward,
    attend_forward,
    attend_memory_backward,
    attentional_backward,
    attentional_forward,
    memory_backward,
)
from attention.scores import PRODUCTS, map_forward
from attention.way import Way
from backend.rows import row_index
from grads.case import dense
from lstm.embedding import embedding_backward, embedding_forward
from nmt.models.language_model import LanguageModel, LanguageModelConfig
from lstm.lstm import lstm_backward, lstm_forward, lstm_step_backward, lstm_step_forward
from lstm.recurrent import make_padding
from lstm.prediction import prediction_backward, prediction_forward
from lstm.rnn import rnn_backward, rnn_forward, rnn_step_backward, rnn_step_forward
from nmt.models.translator import ModelConfig
from nmt.models.translator import Translator
from nmt.text.batches import make_batch

TOLERANCE = 1e-12
V, E, H = 6, 3, 4
LENGTHS = [(5, 2, 0, 1), (3, 3), (1,)]
UNITS = {"rnn": (1, 1, rnn_forward, rnn_backward), "lstm": (2, 4, lstm_forward, lstm_backward)}
STEPS = {"rnn": (rnn_step_forward, rnn_step_backward),
         "lstm": (lstm_step_forward, lstm_step_backward)}


def draw(rng, *shape):
    """A read-only array of normals: no gate saturates."""
    array = np.asarray(rng.normal(scale=0.7, size=shape))
    array.flags.writeable = False
    return array


def assert_close(ours, expected):
    """Relative to the largest number, and not a comparison of nothing with nothing."""
    ours, expected = np.asarray(dense(ours)), np.asarray(expected)
    assert ours.shape == expected.shape
    assert ours.dtype == np.float64
    assert np.abs(expected).max() > 0, "the scalar loops' values are all zero"
    assert np.abs(ours - expected).max() / np.abs(expected).max() < TOLERANCE


def lists(parameters):
    """Arrays by name as nested lists of floats."""
    return {name: array.tolist() for name, array in parameters.items()}


def test_negative_control():
    """An error in the eleventh digit of one number is seen, and so are zeros."""
    expected = np.random.default_rng(0).normal(size=(4, 3))
    assert_close(expected.copy(), expected.tolist())
    wrong = expected.copy()
    wrong[1, 2] += 1e-11
    for a, b in ((wrong, expected), (np.zeros(3), np.zeros(3))):
        with pytest.raises(AssertionError):
            assert_close(a, b)


# --- units --------------------------------------------------------------------------------------


@pytest.mark.parametrize("unit, bias", list(product(UNITS, (True, False))))
def test_step(unit, bias):
    rng, B, (states, blocks, *_) = np.random.default_rng(1), 3, UNITS[unit]
    x, before = draw(rng, B, E), [draw(rng, B, H) for _ in range(states)]
    T, b = draw(rng, blocks * H, E + H), draw(rng, blocks * H) if bias else None
    d_after = [draw(rng, B, H) for _ in range(states)]
    forward, backward = STEPS[unit]
    out, cache = forward(x, *before, T, b)
    dx, *d_before, dT, db = backward(*d_after, cache)
    T_, b_ = T.tolist(), None if b is None else b.tolist()
    expected_dT, expected_db = scalar.zeros_like(T_), [0.0] * len(T_)
    for n in range(B):
        step_forward, step_backward = scalar.STEPS[unit]
        step = step_forward(x[n].tolist(), tuple(a[n].tolist() for a in before), T_, b_)
        dx_n, d_before_n = step_backward(
            tuple(d[n].tolist() for d in d_after), step, T_, expected_dT, expected_db
        )
        for ours, expected in zip(out if unit == "lstm" else (out,), step.after, strict=True):
            assert_close(ours[n], expected)
        assert_close(dx[n], dx_n)
        for ours, expected in zip(d_before, d_before_n, strict=True):
            assert_close(ours[n], expected)
    assert_close(dT, expected_dT)
    assert_close(db, expected_db)


@pytest.mark.parametrize("unit, lengths, reverse", list(product(UNITS, LENGTHS, (False, True))))
def test_sequence(unit, lengths, reverse):
    """Each sequence of a ragged batch by itself; a reversed run reads its real steps backwards."""
    rng, steps, B = np.random.default_rng(2), max(lengths), len(lengths)
    states, blocks, forward, backward = UNITS[unit]
    x, dh = draw(rng, steps, B, E), draw(rng, steps, B, H)
    before, d_last = ([draw(rng, B, H) for _ in range(states)] for _ in range(2))
    T, b = draw(rng, blocks * H, E + H), draw(rng, blocks * H)
    padding = make_padding(np.array(lengths), steps)
    h, *last, cache = forward(x, *before, T, b, padding=padding, reverse=reverse)
    last = last[0] if unit == "lstm" else last
    live = (np.arange(steps)[:, None] < np.array(lengths))[:, :, None]
    dx, *d_before, dT, db = backward(dh * live, *d_last, cache)
    T_, b_, (dT_, db_) = T.tolist(), b.tolist(), scalar.zeros_like([T.tolist(), b.tolist()])
    for n, length in enumerate(lengths):
        turn = slice(None, None, -1) if reverse else slice(None)
        begin, end = (tuple(a[n].tolist() for a in arrays) for arrays in (before, d_last))
        made = scalar.sequence(unit, x[:length, n][turn].tolist(), begin, T_, b_)
        dx_n, d_begin = scalar.sequence_backward(
            unit, dh[:length, n][turn].tolist(), end, made, T_, dT_, db_
        )
        if length:
            assert_close(h[:length, n][turn], [step.after[0] for step in made])
            assert_close(dx[:length, n][turn], dx_n)
        after = made[-1].after if made else begin
        for ours, expected in zip([*last, *d_before], [*after, *d_begin], strict=True):
            assert_close(ours[n], expected)
    assert_close(dT, dT_)
    assert_close(db, db_)


# --- look-up, prediction, language model --------------------------------------------------------


def test_embedding():
    rng, ids = np.random.default_rng(3), np.array([[2, 3], [2, 5], [3, 2]])
    W_e, dx = draw(rng, V, E), draw(rng, 3, 2, E)
    x, cache = embedding_forward(W_e, row_index(ids))
    dW_e = scalar.zeros_like(W_e.tolist())
    for n in range(2):
        assert_close(x[:, n], scalar.look_up(W_e.tolist(), ids[:, n].tolist()))
        scalar.look_up_backward(dx[:, n].tolist(), ids[:, n].tolist(), dW_e)
    assert_close(embedding_backward(dx, cache), dW_e)


@pytest.mark.parametrize("N, bias", list(product((1, 40), (False, True))))
def test_prediction(N, bias):
    """Forty rows are more than one of the kernel's chunks."""
    rng = np.random.default_rng(4)
    h, W_hy, b, y = draw(rng, N, H), draw(rng, V, H), draw(rng, V), rng.integers(0, V, N)
    loss, cache = prediction_forward(h, y, W_hy, b if bias else None)
    dh, dW_hy, db = prediction_backward(cache)
    W, b_ = W_hy.tolist(), b.tolist() if bias else None
    dW, d_b, total, dh_ = scalar.zeros_like(W), [0.0] * V, 0.0, []
    for n in range(N):
        l_n, p = scalar.predict(h[n].tolist(), int(y[n]), W, b_)
        total += l_n
        dh_.append(scalar.predict_backward(p, h[n].tolist(), int(y[n]), W, dW, d_b))
    assert_close(loss, total)
    assert_close(dh, dh_)
    assert_close(dW_hy, dW)
    assert (db is None) == (not bias)
    if bias:
        assert_close(db, d_b)


@pytest.mark.parametrize("unit, biases", list(product(UNITS, (True, False))))
def test_language_model(unit, biases):
    """Two streams side by side, from states that are not zero."""
    rng, T, B = np.random.default_rng(5), 6, 2
    config = LanguageModelConfig(unit=unit, layers=1, hidden_size=H, embedding_size=E,
                                 biases=biases, output_bias=biases)
    model = LanguageModel(config, V)
    parameters = {name: draw(rng, *weight.shape) for name, weight in model.weights().items()}
    x, y = rng.integers(0, V, (2, T, B))
    state = tuple(draw(rng, B, H) for _ in range(UNITS[unit][0]))
    loss, cache = model.loss(parameters, x, y, [state])
    gradients = model.backward(cache)
    alone = [scalar.language_model(lists(parameters), unit, x[:, n].tolist(), y[:, n].tolist(),
                                   tuple(a[n].tolist() for a in state)) for n in range(B)]
    assert_close(loss, sum(loss_n for loss_n, _, _ in alone))
    assert gradients.keys() == parameters.keys()
    for name, gradient in gradients.items():
        assert_close(gradient, sum(np.array(d[name]) for _, d, _ in alone))
    for n, (_, _, after) in enumerate(alone):
        for ours, expected in zip(cache.last[0], after, strict=True):
            assert_close(ours[n], expected)


# --- attention and translator -------------------------------------------------------------------


@pytest.mark.parametrize("score, lengths", list(product(PRODUCTS, ((4, 2, 1), (3, 3)))))
def test_attention(score, lengths):
    """Scores, weights, context and the attentional vector of two target states a sentence."""
    rng, B, S, Q = np.random.default_rng(6), len(lengths), max(lengths), 2
    He = H if score == "dot" else 5
    hbar, h = draw(rng, B, S, He), draw(rng, B, Q, H)
    W_c, d_out = draw(rng, H, He + H), draw(rng, B, Q, H)
    weights = {"attention.W_a": draw(rng, H, He)} if score == "general" else {}
    padding = make_padding(np.array(lengths), S)
    dead = None if padding is None else padding.dead.transpose(1, 2, 0)
    memory = Memory(hbar, map_forward(hbar, weights.get("attention.W_a")), dead, None, Way(score))
    c, a = attend_forward(h, memory)
    joined = np.concatenate([c, h], axis=2)
    h_tilde = attentional_forward(joined.reshape(B * Q, -1), W_c)
    d_joined, dz = attentional_backward(d_out.reshape(B * Q, -1), h_tilde, W_c)
    dc, dh_direct = np.split(d_joined.reshape(B, Q, -1), [He], axis=2)
    dh_score, de = attend_backward(dc, a, memory)
    dhbar, dkeys = attend_memory_backward(de, dc, a, h)
    dstates, dW_a = memory_backward(dhbar, dkeys, memory, weights, "attention")
    W_a = weights["attention.W_a"].tolist() if weights else None
    dW_a_, dW_c_ = None if W_a is None else scalar.zeros_like(W_a), scalar.zeros_like(W_c.tolist())
    for n, length in enumerate(lengths):
        source = hbar[n, :length].tolist()
        d_source = scalar.zeros_like(source)
        for q in range(Q):
            h_q = h[n, q].tolist()
            c_q, a_q = scalar.attend(h_q, source, W_a)
            h_tilde_q = scalar.attentional(c_q, h_q, W_c.tolist())
            dc_q, dh_q = scalar.attentional_backward(
                d_out[n, q].tolist(), h_tilde_q, c_q, h_q, W_c.tolist(), dW_c_
            )
            more = scalar.attend_backward(dc_q, a_q, h_q, source, W_a, d_source, dW_a_)
            assert_close(a[n, q, :length], a_q)
            assert not a[n, q, length:].any()
            assert_close(c[n, q], c_q)
            assert_close(h_tilde.reshape(B, Q, H)[n, q], h_tilde_q)
            assert_close(dh_direct[n, q] + dh_score[n, q], scalar.add(dh_q, more))
        assert_close(dstates[:length, n], d_source)
    assert_close(dz.T @ joined.reshape(B * Q, -1), dW_c_)
    if dW_a_ is not None:
        assert_close(dW_a["attention.W_a"], dW_a_)


PAIRS = [([2, 3, 4, 3], [4, 2]), ([5, 2], [3, 5, 3, 2]), ([4], [])]


def translator(unit, score, feeding, biases):
    """Ours, and parameters for it."""
    config = ModelConfig(unit=unit, layers=1, hidden_size=H, embedding_size=E, score=score,
                         input_feeding=feeding, biases=biases, output_bias=biases)
    model, rng = Translator(config, V, V), np.random.default_rng(7)
    return model, {name: draw(rng, *weight.shape) for name, weight in model.weights().items()}


@pytest.mark.parametrize(
    "unit, score, feeding, biases", list(product(UNITS, PRODUCTS, (True, False), (True, False)))
)
def test_translator(unit, score, feeding, biases):
    """A ragged batch: loss and all gradients are the sums over its pairs."""
    model, parameters = translator(unit, score, feeding, biases)
    loss, cache = model.loss(parameters, make_batch(PAIRS, range(len(PAIRS)), False))
    gradients = model.backward(cache)
    slow = scalar_translator.Translator(lists(parameters), unit, feeding)
    expected, d = 0.0, {name: np.zeros(array.shape) for name, array in parameters.items()}
    for x, y in PAIRS:
        loss_n, made = slow.forward(x, y)
        expected += loss_n
        for name, more in slow.backward(x, y, made).items():
            d[name] += np.array(more)
    assert_close(loss, expected)
    assert gradients.keys() == parameters.keys()
    for name, gradient in gradients.items():
        assert_close(gradient, d[name])


@pytest.mark.parametrize("unit, score", list(product(UNITS, PRODUCTS)))
def test_scalar_gradients_are_slopes_of_the_scalar_loss(unit, score):
    """The slow truth by itself: central differences of its loss at two entries of every weight."""
    _, arrays = translator(unit, score, True, True)
    parameters = lists(arrays)
    slow = scalar_translator.Translator(parameters, unit, True)
    x, y = [2, 3, 3], [3, 2]
    d = slow.backward(x, y, slow.forward(x, y)[1])
    rng = np.random.default_rng(8)
    for name in parameters:
        for _ in range(2):
            rows = parameters[name]
            gradient = d[name]
            if isinstance(rows[0], list):  # of a table, a row of a word in use
                row = int(rng.integers(2, 4))
                rows, gradient = rows[row], gradient[row]
            j, h = int(rng.integers(len(rows))), 1e-5
            kept, losses = rows[j], []
            for moved in (kept + h, kept - h):
                rows[j] = moved
                losses.append(slow.forward(x, y)[0])
            rows[j] = kept
            assert abs((losses[0] - losses[1]) / (2 * h) - gradient[j]) < 1e-8, name
