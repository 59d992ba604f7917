"""The optimizers' updates and the gradient's norm as CUDA kernels (`updates.cu`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from backend.fused.layout import THREADS, WAVE, Unfusable, blocks, flat
from backend.fused.source import Source
from backend.rows import RowGradient
from backend.switch import Array, array_module

UPDATES = Source("nmt.training", "updates.cu")
NORM_BLOCKS = 512  # partial sums of squares of one array, which a single block adds up


def update_one(launch: Any, optimizer: Any, arrays: Sequence[Array], gradient: Any, factor: Array,
               t: int) -> None:
    """`Optimizer.update_one`: `optimizer.kernel` goes over an array's rows, a block for each.

    A dense array is cut into rows of `THREADS`. Of a table all rows are visited, by an optimizer
    without state only those that have a gradient.
    """
    p, char = arrays[0], arrays[0].dtype.char
    ids, count, g, size = 0, 0, gradient, flat(char, *arrays)
    rows, width = -(-size // THREADS), THREADS
    if isinstance(gradient, RowGradient):
        ids, g = gradient.ids, gradient.values
        count, width = g.shape
        rows = p.shape[0] if optimizer.state_names else count
        if flat(char, g) == 0 or ids.dtype.char not in "lq":
            raise Unfusable
    else:
        flat(char, p, g)
    launch(optimizer.kernel, char, max(1, min(rows, WAVE)), rows, width, size, ids, count, g,
           factor, *arrays, *map(float, optimizer.numbers(t)))


def gradient_norm(launch: Any, arrays: list[Array]) -> Array:
    """The Euclidean norm of all arrays together, summed in float64 in a fixed order."""
    xp = array_module(*arrays)
    counts = [min(blocks(flat(array.dtype.char, array)), NORM_BLOCKS) for array in arrays]
    sums = xp.empty((sum(counts),), dtype=np.float64)
    norm = xp.empty((), dtype=np.float64)
    first = 0
    for array, count in zip(arrays, counts, strict=True):
        launch(UPDATES["square_sums"], array.dtype.char, count, array.size, array, sums, first)
        first += count
    launch(UPDATES["square_root_of_sum"], arrays[0].dtype.char, 1, first, sums, norm)
    return norm
