"""The data that an output head gets from a decoder, and the interface of a head."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import DTypeLike

from backend import Array
from lstm.cells import State
from lstm.parameters import Weight
from lstm.prediction import OutputCache
from lstm.sampled import SampledCache
from nmt.data.batches import Batch, Side
from nmt.data.lexicon import BatchEntries
from nmt.models.contract import Gradients, Losses, Noise


class Decoded(NamedTuple):
    """Inputs and outputs of the decoder for a teacher-forced batch, after dropout.

    A decoder fills in the fields that its head `reads`. The gradient has the same form. A field is
    None if no head reads it, or if it has no gradient. A step of search has rows (N, ...) in place
    of (T, B, ...).
    """

    h_tilde: Array = None  # (T, B, H), attentional vectors; the top states without attention
    joined: Array = None  # (T, B, He + H), [c_t; h_t], the input of W_c
    alignment: Array = None  # (B, T, S), a_t over the words in written order
    states: Array = None  # (T + 1, B, H), s_0 first; of a step (2, N, H): previous, current
    words: Array = None  # (T, B, E), the embedding of the previous word
    contexts: Array = None  # (T, B, He)
    source: Array = None  # (B, S, E), the source's embeddings, in written order


class HeadCache(Protocol):
    """The parts of a head's cache that a model may read. Only the head reads the others."""

    @property
    def losses(self) -> Losses:
        """The parts of the loss."""
        ...

    @property
    def output(self) -> OutputCache | SampledCache:
        """The cache of the prediction layer; a `SampledCache` with a sampled vocabulary."""
        ...


class HeadState(NamedTuple):
    """The data that a head keeps during search. A head fills in the fields that it needs."""

    source: Array | None = None  # (B, S, E), of the B sentences
    entries: BatchEntries | None = None  # of a lexicon
    layers: Sequence[State] = ()  # of a language model, rows (N, H_LM)


class Head(Protocol):
    """Predicts the target words from a `Decoded`. A head holds no parameters."""

    reads: frozenset[str]  # fields of `Decoded`
    mask_widths: Mapping[str, int]  # by site, the width of each of its dropout masks (T, B, width)

    def weights(self) -> dict[str, Weight]:
        """The parameters by name."""
        ...

    def noise(self, batch: Batch, rng: np.random.Generator, dtype: DTypeLike) -> Noise:
        """Other random numbers for a batch, by site."""
        ...

    def forward(
        self, parameters: Mapping[str, Array], decoded: Decoded, batch: Batch, noise: Noise
    ) -> tuple[Array, HeadCache]:
        """The summed loss, 0-d, in nats, and the cache of `backward`."""
        ...

    def backward(self, cache: Any) -> tuple[Decoded, Gradients]:
        """The gradients of the fields that it read, and of its parameters by name. The cache is
        that of its own `forward`."""
        ...

    def start(
        self, parameters: Mapping[str, Array], sources: tuple[Side, ...], read: Decoded
    ) -> HeadState:
        """The state of search before the first word. `read` has the source, if the head reads it.
        """
        ...

    def step(
        self, parameters: Mapping[str, Array], state: HeadState, decoded: Decoded,
        tokens: np.ndarray,
    ) -> tuple[Array, HeadState]:
        """Logits (N, V) of a step, and the next state. tokens: (N,) host ids, last words."""
        ...

    def select(self, state: HeadState, rows: Array, sentences: Array) -> HeadState:
        """The given rows and sentences of a state. Both are on the device."""
        ...
