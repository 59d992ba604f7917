"""Buffers are reused when nobody refers to them, and never before."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from strict.module import StrictArray, strict, to_numpy, to_strict

from backend.products import FewRows
from backend.workspace import BLOCK, ENOUGH, Workspace, transposed

LARGE = (64, 128)  # of float32: 32 KiB
KEPT = {
    "itself": lambda a: a, "row": lambda a: a[3], "transpose": lambda a: a.T,
    "reshaped": lambda a: a.reshape(-1)[::2], "view of a view": lambda a: a[1:][:, 2:].T,
    "other dtype": lambda a: a.view(np.int32), "real": lambda a: a.real,
    "in a tuple": lambda a: (a[0], None), "in a closure": lambda a: lambda: a,
    "broadcast": lambda a: np.broadcast_to(a, (2, *a.shape)),
}  # fmt: skip


def address(array):
    return array.__array_interface__["data"][0]


def test_shape_and_dtype():
    workspace = Workspace()
    for shape in (LARGE, (3, 5), (), (0, 7), (1, 1000, 9)):
        for dtype in ("float32", np.float64, np.complex128):
            array = workspace.empty(np, shape, dtype)
            assert array.shape == shape
            assert array.dtype == np.dtype(dtype)
            assert array.flags.c_contiguous and array.flags.writeable and array.flags.aligned


def test_a_free_buffer_is_used_again():
    workspace = Workspace()
    first = workspace.empty(np, LARGE, np.float32)
    where, held = address(first), workspace.nbytes
    assert held >= first.nbytes
    del first
    again = workspace.empty(np, LARGE, np.float32)
    assert address(again) == where
    assert workspace.nbytes == held


@pytest.mark.parametrize("how", KEPT)
def test_a_buffer_in_use_is_left_alone(how):
    """A buffer is not reused while any view of it exists, and is reused afterwards."""
    workspace = Workspace()
    array = workspace.empty(np, LARGE, np.float32)
    where = address(array)
    kept = KEPT[how](array)
    del array
    others = [workspace.empty(np, LARGE, np.float32) for _ in range(3)]
    assert where not in [address(buffer) for buffer in others]
    assert len({address(buffer) for buffer in others}) == 3
    del kept
    gc.collect()
    assert address(workspace.empty(np, LARGE, np.float32)) == where


def test_many_sizes_never_overlap():
    rng, workspace = np.random.default_rng(0), Workspace()
    held = []
    for step in range(400):
        if held and rng.random() < 0.5:
            held.pop(rng.integers(len(held)))
        array = workspace.empty(np, (int(rng.integers(1, 60)), 512), np.float32)
        array[...] = step
        held.append((step, array))
        del array
    for step, array in held:
        assert (array == step).all()


def test_memory_stays_constant_over_repeated_steps():
    rng, workspace = np.random.default_rng(1), Workspace()
    sizes = [int(n) for n in rng.integers(20, 90, 12)]

    def step():
        held = [workspace.empty(np, (n, 512), np.float32) for n in sizes]
        return sum(a.nbytes for a in held)

    used = step()
    after_one = workspace.nbytes
    for _ in range(10):
        step()
    assert workspace.nbytes == after_one
    assert used <= after_one < 1.3 * used


def test_a_product_is_the_callers_until_it_is_dropped():
    workspace, rng = Workspace(), np.random.default_rng(0)
    a, b = rng.normal(size=(64, 50)), rng.normal(size=(50, 60))
    first, second = workspace.product(a, b), workspace.product(2.0 * a, b)
    np.testing.assert_array_equal(first, a @ b)
    np.testing.assert_array_equal(second, 2.0 * a @ b)
    assert not np.shares_memory(first, second)
    where = address(first)
    del first
    assert address(workspace.product(a, b)) == where


def test_two_workspaces_share_nothing():
    first, second = (Workspace().empty(np, LARGE, np.float32) for _ in range(2))
    assert not np.shares_memory(first, second)


def test_a_device_has_its_own_pool():
    workspace = Workspace()
    assert type(workspace.empty(strict, LARGE, np.float32)) is StrictArray
    assert workspace.nbytes == 0


# --- the transposed copy --------------------------------------------------------------------------


@pytest.mark.parametrize("G", [1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 5])
@pytest.mark.parametrize("products", [ENOUGH - 1, ENOUGH, 10 * ENOUGH])
def test_transposed(G, products):
    """Columns of a larger matrix are transposed into contiguous rows if many products follow."""
    joined = np.random.default_rng(G).normal(size=(G, 12))
    weights = joined[:, 5:]
    actual = transposed(weights, products, 64, Workspace())
    np.testing.assert_array_equal(actual, weights.T)
    assert np.shares_memory(actual, joined) == (products < ENOUGH)
    assert products < ENOUGH or actual.strides[1] == joined.itemsize


def test_transposed_copies_do_not_share_memory():
    weights = np.random.default_rng(0).normal(size=(2, 80, 60)).astype(np.float32)
    workspace = Workspace()
    copies = [transposed(matrix, ENOUGH, 64, workspace) for matrix in weights]
    for copy, matrix in zip(copies, weights, strict=True):
        np.testing.assert_array_equal(copy, matrix.T)
    assert not np.shares_memory(*copies)


def test_products_of_one_row_need_no_copy():
    weights = np.random.default_rng(0).normal(size=(700, 200)).astype(np.float32)
    for rows, shared in ((1, True), (2, False), (64, False)):
        actual = transposed(weights, ENOUGH, rows, Workspace())
        assert np.shares_memory(actual, weights) == shared
        np.testing.assert_array_equal(actual, weights.T)
    assert np.shares_memory(transposed(weights.view(FewRows), ENOUGH, 64, Workspace()), weights)


def test_a_device_transposes_its_factors_itself():
    weights = to_strict(np.random.default_rng(0).normal(size=(6, 4)))
    strict.counts.reset()
    actual = transposed(weights, 10 * ENOUGH, 64, Workspace())
    np.testing.assert_array_equal(to_numpy(actual), to_numpy(weights).T)
    assert strict.counts.to_host == strict.counts.to_device == 0
