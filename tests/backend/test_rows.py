"""Look-ups and their summed gradient against np.add.at."""

from __future__ import annotations

import numpy as np
import pytest
from strict.module import strict, to_numpy, to_strict

import backend
from backend.rows import RowGradient, gather_rows, row_index, sum_rows

IDS = {
    "many duplicates": np.random.default_rng(0).integers(0, 5, (7, 6)),
    "all equal": np.full((4, 3), 8),
    "all different": np.array([[3, 1], [0, 8]]),
    "one": np.array([[2]]),
}


@pytest.mark.parametrize("name", IDS)
def test_rows(name):
    ids, rng = IDS[name], np.random.default_rng(1)
    table, d_rows = rng.normal(size=(9, 4)), rng.normal(size=(*ids.shape, 4))
    index = row_index(ids)
    np.testing.assert_array_equal(gather_rows(table, index.ids), table[ids])
    expected = np.zeros_like(table)
    np.add.at(expected, ids, d_rows)
    summed = sum_rows(d_rows, index, len(table))
    assert summed.shape == table.shape
    assert summed.ids.tolist() == sorted(set(ids.ravel().tolist()))
    assert summed.values.shape == (len(summed.ids), 4)
    np.testing.assert_allclose(summed.dense(), expected, rtol=1e-13, atol=1e-15)
    assert not summed.dense()[np.setdiff1d(np.arange(9), ids)].any()


@pytest.mark.parametrize("name", IDS)
def test_rows_on_the_stand_in(name):
    """The other path (atomics) gives the same rows."""
    ids, rng = IDS[name], np.random.default_rng(1)
    table, d_rows = rng.normal(size=(9, 4)), rng.normal(size=(*ids.shape, 4))
    expected = sum_rows(d_rows, row_index(ids), 9)
    with backend.using(strict):
        index = row_index(ids)
    assert (strict.counts.to_host, strict.counts.syncs) == (0, 0)
    np.testing.assert_array_equal(to_numpy(gather_rows(to_strict(table), index.ids)), table[ids])
    summed = to_numpy(sum_rows(to_strict(d_rows), index, 9))
    assert isinstance(summed, RowGradient)
    np.testing.assert_array_equal(summed.ids, expected.ids)
    np.testing.assert_allclose(summed.values, expected.values, rtol=1e-13)


@pytest.mark.parametrize("dtype", [np.float32, np.complex128])
def test_rows_keep_the_dtype(dtype):
    index = row_index(IDS["many duplicates"])
    summed = sum_rows(np.ones((7, 6, 4), dtype), index, 9)
    assert summed.values.dtype == summed.dense().dtype == dtype
    assert summed.values.sum() == 7 * 6 * 4


def test_duplicates_are_summed_pairwise_not_in_one_running_sum():
    """A large row does not cancel the digits of small ones, as CuPy's reduceat would."""
    ids = np.array([0, 1, 1])
    summed = sum_rows(np.array([[1e8], [1.0], [1.0]], np.float32), row_index(ids), 2)
    assert summed.values.ravel().tolist() == [1e8, 2.0]


def test_many_repeated_ids_are_summed_as_one_by_one() -> None:
    """More repeated ids than a loop is worth, one of them repeated far more often."""
    rng = np.random.default_rng(5)
    ids = np.concatenate([rng.integers(0, 90, 700), np.full(300, 7)])
    rng.shuffle(ids)
    rows = rng.normal(size=(len(ids), 3))
    expected = np.zeros((100, 3))
    np.add.at(expected, ids, rows)
    summed = sum_rows(rows, row_index(ids), 100).dense()
    np.testing.assert_allclose(summed, expected, rtol=1e-12, atol=1e-13)
