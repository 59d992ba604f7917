"""Attention over the memories of several encoders: their contexts stand side by side.

Source: Zoph and Knight (2016), section 4, "multi-source attention": the decoder attends to each
encoder separately, and the attentional vector reads [c_t^1; c_t^2; h_t]. Letters as in
`attention.attention`; He is the sum of the memories' widths, P the number of columns of a joint
alignment (`attention.joint_alignment`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from attention.joint_alignment import side_by_side
from attention.memory import Memory
from backend import Array, array_module
from lstm.parameters import Parameters


class Memories(NamedTuple):
    """The memory of several sources, with the interface `Memory`. Only search reads its alignments,
    so that no gradient reaches them."""

    sources: tuple[Memory, ...]
    columns: Array | None = None  # (B, P), for search: see `alignment_columns`

    @property
    def prefix(self) -> str:
        """The prefix of the names of the attentional vector's weights."""
        return self.sources[0].prefix

    @property
    def sentences(self) -> int:
        """B."""
        return self.sources[0].sentences

    @property
    def width(self) -> int:
        """The sum of the widths of all sources, He."""
        return sum(memory.width for memory in self.sources)

    def attend(self, h: Array, t: int = 1, together: bool = False) -> tuple[Array, tuple[Any, ...]]:
        """As `Memory.attend`, with a cache for each source."""
        attended = [memory.attend(h, t, together) for memory in self.sources]
        c = array_module(h).concatenate([c for c, _ in attended], axis=2)  # [c_t^1; c_t^2]
        return c, tuple(cache for _, cache in attended)

    def accumulators(self) -> tuple[Any, ...]:
        """The accumulators of each source."""
        return tuple(memory.accumulators() for memory in self.sources)

    def attend_backward(
        self, dc: Array, cache: tuple[Any, ...], sums: tuple[Any, ...], d_align: None = None
    ) -> tuple[Array, tuple[Any, ...]]:
        """As `Memory.attend_backward`."""
        backward = [memory.attend_backward(dc_k, cache_k, sums_k) for memory, dc_k, cache_k, sums_k
                    in zip(self.sources, self._contexts(dc), cache, sums, strict=True)]
        (dh, _), *others = backward
        return sum((d for d, _ in others), start=dh), tuple(step for _, step in backward)

    def gradients(
        self, dc: Array, h: Array, caches: Sequence[tuple[Any, ...]],
        steps: Sequence[tuple[Any, ...]], sums: tuple[Any, ...],
    ) -> tuple[Array, Parameters]:
        """As `Memory.gradients`. The states of all sources stand one after the other."""
        dstates, gradients = [], Parameters()
        for k, (memory, dc_k) in enumerate(zip(self.sources, self._contexts(dc), strict=True)):
            d, weights = memory.gradients(dc_k, h, [cache[k] for cache in caches],
                                          [step[k] for step in steps], sums[k])
            dstates.append(d)
            gradients |= weights
        return array_module(dc).concatenate(dstates), gradients

    def _contexts(self, dc: Array) -> list[Array]:
        """The gradient of each context."""
        ends = np.cumsum([memory.width for memory in self.sources]).tolist()
        return [dc[:, :, end - memory.width : end]
                for end, memory in zip(ends, self.sources, strict=True)]

    def alignment(self, cache: tuple[Any, ...]) -> Array:
        """The joint alignments (B, Q, P), by `columns`."""
        assert self.columns is not None
        return side_by_side([memory.alignment(of_source) for memory, of_source
                             in zip(self.sources, cache, strict=True)], self.columns)

    def select(self, sentences: Array) -> Memories:
        """As `Memory.select`."""
        columns = None if self.columns is None else self.columns[sentences]
        return Memories(tuple(memory.select(sentences) for memory in self.sources), columns)
