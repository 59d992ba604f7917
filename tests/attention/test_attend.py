"""Scores, alignment, context and attentional vector against the derivation, one by one."""

from __future__ import annotations

import numpy as np
import pytest
from literal import DTYPES, assert_close, draw

from attention.attend import (
    Memory,
    attend_backward,
    attend_forward,
    attend_memory_backward,
    attentional_backward,
    attentional_forward,
    memory_backward,
    memory_forward,
)
from attention.scores import PRODUCTS, SCORES, score_weights
from attention.way import Way
from grads.derivations.attention import align, attend, attend_grad
from lstm.recurrent import make_padding
from lstm.parameters import Scheme

S, H, Q = 5, 3, 2
BATCHES = [(5, 3, 1), (5, 5), (1,)]


def make(score, lengths, dtype=np.float64):
    """h (B, Q, H), the encoder's states (S, B, He), W_a if there is one, W_c, the padding."""
    rng, B = np.random.default_rng(1), len(lengths)
    He, steps = (H if score == "dot" else 4), max(lengths)
    states = draw(rng, (steps, B, He), dtype, 1.0)
    parameters = {"attention.W_a": draw(rng, (H, He), dtype, 1.0)} if score == "general" else {}
    padding = make_padding(np.array(lengths), steps)
    h, W_c = draw(rng, (B, Q, H), dtype, 1.0), draw(rng, (H, He + H), dtype)
    return h, states, parameters, W_c, padding


def sentence(states, b, length):
    """The derivation's h_bar (He, S) of one sentence, without its padding."""
    return states[:length, b].T


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("lengths", BATCHES)
@pytest.mark.parametrize("score", PRODUCTS)
def test_forward_is_the_derivation(score, lengths, dtype):
    h, states, parameters, W_c, padding = make(score, lengths, dtype)
    W_a = parameters.get("attention.W_a")
    c, a = attend_forward(h, memory_forward(states, padding, Way(score), parameters, "attention"))
    for b, length in enumerate(lengths):
        h_bar = sentence(states, b, length)
        assert not a[b, :, length:].any()
        for q in range(Q):
            column = h[b, q][:, None]
            assert_close(a[b, q, :length], align(column, h_bar, W_a)[:, 0])
            assert_close(c[b, q], h_bar @ a[b, q, :length])
            expected, _ = attend(column, h_bar, W_c, W_a)
            joined = np.concatenate([c[b, q], h[b, q]])[None]
            assert_close(attentional_forward(joined, W_c), expected.T)
    np.testing.assert_allclose(a.sum(axis=2), 1.0, rtol=1e-14)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("lengths", BATCHES)
@pytest.mark.parametrize("score", PRODUCTS)
def test_backward_is_the_derivation(score, lengths, dtype):
    """From dh~ of every target state to h, the states, W_a and W_c; exactly none on padding."""
    h, states, parameters, W_c, padding = make(score, lengths, dtype)
    B, He = len(lengths), states.shape[2]
    dh_tilde = draw(np.random.default_rng(2), (B, Q, H), dtype)
    memory = memory_forward(states, padding, Way(score), parameters, "attention")
    c, a = attend_forward(h, memory)
    joined = np.concatenate([c, h], axis=2).reshape(B * Q, -1)
    h_tilde = attentional_forward(joined, W_c)
    d_joined, dz = attentional_backward(dh_tilde.reshape(B * Q, H), h_tilde, W_c)
    dc, dh = np.split(d_joined.reshape(B, Q, -1), [He], axis=2)
    dh_attention, de = attend_backward(dc, a, memory)
    dhbar, dkeys = attend_memory_backward(de, dc, a, h)
    dstates, gradients = memory_backward(dhbar, dkeys, memory, parameters, "attention")
    W_a = parameters.get("attention.W_a")
    dW_c, dW_a = 0.0, 0.0
    for b, length in enumerate(lengths):
        d_source = 0.0
        for q in range(Q):
            found = attend_grad(dh_tilde[b, q][:, None], h[b, q][:, None],
                                sentence(states, b, length), W_c, W_a)  # fmt: skip
            assert_close((dh + dh_attention)[b, q], found[0][:, 0])
            d_source, dW_c = d_source + found[1], dW_c + found[2]
            dW_a = None if found[3] is None else dW_a + found[3]
        assert_close(dstates[:length, b], d_source.T)
        assert not dstates[length:, b].any()
    assert_close(dz.T @ joined, dW_c)
    assert list(gradients) == list(parameters)
    if W_a is not None and max(lengths) > 1:
        assert_close(gradients["attention.W_a"], dW_a)


