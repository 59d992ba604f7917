"""Shapes of batches, and what is drawn for them: words, parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from lstm.parameters import Weight
from nmt.data.batches import Batch, Side
from nmt.data.vocabulary import END

FIRST = END + 1  # ids of words; those before are the special symbols
RESTING = 1  # words at the end of every vocabulary that no batch has
STD = 0.7  # standard deviation of what is drawn, less in large matrices

Rng = np.random.Generator


class Shape(NamedTuple):
    """Sequences side by side."""

    lengths: tuple[int, ...]  # of the sources; streams are as long as the longest
    targets: tuple[int, ...] = ()  # predictions; () for the sources' lengths in another order
    words: int = 3  # how many different words there are
    reverse: bool = True  # whether sources are reversed, so that positions count from the end

    @property
    def batch(self) -> int:
        """B."""
        return len(self.lengths)

    @property
    def vocabulary(self) -> int:
        """V."""
        return FIRST + self.words + RESTING


SHAPES = {
    "ragged": Shape((5, 3, 1)),
    "late padding": Shape((4, 3), reverse=False),  # the first steps are whole
    "full": Shape((3, 3)),
    "one sentence": Shape((4,), reverse=False),
    "one step": Shape((1, 1, 1)),
    "smallest": Shape((1,)),
    # beyond every threshold of size: 16 steps, 16 repeats of 16 ids, 32 rows of predictions
    "real": Shape((20,) * 9 + (18, 17, 16, 15, 14, 13, 12, 11, 9, 7, 5),
                  (5, 9, 12, 14, 16, 17, 18, 19, 20, 21, 22, 23) + (24,) * 8, words=17),
}


def draw(rng: Rng, *shape: int) -> np.ndarray:
    """Normals of standard deviation STD."""
    return np.asarray(rng.normal(scale=STD, size=shape))


def draw_parameters(rng: Rng, weights: Mapping[str, Weight]) -> dict[str, np.ndarray]:
    """Normals for each weight, biases too: no gate saturates, none is linear, no state explodes."""
    return {name: rng.normal(scale=min(STD, 1.2 / one.shape[-1] ** 0.5), size=one.shape)
            for name, one in weights.items()}


def draw_batch(rng: Rng, sources: int, shape: Shape) -> Batch:
    """A batch of so many sources; without a source, of streams, which have no end."""
    B, targets = shape.batch, shape.targets or tuple(np.roll(shape.lengths, 1).tolist())
    sides = tuple(draw_side(rng, shape.lengths, shape.words) for _ in range(sources))
    target = draw_side(rng, targets if sources else (max(shape.lengths),) * B, shape.words)
    before = np.full((1, B), END) if sources else draw_side(rng, (1,) * B, shape.words).ids
    return Batch(sides, Side(np.concatenate([before, target.ids]), target.lengths), np.arange(B))


def draw_side(rng: Rng, lengths: Sequence[int], words: int) -> Side:
    """Sequences of these lengths, all words about equally often; END on padding."""
    count = np.array(lengths, dtype=np.int64)
    ids = np.full((int(count.max()), len(count)), END)
    real = np.arange(len(ids))[:, None] < count
    ids[real] = FIRST + rng.permutation(np.arange(real.sum()) % words)
    return Side(ids, count)
