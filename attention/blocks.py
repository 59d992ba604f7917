"""Blocks of target states, small enough that their intermediate arrays fit the CPU's cache.

The largest arrays of attention are a hidden layer between every target state and every source
state, (B, Q, S, A), and the states that windows gather, (B, Q, P, He). They are made block by
block, used and discarded. The backward pass computes them again, since a tanh on data in the CPU's
cache costs less than writing it to memory and reading it back.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from backend import on_host

ON_HOST = 1 << 18  # elements of a block: 1 MB of float32, in a core's L2 cache
ON_DEVICE = 1 << 26  # 256 MB: a GPU needs large launches, within its memory


def block_size(xp: Any, elements: int) -> int:
    """The number of items with this number of elements that fit a block; at least 1."""
    return max(1, (ON_HOST if on_host(xp) else ON_DEVICE) // max(elements, 1))


def pieces(count: int, size: int) -> Iterator[slice]:
    """Consecutive slices of at most `size` items that cover `count` items."""
    for start in range(0, count, size):
        yield slice(start, min(start + size, count))


def rectangles(xp: Any, B: int, Q: int, elements: int) -> Iterator[tuple[slice, slice]]:
    """Blocks of sentences and target states, as slices of B and Q. A pair has `elements` elements.

    A block has as many target states of a sentence as fit, and then as many sentences as fit.
    """
    size = block_size(xp, elements)
    for sentences in pieces(B, max(1, size // max(Q, 1))):
        for states in pieces(Q, size):
            yield sentences, states
