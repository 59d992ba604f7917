"""Matrix products on a GPU: by cuBLAS, for any strides without a copy, in a chosen precision.

CuPy's own `matmul` copies an operand that is a block of columns or, with three dimensions, a
transpose, at every call, and supports TF32 in two dimensions only. Here a matrix is described by
its leading dimension, as in cuBLAS, and is copied only if neither its rows nor its columns are
contiguous.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from backend.errors import UserError
from backend.switch import Array, module, on_host

# What float32 operands are rounded to inside a product; the sums are float32 in all cases.
PRECISIONS = {
    "float32": "CUBLAS_COMPUTE_32F",
    "tf32": "CUBLAS_COMPUTE_32F_FAST_TF32",  # 10 bits of mantissa, float32's range
    "float16": "CUBLAS_COMPUTE_32F_FAST_16F",  # 10 bits of mantissa, magnitudes from 6e-8 to 65504
}

_precision = "float32"


def use(precision: str) -> None:
    """Compute float32 products on the GPU in "float32", "tf32" or "float16"; float64 is not
    affected.

    Raises UserError for another name, and for a reduced precision on NumPy.
    """
    global _precision
    if precision not in PRECISIONS:
        raise UserError(f"gemm: expected one of {', '.join(PRECISIONS)}, got {precision!r}")
    if precision != "float32" and on_host(module()):
        raise UserError(f"gemm: {precision!r} needs --backend cupy; NumPy multiplies in float32")
    _precision = precision


def precision() -> str:
    """The precision in use."""
    return _precision


@contextmanager
def using(precision: str) -> Iterator[None]:
    """`use` for the length of a with-block."""
    global _precision
    before = _precision
    use(precision)
    try:
        yield
    finally:
        _precision = before


class Operand(NamedTuple):
    """A matrix, or a batch of them, as cuBLAS describes it; it is column-major, so a matrix stored
    by rows is its own transpose there."""

    transposed: int  # 0 where each row is contiguous in memory, 1 where each column is
    leading: int  # leading dimension: elements from one row (or column) to the next
    batch: int  # elements from one matrix of the batch to the next, 0 to use one for all


def describe(array: Array) -> Operand | None:
    """The layout of a matrix (r, c), or a batch (n, r, c), in memory; None if it has to be
    copied."""
    shape, size = array.shape, array.itemsize
    strides = [step // size for step in array.strides]
    (rows, columns), (down, across) = shape[-2:], strides[-2:]
    batch = strides[0] if len(shape) == 3 and shape[0] > 1 else 0
    if (across == 1 or columns == 1) and (down >= columns or rows == 1):
        return Operand(0, max(down if rows > 1 else columns, columns, 1), batch)
    if (down == 1 or rows == 1) and (across >= rows or columns == 1):
        return Operand(1, max(across if columns > 1 else rows, rows, 1), batch)
    return None


class MatrixProducts:
    """`matmul` for CuPy's arrays."""

    def __init__(self, cupy: Any, cublas: Any, handle: Any) -> None:
        """cublas: CuPy's bindings; handle: a function that returns cuBLAS's handle of the current
        device."""
        self._cupy, self._cublas, self._handle = cupy, cublas, handle
        self._scalars = {char: np.array([1.0, 0.0], dtype=char) for char in "fd"}
        self._addresses = {char: (pair.ctypes.data, pair[1:].ctypes.data)
                           for char, pair in self._scalars.items()}
        self._types = {"f": cupy.cuda.runtime.CUDA_R_32F, "d": cupy.cuda.runtime.CUDA_R_64F}
        self._in_precision = {name: getattr(cublas, value) for name, value in PRECISIONS.items()}

    def matmul(self, a: Array, b: Array, out: Array | None = None) -> Array:
        """a @ b, in the precision in use.

        Arguments: a and b, two matrices or batches of them, of one dtype; out, of any layout; it
        must not overlap a or b. Complex and other operands, and those of more than three
        dimensions, are left to CuPy.
        """
        if b.ndim == 1 and a.ndim > 1 and out is None and a.flags.c_contiguous:
            return self.matmul(a.reshape(-1, a.shape[-1]), b[:, None]).reshape(a.shape[:-1])
        char = a.dtype.char
        if char not in "fd" or b.dtype.char != char or not {a.ndim, b.ndim} <= {2, 3}:
            return self._cupy.matmul(a, b, out=out)
        batch = max(a.shape[0] if a.ndim == 3 else 1, b.shape[0] if b.ndim == 3 else 1)
        self._check(a, b, batch)
        shape: tuple[int, ...] = (a.shape[-2], b.shape[-1])
        if 3 in (a.ndim, b.ndim):
            shape = (batch, *shape)
        result = out
        if out is None or not self._takes(out, shape, char):
            result = self._cupy.empty(shape, dtype=char)
        self._multiply(a, b, result, batch)
        if out is not None and result is not out:
            out[...] = result
            return out
        return result

    def _check(self, a: Array, b: Array, batch: int) -> None:
        """Raise ValueError unless the shapes fit."""
        batches = [operand.shape[0] for operand in (a, b) if operand.ndim == 3]
        if a.shape[-1] != b.shape[-2] or any(n not in (1, batch) for n in batches):
            raise ValueError(f"matmul: shapes {a.shape} and {b.shape} do not fit")

    def _takes(self, out: Array, shape: tuple[int, ...], char: str) -> bool:
        """Whether cuBLAS can write into `out`, which needs contiguous rows."""
        if out.shape != shape:
            raise ValueError(f"matmul: out: expected shape {shape}, got {out.shape}")
        return out.dtype.char == char and (layout := describe(out)) is not None \
            and not layout.transposed

    def _multiply(self, a: Array, b: Array, out: Array, batch: int) -> None:
        """One call of cuBLAS: out' = b' a', since it is column-major."""
        m, n, k = a.shape[-2], b.shape[-1], a.shape[-1]
        if not (m and n and batch):
            return
        if not k:
            out[...] = 0.0
            return
        a, b = (operand if describe(operand) else self._cupy.ascontiguousarray(operand)
                for operand in (a, b))
        left, right, to = describe(a), describe(b), describe(out)
        assert left is not None and right is not None and to is not None
        cublas, char = self._cublas, a.dtype.char
        kind, (alpha, beta) = self._types[char], self._addresses[char]
        compute = self._in_precision[_precision] if char == "f" else cublas.CUBLAS_COMPUTE_64F
        head = (self._handle(), right.transposed, left.transposed, n, m, k, alpha)
        if batch == 1:
            cublas.gemmEx(
                *head, b.data.ptr, kind, right.leading, a.data.ptr, kind, left.leading, beta,
                out.data.ptr, kind, to.leading, compute, cublas.CUBLAS_GEMM_DEFAULT,
            )
        else:
            cublas.gemmStridedBatchedEx(
                *head, b.data.ptr, kind, right.leading, right.batch, a.data.ptr, kind,
                left.leading, left.batch, beta, out.data.ptr, kind, to.leading, to.batch, batch,
                compute, cublas.CUBLAS_GEMM_DEFAULT,
            )
