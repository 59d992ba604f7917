"""The reverse task: the translation of a sequence of numbers is the same numbers in reverse.

This is a sanity check that needs no language. A model without attention must store the whole
sequence in one vector, and fails on long sequences; a model with attention learns where to attend.
The sizes are those of JoeyNMT's task: 1 to 25 numbers from 0 to 49, 50,000 training pairs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nmt.data.corpus import Pair

NUMBERS = 50  # 0 to 49
LONGEST = 25


class Reversal(NamedTuple):
    """Pairs to train on, and two sets to evaluate."""

    train: list[Pair]
    dev: list[Pair]
    test: list[Pair]


def generate(train: int, dev: int, test: int, seed: int) -> Reversal:
    """Draw the pairs of three sets of these sizes; the same arguments give the same pairs.

    Lengths are uniform from 1 to 25, and numbers from 0 to 49. The test set is drawn first, then
    dev, then train, so that the evaluation sets stay the same when more training pairs are asked
    for. A short sequence may be in several sets: there are only 50 of length one.
    """
    rng = np.random.default_rng(seed)
    test_pairs, dev_pairs, train_pairs = (
        [_draw(rng) for _ in range(size)] for size in (test, dev, train)
    )
    return Reversal(train_pairs, dev_pairs, test_pairs)


def _draw(rng: np.random.Generator) -> Pair:
    """A random sequence and its reverse."""
    words = [str(number) for number in rng.integers(0, NUMBERS, rng.integers(1, LONGEST + 1))]
    return words, words[::-1]
