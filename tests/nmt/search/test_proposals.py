"""The best next words of hypotheses, against sorting everything."""

import numpy as np
import pytest

from backend.topk import BLOCK
from nmt.search.beam import best_candidates, best_words


def test_best_candidates_are_log_probabilities():
    rng = np.random.default_rng(1)
    logits, sums = rng.normal(size=(6, 11)), -rng.random((2, 3))
    before = logits.copy()
    got, flat = best_candidates(logits, sums, 4)
    log_p = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)
    sums_of_words = (log_p + sums.reshape(-1, 1)).reshape(2, -1)
    expected_flat = np.argsort(-sums_of_words, axis=1, kind="stable")[:, :4]
    expected = np.take_along_axis(sums_of_words, expected_flat, axis=1)
    np.testing.assert_array_equal(flat, expected_flat)
    np.testing.assert_allclose(got, expected, rtol=1e-13)
    np.testing.assert_array_equal(logits, before)


def test_sums_keep_their_precision_beside_float32_logits():
    logits = np.array([[0.0, 0.25]], np.float32)
    low, _ = best_candidates(logits, np.array([[-1e6]]), 2)
    zero, _ = best_candidates(logits, np.array([[0.0]]), 2)
    np.testing.assert_allclose(low + 1e6, zero, atol=1e-9)


def test_fewer_candidates_than_wanted():
    got, flat = best_candidates(np.zeros((2, 3)), np.zeros((2, 1)), 20)
    assert got.shape == flat.shape == (2, 3)


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_bad_logit_shows_in_its_sentence_only(bad):
    logits = np.random.default_rng(2).normal(size=(4, 300))
    logits[3, 250] = bad
    got, _ = best_candidates(logits, np.zeros((2, 2)), 3)
    assert np.isfinite(got[0]).all() and np.isnan(got[1]).all()


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("levels", [None, 3], ids=["distinct", "ties"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("V", [2, 7, BLOCK, 2 * BLOCK + 1])
def test_greedy_is_the_first_of_more(V, dtype, levels):
    """A single candidate per sentence needs no blocks; a NaN is found all the same."""
    rng = np.random.default_rng(3)
    logits = rng.normal(size=(5, V)) if levels is None else rng.integers(0, levels, (5, V))
    logits = logits.astype(dtype)
    logits[4, V // 2] = np.nan
    sums = rng.normal(size=(5, 1))
    got, flat = best_words(logits, sums)
    candidates, flats = best_candidates(logits, sums, 2)
    np.testing.assert_array_equal(got[:4], candidates[:4, :1])
    np.testing.assert_array_equal(flat[:4], flats[:4, :1])
    assert np.isnan(got[4]).all()
