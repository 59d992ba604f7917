"""What the time loops share: the transposed copy of a matrix, and weight gradients."""

from __future__ import annotations

import numpy as np
import pytest
from lstm.recurrence import ENOUGH, ROWS, transposed, weight_gradient
from strict.module import strict, to_numpy, to_strict

from backend.workspace import Workspace


@pytest.mark.parametrize("G", [1, ROWS - 1, ROWS, ROWS + 1, 3 * ROWS + 5])
@pytest.mark.parametrize("products", [ENOUGH - 1, ENOUGH, 10 * ENOUGH])
def test_transposed(G, products):
    """The columns of a larger matrix, with rows that lie end to end where many products follow."""
    joined = np.random.default_rng(G).normal(size=(G, 12))
    weights = joined[:, 5:]
    turned = transposed(weights, products, Workspace())
    np.testing.assert_array_equal(turned, weights.T)
    assert np.shares_memory(turned, joined) == (products < ENOUGH)
    assert products < ENOUGH or turned.strides[1] == joined.itemsize


def test_transposed_copies_do_not_share_memory():
    weights = np.random.default_rng(0).normal(size=(2, 80, 60)).astype(np.float32)
    workspace = Workspace()
    found = [transposed(each, ENOUGH, workspace) for each in weights]
    for turned, each in zip(found, weights, strict=True):
        np.testing.assert_array_equal(turned, each.T)
    assert not np.shares_memory(*found)


def test_a_device_turns_its_factors_itself():
    weights = to_strict(np.random.default_rng(0).normal(size=(6, 4)))
    strict.counts.reset()
    turned = transposed(weights, 10 * ENOUGH, Workspace())
    np.testing.assert_array_equal(to_numpy(turned), to_numpy(weights).T)
    assert strict.counts.to_host == strict.counts.to_device == 0


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
def test_weight_gradient(dtype):
    """[dz' x, dz' h], the same in recycled memory as in fresh."""
    rng, workspace = np.random.default_rng(1), Workspace()
    dz, x, h = (rng.normal(size=(70, n)).astype(dtype) for n in (60, 50, 40))
    workspace.empty(np, (60, 90), dtype)[...] = np.nan  # left behind where dT will be
    for where in (None, workspace):
        dT = weight_gradient(dz, x, h, where)
        np.testing.assert_allclose(dT[:, :50], dz.T @ x, rtol=1e-4)
        np.testing.assert_allclose(dT[:, 50:], dz.T @ h, rtol=1e-4)
        assert dT.dtype == dtype and dT.flags.c_contiguous
