"""Attention over several encoders' memories: a context of each, side by side.

Source: Zoph and Knight (2016), section 4, "multi-source attention": each encoder is attended to by
itself, and the attentional vector reads [c_t^1; c_t^2; h_t]. A decoder calls the functions here,
which take one `Memory` too: they are then those of `attention.attention`. Letters as there; He is
the sum of the memories' widths.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from attention.attention import (
    accumulators,
    alignment_of,
    attention_backward,
    attention_forward,
    memory_backward,
)
from attention.memory import Memory, memory_select
from backend import Array, array_module
from lstm.parameters import Parameters


class Memories(NamedTuple):
    """What a decoder of several sources attends to."""

    each: tuple[Memory, ...]
    columns: Array | None = None  # (B, W), of search: see `alignment_columns`

    @property
    def sentences(self) -> int:
        """B."""
        return self.each[0].sentences

    @property
    def width(self) -> int:
        """He of all."""
        return sum(one.width for one in self.each)

    @property
    def prefix(self) -> str:
        """Of the attentional vector's weights."""
        return self.each[0].prefix


AnyMemory = Memory | Memories


def contexts_forward(
    h: Array, memory: AnyMemory, t: int = 1, together: bool = False
) -> tuple[Array, Any]:
    """As `attention_forward`: the contexts (B, Q, He) side by side, and a cache of each memory."""
    if isinstance(memory, Memory):
        return attention_forward(h, memory, t, together)
    found = [attention_forward(h, one, t, together) for one in memory.each]
    c = array_module(h).concatenate([c for c, _ in found], axis=2)         # [c_t^1; c_t^2]
    return c, tuple(cache for _, cache in found)


def all_accumulators(memory: AnyMemory) -> Any:
    """As `accumulators`, of each memory."""
    if isinstance(memory, Memory):
        return accumulators(memory)
    return tuple(map(accumulators, memory.each))


def contexts_backward(
    dc: Array, cache: Any, memory: AnyMemory, sums: Any, da: Array | None = None
) -> tuple[Array, Any]:
    """As `attention_backward`, from the gradient dc (B, Q, He) of the contexts side by side. Of
    several memories only the contexts are read: `da` is None."""
    if isinstance(memory, Memory):
        return attention_backward(dc, cache, memory, sums, da)
    given = zip(_parts(dc, memory), cache, memory.each, sums, strict=True)
    found = [attention_backward(*one) for one in given]
    return sum((dh for dh, _ in found[1:]), start=found[0][0]), tuple(step for _, step in found)


def memories_backward(
    dc: Array, h: Array, caches: Sequence[Any], steps: Sequence[Any], memory: AnyMemory, sums: Any
) -> tuple[Any, Parameters]:
    """As `memory_backward`; of several memories the gradients of their states are a tuple."""
    if isinstance(memory, Memory):
        return memory_backward(dc, h, caches, steps, memory, sums)
    dstates, gradients = [], Parameters()
    for k, (part, one) in enumerate(zip(_parts(dc, memory), memory.each, strict=True)):
        d, own = memory_backward(part, h, [cache[k] for cache in caches],
                                 [step[k] for step in steps], one, sums[k])
        dstates.append(d)
        gradients |= own
    return tuple(dstates), gradients


def _parts(dc: Array, memories: Memories) -> list[Array]:
    """The gradient of each context."""
    ends = np.cumsum([one.width for one in memories.each]).tolist()
    return [dc[:, :, end - one.width : end]
            for end, one in zip(ends, memories.each, strict=True)]


def memories_select(memory: AnyMemory, sentences: Array) -> AnyMemory:
    """As `memory_select`."""
    if isinstance(memory, Memory):
        return memory_select(memory, sentences)
    columns = None if memory.columns is None else memory.columns[sentences]
    return Memories(tuple(memory_select(one, sentences) for one in memory.each), columns)


# --- alignment ------------------------------------------------------------------------------------


def all_alignments(cache: Any, memory: AnyMemory) -> Array:
    """As `alignment_of`; of several memories (B, Q, W), by their `columns`."""
    if isinstance(memory, Memory):
        return alignment_of(cache, memory)
    assert memory.columns is not None
    return side_by_side([alignment_of(own, one)
                         for own, one in zip(cache, memory.each, strict=True)], memory.columns)


def alignment_columns(lengths: Sequence[np.ndarray], widths: Sequence[int]) -> np.ndarray:
    """Where the columns of a joint alignment stand among those of all sources, padding included.

    The joint alignment of a sentence has the words of each source as they are written, sources
    parted by a column of zeros. lengths: of each source (B,), widths S_k. Returns (B, W) int64,
    W = the most words of all sources together and the columns between; -1 is the zero.
    """
    starts = np.cumsum([0, *widths])
    rows = []
    for each in zip(*lengths, strict=True):
        row: list[int] = []
        for start, length in zip(starts, each, strict=False):
            row += [*range(start, start + length), -1]
        rows.append(row[:-1])
    columns = np.full((len(rows), max(map(len, rows), default=0)), -1)
    for b, row in enumerate(rows):
        columns[b, : len(row)] = row
    return columns


def side_by_side(alignments: Sequence[Array], columns: Array) -> Array:
    """The joint alignments (B, Q, W) of alignments (B, Q, S_k), by `alignment_columns`."""
    xp, (B, Q, _) = array_module(*alignments), alignments[0].shape
    zero = xp.zeros((B, Q, 1), dtype=alignments[0].dtype)
    wide = xp.concatenate([*alignments, zero], axis=2)
    rows = xp.arange(B)[:, None, None]
    return wide[rows, xp.arange(Q)[None, :, None], columns[:, None, :]]
