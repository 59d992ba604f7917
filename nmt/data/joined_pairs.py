"""Longer sentences from a corpus of short ones: consecutive pairs joined."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import cycle


def join_pairs(
    pairs: Iterable[tuple[str, ...]], most: int, overlapping: bool = False
) -> Iterator[tuple[str, ...]]:
    """Windows of 1, 2, .. `most`, 1, 2 .. consecutive pairs, each joined into one.

    For groups of long sentences (thesis section 4.4.2, Figure 4.6) where a corpus has none.

    Arguments: pairs, lines that translate each other; most, the pairs of the longest windows, at
    least 1; overlapping, whether the next window begins at the next pair, to train on, or behind
    this window, so that each pair is in one window, to score. Yields the windows' lines. The last
    pairs, too few for the window whose turn it is, are left out.
    """
    rest, sizes = deque[tuple[str, ...]](), cycle(range(1, most + 1))
    size = next(sizes)
    for pair in pairs:
        rest.append(pair)
        while len(rest) >= size:
            window = [rest[i] for i in range(size)]
            yield tuple(" ".join(filter(None, side)) for side in zip(*window, strict=True))
            for _ in range(1 if overlapping else size):
                rest.popleft()
            size = next(sizes)
