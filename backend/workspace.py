"""Recycled buffers: allocating megabyte temporaries costs more than the arithmetic in them.

A forward pass takes uninitialised arrays from the workspace and keeps them in its cache. A backward
pass returns gradients in such arrays. A buffer becomes free again when nothing outside of the
workspace refers to it. CPython's reference counts tell this exactly (a view refers to its base).
Therefore two forwards before two backwards never share a buffer, a gradient belongs to the caller
as long as it is referenced, and no pass has to return buffers explicitly.

`transposed` makes a transposed copy of weights in such a buffer, for a loop over time.
"""

from __future__ import annotations

import math
import sys
from bisect import bisect_left
from itertools import islice
from typing import Any

import numpy as np

from backend.switch import Array, array_module

_SMALL = 1 << 14  # bytes; smaller arrays are allocated as fast by malloc
ENOUGH = 16  # products with a matrix from which a transposed copy of it is faster (measured)
BLOCK = 64  # rows of a matrix transposed at a time, through a buffer that stays in the CPU's cache
PAD = 16  # extra elements per row: with strides of a power of two, rows share few cache lines


def _references_when_free() -> int:
    """What getrefcount returns, in a loop as in `_raw`, for a buffer that only its list refers to.

    3 up to Python 3.13: the list, the loop variable, the argument. Later versions count fewer.
    """
    for buffer in islice([np.empty(1, np.uint8)], 0, None):
        return sys.getrefcount(buffer)
    raise AssertionError


_UNUSED = _references_when_free()


class Workspace:
    """A pool of raw memory for one model. On CuPy the array module's own memory pool serves."""

    def __init__(self) -> None:
        self._buffers: list[np.ndarray] = []  # raw bytes, smallest first

    def empty(self, xp: Any, shape: tuple[int, ...], dtype: Any) -> Array:
        """An uninitialised C-contiguous array of `shape` and `dtype`.

        Arguments: xp the array module; shape; dtype. The array is the caller's for as long as
        it, or any view of it, is referred to.
        """
        dtype = np.dtype(dtype)
        size = math.prod(shape) * dtype.itemsize
        if xp is not np or size < _SMALL:
            return xp.empty(shape, dtype=dtype)
        return self._raw(size)[:size].view(dtype).reshape(shape)

    def product(self, a: Array, b: Array) -> Array:
        """a @ b of 2-D arrays of one dtype, in recycled memory."""
        xp = array_module(a, b)
        return xp.matmul(a, b, out=self.empty(xp, (a.shape[0], b.shape[1]), a.dtype))

    def _raw(self, size: int) -> np.ndarray:
        """The smallest free buffer of `size` to twice `size` bytes; a new one if there is none."""
        start = bisect_left(self._buffers, size, key=len)
        for buffer in islice(self._buffers, start, None):
            if len(buffer) > 2 * size:
                break
            if sys.getrefcount(buffer) == _UNUSED:
                return buffer
        buffer = np.empty(_rounded(size), dtype=np.uint8)
        self._buffers.insert(start, buffer)
        return buffer

    @property
    def nbytes(self) -> int:
        """Bytes held, in use or free."""
        return sum(map(len, self._buffers))


def _rounded(size: int) -> int:
    """`size` rounded up to an eighth of its power of two, so that similar shapes share buffers."""
    step = 1 << max(size.bit_length() - 4, 6)
    return -(-size // step) * step


# --- transposed copies ----------------------------------------------------------------------------


def transposed(weights: Array, products: int, rows: int, workspace: Workspace) -> Array:
    """The transpose (n, G) of `weights` (G, n), as the second factor of `products` products.

    The first factor has `rows` rows.

    It is a copy if that is faster, otherwise a view. A BLAS on the host repacks a transposed factor
    for every product, at a tenth of the product's time. A product of one row reads it as it is.
    """
    if (products < ENOUGH or rows == 1 or type(weights) is not np.ndarray
            or is_by_columns(weights)):
        return weights.T
    return copy_transpose(weights, workspace)


def copy_transpose(weights: Array, workspace: Workspace) -> Array:
    """The transpose of weights (G, n) as an array (n, G), written by blocks (BLOCK, n): a plain
    assignment would take ten times as long."""
    G, n = weights.shape
    copy = workspace.empty(np, (n, G + PAD), weights.dtype)[:, :G]
    block = workspace.empty(np, (BLOCK, n + PAD), weights.dtype)[:, :n]
    for start in range(0, len(weights), BLOCK):
        rows = block[: min(BLOCK, len(weights) - start)]
        rows[...] = weights[start : start + BLOCK]
        copy[:, start : start + BLOCK] = rows.T
    return copy


def is_by_columns(weights: Array) -> bool:
    """Whether the elements of each column of a matrix are adjacent in memory."""
    return weights.strides[0] == weights.itemsize < weights.strides[1]
