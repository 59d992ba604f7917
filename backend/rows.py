"""Rows of a table: gather for an embedding look-up, summed scatter for its gradient.

The ids of a batch are known on the host, so what the backward needs to sum duplicate ids (their
sorted order) is worked out there once, when the batch is made; no kernel has to ask the device.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from backend.switch import Array, array_module, on_host, to_device


class RowIndex(NamedTuple):
    """Ids to look up and, for the way back, which positions hold equal ids."""

    ids: Array  # (...,) integers
    unique: Array  # (N,) the distinct ids, ascending
    inverse: Array  # (number of ids,) which of the distinct ids each position holds
    order: Array  # (number of ids,) positions sorted by id, stable
    starts: Array  # (N,) where each distinct id begins in `order`


class RowGradient(NamedTuple):
    """The gradient of a table of which only some rows were used."""

    ids: Array  # (N,) distinct row numbers
    values: Array  # (N, E)
    shape: tuple[int, int]  # (V, E), of the whole table

    def dense(self) -> Array:
        """The same gradient as a full (V, E) array."""
        full = array_module(self.values).zeros(self.shape, dtype=self.values.dtype)
        full[self.ids] = self.values
        return full


def row_index(ids: np.ndarray) -> RowIndex:
    """Prepare host `ids` (any shape, integers) for `gather` and `sum_rows`: a RowIndex."""
    flat = ids.reshape(-1)
    order = np.argsort(flat, kind="stable")
    unique, starts, inverse = np.unique(flat[order], return_index=True, return_inverse=True)
    place = np.empty_like(inverse)
    place[order] = inverse
    return RowIndex(*(to_device(a) for a in (ids, unique, place, order, starts)))


def gather(table: Array, index: RowIndex) -> Array:
    """The rows of `table` (V, E) named by `index.ids` (...,): an array (..., E)."""
    return array_module(table).take(table, index.ids, axis=0)


def sum_rows(d_rows: Array, index: RowIndex, number: int) -> RowGradient:
    """Gradient of `gather`: rows with the same id are summed.

    Arguments: d_rows (..., E) upstream gradient; index as given to `gather`; number V of rows in
    the table. NumPy sums the sorted rows segment by segment. CuPy's reduceat takes differences
    of one running sum, which loses digits, so there the rows are added by atomics, whose order
    (and so the last bit) is not fixed.
    """
    xp = array_module(d_rows)
    width = d_rows.shape[-1]
    rows = d_rows.reshape(-1, width)
    if on_host(xp):
        values = np.add.reduceat(rows[index.order], index.starts, axis=0)
    else:
        values = xp.zeros((index.unique.shape[0], width), dtype=rows.dtype)
        xp.add.at(values, index.inverse, rows)
    return RowGradient(index.unique, values, (number, width))
