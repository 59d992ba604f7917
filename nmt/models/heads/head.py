"""The data that an output head gets from a decoder, and the interface of a head."""

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
    ) -> tuple[Array, Any]:
        """The summed loss, 0-d, in nats, and the cache of `backward`."""
        ...

    def backward(self, cache: Any) -> tuple[Decoded, Gradients]:
        """The gradients of the fields that it read, and of its parameters by name."""
        ...

    def start(
        self, parameters: Mapping[str, Array], sources: tuple[Side, ...], read: Decoded
    ) -> Any:
        """The state of search before the first word. `read` has the source, if the head reads it.
        """
        ...

    def step(
        self, parameters: Mapping[str, Array], state: Any, decoded: Decoded, tokens: np.ndarray
    ) -> tuple[Array, Any]:
        """Logits (N, V) of a step, and the next state. tokens: (N,) host ids, last words."""
        ...

    def select(self, state: Any, rows: Array, sentences: Array) -> Any:
        """The given rows and sentences of a state. Both are on the device."""
        ...
