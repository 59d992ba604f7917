"""Fused kernels of the table look-ups of `backend.rows`: gather, and the sum over equal ids."""

from __future__ import annotations

from backend.fused.layout import WAVE, Unfusable, blocks, flat, stride
from backend.fused.source import Launcher, Source
from backend.switch import Array, array_module

TABLES = Source("backend.fused", "kernels/tables.cu")


def gather_rows(launch: Launcher, table: Array, ids: Array) -> Array:
    """The rows `ids` of a table: a thread per element."""
    char = table.dtype.char
    width = table.shape[1]
    out = array_module(table).empty((*ids.shape, width), dtype=table.dtype)
    if flat(char, out) == 0 or not _are_ids(ids):
        raise Unfusable
    launch(TABLES["gather_rows"], char, blocks(out.size), ids.size, width, table,
           stride(table, char), ids, out)
    return out


def sum_segments(launch: Launcher, rows: Array, order: Array, starts: Array) -> Array:
    """Rows of equal ids summed in the order of their positions: a block per id, no atomics."""
    char = rows.dtype.char
    count, width = rows.shape
    if flat(char, rows) == 0 or not (_are_ids(order) and _are_ids(starts)):
        raise Unfusable
    segments = starts.shape[0]
    values = array_module(rows).empty((segments, width), dtype=rows.dtype)
    launch(TABLES["sum_segments"], char, min(segments, WAVE), segments, count, width, rows, order,
           starts, values)
    return values


def _are_ids(ids: Array) -> bool:
    """Whether they are contiguous 64-bit integers."""
    return ids.dtype.char in "lq" and bool(ids.flags.c_contiguous)
