"""A sparse matrix as the second factor of matrix products, on the CPU (the extra `sparse`).

It replaces a weight matrix in a kernel. It can be transposed, sliced and multiplied from the left,
as in `xp.matmul(x, W[:, :E].T)`. Any other operation is an error.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from backend.errors import UserError, missing
from backend.switch import register


class SparseMatrix:
    """The non-zero elements of a matrix W (r, c) in CSR format; or its transpose."""

    def __init__(self, rows: Any, transposed: bool = False) -> None:
        """rows: W as `scipy.sparse.csr_array`; transposed: whether this is W'."""
        self._rows, self._transposed = rows, transposed
        self.shape = rows.shape[::-1] if transposed else rows.shape
        self.dtype, self.ndim = rows.dtype, 2
        self._parts: dict[tuple[Any, ...], SparseMatrix] = {}

    @property
    def T(self) -> SparseMatrix:
        """The transpose."""
        return self._kept("T", lambda: SparseMatrix(self._rows, not self._transposed))

    def __getitem__(self, key: tuple[slice, slice]) -> SparseMatrix:
        """A slice of rows and columns. Each slice is made once and cached."""
        first, second = key[::-1] if self._transposed else key
        name = (first.start, first.stop, second.start, second.stop)
        return self._kept(name, lambda: SparseMatrix(self._rows[first, second].tocsr(),
                                                     self._transposed))

    def _kept(self, name: Any, make: Any) -> SparseMatrix:
        """The matrix called `name`, which `make` makes once, and which is cached."""
        if name not in self._parts:
            self._parts[name] = make()
        return self._parts[name]

    def __array_ufunc__(
        self, ufunc: Any, method: str, *inputs: Any, out: tuple[np.ndarray, ...] = (),
        **options: Any,
    ) -> Any:
        """np.matmul(x, W') for x (N, c): a dense array (N, r)."""
        x = inputs[0]
        if ufunc is not np.matmul or inputs[1:] != (self,) or not self._transposed or options:
            return NotImplemented
        product = (self._rows @ x.T).T
        result = out[0] if out else np.empty(product.shape, product.dtype)
        result[...] = product
        return result


register(SparseMatrix, np)


def sparse_matrix(array: np.ndarray) -> SparseMatrix:
    """A dense matrix (r, c) as a SparseMatrix. Raises UserError without scipy."""
    try:
        from scipy.sparse import csr_array  # type: ignore[import-untyped]
    except ImportError:
        raise UserError(f"sparse products: {missing('scipy', 'sparse')}") from None
    return SparseMatrix(csr_array(array))
