"""Log-sum-exp, and the exact best of many values, by blocks that fit the cache.

A step of a search has large logits (N, V), but a sentence needs only `count` candidates. One pass
takes the maximum of each block of columns. The best `count` blocks of a sentence hold its best
`count` candidates, so that only these blocks are searched again. The result is exact, also for
ties: of equal candidates the one with the lowest index (row, then column) wins. A candidate
outside the chosen blocks cannot be among the best, because the best candidates of `count` other
blocks precede it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from backend.switch import Array, array_module, on_host

BLOCK = 400  # columns per block: measured best of 64 .. 1,000 at V = 10,000, wide enough for SIMD
CHUNK = 1 << 17  # elements exponentiated at a time: half a megabyte of float32 stays in cache


def row_chunks(logits: Array) -> Iterator[slice]:
    """Yield slices of rows with about CHUNK elements each; on a device, a slice of all rows."""
    rows, columns = logits.shape
    size = max(1, CHUNK // columns if on_host(array_module(logits)) else rows)
    for start in range(0, rows, size):
        yield slice(start, start + size)


def block_maxima(logits: Array) -> Array:
    """Return the maximum of each block of BLOCK columns, the last block being shorter.

    Arguments:
        logits: (N, V) real.

    Returns:
        (N, ceil(V / BLOCK)), same dtype.
    """
    xp = array_module(logits)
    N, V = logits.shape
    full = V // BLOCK
    maxima = xp.empty((N, -(-V // BLOCK)), logits.dtype)  # (N, blocks)
    if full:
        maxima[:, :full] = logits[:, : full * BLOCK].reshape(N, full, BLOCK).max(axis=2)
    if full * BLOCK < V:
        maxima[:, full] = logits[:, full * BLOCK :].max(axis=1)
    return maxima


def log_sum_exp(logits: Array, maxima: Array) -> Array:
    """Return log sum_v exp(logits[n, v]) of each row, by chunks of rows.

    Arguments:
        logits: (N, V) real, nats; not written to.
        maxima: (N,) the largest logit of each row.

    Returns:
        (N,), same dtype.
    """
    xp = array_module(logits, maxima)
    sums, work = xp.empty_like(maxima), None
    for rows in row_chunks(logits):
        chunk = logits[rows]  # (rows of the chunk, V)
        work = xp.empty_like(chunk) if work is None else work[: len(chunk)]
        xp.subtract(chunk, maxima[rows, None], out=work)
        xp.exp(work, out=work)
        xp.sum(work, axis=1, out=sums[rows])
    return xp.log(sums) + maxima


def top_indices(values: Array, count: int) -> Array:
    """Return the indices of the `count` largest values of each row, in ascending order.

    Arguments:
        values: (B, M) real.
        count: 1 .. M.

    Returns:
        (B, count) int64. Of equal values the lowest index is taken.
    """
    xp = array_module(values)
    B, M = values.shape
    if count == M:
        return xp.broadcast_to(xp.arange(M), values.shape)
    if on_host(xp):  # reading the numbers is free here
        threshold = np.partition(values, M - count, axis=1)[:, M - count, None]  # (B, 1)
        taken = np.flatnonzero(values >= threshold)
        if len(taken) == B * count:
            index = taken.reshape(B, count) - M * np.arange(B)[:, None]
            if ((index >= 0) & (index < M)).all():  # no ties, no NaN
                return index
    return xp.sort(xp.argsort(-values, axis=1, kind="stable")[:, :count], axis=1)


def _block_values(logits: Array, offsets: Array, rows: Array, block: Array) -> Array:
    """The shifted logits (B, C, BLOCK) of blocks (B, C) of rows (B, C); -inf after the last one's
    end."""
    xp, (N, V) = array_module(logits, offsets, rows, block), logits.shape
    whole = V // BLOCK * BLOCK  # columns of whole blocks
    if whole:
        blocks = logits[:, :whole].reshape(N, -1, BLOCK)
        values = blocks[rows, xp.minimum(block, whole // BLOCK - 1)]
    else:
        values = xp.empty((*rows.shape, BLOCK), logits.dtype)
    if whole < V:
        last = (block == whole // BLOCK)[:, :, None]
        xp.copyto(values[:, :, : V - whole], logits[:, whole:][rows], where=last)
        xp.copyto(values[:, :, V - whole :], -float("inf"), where=last)
    values += offsets.take(rows)[:, :, None]
    return values


def top_candidates(logits: Array, maxima: Array, offsets: Array, count: int) -> tuple[Array, Array]:
    """Return the best `count` values of logits + offsets over all rows of each sentence.

    Arguments:
        logits: (B*K, V) real, rows grouped by sentence; not written to.
        maxima: (B*K, blocks), the logits' `block_maxima`.
        offsets: (B, K) added to the logits of each row; same dtype.
        count: candidates per sentence, 1 .. K*V.

    Returns:
        values: (B, count), best first; of equal values the lowest flat index first.
        flat: (B, count) int64, row within the sentence * V + column.
    """
    xp, V = array_module(logits, maxima, offsets), logits.shape[1]
    B, K = offsets.shape
    sentence = xp.arange(B)[:, None]
    leaders = (maxima.reshape(B, K, -1) + offsets[:, :, None]).reshape(B, -1)  # (B, K * blocks)
    blocks = top_indices(leaders, min(count, leaders.shape[1]))  # (B, C)
    row, block = blocks // maxima.shape[1], blocks % maxima.shape[1]
    values = _block_values(logits, offsets, row + K * sentence, block).reshape(B, -1)
    chosen = top_indices(values, count)
    values, place = _take(values, chosen), chosen // BLOCK  # (B, count)
    column = _take(block, place) * BLOCK + chosen % BLOCK
    flat = _take(row, place) * V + xp.minimum(column, V - 1)
    best_first = xp.argsort(-values, axis=1, kind="stable")
    return _take(values, best_first), _take(flat, best_first)


def _take(values: Array, index: Array) -> Array:
    """values[b, index[b, c]] of each sentence b; one launch, where two indices take several."""
    B, M = values.shape
    return values.take(index + M * array_module(values).arange(B)[:, None])
