"""Products by a stand-in for cuBLAS, which does what cuBLAS documents, with NumPy on raw memory."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace

import numpy as np
import pytest
from strict.module import strict

import backend
from backend import gemm
from backend.errors import UserError

TYPES = {0: np.float32, 1: np.float64}


class Device(np.ndarray):
    """A NumPy array with the address where CuPy has it."""

    @property
    def data(self):
        return SimpleNamespace(ptr=self.ctypes.data)


def on_device(array):
    return array.view(Device)


def memory(address, kind, count):
    """The numbers at an address."""
    number = ctypes.c_float if kind == 0 else ctypes.c_double
    return np.ctypeslib.as_array((number * count).from_address(address))


def column_major(address, kind, rows, columns, leading):
    """A matrix as BLAS describes it: `leading` elements from one column to the next."""
    assert leading >= max(rows, 1)
    if not rows * columns:
        return np.zeros((rows, columns), TYPES[kind])
    flat = memory(address, kind, (columns - 1) * leading + rows)
    size = flat.itemsize
    return np.lib.stride_tricks.as_strided(flat, (rows, columns), (size, leading * size))


class Cublas:
    """gemmEx and gemmStridedBatchedEx, as cuBLAS documents them."""

    CUBLAS_GEMM_DEFAULT = -1
    CUBLAS_COMPUTE_32F, CUBLAS_COMPUTE_64F = 68, 70
    CUBLAS_COMPUTE_32F_FAST_16F, CUBLAS_COMPUTE_32F_FAST_TF32 = 74, 77

    def __init__(self):
        self.calls = []

    def gemmEx(self, handle, transa, transb, m, n, k, alpha, A, Atype, lda, B, Btype, ldb, beta,
               C, Ctype, ldc, compute, algo):
        self.gemmStridedBatchedEx(handle, transa, transb, m, n, k, alpha, A, Atype, lda, 0, B,
                                  Btype, ldb, 0, beta, C, Ctype, ldc, 0, 1, compute, algo)

    def gemmStridedBatchedEx(self, handle, transa, transb, m, n, k, alpha, A, Atype, lda, strideA,
                             B, Btype, ldb, strideB, beta, C, Ctype, ldc, strideC, batch, compute,
                             algo):
        assert handle == "handle" and Atype == Btype == Ctype and algo == -1
        assert memory(alpha, Ctype, 1)[0] == 1 and memory(beta, Ctype, 1)[0] == 0
        self.calls.append(compute)
        size = np.dtype(TYPES[Ctype]).itemsize
        for i in range(batch):
            a, b = (
                column_major(where + i * step * size, Ctype,
                             *(shape[::-1] if transposed else shape), leading)
                for where, step, shape, transposed, leading in (
                    (A, strideA, (m, k), transa, lda), (B, strideB, (k, n), transb, ldb))
            )
            c = column_major(C + i * strideC * size, Ctype, m, n, ldc)
            c[...] = (a.T if transa else a) @ (b.T if transb else b)


class Copies:
    """The few functions of CuPy that `MatrixProducts` falls back to; counts the copies."""

    def __init__(self):
        self.made, self.left = 0, 0
        self.cuda = SimpleNamespace(runtime=SimpleNamespace(CUDA_R_32F=0, CUDA_R_64F=1))

    def empty(self, shape, dtype):
        return on_device(np.full(shape, np.nan, dtype))

    def ascontiguousarray(self, a):
        self.made += 1
        return on_device(np.ascontiguousarray(a).copy())

    def matmul(self, a, b, out=None):
        self.left += 1
        return np.matmul(a, b, out=out)


@pytest.fixture
def library():
    cublas, cupy = Cublas(), Copies()
    return gemm.MatrixProducts(cupy, cublas, lambda: "handle"), cublas, cupy


def layouts(rng, shape, dtype):
    """A matrix in every memory layout that kernels use."""
    *batch, r, c = shape
    draw = lambda *s: rng.normal(size=s).astype(dtype)  # noqa: E731
    yield "whole", draw(*shape)
    yield "columns", draw(*batch, r, c + 3)[..., 2 : 2 + c]
    yield "transposed", draw(*batch, c, r).swapaxes(-1, -2)
    yield "columns, transposed", draw(*batch, c, r + 3)[..., 1 : 1 + r].swapaxes(-1, -2)
    if batch:
        yield "time first", draw(r, *batch, c).transpose(1, 0, 2)
        yield "time first, transposed", draw(c, *batch, r).transpose(1, 2, 0)
        yield "one for all", np.broadcast_to(draw(1, r, c), shape)[:1]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("batch", [(), (1,), (4,)], ids=["2-D", "one", "batch"])
@pytest.mark.parametrize("m, k, n", [(3, 4, 5), (1, 4, 5), (3, 1, 1), (2, 0, 3), (0, 2, 3)])
def test_products_of_every_layout(m, k, n, batch, dtype, library):
    products, cublas, cupy = library
    rng = np.random.default_rng(m + 10 * k + 100 * n)
    for _, a in layouts(rng, (*batch, m, k), dtype):
        for _, b in layouts(rng, (*batch, k, n), dtype):
            expected = np.matmul(a, b)
            a_device, b_device = on_device(a), on_device(b)
            actual = products.matmul(a_device, b_device)
            assert actual.dtype == dtype and actual.shape == expected.shape
            np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)
            for _, out in layouts(rng, expected.shape, dtype):
                if out.shape == expected.shape and out.flags.writeable:
                    assert products.matmul(a_device, b_device, out=(o := on_device(out))) is o
                    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-6)
    assert cupy.made == 0 and cupy.left == 0
    assert bool(cublas.calls) == bool(m * n * k)


def test_a_matrix_against_a_batch(library):
    products, _, _ = library
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(4, 2, 3)), rng.normal(size=(3, 5))
    np.testing.assert_allclose(products.matmul(on_device(a), on_device(b)), a @ b)
    np.testing.assert_allclose(products.matmul(on_device(b.T), on_device(a.swapaxes(1, 2))),
                               b.T @ a.swapaxes(1, 2))


def test_what_cublas_cannot_describe_is_copied(library):
    products, _, cupy = library
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(6, 8))[::2, ::2], rng.normal(size=(4, 5))
    np.testing.assert_allclose(products.matmul(on_device(a), on_device(b)), a @ b)
    assert cupy.made == 1
    wide = rng.normal(size=(1, 4))
    repeated = np.broadcast_to(wide, (3, 4))  # rows at distance zero
    np.testing.assert_allclose(products.matmul(on_device(repeated), on_device(b)), repeated @ b)
    assert cupy.made == 2


def test_what_is_left_to_cupy(library):
    products, cublas, cupy = library
    rng = np.random.default_rng(0)
    a, v = rng.normal(size=(2, 3, 4, 5)), rng.normal(size=5)
    np.testing.assert_allclose(products.matmul(on_device(a), on_device(v)), a @ v)
    assert len(cublas.calls) == 1 and cupy.left == 0
    b = rng.normal(size=(2, 3, 5, 1))
    np.testing.assert_allclose(products.matmul(on_device(a), on_device(b)), a @ b)
    z = (rng.normal(size=(2, 2)) * 1j).view(Device)
    np.testing.assert_allclose(products.matmul(z, z), z @ z)
    assert len(cublas.calls) == 1 and cupy.left == 2


def test_shapes_that_do_not_fit_are_refused(library):
    products, _, _ = library
    a, b = on_device(np.ones((2, 3))), on_device(np.ones((4, 5)))
    with pytest.raises(ValueError, match=r"shapes \(2, 3\) and \(4, 5\)"):
        products.matmul(a, b)
    with pytest.raises(ValueError, match=r"out: expected shape \(2, 5\), got \(5, 2\)"):
        products.matmul(a, b[:3], out=on_device(np.ones((5, 2))))
    with pytest.raises(ValueError, match="do not fit"):
        products.matmul(on_device(np.ones((2, 2, 3))), on_device(np.ones((4, 3, 5))))


# --- precisions -------------------------------------------------------------------------------


def test_the_precision_reaches_cublas(library):
    products, cublas, _ = library
    single, double = (on_device(np.ones((2, 2), dtype)) for dtype in (np.float32, np.float64))
    with backend.using(strict):
        for name in gemm.PRECISIONS:
            with gemm.using(name):
                assert gemm.precision() == name
                products.matmul(single, single)
                products.matmul(double, double)
    assert cublas.calls == [68, 70, 77, 70, 74, 70]
    assert gemm.precision() == "float32"


def test_a_precision_that_numpy_does_not_have_is_refused():
    for name in ("tf32", "float16"):
        with pytest.raises(UserError, match=f"'{name}' needs --backend cupy"):
            gemm.use(name)
    with pytest.raises(UserError, match="one of float32, tf32, float16, got 'bfloat16'"):
        gemm.use("bfloat16")
    gemm.use("float32")
    assert gemm.precision() == "float32"
