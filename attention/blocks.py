"""Blocks of target states, small enough that their intermediate arrays fit the CPU's cache.

A hidden layer between every target state and every source state, (B, Q, S, A), and the states that
windows gather, (B, Q, W, He), are the largest arrays of attention. They are made block by block,
used and discarded; the backward pass computes them again, since a tanh on data in the CPU's cache
costs less than writing it to memory and reading it back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from backend import array_module, on_host

ON_HOST = 1 << 18  # elements of a block: 1 MB of float32, in a core's L2 cache
ALL = slice(None)  # all target states
ON_DEVICE = 1 << 26  # 256 MB: a GPU needs large launches, within its memory


def block_size(xp: Any, one: int) -> int:
    """How many items of `one` elements fit a block; at least 1."""
    return max(1, (ON_HOST if on_host(xp) else ON_DEVICE) // max(one, 1))


def pieces(count: int, size: int) -> Iterator[slice]:
    """Consecutive slices of at most `size` that cover `count`."""
    for start in range(0, count, size):
        yield slice(start, min(start + size, count))


def rectangles(xp: Any, B: int, Q: int, one: int) -> Iterator[tuple[slice, slice]]:
    """Blocks of sentences and target states, of `one` elements a pair: (B', Q') slices.

    As many target states of one sentence as fit, and then as many sentences.
    """
    size = block_size(xp, one)
    for sentences in pieces(B, max(1, size // max(Q, 1))):
        for states in pieces(Q, size):
            yield sentences, states


def part(tree: Any, states: slice) -> Any:
    """Some of the target states of arrays (B, Q, ...) in nested tuples; ALL is the tree itself."""
    if tree is None or states is ALL:
        return tree
    if isinstance(tree, tuple):
        found = [part(one, states) for one in tree]
        return type(tree)(*found) if hasattr(tree, "_fields") else tuple(found)
    return tree[:, states]


def joined(parts: Sequence[Any]) -> Any:
    """The nested tuples of consecutive blocks, joined along the target states; an entry that is
    None is None in all of them."""
    first = parts[0]
    if first is None or len(parts) == 1:
        return first
    if isinstance(first, tuple):
        found = [joined(one) for one in zip(*parts, strict=True)]
        return type(first)(*found) if hasattr(first, "_fields") else tuple(found)
    return array_module(first).concatenate(parts, axis=1)
