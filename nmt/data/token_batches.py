"""Batches by number of tokens instead of sentences (Nguyen 3.3.3.1: 4,096)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from backend.errors import UserError


def token_batches(
    lengths: np.ndarray, tokens: int, rng: np.random.Generator, pool_size: int
) -> list[np.ndarray]:
    """The batches of one epoch in random order. A batch has at most `tokens` tokens: sentences
    times the steps of its longest side.

    The corpus is shuffled and taken in pools of about `pool_size` batches. Each pool is sorted by
    length and cut into batches that are as large as possible. Then the batches are shuffled.

    lengths: (N, 2) int, words of source and target; `</s>` is added to targets here. Returns arrays
    of positions (B,) int64. Raises UserError if a single sentence is too long for a batch.
    """
    steps = np.maximum(lengths[:, 0], lengths[:, 1] + 1)  # (N,)
    if steps.max() > tokens:
        raise UserError(f"train.batch_tokens: expected at least {steps.max()}, the words of the "
                        f"longest training sentence with its </s>, got {tokens}")
    order, batches = rng.permutation(len(steps)), list[np.ndarray]()
    size = pool_size * max(1, round(tokens / steps.mean()))
    for start in range(0, len(order), size):
        pool = order[start : start + size]
        batches += _cut(pool[np.lexsort((lengths[pool, 0], steps[pool]))], steps, tokens)
    return [batches[i] for i in rng.permutation(len(batches))]


def _cut(order: np.ndarray, steps: np.ndarray, tokens: int) -> Iterator[np.ndarray]:
    """Consecutive pieces of positions in ascending order of their steps."""
    start = 0
    for end, longest in enumerate(steps[order].tolist()):
        if (end + 1 - start) * longest > tokens:
            yield order[start:end]
            start = end
    yield order[start:]
