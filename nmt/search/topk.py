"""The computations of search on the device: log-sum-exp and exact top-k, by blocks.

A step has large logits (N, V), but a sentence needs only `count` candidates. One pass takes the
maximum of each block of columns. The best `count` blocks of a sentence hold its best `count`
candidates, so that only these blocks are searched again. The result is exact, also for ties: of
equal candidates the one with the lowest index (row, then token) wins. For a candidate outside the
chosen blocks is preceded by the best candidates of `count` other blocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

import backend
from backend import Array

BLOCK = 400  # columns per block: measured best of 64 .. 1,000 at V = 10,000, wide enough for SIMD
CHUNK = 1 << 17  # elements exponentiated at a time: half a megabyte of float32 stays in cache


def row_chunks(logits: Array) -> Iterator[slice]:
    """Yield slices of rows with about CHUNK elements each; on a device, a slice of all rows."""
    rows, columns = logits.shape
    size = max(1, CHUNK // columns if backend.on_host(backend.array_module(logits)) else rows)
    for start in range(0, rows, size):
        yield slice(start, start + size)


def block_maxima(logits: Array) -> Array:
    """Return the maximum of each block of BLOCK columns, the last block being shorter.

    Arguments:
        logits: (N, V) real.

    Returns:
        (N, ceil(V / BLOCK)), same dtype.
    """
    xp = backend.array_module(logits)
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
    xp = backend.array_module(logits, maxima)
    sums, work = xp.empty_like(maxima), None
    for rows in row_chunks(logits):
        chunk = logits[rows]  # (rows of the chunk, V)
        work = xp.empty_like(chunk) if work is None else work[: len(chunk)]
        xp.subtract(chunk, maxima[rows, None], out=work)
        xp.exp(work, out=work)
        xp.sum(work, axis=1, out=sums[rows])
    return xp.log(sums) + maxima


def without(logits: Array, forbidden: Sequence[int]) -> tuple[Array, np.ndarray]:
    """Return logits that forbid some words, and the log-probability of all other words together.

    Source: Bahdanau et al. (2015), Table 1: "We disallowed the models to generate [UNK] tokens".
    The probability of a forbidden word is not redistributed to other words, so that a hypothesis
    still has log p under the model.

    Arguments:
        logits: (N, V) real, nats; not written to.
        forbidden: ids, such as that of `<unk>`.

    Returns:
        logits: (N, V), a copy with -inf for these.
        allowed: (N,) float64 host array, log(1 - p(forbidden)) <= 0, nats: the log-probabilities of
            the copy's softmax plus this are the model's own.
    """
    allowed_logits = logits.copy()
    for word in forbidden:  # a list of ids would have to be copied to the device
        allowed_logits[:, word] = -float("inf")
    allowed = total = log_sum_exp(allowed_logits, allowed_logits.max(axis=1))
    for word in forbidden:
        total = backend.array_module(logits).logaddexp(total, logits[:, word])
    return allowed_logits, backend.to_host(allowed - total).astype(np.float64)


def top_indices(values: Array, count: int) -> Array:
    """Return the indices of the `count` largest values of each row, in ascending order.

    Arguments:
        values: (B, M) real.
        count: 1 .. M.

    Returns:
        (B, count) int64. Of equal values the lowest index is taken.
    """
    xp = backend.array_module(values)
    B, M = values.shape
    if count == M:
        return xp.broadcast_to(xp.arange(M), values.shape)
    if backend.on_host(xp):  # reading the numbers is free here
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
    xp, (N, V) = backend.array_module(logits, offsets, rows, block), logits.shape
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
    xp, V = backend.array_module(logits, maxima, offsets), logits.shape[1]
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
    return values.take(index + M * backend.array_module(values).arange(B)[:, None])


def best_candidates(logits: Array, log_probabilities: np.ndarray, count: int,
                    scores: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Return the most probable one-token extensions of each sentence's hypotheses.

    Source: thesis section 2.3.2, step (c): log p(y_1..y_t) = log p(y_1..y_{t-1}) + log p_t(y_t).

    Arguments:
        logits: (B*K, V) real device array, unnormalised, nats; rows grouped by sentence.
        log_probabilities: (B, K) float64 host array, nats; the first of each row is finite.
        count: candidates per sentence wanted; fewer if there are fewer.
        scores: whether the logits are added as they are, log p_t or a score in place of it.

    Returns:
        log_probabilities: (B, C) float64 host array, best first; NaN throughout a sentence that
            has a logit that is NaN or plus infinity.
        flat: (B, C) int64 host array, row within the sentence * V + token.
    """
    B, K = log_probabilities.shape
    count = min(count, K * logits.shape[1])
    # Relative to the sentence's best, so that float32 logits are not added to ever larger sums.
    best = log_probabilities[:, :1]
    relative = backend.to_device((log_probabilities - best).astype(logits.dtype))  # (B, K)
    maxima = block_maxima(logits)
    largest = maxima.max(axis=1)
    normaliser = (0.0 * largest if scores else log_sum_exp(logits, largest)).reshape(B, K)
    values, flat = top_candidates(logits, maxima, relative - normaliser, count)
    values = values + 0.0 * normaliser.sum(axis=1, keepdims=True)  # adds 0, or NaN, which is found
    return best + backend.to_host(values), backend.to_host(flat)


def best_words(logits: Array, log_probabilities: np.ndarray,
               scores: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """As `best_candidates`, the most probable word of sentences of one hypothesis each, which needs
    no blocks: logits (B, V), log_probabilities and results (B, 1)."""
    largest = logits.max(axis=1)
    log_p = largest - (0.0 * largest if scores else log_sum_exp(logits, largest))  # 0.0 keeps NaN
    return (log_probabilities + backend.to_host(log_p)[:, None],
            backend.to_host(logits.argmax(axis=1))[:, None])
