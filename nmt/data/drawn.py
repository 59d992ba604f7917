"""Random draws that change in each epoch: how words are cut, which words are dropped, and
which are spelled.

BPE dropout (`nmt.data.bpe`) draws for each pair, the others for each batch. All draws depend on one
number, which the epoch's generator gives after the order of batches. So a resumed run draws the
same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np

from nmt.data.batches import Batch, IdPair, Indices, TextBatches
from nmt.data.bpe import Draw
from nmt.data.characters import Word, spelled_too
from nmt.data.corpus import Pair
from nmt.data.stored import Lazy
from nmt.data.vocabulary import END, UNKNOWN

LARGEST = 1 << 62


class DrawnPairs(Lazy[IdPair]):
    """Pairs of sentences as ids, cut with BPE dropout; a pair's random numbers depend on its
    position and on `draw`, a number that changes each epoch.

    ids: the function that gives a pair's ids, from its words and a source of random numbers.
    """

    def __init__(self, pairs: Sequence[Pair], ids: Callable[[Pair, Draw], IdPair]) -> None:
        self._pairs, self._ids, self.draw = pairs, ids, 0

    def __len__(self) -> int:
        return len(self._pairs)

    def item(self, place: int) -> IdPair:
        """The ids of the pair at a position."""
        return self._ids(self._pairs[place], Random(self.draw + place).random)


class DrawnBatches(TextBatches):
    """Batches with random draws that change in each epoch.

    pairs: DrawnPairs are cut again in each epoch. word_dropout: the chance that a word is read
    as `<unk>`. spelled: the share of the target's known words that are spelled too, and the
    characters of each word of the vocabulary. Other arguments as `TextBatches`.
    """

    def __init__(self, pairs: Sequence[IdPair], *arguments: Any, word_dropout: float = 0.0,
                 spelled: tuple[float, Sequence[Word]] = (0.0, ()), **named: Any) -> None:
        super().__init__(pairs, *arguments, **named)
        self._word_dropout, self._spelled, self._draw = word_dropout, spelled, 0

    def epoch(self, rng: np.random.Generator) -> list[np.ndarray]:
        """As `TextBatches.epoch`."""
        keys = super().epoch(rng)
        self._draw = int(rng.integers(LARGEST))
        if isinstance(self.pairs, DrawnPairs):
            self.pairs.draw = self._draw
        return keys

    def batch(self, indices: Indices) -> Batch:
        """As `TextBatches.batch`."""
        batch, (share, characters) = super().batch(indices), self._spelled
        rng = np.random.default_rng([self._draw, int(indices[0])])
        if self._word_dropout:
            batch = drop_words(batch, self._word_dropout, rng)
        if share:
            batch = replace(batch, target=replace(batch.target, characters=spelled_too(
                batch.target_out, batch.target.lengths, batch.target.characters, share, characters,
                rng)))
        return batch


def drop_words(batch: Batch, rate: float, rng: np.random.Generator) -> Batch:
    """The batch with each word that is read replaced by `<unk>` with the chance `rate`.

    Source: Nguyen 3.3.3.1, "we randomly replace tokens with UNK", on both sides. The words that the
    decoder predicts are kept, as in the author's code, so that it does not learn to write `<unk>`.
    `</s>` is kept too; the author's code replaces it like any word.
    """
    def dropped(ids: np.ndarray) -> np.ndarray:
        lost = (rng.random(ids.shape) < rate) & (ids != END)
        return np.where(lost, UNKNOWN, ids)

    sources = tuple(replace(side, ids=dropped(side.ids)) for side in batch.sources)
    return replace(batch, sources=sources, read=dropped(batch.target_in))
