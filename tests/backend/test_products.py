"""Products of a few rows: equal to plain ones, and taken where they are faster."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from strict.module import strict, to_numpy, to_strict

import backend
from backend import products
from backend.products import (
    BLOCK,
    ENOUGH,
    FEW,
    few_rows,
    for_many_rows,
    is_by_columns,
    is_faster,
    matmul,
    transposed,
)
from backend.workspace import Workspace


@pytest.fixture(params=["SkylakeX", "Haswell"])
def kernels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """As on machines with these kernels."""
    monkeypatch.setattr(products, "_kernels", lambda: request.param)
    yield request.param


def draw(M: int, K: int, N: int, dtype: str = "float32") -> tuple[np.ndarray, np.ndarray]:
    """x, and a transposed block of columns of a wider matrix."""
    rng = np.random.default_rng(M * 1000 + K)
    return (rng.normal(size=(M, K)).astype(dtype),
            rng.normal(size=(N, K + 7)).astype(dtype)[:, 3 : 3 + K].T)


@pytest.mark.parametrize("M", [2, 3, 7, FEW])
@pytest.mark.parametrize("K, N", [(64, 1031), (192, 576), (1100, 130), (512, 1500)])
def test_few_rows_equal_a_plain_product(kernels: str, M: int, K: int, N: int) -> None:
    a, b = draw(M, K, N)
    exact = a.astype(float) @ b.astype(float)
    wide = np.full((M, N + 5), 7.0, np.float32)
    assert is_faster(M, b.T) == (kernels == "SkylakeX")
    for found in (matmul(a, b), few_rows(a, b), matmul(a, b, out=wide[:, 2:-3])):
        np.testing.assert_allclose(found, exact, atol=2e-6 * K, rtol=1e-5)
    assert (wide[:, [0, 1, -3, -2, -1]] == 7.0).all()


@pytest.mark.parametrize("M, K, N, dtype", [
    (1, 512, 512, "float32"), (FEW + 1, 512, 512, "float32"), (4, 512, 512, "float64"),
    (4, 512, 512, "complex128"), (4, 64, 64, "float32"), (4, 16, 9000, "float32")])
def test_others_are_plain_to_the_bit(kernels: str, M: int, K: int, N: int, dtype: str) -> None:
    a, b = draw(M, K, N, dtype)
    assert not is_faster(M, b.T)
    np.testing.assert_array_equal(matmul(a, b), a @ b)


def test_rows_of_weights_and_other_libraries_are_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    _, b = draw(4, 512, 512)
    assert not is_faster(4, np.ascontiguousarray(b).T)
    monkeypatch.setattr(products, "_kernels", lambda: None)
    assert not is_faster(4, b.T)


def test_sparse_weights(kernels: str) -> None:
    pytest.importorskip("scipy")
    from backend.sparse import sparse_matrix

    a, b = draw(4, 300, 400)
    found = matmul(a, sparse_matrix(np.ascontiguousarray(b.T)).T)
    np.testing.assert_allclose(found, a @ b, rtol=1e-4, atol=1e-4)


def test_on_a_device_it_is_the_device_s(kernels: str) -> None:
    with backend.using("numpy"):
        a, b = draw(4, 300, 400)
    found = matmul(strict.asarray(a), strict.asarray(np.ascontiguousarray(b.T)).T)
    np.testing.assert_allclose(strict.asnumpy(found), a @ b, rtol=1e-4, atol=1e-4)


# --- weights by columns ---------------------------------------------------------------------------


def test_weights_for_many_rows(kernels: str) -> None:
    rng = np.random.default_rng(0)
    given = {"output.W_hy": rng.normal(size=(1031, 200)).astype(np.float32),
             "decoder.W_e": rng.normal(size=(1031, 200)).astype(np.float32),
             "small.W": rng.normal(size=(20, 30)).astype(np.float32),
             "wide.W": rng.normal(size=(400, 200)), "b": rng.normal(size=99999)}
    found = for_many_rows(given, FEW + 1)
    assert list(found) == list(given)
    for name, array in found.items():
        np.testing.assert_array_equal(array, given[name])
        assert (array is given[name]) == (name != "output.W_hy")
    assert is_by_columns(found["output.W_hy"]) and not is_by_columns(given["output.W_hy"])
    assert for_many_rows(found, FEW + 1)["output.W_hy"] is found["output.W_hy"]
    x = rng.normal(size=(FEW + 1, 200)).astype(np.float32)
    np.testing.assert_allclose(matmul(x, found["output.W_hy"].T), x @ given["output.W_hy"].T,
                               atol=1e-4)


def test_a_search_of_few_rows_reads_them_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"output.W_hy": np.ones((1000, 200), np.float32)}
    assert for_many_rows(given, FEW) is given
    monkeypatch.setattr(products, "_kernels", lambda: None)
    assert for_many_rows(given, FEW + 1) is given


# --- the transposed copy --------------------------------------------------------------------------


@pytest.mark.parametrize("G", [1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 5])
@pytest.mark.parametrize("products", [ENOUGH - 1, ENOUGH, 10 * ENOUGH])
def test_transposed(G, products):
    """The columns of a larger matrix, with rows that lie end to end where many products follow."""
    joined = np.random.default_rng(G).normal(size=(G, 12))
    weights = joined[:, 5:]
    found = transposed(weights, products, 64, Workspace())
    np.testing.assert_array_equal(found, weights.T)
    assert np.shares_memory(found, joined) == (products < ENOUGH)
    assert products < ENOUGH or found.strides[1] == joined.itemsize


def test_transposed_copies_do_not_share_memory():
    weights = np.random.default_rng(0).normal(size=(2, 80, 60)).astype(np.float32)
    workspace = Workspace()
    found = [transposed(each, ENOUGH, 64, workspace) for each in weights]
    for copy, each in zip(found, weights, strict=True):
        np.testing.assert_array_equal(copy, each.T)
    assert not np.shares_memory(*found)


def test_products_of_few_rows_need_no_copy():
    weights = np.random.default_rng(0).normal(size=(700, 200)).astype(np.float32)
    for rows, shared in ((1, True), (10, is_faster(10, weights)), (64, False)):
        found = transposed(weights, ENOUGH, rows, Workspace())
        assert np.shares_memory(found, weights) == shared
        np.testing.assert_array_equal(found, weights.T)


def test_a_device_transposes_its_factors_itself():
    weights = to_strict(np.random.default_rng(0).normal(size=(6, 4)))
    strict.counts.reset()
    found = transposed(weights, 10 * ENOUGH, 64, Workspace())
    np.testing.assert_array_equal(to_numpy(found), to_numpy(weights).T)
    assert strict.counts.to_host == strict.counts.to_device == 0
