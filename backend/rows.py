"""Rows of a table: `gather_rows` for an embedding look-up, and its gradient, a scatter-add.

The ids of a batch are known on the host. To sum duplicate ids, the backward needs their sorted
order. `row_index` computes this order on the host before the forward pass looks the ids up, so that
no kernel has to synchronise.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from backend.fused import fused
from backend.fused import tables as kernels
from backend.switch import Array, array_module, on_host, to_device, to_host

FEW = 16  # with fewer segments, a loop over segments is faster than a loop over their rows


class RowIndex(NamedTuple):
    """Ids to look up and, for the backward pass, which positions hold equal ids."""

    ids: Array  # (...,) integers
    unique: Array  # (N,) the distinct ids, ascending
    order: Array  # (number of ids,) positions sorted by id, stable
    starts: Array  # (N,) where each distinct id begins in `order`
    distinct: np.ndarray  # (N,) `unique` on the host


class RowGradient(NamedTuple):
    """The gradient of a table of which a batch used only some rows."""

    ids: Array  # (N,) distinct row numbers, ascending
    values: Array  # (N, E)
    shape: tuple[int, int]  # (V, E), of the whole table
    on_host: np.ndarray | None = None  # the same ids on the host, if they are known there

    def dense(self) -> Array:
        """The same gradient as a full (V, E) array."""
        full = array_module(self.values).zeros(self.shape, dtype=self.values.dtype)
        full[self.ids] = self.values
        return full


Gradient = Array | RowGradient  # of a parameter


def row_index(ids: np.ndarray) -> RowIndex:
    """Prepare host `ids` (any shape, integers) for a look-up and `sum_rows`: a RowIndex."""
    flat = np.ascontiguousarray(ids).reshape(-1)
    order = np.argsort(flat, kind="stable")
    unique, starts = np.unique(flat[order], return_index=True)
    return RowIndex(to_device(flat.reshape(ids.shape)), to_device(unique), to_device(order),
                    to_device(starts), unique)


def check_ids(ids: np.ndarray, number: int, name: str = "ids") -> None:
    """Raise ValueError unless the host integers `ids` are rows of a table of `number` rows.

    A GPU would not notice: CuPy wraps ids around, and a kernel would write to wrong addresses.
    """
    for extreme in (ids.min(), ids.max()) if ids.size else ():
        if not 0 <= extreme < number:
            raise ValueError(f"{name}: expected rows 0 to {number - 1} of a table of {number}, "
                             f"got id {extreme}")


@fused(kernels.gather_rows)
def gather_rows(table: Array, ids: Array) -> Array:
    """The rows `ids` (...,) of `table` (V, E): (..., E). The ids are not checked."""
    return array_module(table).take(table, ids, axis=0)


def sum_rows(d_rows: Array, index: RowIndex, number: int) -> RowGradient:
    """Gradient of `gather_rows`: rows with the same id are summed.

    Arguments: d_rows (..., E) upstream gradient; index of the forward pass; number V of rows in the
    table. The rows of an id are summed in the order of their positions.
    """
    width = d_rows.shape[-1]
    values = sum_segments(d_rows.reshape(-1, width), index.order, index.starts)
    return RowGradient(index.unique, values, (number, width), index.distinct)


def add_gradients(total: Any, other: Any) -> Any:
    """The sum of two gradients of a parameter, arrays or RowGradients. An array is written to.

    Two RowGradients are merged by id, so that ids stay distinct. A RowGradient and an array make an
    array.
    """
    if isinstance(total, RowGradient) and isinstance(other, RowGradient):
        return _merge(total, other)
    if isinstance(total, RowGradient):
        total, other = other, total
    if isinstance(other, RowGradient):
        total[other.ids] += other.values
    else:
        total += other
    return total


def _merge(total: RowGradient, other: RowGradient) -> RowGradient:
    """Both gradients as one. There is no synchronisation if the ids of both are known on the
    host."""
    first, second = (to_host(g.ids) if g.on_host is None else g.on_host for g in (total, other))
    ids = np.union1d(first, second)
    xp = array_module(total.values)
    values = xp.zeros((len(ids), total.shape[1]), dtype=total.values.dtype)
    values[to_device(np.searchsorted(ids, first))] = total.values
    values[to_device(np.searchsorted(ids, second))] += other.values
    return RowGradient(to_device(ids), values, total.shape, ids)


@fused(kernels.sum_segments)
def sum_segments(rows: Array, order: Array, starts: Array) -> Array:
    """Row n of the result is the sum of `rows` (M, E) at `order[starts[n] : starts[n + 1]]`.

    CuPy's reduceat takes differences of one cumulative sum, which loses digits; so on CuPy the rows
    are added by atomics, whose order (and so the last bit) is not fixed. The fused kernel has
    neither problem. On the host the first rows of all segments are added, then the second rows and
    so on, each as one array operation, and the few segments that are longer than the others one by
    one. (`np.add.reduceat` along the first axis is 4 to 20 times slower.)
    """
    if not on_host(array_module(rows)):
        return _sum_by_atomics(rows, order, starts)
    ends = np.append(starts[1:], len(order))
    counts = ends - starts
    values = rows[order[starts]]
    k, longer = 1, np.flatnonzero(counts > 1)
    while len(longer) > FEW:
        values[longer] += rows[order[starts[longer] + k]]
        k += 1
        longer = longer[counts[longer] > k]
    for n in longer:
        values[n] += rows[order[starts[n] + k : ends[n]]].sum(axis=0)
    return values


def _sum_by_atomics(rows: Array, order: Array, starts: Array) -> Array:
    """The same sums on CuPy, without the fused kernel."""
    xp = array_module(rows)
    values = xp.zeros((len(starts), rows.shape[1]), dtype=rows.dtype)
    segments = xp.searchsorted(starts, xp.arange(len(order)), side="right") - 1
    xp.add.at(values, segments, rows[order])
    return values
