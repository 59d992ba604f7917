"""Shapes of batches, and random words and parameters for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from lstm.parameters import Weight
from nmt.data.batches import Batch, Side
from nmt.data.characters import spelled_too, spelled_words
from nmt.data.vocabulary import END, UNKNOWN

FIRST = END + 1  # id of the first word; smaller ids are the special symbols
RESTING = 1  # words at the end of every vocabulary that no batch has
LETTERS = 3  # characters of which words are spelled
CHARACTERS = FIRST + LETTERS + RESTING  # C
STD = 0.7  # standard deviation of random numbers; less in large matrices

Rng = np.random.Generator


class Shape(NamedTuple):
    """The shape of a batch of sequences."""

    lengths: tuple[int, ...]  # lengths of the sources; streams are as long as the longest
    targets: tuple[int, ...] = ()  # predictions; () for the sources' lengths in another order
    words: int = 3  # number of different words
    reverse: bool = True  # whether sources are reversed, so that positions count from the end
    rare: tuple[int, ...] = ()  # the numbers of characters of the first words: for a model that
    # reads or writes characters, these words are outside the vocabulary
    spelled: float = 0.0  # the fraction of the target's other words that are spelled, too

    @property
    def batch(self) -> int:
        """The number of sequences, B."""
        return len(self.lengths)

    @property
    def vocabulary(self) -> int:
        """The size of the vocabulary, V."""
        return FIRST + self.words + RESTING


# Beyond every threshold of size: 16 steps, 16 repeats of 16 ids, 32 rows of predictions; rare words
# in several groups by length.
REAL = Shape((20,) * 9 + (18, 17, 16, 15, 14, 13, 12, 11, 9, 7, 5),
             (5, 9, 12, 14, 16, 17, 18, 19, 20, 21, 22, 23) + (24,) * 8, words=17, rare=(1, 6, 2))
SHAPES = {
    "ragged": Shape((5, 3, 1), rare=(3, 1)),  # each rare word several times
    "late padding": Shape((4, 3), reverse=False),  # no padding in the first steps; no rare word
    "full": Shape((3, 3), rare=(2, 4, 2)),  # rare words only
    "one sentence": Shape((4,), reverse=False, rare=(1,)),
    "one step": Shape((1, 1, 1), rare=(2, 1)),
    "smallest": Shape((1,), rare=(1,)),
    "frequent words too": Shape((4, 2), rare=(2,), spelled=0.7),
    "real": REAL,
    "real, no rare word": REAL._replace(rare=()),
    "real, rare words only": REAL._replace(rare=(1, 3, 2, 1) * 4 + (4,)),
}


def draw(rng: Rng, *shape: int) -> np.ndarray:
    """Normal random numbers of standard deviation STD."""
    return np.asarray(rng.normal(scale=STD, size=shape))


def draw_parameters(rng: Rng, weights: Mapping[str, Weight]) -> dict[str, np.ndarray]:
    """Normal random numbers for each weight and bias, so that gates are neither saturated nor
    linear, and states do not explode."""
    return {name: rng.normal(scale=min(STD, 1.2 / weight.shape[-1] ** 0.5), size=weight.shape)
            for name, weight in weights.items()}


def draw_batch(rng: Rng, sources: int, shape: Shape) -> Batch:
    """A batch of this number of sources, each with other lengths. Without sources: a batch of
    streams, without an end.
    """
    B, targets = shape.batch, shape.targets or tuple(np.roll(shape.lengths, 1).tolist())
    sides = tuple(draw_side(rng, np.roll(shape.lengths, -k).tolist(), shape.words)
                  for k in range(sources))
    target = draw_side(rng, targets if sources else (max(shape.lengths),) * B, shape.words)
    before = np.full((1, B), END) if sources else draw_side(rng, (1,) * B, shape.words).ids
    return Batch(sides, Side(np.concatenate([before, target.ids]), target.lengths), np.arange(B))


def spell(rng: Rng, batch: Batch, shape: Shape) -> Batch:
    """The batch with its shape's rare words outside the vocabulary, and their characters."""
    words = [tuple(rng.integers(FIRST, FIRST + LETTERS, n).tolist()) for n in shape.rare]
    sources = tuple(_spelled(side, 0, words) for side in batch.sources)
    target = _spelled(batch.target, 1, words)
    if shape.spelled:
        known = [words[0]] * FIRST + [
            tuple(rng.integers(FIRST, FIRST + LETTERS, 1 + n % 3).tolist())
            for n in range(shape.words)]
        target = replace(target, characters=spelled_too(
            target.ids[1:], target.lengths, target.characters, shape.spelled, known, rng, least=1))
    return replace(batch, sources=sources, target=target)


def _spelled(side: Side, before: int, words: Sequence[tuple[int, ...]]) -> Side:
    """A side. `before` of its ids precede the first step. A source's words are spelled by type.
    """
    rare = (side.ids >= FIRST) & (side.ids < FIRST + len(words))
    spellings = [[words[i - FIRST] for i in column[is_rare]]
             for column, is_rare in zip(side.ids.T, rare.T, strict=True)]
    ids = np.where(rare, UNKNOWN, side.ids)
    characters = spelled_words(ids[before:], side.lengths, spellings, by_type=not before,
                               least=1)
    return replace(side, ids=ids, characters=characters)


def draw_side(rng: Rng, lengths: Sequence[int], words: int) -> Side:
    """Sequences of these lengths, with all words about equally often, and END on padding."""
    count = np.array(lengths, dtype=np.int64)
    ids = np.full((int(count.max()), len(count)), END)
    real = np.arange(len(ids))[:, None] < count
    ids[real] = FIRST + rng.permutation(np.arange(real.sum()) % words)
    return Side(ids, count)


def with_factors(rng: np.random.Generator, batch: Batch, sizes: Sequence[int]) -> Batch:
    """The batch with factors of its sources' words, of these numbers of values; 0 on padding."""
    sources = []
    for side in batch.sources:
        real = np.arange(len(side.ids))[:, None] < side.lengths
        rows = [np.where(real, rng.integers(0, size, side.ids.shape), 0) for size in sizes]
        sources.append(replace(side, factors=np.stack(rows)))
    return replace(batch, sources=tuple(sources))
