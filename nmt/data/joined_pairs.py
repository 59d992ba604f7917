"""Joining consecutive pairs of short sentences into pairs of long ones."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import cycle


def join_pairs(
    pairs: Iterable[tuple[str, ...]], longest: int, overlapping: bool = False
) -> Iterator[tuple[str, ...]]:
    """Join windows of 1, 2, .. `longest`, 1, 2 .. consecutive pairs, each into one pair.

    This gives groups of long sentences (thesis section 4.4.2, Figure 4.6) to a corpus without any.

    pairs: lines that are translations of each other. longest: the number of pairs of the longest
    windows, at least 1. overlapping: if True, each window begins at the pair after the previous
    window's first, for text to train on; if False, after the previous window, so that each pair is
    in one window, for text to score. Yields the windows' lines. Pairs at the end that do not fill
    the next window are left out.
    """
    waiting, sizes = deque[tuple[str, ...]](), cycle(range(1, longest + 1))
    size = next(sizes)
    for pair in pairs:
        waiting.append(pair)
        while len(waiting) >= size:
            window = [waiting[i] for i in range(size)]
            yield tuple(" ".join(filter(None, side)) for side in zip(*window, strict=True))
            for _ in range(1 if overlapping else size):
                waiting.popleft()
            size = next(sizes)
