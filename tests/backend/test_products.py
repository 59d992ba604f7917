"""Weights in a form that is faster as a second factor: products are equal, and the form is used
where it pays."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from backend import products
from backend.products import FEW, FewRows, few_rows, for_search
from backend.workspace import is_by_columns


@pytest.fixture(params=["SkylakeX", "Haswell"])
def kernels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Pretend that the machine's BLAS has these kernels."""
    monkeypatch.setattr(products, "_kernels", lambda: request.param)
    yield request.param


def draw(M: int, K: int, N: int, dtype: str = "float32") -> tuple[np.ndarray, np.ndarray]:
    """x, and a transposed block of columns of a wider matrix."""
    rng = np.random.default_rng(M * 1000 + K)
    return (rng.normal(size=(M, K)).astype(dtype),
            rng.normal(size=(N, K + 7)).astype(dtype)[:, 3 : 3 + K].T)


@pytest.fixture
def blocks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The rows of each product that is computed block by block."""
    rows = []

    def noted(a: np.ndarray, b: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        rows.append(len(a))
        return few_rows(a, b, out)

    monkeypatch.setattr(products, "few_rows", noted)
    return rows


@pytest.mark.parametrize("M", [2, 3, 7, FEW])
@pytest.mark.parametrize("K, N", [(64, 1031), (192, 576), (1100, 130), (512, 1500)])
def test_few_rows_equal_a_plain_product(blocks: list[int], M: int, K: int, N: int) -> None:
    a, b = draw(M, K, N)
    exact = a.astype(float) @ b.astype(float)
    wide, weights = np.full((M, N + 5), 7.0, np.float32), b.T.view(FewRows)
    for actual in (a @ weights.T, np.matmul(a, weights.T),
                   np.matmul(a, weights.T, out=wide[:, 2:-3])):
        assert type(actual) is np.ndarray
        np.testing.assert_allclose(actual, exact, atol=2e-6 * K, rtol=1e-5)
    assert (wide[:, [0, 1, -3, -2, -1]] == 7.0).all()
    assert blocks == [M, M, M]


@pytest.mark.parametrize("M, K, N, dtype", [
    (1, 512, 512, "float32"), (FEW + 1, 512, 512, "float32"), (4, 512, 512, "float64"),
    (4, 64, 64, "float32"), (4, 16, 9000, "float32")])
def test_other_products_are_numpys_bit_for_bit(
    blocks: list[int], M: int, K: int, N: int, dtype: str
) -> None:
    a, b = draw(M, K, N)
    a = a.astype(dtype)
    np.testing.assert_array_equal(a @ b.T.view(FewRows).T, a @ b)
    assert blocks == []


def test_other_operations_are_numpys(blocks: list[int]) -> None:
    a, b = draw(4, 512, 512)
    weights = b.T.view(FewRows)
    np.testing.assert_array_equal(a @ np.ascontiguousarray(b).view(FewRows), a @ b)
    np.testing.assert_array_equal(weights @ a.T, b.T @ a.T)
    for actual, expected in ((2.0 * weights, 2.0 * b.T), (np.add.reduce(weights), b.T.sum(axis=0)),
                             (np.tanh(weights[3]), np.tanh(b.T[3]))):
        assert type(actual) is np.ndarray
        np.testing.assert_array_equal(actual, expected)
    assert blocks == []


# --- weights by columns ---------------------------------------------------------------------------


def drawn_parameters() -> dict[str, np.ndarray]:
    """Weights in float32 without embeddings, of which only the output's are large."""
    rng = np.random.default_rng(0)
    return {"output.W_hy": rng.normal(size=(1031, 200)).astype(np.float32),
            "decoder.W_e": rng.normal(size=(1031, 200)).astype(np.float32),
            "small.W": rng.normal(size=(20, 30)).astype(np.float32),
            "wide.W": rng.normal(size=(400, 200)), "b": rng.normal(size=99999)}


@pytest.mark.parametrize("rows", [FEW, FEW + 1])
def test_weights_for_a_search(kernels: str, rows: int, blocks: list[int]) -> None:
    parameters = drawn_parameters()
    search_weights = for_search(parameters, rows)
    assert list(search_weights) == list(parameters)
    few = rows == FEW and kernels == "SkylakeX"
    for name, array in search_weights.items():
        np.testing.assert_array_equal(array, parameters[name])
        changes = name == "output.W_hy" and (few or rows > FEW)
        assert (array is parameters[name]) == (not changes)
        assert isinstance(array, FewRows) == (few and name == "output.W_hy")
    assert is_by_columns(search_weights["output.W_hy"]) == (rows > FEW)
    assert not is_by_columns(parameters["output.W_hy"])
    again = for_search(search_weights, rows)["output.W_hy"]
    assert again is search_weights["output.W_hy"]
    x = np.random.default_rng(1).normal(size=(rows, 200)).astype(np.float32)
    np.testing.assert_allclose(x @ search_weights["output.W_hy"].T,
                               x @ parameters["output.W_hy"].T, atol=1e-4)
    assert blocks == [rows] * few


def test_weights_for_another_blas(monkeypatch: pytest.MonkeyPatch) -> None:
    parameters = drawn_parameters()
    monkeypatch.setattr(products, "_kernels", lambda: None)
    assert for_search(parameters, FEW) is parameters
    assert for_search(parameters, FEW + 1) is parameters