def test_padding_is_not_looked_at():
    """The same bits whatever stands in the padding, were it huge."""
    h, states, parameters, _, padding = make("general", (5, 3, 1))
    memory = memory_forward(states, padding, Way("general"), parameters, "attention")
    c, a = attend_forward(h, memory)
    states[padding.dead[:, :, 0]] = 1e200
    memory = memory_forward(states, padding, Way("general"), parameters, "attention")
    c_again, a_again = attend_forward(h, memory)
    np.testing.assert_array_equal(a, a_again)
    np.testing.assert_array_equal(c, c_again)


def test_large_scores_do_not_overflow():
    h, hbar = np.full((1, 1, 1), 1e3), np.array([[[1.0], [0.0], [1.0]]])
    with np.errstate(all="raise", under="ignore"):
        c, a = attend_forward(h, Memory(hbar, hbar, None))
    np.testing.assert_array_equal(a, [[[0.5, 0.0, 0.5]]])
    assert c == 1.0


def test_attend_leaves_its_arguments_alone():
    h, states, parameters, _, padding = make("general", (5, 3, 1))
    memory = memory_forward(states, padding, Way("general"), parameters, "attention")
    before = [array.copy() for array in (h, *memory[:3])]
    _, a = attend_forward(h, memory)
    a_before, dc = a.copy(), np.ones((3, Q, 4))
    attend_backward(dc, a, memory)
    after = (*before, a_before, np.ones_like(dc))
    for array, kept in zip((h, *memory[:3], a, dc), after, strict=True):
        np.testing.assert_array_equal(array, kept)


def test_attentional_writes_where_it_is_told():
    rng = np.random.default_rng(3)
    joined, W_c, d = draw(rng, (4, 7)), draw(rng, (H, 7)), draw(rng, (4, H))
    out, dz = np.empty((2, 4, H))
    assert attentional_forward(joined, W_c, out=out) is out
    np.testing.assert_array_equal(out, attentional_forward(joined, W_c))
    djoined, where = attentional_backward(d, out, W_c, dz)
    assert where is dz
    for found, expected in zip((djoined, dz), attentional_backward(d, out, W_c), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_score_weights():
    def shapes(prefix, H, He, *way, **options):
        weights = score_weights(Way(*way, **options), prefix, H, He, Scheme())
        return {name: weight.shape for name, weight in weights.items()}

    assert shapes("attention", 4, 4, "dot") == {}
    assert shapes("x", 4, 6, "general") == {"x.W_a": (4, 6)}
    assert shapes("x", 4, 6, "concat") == {"x.W_a": (4, 10), "x.v_a": (4,)}
    assert shapes("x", 4, 6, "concat-identity") == {"x.W_a": (6, 4), "x.v_a": (6,)}
    assert shapes("x", 4, 6, "additive") == {"x.W_a": (4, 4), "x.U_a": (4, 6), "x.v_a": (4,)}
    assert shapes("x", 4, 6, "location", length=9) == {"x.W_a": (9, 4)}
    assert shapes("x", 4, 4, "dot", "local-p") == {"x.W_p": (4, 4), "x.v_p": (4,)}
    with pytest.raises(ValueError, match=f"score: expected one of {', '.join(SCORES)}, got 'cos"):
        shapes("attention", 4, 4, "cosine")
    with pytest.raises(ValueError, match=r"score: 'dot' needs .* got 6 and 4"):
        shapes("attention", 4, 6, "dot")
