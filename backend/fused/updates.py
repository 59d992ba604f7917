"""Fused forms of the optimizers' updates and of the gradient's norm, one launch for an array.

The functions stand in `nmt.training.optimizers` and `nmt.training.adadelta`. A factor is a 0-d
array (`gradient_scale`) of the parameter's dtype, or a number.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from backend.fused.layout import WAVE, Unfusable, blocks, flat
from backend.switch import Array, array_module

NORM_BLOCKS = 512  # sums of squares that one array leaves behind, for one block to add up


def sgd_dense(
    launch: Any, p: Array, g: Array, factor: Array | float, workspace: Any = None
) -> None:
    """p <- p - factor g."""
    char = p.dtype.char
    size = flat(char, p, g)
    launch("sgd", char, blocks(size), size, p, g, *_factor(factor, char))


def sgd_rows(launch: Any, p: Array, ids: Array, values: Array, factor: Array | float) -> None:
    """The same on the rows `ids`."""
    char = p.dtype.char
    _table(char, p, ids, values)
    launch("sgd_rows", char, blocks(values.size), *values.shape, p, ids, values,
           *_factor(factor, char))


def adam_dense(
    launch: Any, p: Array, m: Array, v: Array, g: Array, factor: Array | float,
    numbers: tuple[float, ...], workspace: Any = None,
) -> None:
    """Moments and step."""
    _dense("adam", launch, (p, m, v, g), factor, numbers)


def adam_rows(
    launch: Any, p: Array, m: Array, v: Array, ids: Array, values: Array, factor: Array | float,
    numbers: tuple[float, ...], workspace: Any = None,
) -> None:
    """The same for a table of which only some rows have a gradient."""
    _rows("adam_rows", launch, (p, m, v), ids, values, factor, numbers)


def adadelta_dense(
    launch: Any, p: Array, squares: Array, steps: Array, g: Array, factor: Array | float,
    numbers: tuple[float, ...], workspace: Any = None,
) -> None:
    """Averages and step."""
    _dense("adadelta", launch, (p, squares, steps, g), factor, numbers)


def adadelta_rows(
    launch: Any, p: Array, squares: Array, steps: Array, ids: Array, values: Array,
    factor: Array | float, numbers: tuple[float, ...],
) -> None:
    """The same for a table of which only some rows have a gradient."""
    _rows("adadelta_rows", launch, (p, squares, steps), ids, values, factor, numbers)


def gradient_norm(launch: Any, arrays: list[Array]) -> Array:
    """The Euclidean norm of all arrays together, summed in float64, in an order that is fixed."""
    xp = array_module(*arrays)
    counts = [min(blocks(flat(array.dtype.char, array)), NORM_BLOCKS) for array in arrays]
    sums = xp.empty((sum(counts),), dtype=np.float64)
    norm = xp.empty((), dtype=np.float64)
    first = 0
    for array, count in zip(arrays, counts, strict=True):
        launch("square_sums", array.dtype.char, count, array.size, array, sums, first)
        first += count
    launch("square_root_of_sum", arrays[0].dtype.char, 1, first, sums, norm)
    return norm


def _dense(
    kernel: str, launch: Any, arrays: tuple[Array, ...], factor: Array | float,
    numbers: tuple[float, ...],
) -> None:
    """A parameter, what the optimizer keeps of it, and its gradient, element by element."""
    char = arrays[0].dtype.char
    size = flat(char, *arrays)
    launch(kernel, char, blocks(size), size, *arrays, *_factor(factor, char), *map(float, numbers))


def _rows(
    kernel: str, launch: Any, arrays: tuple[Array, ...], ids: Array, values: Array,
    factor: Array | float, numbers: tuple[float, ...],
) -> None:
    """A table and what the optimizer keeps of it, all rows, `values` (N, E) at `ids` (N,)."""
    table = arrays[0]
    char = table.dtype.char
    flat(char, *arrays)
    _table(char, table, ids, values)
    launch(kernel, char, min(table.shape[0], WAVE), *table.shape, *arrays, ids.size, ids, values,
           *_factor(factor, char), *map(float, numbers))


def _factor(factor: Array | float, char: str) -> tuple[Any, float]:
    """A factor as the kernels take it: where it lies on the device, and what multiplies it."""
    if isinstance(factor, (int, float)):
        return 0, float(factor)
    if factor.dtype.char != char:
        raise Unfusable
    return factor, 1.0


def _table(char: str, p: Array, ids: Array, values: Array) -> None:
    """Raise Unfusable unless p is a table, and values some of its rows."""
    flat(char, p)
    if flat(char, values) == 0 or p.ndim != 2 or ids.dtype.char not in "lq":
        raise Unfusable


FORMS = {form.__name__: form for form in (
    sgd_dense, sgd_rows, adam_dense, adam_rows, adadelta_dense, adadelta_rows, gradient_norm,
)}  # fmt: skip
