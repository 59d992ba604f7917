"""Target states a few at a time, so that what is made of them stays in the cache.

A hidden layer between every target state and every source state, (B, Q, S, A), and the states that
windows gather, (B, Q, W, He), are the largest arrays of attention. They are made block by block,
used, and forgotten; the backward pass makes them again, since a tanh in the cache costs less than
its way to the memory and back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from backend import array_module, on_host

ON_HOST = 1 << 18  # elements of a block: 1 MB of float32, in the second cache of one core
ALL = slice(None)  # all target states
ON_DEVICE = 1 << 26  # 256 MB: a GPU wants much work at once, but has not all memory for it


def block_size(xp: Any, one: int) -> int:
    """How many things of `one` elements make a block; at least 1."""
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
    """Trees of consecutive target states as one; what is None is so in all of them."""
    first = parts[0]
    if first is None or len(parts) == 1:
        return first
    if isinstance(first, tuple):
        found = [joined(one) for one in zip(*parts, strict=True)]
        return type(first)(*found) if hasattr(first, "_fields") else tuple(found)
    return array_module(first).concatenate(parts, axis=1)
