"""Products on the GPU in every layout, against NumPy, and their error in lower precisions."""

from __future__ import annotations

import numpy as np
import pytest
from gpu.arrays import to_numpy

import backend
from backend import gemm

LAYOUTS = {
    "whole": lambda a: a.copy(),
    "columns": lambda a: _within(a, (0, 3)),
    "transposed": lambda a: a.swapaxes(-1, -2).copy().swapaxes(-1, -2),
    "columns, transposed": lambda a: _within(a.swapaxes(-1, -2), (0, 2)).swapaxes(-1, -2),
    "every second": lambda a: _spread(a),
}


def _within(a, margins):
    """The same numbers as a block of columns of a wider array."""
    whole = backend.array_module(a).zeros((*a.shape[:-1], a.shape[-1] + sum(margins)), a.dtype)
    view = whole[..., margins[0] : margins[0] + a.shape[-1]]
    view[...] = a
    return view


def _spread(a):
    """The same numbers with gaps between columns, which has to be copied."""
    whole = backend.array_module(a).zeros((*a.shape[:-1], 2 * a.shape[-1]), a.dtype)
    whole[..., ::2] = a
    return whole[..., ::2]


@pytest.mark.parametrize("dtype, tolerance", [("float32", 2e-5), ("float64", 1e-12),
                                              ("complex128", 1e-12)])
@pytest.mark.parametrize("batch", [(), (1,), (5,)], ids=["2-D", "one", "batch"])
@pytest.mark.parametrize("m, k, n", [(4, 7, 6), (1, 9, 1), (1, 1, 5), (65, 33, 129), (2, 0, 3)])
def test_products(m, k, n, batch, dtype, tolerance):
    rng = np.random.default_rng(0)
    a, b = (rng.normal(size=(*batch, *shape)).astype(dtype) for shape in ((m, k), (k, n)))
    if dtype == "complex128":
        a = a * (1 + 2j)
    expected, xp = a @ b, backend.module()
    for left in LAYOUTS.values():
        for right in LAYOUTS.values():
            x, y = left(backend.to_device(a)), right(backend.to_device(b))
            np.testing.assert_allclose(to_numpy(xp.matmul(x, y)), expected, rtol=tolerance,
                                       atol=tolerance)
            out = _within(backend.to_device(np.full_like(expected, np.nan)), (1, 2))
            assert xp.matmul(x, y, out=out) is out
            np.testing.assert_allclose(to_numpy(out), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("precision, least, most", [
    ("float32", 0.0, 1e-5), ("tf32", 1e-5, 5e-3), ("float16", 1e-5, 5e-3),
])
def test_precision(precision, least, most):
    """The relative error of a product of 512 x 512 normal numbers, against float64."""
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 512, 512))
    exact, (x, y) = a @ b, (backend.to_device(array.astype(np.float32)) for array in (a, b))
    xp = backend.module()
    with gemm.using(precision):
        for left, right in ((x, y), (xp.stack([x, x]), xp.stack([y, y]))):
            product = to_numpy(xp.matmul(left, right)).reshape(-1, 512, 512)[-1]
            error = np.linalg.norm(product - exact) / np.linalg.norm(exact)
            print(f"{precision}, {left.ndim} dimensions: {error:.1e}")
            assert least <= error <= most


def test_float64_is_left_as_it_is():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 64, 64))
    with gemm.using("tf32"):
        product = to_numpy(backend.module().matmul(backend.to_device(a), backend.to_device(b)))
    np.testing.assert_allclose(product, a @ b, rtol=1e-12, atol=1e-12)
