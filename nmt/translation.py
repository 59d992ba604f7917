"""The results of a translator: translations and word vectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from nmt.data.rare_words import UNK


@dataclass(frozen=True)
class Translation:
    """One translation of a sentence, as words."""

    words: list[str]  # or pieces of words
    log_probability: float  # nats
    score: float  # log_probability / lp, by which hypotheses are ranked
    alignment: np.ndarray | None  # (words + 1 or words, S), words and source in reading order
    finished: bool = True  # False: cut at the limit on steps, before an end marker
    steps: np.ndarray | None = None  # (words + 1,) log p of each step; force-decoding only
    spelled: tuple[int, ...] = ()  # positions of the words that a hybrid model spelled
    cut_words: int = 0  # how many of these were cut at `search.longest_word`
    beam: int | None = None  # the largest beam that found it; search with every beam only

    @property
    def unspelled(self) -> list[str]:
        """The words with `<unk>` in place of those that were spelled."""
        return [UNK if place in self.spelled else word for place, word in enumerate(self.words)]


class WordVectors(NamedTuple):
    """Vectors of source words."""

    values: np.ndarray  # (N, E) float64
    known: np.ndarray  # (N,) bool: False where the vector is that of <unk>
