"""The optimizers' updates and the gradient's norm as CUDA kernels (`updates.cu`).

One launch serves many arrays, because a model has a hundred parameters, most of them small. The
addresses and sizes of the arrays are columns of a table on the device, `table[field][array]`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from backend.fused.layout import THREADS, WAVE, Unfusable, flat
from backend.fused.source import Launcher, Source
from backend.switch import Array, array_module

UPDATES = Source("nmt.training", "updates.cu")
WIDTH = 4 * THREADS  # elements of a dense array that a block updates at once
SUMMED = 1 << 14  # elements whose squares a block adds up


def update_dense(
    launch: Launcher, optimizer: Any, arrays: Sequence[Sequence[Array]], gradients: Sequence[Array],
    factor: Array, t: int,
) -> None:
    """Compute `Optimizer.update_dense` for all parameters in one launch."""
    char = factor.dtype.char
    sizes = [flat(char, *p_and_state, g) for p_and_state, g in zip(arrays, gradients, strict=True)]
    rows, table = _table(launch, sizes, WIDTH, gradients, *zip(*arrays, strict=True))
    _update(launch, optimizer, char, rows, WIDTH, table, len(sizes), 0, 0, factor, t)


def update_rows(
    launch: Launcher, optimizer: Any, arrays: Sequence[Array], ids: Array, values: Array,
    factor: Array, t: int,
) -> None:
    """Compute `Optimizer.update_rows` with a block for each row.

    Blocks visit only the rows of the ids, if the optimizer leaves the other rows unchanged.
    """
    char, (count, width) = factor.dtype.char, values.shape
    size = flat(char, *arrays)
    if flat(char, values) == 0 or ids.dtype.char not in "lq":
        raise Unfusable
    _, table = _table(launch, [size], width, [values], *([array] for array in arrays))
    rows = arrays[0].shape[0] if optimizer.moves_all_rows else count
    _update(launch, optimizer, char, rows, width, table, 1, ids, count, factor, t)


def _update(
    launch: Launcher, optimizer: Any, char: str, rows: int, width: int, table: Array, arrays: int,
    ids: Any, count: int, factor: Array, t: int,
) -> None:
    launch(optimizer.kernel, char, max(1, min(rows, WAVE)), rows, width, table, arrays, ids, count,
           factor, *map(float, (optimizer.keep, *optimizer.numbers(t))))


def move_averages(
    launch: Launcher, averages: Sequence[Array], parameters: Sequence[Array], weight: float
) -> None:
    """Compute `moving_average.move_averages` for all parameters in one launch."""
    char = averages[0].dtype.char
    sizes = [flat(char, a, p) for a, p in zip(averages, parameters, strict=True)]
    rows, table = _table(launch, sizes, WIDTH, parameters, averages)
    launch(UPDATES["move_averages"], char, max(1, min(rows, WAVE)), rows, WIDTH, table, len(sizes),
           float(weight))


def gradient_norm(launch: Launcher, arrays: list[Array]) -> Array:
    """The Euclidean norm of all arrays together, summed in float64 in a fixed order."""
    xp, char = array_module(*arrays), arrays[0].dtype.char
    blocks, table = _table(launch, [flat(char, array) for array in arrays], SUMMED, arrays)
    sums, norm = xp.empty((blocks,), dtype=np.float64), xp.empty((), dtype=np.float64)
    launch(UPDATES["square_sums"], char, max(1, min(blocks, WAVE)), blocks, SUMMED, table,
           len(arrays), sums)
    launch(UPDATES["square_root_of_sum"], char, 1, blocks, sums, norm)
    return norm


def _table(
    launch: Launcher, sizes: Sequence[int], width: int, *fields: Sequence[Array]
) -> tuple[int, Array]:
    """The number of rows of `width` that the arrays have together, and the table.

    The table holds for each array the number of its first row, its size, and the address of each
    field.
    """
    *first, rows = accumulate((-(-size // width) for size in sizes), initial=0)
    return rows, launch.table([*first, *sizes, *(array for field in fields for array in field)])
