"""What a decoder hands to its output head, and the interface of a head."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import DTypeLike

from backend import Array
from lstm.parameters import Weight
from nmt.data.batches import Batch, Side
from nmt.models.contract import Gradients, Noise


class Decoded(NamedTuple):
    """What the decoder of a teacher-forced batch read and made, after dropout.

    A decoder fills in what its head `reads`; a gradient has the same form. None is what no head
    reads, or gives a gradient. A step of search gives rows (N, ...) in place of (T, B, ...).
    """

    h_tilde: Array = None  # (T, B, H), attentional vectors; the top states without attention
    joined: Array = None  # (T, B, He + H), [c_t; h_t], what W_c reads
    alignment: Array = None  # (B, T, S), a_t over the words as they are written
    states: Array = None  # (T + 1, B, H), s_0 first; of a step (2, N, H): before, now
    words: Array = None  # (T, B, E), the embedding of the word before
    contexts: Array = None  # (T, B, He)
    source: Array = None  # (B, S, E), the source's embeddings, as they are written


class Head(Protocol):
    """Predicts the target words from a `Decoded`. A head holds no parameters."""

    reads: frozenset[str]  # fields of `Decoded`

    def weights(self) -> dict[str, Weight]:
        """Its parameters by name."""
        ...

    def mask_shapes(self, batch: Batch) -> dict[str, tuple[int, ...]]:
        """Shapes of its dropout masks, by site."""
        ...

    def noise(self, batch: Batch, rng: np.random.Generator, dtype: DTypeLike) -> Noise:
        """What else it draws for a batch, by site."""
        ...

    def forward(
        self, parameters: Mapping[str, Array], decoded: Decoded, batch: Batch, noise: Noise
    ) -> tuple[Array, Any]:
        """The summed loss, 0-d, in nats, and what `backward` reads."""
        ...

    def backward(self, cache: Any) -> tuple[Decoded, Gradients]:
        """The gradient of what it read, and those of its parameters by name."""
        ...

    def start(
        self, parameters: Mapping[str, Array], sources: tuple[Side, ...], read: Decoded
    ) -> Any:
        """Its state of search before the first word; `read` has the source, where it reads it."""
        ...

    def step(
        self, parameters: Mapping[str, Array], state: Any, decoded: Decoded, tokens: np.ndarray
    ) -> tuple[Array, Any]:
        """Logits (N, V) of a step, and the state after it; tokens (N,) host ids, the words
        before."""
        ...

    def select(self, state: Any, rows: Array, sentences: Array) -> Any:
        """Keep the given rows and sentences of a state; both on the device."""
        ...
