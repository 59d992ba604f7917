"""The share of a batch that one of several processes computes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from backend import Array
from nmt.data.batches import Batch, Side
from nmt.data.characters import Spelled


def share(batch: Batch, rank: int, size: int) -> Batch | None:
    """Sentences `rank`, `rank + size`, ... of a batch; None if the batch has none for this rank.

    The share has no padding and no characters that only the other sentences need. The batch's
    state, if it has one, is the share's already.
    """
    if rank >= len(batch.indices):
        return None
    return replace(batch, sources=tuple(_side(side, rank, size) for side in batch.sources),
                   target=_side(batch.target, rank, size), indices=batch.indices[rank::size])


def _side(side: Side, rank: int, size: int) -> Side:
    """The share of one side."""
    lengths, steps = side.lengths[rank::size], len(side.ids)
    steps -= int(side.lengths.max() - lengths.max())
    B, factors = len(side.lengths), side.factors
    return Side(side.ids[:steps, rank::size], lengths,
                tuple(_spelled(group, B, rank, size) for group in side.characters
                      if (group.places % B % size == rank).any()),
                None if factors is None else factors[:, :steps, rank::size])


def _spelled(group: Spelled, B: int, rank: int, size: int) -> Spelled:
    """The words of a group that stand in columns `rank`, `rank + size`, ... of the B columns."""
    t, b = np.divmod(group.places, B)
    is_in_share = b % size == rank
    kept, words = np.unique(group.words[is_in_share], return_inverse=True)
    lengths = group.lengths[kept]
    places = t[is_in_share] * len(range(rank, B, size)) + b[is_in_share] // size
    return Spelled(group.ids[:lengths.max(), kept], lengths, places, words)


def columns_together(shares: Sequence[Array]) -> np.ndarray:
    """The rows (B, ...) of a batch, put together from the ranks' shares, which are host arrays."""
    rows = np.empty((sum(map(len, shares)), *shares[0].shape[1:]), shares[0].dtype)
    for rank, columns in enumerate(shares):
        rows[rank::len(shares)] = columns
    return rows
