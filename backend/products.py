"""Weights as the second factor of products `x W'`, in a form for which the host's BLAS is fast.

`x W'` with x (M, K) and W (N, K) stored by rows is one GEMM. OpenBLAS spends part of it on copying
W into its own order ("packing"); with few rows, most of it. A loop over time multiplies by a
transposed copy of its weights (`backend.workspace.transposed`). A search (`for_search`) in float32
has two ways. The table shows their time relative to a plain call, measured on an Intel Xeon with
AVX-512, with one thread and N K from 0.07 to 5 million:

| rows M | how | AVX-512 kernels | AVX2 kernels |
|---|---|---|---|
| 2 to 10 | blocks of W that kernels for small products read in place | 0.25 to 0.6 | none such |
| 11 and more | W stored by columns, which is packed faster | 0.4 to 0.9 | 0.65 to 1.0 |

Sums are in another order than in a plain call. The last bits of a row depend on the number of rows
of the product, as they do with OpenBLAS itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

from backend.host import blas_architecture
from backend.switch import Array, register
from backend.workspace import Workspace, copy_transpose, is_by_columns

FEW = 10  # rows, at most
LEAST = 1 << 16  # elements of W from which this is faster
# OpenBLAS (0.3.31, AVX-512) uses its small kernels with a transposed left operand up to these
# numbers of results and of multiplications, and from this length of the sums.
RESULT, MULTIPLICATIONS, SHORTEST = 1200, 1_000_000, 32
WITH_SMALL_KERNELS = ("SkylakeX", "Cooperlake", "SapphireRapids")


def for_search(parameters: Mapping[str, Array], rows: int) -> Mapping[str, Array]:
    """Parameters for a search of at most this number of rows: weights as `FewRows` or, from 11 rows
    on, stored by columns.

    Embedding tables `W_e`, whose rows are looked up, arrays on a GPU, and small arrays are left as
    they are. Storing by columns takes some milliseconds for every million numbers, and as much
    memory as the weights.
    """
    if _kernels() is None or (rows <= FEW and _kernels() not in WITH_SMALL_KERNELS):
        return parameters
    return {name: array if not _is_weights(name, array) else
            copy_transpose(array, Workspace()).T if rows > FEW else array.view(FewRows)
            for name, array in parameters.items()}


class FewRows(np.ndarray):
    """Weights (N, K) whose products with few rows, `x W'`, are computed block by block; and their
    transpose and blocks. In any other operation they are a plain array."""

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        """The ufunc on plain arrays; `few_rows` in place of a product where that is faster."""
        arrays = [np.asarray(array) if isinstance(array, FewRows) else array for array in inputs]
        if ufunc is np.matmul and _is_faster(*arrays):
            return few_rows(*arrays, *options.get("out", ()))
        return getattr(ufunc, method)(*arrays, **options)


def _is_faster(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether `few_rows` is faster than a plain product: few rows, and a large enough b, stored by
    columns."""
    return (a.ndim == b.ndim == 2 and 1 < len(a) <= FEW and a.dtype == b.dtype
            and b.size >= LEAST and len(b) >= SHORTEST
            and b.strides[0] == b.itemsize < b.strides[1])


def few_rows(a: np.ndarray, b: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """a @ b, (M, K) by (K, N), of few rows; b stored by columns. Returns (M, N), `out` if given."""
    (M, K), N = a.shape, b.shape[1]
    out = np.empty((M, N), np.float32) if out is None else out
    block = max(1, min(RESULT, MULTIPLICATIONS // K) // M)
    for start in range(0, N, block):
        place = slice(start, start + block)
        np.matmul(a, b[:, place], out=out[:, place])
    return out


register(FewRows, np)


# --- weights in another order ---------------------------------------------------------------------


def _is_weights(name: str, array: Array) -> bool:
    return (type(array) is np.ndarray and array.ndim == 2 and array.size >= LEAST
            and array.dtype == np.float32 and name.rpartition(".")[2] != "W_e"
            and not is_by_columns(array))


@cache
def _kernels() -> str | None:
    """The architecture of OpenBLAS's kernels; None if the BLAS does not report it."""
    return blas_architecture()
