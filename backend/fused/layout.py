"""The strides and sizes of arrays for a kernel, which refuses other layouts."""

from __future__ import annotations

from typing import Any

from backend.switch import Array

THREADS = 256  # threads of a block
MOST = (1 << 31) - 1  # elements that a kernel with 32-bit indices can address
WAVE = 1 << 16  # most blocks of a kernel with a grid-stride loop, enough to fill any GPU


class Unfusable(Exception):
    """The kernel does not support these arguments: the plain function has to run."""


def stride(array: Array, char: str, limit: int | None = MOST) -> int:
    """The row stride of a matrix (N, M), in elements; each row must be contiguous.

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
    """Blocks for a kernel with a thread per element, at most as many as a grid-stride loop
    needs."""
    return max(1, min(-(-elements // THREADS), WAVE))


def vector(array: Array | None, char: str) -> Any:
    """A bias (M,), or 0 for none. Raises Unfusable for another layout or dtype."""
    if array is None:
        return 0
    if array.dtype.char != char or not array.flags.c_contiguous:
        raise Unfusable
    return array


def mask(array: Array | None) -> tuple[Any, int]:
    """A mask (N, 1) of one byte each, and its row stride in bytes; (0, 0) for None."""
    if array is None:
        return 0, 0
    if array.dtype.char != "?" or array.ndim != 2 or array.shape[1] != 1:
        raise Unfusable
    return array, array.strides[0]
