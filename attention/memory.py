"""What a decoder attends to: the encoder's states sentence by sentence, and the keys of a score."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from attention.scores import Map, Variant, map_forward, maps_of
from backend import Array, array_module, to_device
from lstm.recurrent import Padding


class Memory(NamedTuple):
    """What the decoder attends to, computed once per batch of source sentences."""

    hbar: Array  # (B, S, He), the encoder's top states, in the order of the written words
    keys: Array  # (B, S, A), the keys of the score; hbar itself where they are equal
    mask: Array | None  # (B, 1, S) bool, True on padding
    lengths: Array | None  # (B,) float, for local attention
    rows: Array | None  # (B, S), of a reversed source: each word's row in the states (S B, He)
    variant: Variant
    prefix: str  # of the weights' names
    W: Mapping[str, Array]  # the weights of score and position, by short name

    @property
    def sentences(self) -> int:
        """B."""
        return self.hbar.shape[0]

    @property
    def width(self) -> int:
        """He."""
        return self.hbar.shape[2]

    def matrix(self, one: Map | None) -> Array | None:
        """The matrix of a map; None is the identity."""
        return None if one is None else one.part(self.W[one.name], *self.hbar.shape[1:])


def memory_forward(
    states: Array, padding: Padding | None, variant: Variant, parameters: Mapping[str, Array],
    prefix: str,
) -> Memory:
    """The memory of the encoder's `states` (S, B, He): a sentence-major copy, and the keys.

    Word s of a sentence is in row s - 1 even if the encoder read the source in reverse, so that
    attention by position does not depend on the direction (erratum 9).
    """
    xp, (S, B, _) = array_module(states), states.shape
    rows = written_rows(S, B, padding) if variant.reverse else None
    hbar = by_words(states, rows)                                          # (B, S, He)
    mask = None if padding is None else padding.mask.transpose(1, 2, 0)    # (B, 1, S)
    lengths, dtype = None, states.real.dtype
    if variant.local:
        lengths = (xp.full((B,), float(S), dtype=dtype) if padding is None
                   else padding.lengths.astype(dtype))
    W = {name.removeprefix(f"{prefix}."): array for name, array in parameters.items()
         if name.startswith(f"{prefix}.")}
    memory = Memory(hbar, hbar, mask, lengths, rows, variant, prefix, W)
    return memory._replace(keys=map_forward(hbar, memory.matrix(maps_of(variant)[1])))


def by_words(states: Array, rows: Array | None) -> Array:
    """States or embeddings (S, B, A) sentence by sentence, (B, S, A), in the order of the written
    words; rows, `Memory.rows` of a reversed source."""
    if rows is None:
        return array_module(states).ascontiguousarray(states.transpose(1, 0, 2))
    return array_module(states).take(states.reshape(-1, states.shape[2]), rows, axis=0)


def written_rows(S: int, B: int, padding: Padding | None) -> Array:
    """The rows (B, S) of the states (S B, He) of a reversed source, in the order of the written
    words.

    Padding stays behind the words. Computed on the host, without a kernel.
    """
    lengths = np.full(B, S) if padding is None else padding.on_host
    return to_device(written_steps(S, lengths) * B + np.arange(B)[:, None])


def written_steps(S: int, lengths: np.ndarray) -> np.ndarray:
    """The steps (B, S) at which the words of a reversed source are read, in the order in which they
    are written, padding behind them; lengths (B,), both on the host."""
    s, end = np.arange(S), lengths[:, None]
    return np.where(s < end, end - 1 - s, s)


def by_steps(dhbar: Array, rows: Array | None) -> Array:
    """Gradients of the states (S, B, He), in the order of the encoder's steps."""
    if rows is None:
        return dhbar.transpose(1, 0, 2)
    B, S, He = dhbar.shape
    dstates = array_module(dhbar).empty((S, B, He), dtype=dhbar.dtype)
    dstates.reshape(S * B, He)[rows.reshape(-1)] = dhbar.reshape(B * S, He)
    return dstates


def memory_select(memory: Memory, sentences: Array) -> Memory:
    """The memory of the given sentences, (B',) indices on the device."""
    kept = {name: value[sentences] for name in ("hbar", "keys", "mask", "lengths")
            if (value := getattr(memory, name)) is not None}
    if memory.keys is memory.hbar:
        kept["keys"] = kept["hbar"]
    return memory._replace(rows=None, **kept)              # search asks for no gradient
