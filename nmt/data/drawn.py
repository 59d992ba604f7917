"""What is drawn of the training pairs anew in each epoch: how words are cut, which are dropped, and
which are spelled.

BPE dropout (`nmt.data.bpe`) draws by the place of a pair, the others by batch; all from one number
that the epoch's generator gives behind its order, so that a resumed run draws the same.
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
    """Pairs of sentences as ids, cut with dropout: each by the numbers that its place gives.

    ids: of a pair of words and the numbers to draw by. `draw` says which of many ways they are cut.
    """

    def __init__(self, pairs: Sequence[Pair], ids: Callable[[Pair, Draw], IdPair]) -> None:
        self._pairs, self._ids, self.draw = pairs, ids, 0

    def __len__(self) -> int:
        return len(self._pairs)

    def item(self, place: int) -> IdPair:
        """The ids of a pair."""
        return self._ids(self._pairs[place], Random(self.draw + place).random)


class DrawnBatches(TextBatches):
    """Batches in which something is drawn anew in each epoch.

    pairs: DrawnPairs are cut anew. word_dropout: the chance that a word is read as `<unk>`.
    spelled: the share of the target's known words that are spelled, by the characters of each word
    of the vocabulary. Other arguments as of TextBatches.
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
    """The batch with words replaced by `<unk>`, each with the chance `rate`, wherever one is read.

    Source: Nguyen 3.3.3.1, "we randomly replace tokens with UNK", of both sides. What the decoder
    predicts stays as it is (so the author's code): it need not learn to write `<unk>`. `</s>` stays
    too, which in the author's code is replaced like any word.
    """
    def dropped(ids: np.ndarray) -> np.ndarray:
        lost = (rng.random(ids.shape) < rate) & (ids != END)
        return np.where(lost, UNKNOWN, ids)

    sources = tuple(replace(side, ids=dropped(side.ids)) for side in batch.sources)
    return replace(batch, sources=sources, read=dropped(batch.target_in))
