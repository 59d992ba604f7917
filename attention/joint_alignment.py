"""Joint alignments: the alignments of a target word to several sources side by side.

P is the number of columns of a joint alignment. Other letters as in `attention.attention`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from backend import Array, array_module


def alignment_columns(lengths: Sequence[np.ndarray], widths: Sequence[int]) -> np.ndarray:
    """For each column of a joint alignment, its place among the padded columns of all sources.

    The joint alignment of a sentence has the words of each source as they are written. A column of
    zeros separates the sources. lengths: (B,) for each source; widths: S_k. Returns (B, P) int64,
    where P is the largest number of words of all sources together and of the columns between them;
    -1 is a column of zeros.
    """
    starts = np.cumsum([0, *widths])
    rows = []
    for of_sources in zip(*lengths, strict=True):
        row: list[int] = []
        for start, length in zip(starts, of_sources, strict=False):
            row += [*range(start, start + length), -1]
        rows.append(row[:-1])
    columns = np.full((len(rows), max(map(len, rows), default=0)), -1)
    for b, row in enumerate(rows):
        columns[b, : len(row)] = row
    return columns


def side_by_side(alignments: Sequence[Array], columns: Array) -> Array:
    """The joint alignments (B, Q, P) of alignments (B, Q, S_k), by `alignment_columns`."""
    xp, (B, Q, _) = array_module(*alignments), alignments[0].shape
    zero = xp.zeros((B, Q, 1), dtype=alignments[0].dtype)
    wide = xp.concatenate([*alignments, zero], axis=2)
    rows = xp.arange(B)[:, None, None]
    return wide[rows, xp.arange(Q)[None, :, None], columns[:, None, :]]
