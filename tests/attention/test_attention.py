"""Attention in all variants against the derivation, forward and backward, and what it must not
change."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from attending import VARIANTS, Q, backward, literal_of, make, only
from families import for_all
from literal import DTYPES, assert_close, assert_same_gradients, draw

from attention.attention import (
    GlobalMemory,
    attentional_backward,
    attentional_forward,
    memory_forward,
)
from attention.scores import SCORES, Variant, score_weights
from grads.derivations.attention import as_written
from grads.derivations.attention_step import (
    align,
    align_grad,
    attend,
    attend_grad,
    parameters_of,
    weights_of,
)
from lstm.parameters import Scheme

LENGTHS, FIRST = (7, 3, 1), 2  # words; the time of the first of Q target states


# --- against the derivation -----------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@for_all(VARIANTS, str)
def test_forward_is_the_derivation(variant, dtype):
    """Alignments and contexts of steps 2 to 5 in sentences of 7, 3 and 1 words, also step by
    step."""
    h, states, parameters, memory = make(variant, LENGTHS, dtype)
    c, cache = memory.attend(h, FIRST)
    a = memory.alignment(cache)
    for b, length in enumerate(LENGTHS):
        h_bar = as_written(states[:length, b].T, literal_of(variant))
        assert not a[b, :, length:].any()
        for q in range(Q):
            expected = align(literal_of(variant), h[b, q][:, None], h_bar,
                             weights_of(parameters), FIRST + q)[:, 0]
            size = max(1.0, np.abs(expected).max())  # complex weights can be large
            assert np.abs(a[b, q, :length] - expected).max() < 1e-13 * size
            assert np.abs(c[b, q] - h_bar @ expected).max() < 1e-13 * size
    for q in range(Q):
        alone, _ = memory.attend(h[:, q : q + 1], FIRST + q)
        assert_close(alone[:, 0], c[:, q])
        together, _ = memory.attend(h, FIRST + q, together=True)
        assert_close(together[:, q], c[:, q])


@pytest.mark.parametrize("stepwise", [False, True], ids=["at once", "by steps"])
@for_all(VARIANTS, str)
def test_backward_is_the_derivation(variant, stepwise):
    """dh and the gradients of the source states and of every weight, which are exactly zero on
    padding. The backward runs for all steps at once, and step by step as inside a decoder."""
    h, states, parameters, memory = make(variant, LENGTHS)
    dc = draw(np.random.default_rng(5), (*h.shape[:2], states.shape[2]))
    dh, dstates, gradients = backward(h, dc, memory, FIRST, stepwise)
    w, sums = weights_of(parameters), {}
    for b, length in enumerate(LENGTHS):
        h_bar, d_source = as_written(states[:length, b].T, literal_of(variant)), 0.0
        for q in range(Q):
            arguments = literal_of(variant), h[b, q][:, None], h_bar, w, FIRST + q
            a = align(*arguments)
            d, d_column = h_bar.T @ dc[b, q][:, None], dc[b, q][:, None]
            dh_q, d_h_bar, dw = align_grad(arguments[0], d, *arguments[1:])
            np.testing.assert_allclose(dh[b, q], dh_q[:, 0], rtol=0, atol=1e-13)
            d_source = d_source + d_h_bar + d_column @ a.T
            sums = {name: sums.get(name, 0.0) + gradient for name, gradient in dw.items()}
        d_source = as_written(d_source, literal_of(variant))
        np.testing.assert_allclose(dstates[:length, b], d_source.T, rtol=0, atol=1e-12)
        assert not dstates[length:, b].any()
    assert_same_gradients(gradients, parameters_of(sums))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("score, lengths", list(product(["dot", "general"],
                                                        [(5, 3, 1), (5, 5), (1,)])))
def test_up_to_the_attentional_vector(score, lengths, dtype):
    """The thesis's step: from dh~ of every target state to the gradients of h, the states, W_a and
    W_c."""
    h, states, parameters, memory = make(Variant(score), lengths, dtype)
    (B, _, H), He, rng = h.shape, states.shape[2], np.random.default_rng(2)
    W_c, dh_tilde = draw(rng, (H, He + H), dtype), draw(rng, (B, Q, H), dtype)
    c, cache = memory.attend(h)
    joined = np.concatenate([c, h], axis=2).reshape(B * Q, -1)
    h_tilde = attentional_forward(joined, W_c)
    d_joined, da = attentional_backward(dh_tilde.reshape(B * Q, H), h_tilde, W_c)
    dc, dh = np.split(d_joined.reshape(B, Q, -1), [He], axis=2)
    dh_attention, step = memory.attend_backward(dc, cache, None)
    dstates, gradients = memory.gradients(dc, h, [cache], [step], None)
    W_a, w = parameters.get("attention.W_a"), weights_of(parameters)
    variant = literal_of(Variant(score))
    dW_c, dW_a = 0.0, 0.0
    for b, length in enumerate(lengths):
        d_source, h_bar = 0.0, states[:length, b].T
        for q in range(Q):
            column = h[b, q][:, None]
            arguments = column, h_bar, W_c, w
            assert_close(h_tilde.reshape(B, Q, H)[b, q], attend(variant, *arguments)[0][:, 0])
            expected = attend_grad(variant, dh_tilde[b, q][:, None], *arguments)
            assert_close((dh + dh_attention)[b, q], expected[0][:, 0])
            d_source, dW_c = d_source + expected[1], dW_c + expected[2]
            dW_a = dW_a + expected[3].get("W_a", 0.0)
        assert_close(dstates[:length, b], d_source.T)
    assert_close(da.T @ joined, dW_c)
    assert list(gradients) == list(parameters)
    if W_a is not None and max(lengths) > 1:
        assert_close(gradients["attention.W_a"], dW_a)


# --- padding, large numbers, arguments ------------------------------------------------------------


@pytest.mark.parametrize("variant", [Variant("general"), Variant("general", "local-m", 2),
                                     Variant("concat"), Variant("location")], ids=str)
def test_padding_is_not_attended_to(variant):
    """The results are bit-identical whatever the padding holds, even huge numbers."""
    lengths = (5, 3, 1)
    h, states, parameters, memory = make(variant, lengths)
    c, cache = memory.attend(h)
    states[np.arange(5)[:, None] >= np.array(lengths)] = 1e200
    again = memory_forward(states, np.array(lengths), variant, parameters, "attention")
    c_again, cache_again = again.attend(h)
    np.testing.assert_array_equal(memory.alignment(cache), again.alignment(cache_again))
    np.testing.assert_array_equal(c, c_again)
    if variant.window == "global" and variant.score != "location":
        np.testing.assert_allclose(cache.align.sum(axis=2), 1.0, rtol=1e-14)


def test_large_scores_do_not_overflow():
    h, hbar = np.full((1, 1, 1), 1e3), np.array([[[1.0], [0.0], [1.0]]])
    memory = GlobalMemory(hbar, hbar, None, None, "attention", SCORES["dot"], None, None, None,
                          SCORES["dot"].energy)
    with np.errstate(all="raise", under="ignore"):
        c, cache = memory.attend(h)
    np.testing.assert_array_equal(cache.align, [[[0.5, 0.0, 0.5]]])
    assert c == 1.0


@for_all(VARIANTS, str)
def test_arguments_and_caches_stay_as_they_are(variant):
    h, states, parameters, memory = make(variant, LENGTHS)
    dc = np.ones((*h.shape[:2], states.shape[2]))
    _, cache = memory.attend(h)
    flat = [h, dc, memory.hbar, memory.keys, *parameters.values(), *only(cache)]
    before = [array.copy() for array in flat]
    first, second = (memory.attend_backward(dc, cache, memory.accumulators()) for _ in range(2))
    np.testing.assert_array_equal(first[0], second[0])
    for array, kept in zip(flat, before, strict=True):
        np.testing.assert_array_equal(array, kept)


@pytest.mark.parametrize("score", SCORES)
def test_the_memory_of_some_sentences(score):
    variant = Variant(score, length=4)
    h, _, _, memory = make(variant, LENGTHS)
    sentences = np.array([2, 0, 0])
    c, _ = memory.attend(h)
    chosen = memory.select(sentences)
    assert_close(chosen.attend(h[sentences])[0], c[sentences])
    assert (chosen.keys is chosen.hbar) == (memory.keys is memory.hbar)


# --- the table ------------------------------------------------------------------------------------


def test_score_weights():
    def shapes(prefix, H, He, *variant, **options):
        weights = score_weights(Variant(*variant, **options), prefix, H, He, Scheme())
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
