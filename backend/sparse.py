"""A matrix of mostly zeros as the second factor of products, on the CPU (the extra `sparse`).

Kernels take it for the array that it stands for: it is transposed, sliced and multiplied by from
the left, as in `xp.matmul(x, W[:, :E].T)`. All else is an error.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from backend.errors import UserError
from backend.switch import register

MISSING = "scipy is not installed (pip install scipy, or this package's extra 'sparse')"


class SparseMatrix:
    """What is not zero of a matrix W (r, c), by rows; or its transpose."""

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
        """Some rows and columns; each choice is cut once."""
        first, second = key[::-1] if self._transposed else key
        name = (first.start, first.stop, second.start, second.stop)
        return self._kept(name, lambda: SparseMatrix(self._rows[first, second].tocsr(),
                                                     self._transposed))

    def _kept(self, name: Any, make: Any) -> SparseMatrix:
        """A part, made once."""
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
    """What is not zero of a matrix. Raises UserError without scipy."""
    try:
        from scipy.sparse import csr_array  # type: ignore[import-untyped]
    except ImportError:
        raise UserError(f"sparse products: {MISSING}") from None
    return SparseMatrix(csr_array(array))
