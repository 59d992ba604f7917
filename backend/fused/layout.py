"""What a kernel has to know of its arrays, and what it does not take."""

from __future__ import annotations

from typing import Any

from backend.switch import Array

THREADS = 256  # of a block
MOST = (1 << 31) - 1  # elements that a kernel counts in 32 bits
WAVE = 1 << 16  # blocks at most of a kernel whose threads go round: enough to fill any GPU


class Unfusable(Exception):
    """The arguments are not for the kernel: the function's own source has to run."""


def stride(array: Array, char: str, limit: int | None = MOST) -> int:
    """Elements from one row of a matrix (N, M) to the next; the columns must lie side by side.

    Raises Unfusable for another layout or dtype, or more than `limit` elements.
    """
    row, column = array.strides
    size = array.itemsize
    if array.dtype.char != char or (column != size and array.shape[1] > 1):
        raise Unfusable
    if limit is not None and array.size > limit:
        raise Unfusable
    return row // size


def flat(char: str, *arrays: Array) -> int:
    """The common size of contiguous arrays. Raises Unfusable for another layout or dtype."""
    size = arrays[0].size
    for array in arrays:
        if array.dtype.char != char or array.size != size or not array.flags.c_contiguous:
            raise Unfusable
    if size > MOST:
        raise Unfusable
    return size


def blocks(elements: int) -> int:
    """Blocks for a kernel with a thread per element, or fewer that go round."""
    return max(1, min(-(-elements // THREADS), WAVE))


def vector(array: Array | None, char: str) -> Any:
    """A bias (M,), or 0 for none. Raises Unfusable for another layout or dtype."""
    if array is None:
        return 0
    if array.dtype.char != char or not array.flags.c_contiguous:
        raise Unfusable
    return array


def mask(array: Array | None) -> tuple[Any, int]:
    """A mask (N, 1) of a byte each, and the bytes from one row to the next; (0, 0) for none."""
    if array is None:
        return 0, 0
    if array.dtype.char != "?" or array.ndim != 2 or array.shape[1] != 1:
        raise Unfusable
    return array, array.strides[0]
