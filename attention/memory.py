"""A memory: the source to which a decoder attends.

`Memory` is the interface of all memories, `SourceMemory` the base of those of one source. The
encoder's states are copied sentence by sentence, in the order of the written words, so that
attention by position does not depend on the direction in which the source was read (erratum 9).
Letters as in `attention.attention`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, Self

import numpy as np

from attention.scores import Score, Sums, map_backward, map_weight
from backend import Array, array_module, to_device
from lstm.parameters import Parameters


class Memory(Protocol):
    """The interface of a memory."""

    @property
    def prefix(self) -> str:
        """The prefix of the names of the attentional vector's weights."""

    @property
    def sentences(self) -> int:
        """B."""

    @property
    def width(self) -> int:
        """He."""

    def attend(self, h: Array, t: int = 1, together: bool = False) -> tuple[Array, Any]:
        """The contexts c (B, Q, He) of target states h (B, Q, H), and the cache of the backward.

        Arguments: t, the time step of the first state, from 1; together, whether all states are of
        step t (hypotheses) instead of t, t + 1, ... Only local-m reads the step.
        """

    def alignment(self, cache: Any) -> Array:
        """a_t (B, Q, S) over all words in written order, zero on padding and outside a window."""

    def accumulators(self) -> Any:
        """Zeros to which `attend_backward` adds gradients; None if it adds none."""

    def attend_backward(
        self, dc: Array, cache: Any, sums: Any, d_align: Array | None = None
    ) -> tuple[Array, Any]:
        """dh (B, Q, H), which a decoder's step needs at once, and the data for `gradients`.

        Arguments: dc (B, Q, He); sums, from `accumulators`, to which gradients are added; d_align
        (B, Q, S), gradient of `alignment` if not only c_t reads a_t, or None.
        """

    def gradients(
        self, dc: Array, h: Array, caches: Sequence[Any], steps: Sequence[Any], sums: Any
    ) -> tuple[Array, Parameters]:
        """The gradients of the encoder's states (S, B, He), and of the scores' weights by full
        name. Called once, after all steps.

        Arguments: dc (B, T, He) and h (B, T, H), of all target states; caches and steps, from
        `attend` and `attend_backward`, of the calls that cover these T states in order.
        """

    def select(self, sentences: Array) -> Memory:
        """The memory of the given sentences, (B',) indices on the device, for search."""


class ScoreGradients(NamedTuple):
    """Gradients inside the attention, from which the gradients of memory and weights follow."""

    de: Array  # (B, Q, S), of the energies
    dq: Array  # (B, Q, A), of the queries


@dataclass(frozen=True)
class SourceMemory:
    """The memory of a source, computed once per batch. All kinds of attention share this base."""

    hbar: Array  # (B, S, He), the encoder's top states, in the order of the written words
    keys: Array  # (B, S, A), the keys of the score; hbar itself if they are equal
    mask: Array | None  # (B, 1, S) bool, True on padding
    order: Array | None  # (B, S), of a reversed source: each word's row in the states (S B, He)
    prefix: str  # of the names of the weights
    score: Score
    W_query: Array | None  # (A, H), the matrix of the queries; None is the identity
    W_keys: Array | None  # (A, He), the matrix of the keys; None is the identity
    v: Array | None  # (A,), v_a, for the scores that have it

    @property
    def sentences(self) -> int:
        """B."""
        return len(self.hbar)

    @property
    def width(self) -> int:
        """He."""
        He: int = self.hbar.shape[2]
        return He

    def accumulators(self) -> Sums | None:
        """For a score with a hidden layer: zeros for the gradients of keys and v_a."""
        if self.v is None:
            return None
        xp = array_module(self.keys)
        return Sums(xp.zeros_like(self.keys), xp.zeros_like(self.v))

    def maps_backward(
        self, dhbar: Array, dkeys: Array | None, dq: Sequence[Array], h: Array, sums: Sums | None
    ) -> tuple[Array, Parameters]:
        """The result of `Memory.gradients`: the backward of the maps of queries and keys.

        Arguments: dhbar (B, S, He), the gradient through the contexts, which is added to; dkeys
        (B, S, A), or None if the keys have no gradient of their own; dq (B, Q, A), for the queries
        of each call; h and sums as there.
        """
        dW_query = dW_keys = None
        if dkeys is not None:
            dhbar += map_backward(dkeys, self.W_keys)
        if self.W_keys is not None:
            dW_keys = map_weight(dkeys, self.hbar)
        if self.W_query is not None:
            dW_query = map_weight(over_time(dq), h)
        gradients = self.score.gradients(dW_query, dW_keys)
        if sums is not None:
            gradients["v_a"] = sums.v
        return by_steps(dhbar, self.order), {
            f"{self.prefix}.{name}": gradient for name, gradient in gradients.items()}

    def select(self, sentences: Array) -> Self:
        """As `Memory.select`."""
        hbar = self.hbar[sentences]
        keys = hbar if self.keys is self.hbar else self.keys[sentences]
        mask = None if self.mask is None else self.mask[sentences]
        return replace(self, hbar=hbar, keys=keys, mask=mask, order=None)  # no backward in search


def over_time(arrays: Sequence[Array]) -> Array:
    """Arrays (B, Q, ...) of consecutive target states, concatenated: (B, T, ...)."""
    return arrays[0] if len(arrays) == 1 else array_module(arrays[0]).concatenate(arrays, axis=1)


# --- the order of the words -----------------------------------------------------------------------


def by_words(states: Array, order: Array | None) -> Array:
    """States (S, B, He), or embeddings, sentence by sentence: (B, S, He), in the order of the
    written words. order: `SourceMemory.order` of a reversed source."""
    if order is None:
        return array_module(states).ascontiguousarray(states.transpose(1, 0, 2))
    return array_module(states).take(states.reshape(-1, states.shape[2]), order, axis=0)


def by_steps(dhbar: Array, order: Array | None) -> Array:
    """Gradients of the states (S, B, He), in the order of the encoder's steps."""
    if order is None:
        return dhbar.transpose(1, 0, 2)
    B, S, He = dhbar.shape
    dstates = array_module(dhbar).empty((S, B, He), dtype=dhbar.dtype)
    dstates.reshape(S * B, He)[order.reshape(-1)] = dhbar.reshape(B * S, He)
    return dstates


def written_steps(S: int, lengths: np.ndarray) -> np.ndarray:
    """The steps (B, S) at which the words of a reversed source are read, in the order in which the
    words are written, followed by padding. lengths: (B,). Both are on the host."""
    s, end = np.arange(S), lengths[:, None]
    return np.where(s < end, end - 1 - s, s)


def padding_mask(lengths: np.ndarray, steps: int) -> Array | None:
    """(B, 1, S) bool, True on padding; None if no sentence is shorter than S = steps.

    lengths: (B,) on the host, at least 1.
    """
    if lengths.min(initial=steps) >= steps:
        return None
    return to_device((np.arange(steps) >= lengths[:, None])[:, None])
