"""Top-k and log-sum-exp by blocks, against sorting everything."""

import numpy as np
import pytest

from backend.topk import (
    BLOCK,
    CHUNK,
    block_maxima,
    log_sum_exp,
    top_candidates,
    top_indices,
)


def by_sorting(logits, offsets, count):
    """Best values and flat indices of each sentence: a stable sort of all of them."""
    B = len(offsets)
    values = (logits + offsets.reshape(-1, 1)).reshape(B, -1)
    order = np.argsort(-values, axis=1, kind="stable")[:, :count]
    return np.take_along_axis(values, order, axis=1), order


SHAPES = [(1, 1, 2, 1), (2, 3, 7, 5), (3, 4, BLOCK, 8), (2, 5, 3 * BLOCK, 10),
          (4, 2, 2 * BLOCK + 1, 20), (2, 3, 1234, 6), (1, 2, 3, 6)]


@pytest.mark.parametrize("B, K, V, count", SHAPES)
@pytest.mark.parametrize("levels", [None, 2, 5], ids=["distinct", "ties of two values", "ties"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_top_candidates_equal_a_stable_sort(B, K, V, count, levels, dtype):
    rng = np.random.default_rng(V + count)
    logits = rng.normal(size=(B * K, V)).astype(dtype)
    offsets = rng.normal(size=(B, K)).astype(dtype)
    if levels:
        logits, offsets = np.round(logits * levels / 4), np.round(offsets)
    values, flat = top_candidates(logits, block_maxima(logits), offsets, count)
    expected_values, expected_flat = by_sorting(logits, offsets, count)
    np.testing.assert_array_equal(flat, expected_flat)
    np.testing.assert_array_equal(values, expected_values)
    assert values.dtype == dtype


def test_minus_infinity_comes_last_and_stays_inside_the_vocabulary():
    logits = np.full((2, 230), -np.inf)
    logits[0, 220] = 1.0
    logits[1, 3] = 2.0
    values, flat = top_candidates(logits, block_maxima(logits), np.zeros((1, 2)), 300)
    assert list(flat[0, :2]) == [230 + 3, 220]
    assert np.all(values[0, 2:] == -np.inf)
    assert flat.max() < 2 * 230


def test_top_indices_ascend_and_take_the_lowest_of_equals():
    values = np.array([[1.0, 3.0, 2.0, 3.0, 2.0, 2.0], [0.0, 0.0, 0.0, 0.0, 0.0, 0.0]])
    assert top_indices(values, 3).tolist() == [[1, 2, 3], [0, 1, 2]]
    assert top_indices(values, 6).tolist() == [list(range(6))] * 2


def test_top_indices_of_a_row_with_ties_beside_one_with_nan():
    """Over all rows the number of entries that reach the least value is right, but not in each
    row."""
    values = np.array([[np.nan, np.nan, 0.0, 1.0, 2.0, 3.0], [1.0, 2.0, 2.0, 0.0, 2.0, 2.0]])
    assert top_indices(values, 2)[1].tolist() == [1, 2]


@pytest.mark.parametrize("V", [1, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK + 50])
def test_block_maxima(V):
    logits = np.random.default_rng(V).normal(size=(3, V))
    expected = [logits[:, start : start + BLOCK].max(axis=1) for start in range(0, V, BLOCK)]
    np.testing.assert_array_equal(block_maxima(logits), np.stack(expected, axis=1))


def test_log_sum_exp_over_several_chunks_of_rows_and_large_logits():
    V = 3000
    N = 2 * (CHUNK // V) + 5
    logits = np.random.default_rng(0).normal(scale=300, size=(N, V))
    before = logits.copy()
    expected = np.logaddexp.reduce(logits, axis=1)
    np.testing.assert_allclose(log_sum_exp(logits, logits.max(axis=1)), expected, rtol=1e-13)
    np.testing.assert_array_equal(logits, before)
