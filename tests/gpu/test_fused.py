"""Each fused kernel on the GPU against its source on NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from fused_cases import FUSED, SIZES, TOLERANCE, assert_close, cast, function_of, leaves
from gpu.arrays import to_numpy

import backend
from backend import fused


def on_gpu(tree):
    """The same arrays on the GPU; a block of columns of a wider array stays such a block."""
    import cupy

    if isinstance(tree, np.ndarray):
        if tree.base is not None and not tree.flags.c_contiguous and tree.ndim == 2:
            rows, columns = tree.shape
            view = cupy.zeros((rows, columns + 3), tree.dtype)[:, 2 : 2 + columns]
            view[...] = cupy.asarray(tree)
            return view
        return cupy.asarray(tree)
    if isinstance(tree, (list, tuple)):
        items = [on_gpu(item) for item in tree]
        return type(tree)(*items) if hasattr(tree, "_fields") else type(tree)(items)
    return tree


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("strided", [False, True], ids=["whole", "strided"])
@pytest.mark.parametrize("rows, width", [*SIZES, (33, 1000)])
@pytest.mark.parametrize("kernels", FUSED)
def test_kernel_equals_source(kernels, rows, width, strided, dtype, monkeypatch):
    from backend.fused import cuda

    launched = []
    start = cuda.CupyLauncher.__call__
    monkeypatch.setattr(cuda.CupyLauncher, "__call__", lambda self, kernel, *rest: (
        launched.append(kernel), start(self, kernel, *rest)))
    rng = np.random.default_rng(rows * 1000 + width)
    for case in FUSED[kernels](rng, rows, width, strided):
        function, source = function_of(case.function), cast(case.arguments, dtype)
        device = on_gpu(cast(case.arguments, dtype))
        expected = function.__wrapped__(*source)
        before = len(launched)
        result = function(*device)
        assert len(launched) > before, f"{case.function}: the kernel was not taken"
        pairs = list(zip(leaves(to_numpy(device), case.scratch), leaves(source, case.scratch),
                         strict=True))
        if expected is not None:
            result = to_numpy(result)
            pairs += zip(leaves(result) or [result], leaves(expected) or [expected], strict=True)
        assert_close(pairs, dtype)
    assert fused.is_on()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rows, V", [(1, 1), (3, 7), (64, 50_003)])
def test_cross_entropy_at_the_size_of_a_vocabulary(rows, V, dtype):
    from lstm.prediction import cross_entropy

    rng = np.random.default_rng(0)
    s, targets = 5 * rng.normal(size=(rows, V)).astype(dtype), rng.integers(0, V, rows)
    b, losses = rng.normal(size=V).astype(dtype), np.empty(rows, dtype)
    device = [backend.to_device(a.copy()) for a in (s, targets, losses, b)]
    cross_entropy(*device)
    cross_entropy.__wrapped__(s.astype(float), targets, exact := np.empty(rows), b.astype(float))
    np.testing.assert_allclose(to_numpy(device[2]), exact, rtol=1e-5, atol=1e-5)
    assert abs(to_numpy(device[0]).sum(axis=1)).max() < 1e-3


def test_sums_of_equal_ids_are_the_same_each_time():
    """Without atomics, twenty runs give bit-identical sums."""
    from backend.rows import row_index, sum_rows

    rng = np.random.default_rng(0)
    ids, rows = rng.integers(0, 5, (20, 128)), rng.normal(size=(20, 128, 333)).astype(np.float32)
    index, device = row_index(ids), backend.to_device(rows)
    first = to_numpy(sum_rows(device, index, 5).values)
    for _ in range(20):
        np.testing.assert_array_equal(to_numpy(sum_rows(device, index, 5).values), first)
    expected = np.zeros((5, 333))
    np.add.at(expected, ids, rows.astype(float))
    np.testing.assert_allclose(first, expected, rtol=1e-4, atol=1e-3)
