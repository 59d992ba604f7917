"""Matrix products of a few rows: a batch of a search, where reading the weights is the cost.

`x W'` with x (M, K) and W (N, K) stored by rows is one GEMM. With few rows OpenBLAS spends most of
it on copying W into its own order ("packing"). Two ways around that, in float32, measured against a
plain call on an Intel Xeon with AVX-512, N K from 0.07 to 5 million, one thread:

| rows M | how | AVX-512 kernels | AVX2 kernels |
|---|---|---|---|
| 2 to 10 | blocks of W that kernels for small products read in place | 0.25 to 0.6 | none such |
| 11 and more | W stored by columns, which is packed faster | 0.4 to 0.9 | 0.65 to 1.0 |

Sums are in another order than in a plain call: the last bits of a row depend on how many rows a
product has, as they do with OpenBLAS itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import numpy as np

from backend.host import blas_architecture
from backend.switch import Array, array_module
from backend.workspace import Workspace

FEW = 10  # rows, at most
LEAST = 1 << 16  # numbers of W, from which on it pays
# OpenBLAS's limits for its small kernels with a transposed left operand (0.3.31, AVX-512): numbers
# of the result, and multiplications; and the length of a sum below which it does not take them.
RESULT, MULTIPLICATIONS, SHORTEST = 1200, 1_000_000, 32
ENOUGH = 16  # products with a matrix from which on a transposed copy of it pays: measured
BLOCK = 64  # rows of a matrix transposed at a time, through a buffer that stays in the CPU's cache
PAD = 16  # extra elements a row: with strides of a power of two, rows share few cache lines
WITH_SMALL_KERNELS = ("SkylakeX", "Cooperlake", "SapphireRapids")


def matmul(a: Array, b: Array, out: Array | None = None) -> Array:
    """a @ b by the arrays' module: on a GPU `backend.gemm`, which copies nothing.

    out: where to, of the result's shape and dtype; by default a new array.
    """
    xp = array_module(a, b)
    if xp is np and a.ndim == 2 and is_faster(len(a), b.T) and a.dtype == b.dtype:
        return few_rows(a, b, out)
    return xp.matmul(a, b, out=out)


def is_faster(rows: int, weights: Array) -> bool:
    """Whether `few_rows` is faster than a plain product of so many rows with the transpose of
    `weights` (N, K): few rows, weights in float32 that are stored by rows on the host, and a BLAS
    that has the kernels."""
    return (1 < rows <= FEW and type(weights) is np.ndarray and weights.ndim == 2
            and weights.size >= LEAST and weights.shape[1] >= SHORTEST
            and weights.dtype == np.float32
            and weights.strides[1] == weights.itemsize < weights.strides[0]
            and _kernels() in WITH_SMALL_KERNELS)


def few_rows(a: np.ndarray, b: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """a @ b, (M, K) by (K, N), of few rows; b stored by columns. Returns (M, N), `out` if given."""
    (M, K), N = a.shape, b.shape[1]
    out = np.empty((M, N), np.float32) if out is None else out
    block = max(1, min(RESULT, MULTIPLICATIONS // K) // M)
    for start in range(0, N, block):
        place = slice(start, start + block)
        np.matmul(a, b[:, place], out=out[:, place])
    return out


# --- weights in another order ---------------------------------------------------------------------


def for_many_rows(parameters: Mapping[str, Array], rows: int) -> Mapping[str, Array]:
    """Parameters for a search of so many rows: from 11 on weights stored by columns, which OpenBLAS
    packs faster as the second factor of `x W'`.

    Tables of embeddings, `W_e`, whose rows are looked up, arrays on a GPU, and small ones stay.
    The copy takes some milliseconds for every million numbers, and their memory again.
    """
    if rows <= FEW or _kernels() is None:
        return parameters
    return {name: _by_columns(one) if _is_weights(name, one) else one
            for name, one in parameters.items()}


def is_by_columns(weights: Array) -> bool:
    """Whether the numbers of each column of a matrix lie end to end."""
    return weights.strides[0] == weights.itemsize < weights.strides[1]


def _is_weights(name: str, array: Array) -> bool:
    return (type(array) is np.ndarray and array.ndim == 2 and array.size >= LEAST
            and array.dtype == np.float32 and name.rpartition(".")[2] != "W_e"
            and not is_by_columns(array))


def _by_columns(weights: np.ndarray) -> np.ndarray:
    (G, n), dtype = weights.shape, weights.dtype
    copy = np.empty((n, G + PAD), dtype)[:, :G]
    copy_transpose(weights, copy, np.empty((BLOCK, n + PAD), dtype)[:, :n])
    return copy.T


def transposed(weights: Array, products: int, rows: int, workspace: Workspace) -> Array:
    """The transpose (n, G) of `weights` (G, n), as the second factor of so many products of `rows`.

    A copy where that pays, else a view: a BLAS on the host repacks a transposed factor every time,
    at a tenth of the product's time; those of one row, or of a few with large weights (`matmul`),
    read it as it is.
    """
    if (products < ENOUGH or rows == 1 or type(weights) is not np.ndarray
            or (rows <= FEW and weights.size >= LEAST) or is_by_columns(weights)):
        return weights.T
    G, n = weights.shape
    copy = workspace.empty(np, (n, G + PAD), weights.dtype)[:, :G]
    copy_transpose(weights, copy, workspace.empty(np, (BLOCK, n + PAD), weights.dtype)[:, :n])
    return copy


def copy_transpose(weights: Array, copy: Array, block: Array) -> None:
    """Write the transpose of weights (G, n) to copy (n, G), by blocks (BLOCK, n): a plain
    assignment would take ten times as long."""
    for start in range(0, len(weights), BLOCK):
        part = block[: min(BLOCK, len(weights) - start)]
        part[...] = weights[start : start + BLOCK]
        copy[:, start : start + BLOCK] = part.T


@cache
def _kernels() -> str | None:
    """The architecture of OpenBLAS's kernels; None for a BLAS that does not say one."""
    return blas_architecture()
