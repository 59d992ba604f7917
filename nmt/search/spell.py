"""Spelling the words of `<unk>` by a hybrid model, after a search for words (Luong, 5.3.3).

"First run a beam search decoder at the word level ... then my character-level decoder with beam
search": this is the same beam search, from the states at the `<unk>` of the translations. The first
search is unchanged: the author's `unkDiscount`, an option against repeated `<unk>`, is off.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np

from backend import Array
from nmt.data.batches import Batch
from nmt.data.characters import unknown_steps
from nmt.data.vocabulary import END
from nmt.models.contract import Searchable
from nmt.search.beam import best_candidates, search
from nmt.search.interface import SearchOptions


class Spells(Protocol):
    """A hybrid model, or an ensemble of several."""

    def spelling(self, parameters: Mapping[str, Array], batch: Batch) -> tuple[Searchable, Any]:
        """A model whose search spells each target `<unk>` of the batch, and its initial state."""


class SpelledWord(NamedTuple):
    """A word found by its characters."""

    characters: list[int]  # ids, at least one
    finished: bool  # whether the boundary came before the limit


def spell(
    model: Spells, parameters: Mapping[str, Array], batch: Batch, options: SearchOptions
) -> list[list[SpelledWord]]:
    """The best word for each `<unk>` of each target in the batch, in the order of the `<unk>`.

    The beam is that for words, as in the author's code. The unknown character and the empty word
    are forbidden. Words are ranked by log-probability, without length normalisation. A word longer
    than `options.longest_word` is cut there.
    """
    counts = unknown_steps(batch.target_out, batch.target.lengths).sum(axis=0)  # (B,)
    N = int(counts.sum())
    if not N:
        return [[] for _ in counts]
    speller, state = model.spelling(parameters, batch)
    options = replace(options, nbest=1, unknown=False, length_normalisation=0.0)
    propose = partial(best_candidates, count=2 * options.beam)
    nbests = search(NotEmpty(speller), parameters, (state, True),
                    np.full(N, options.longest_word + 1), options, propose)
    # The last step is for the boundary: an unfinished word is cut.
    words = iter([SpelledWord(nbest[0].tokens[:options.longest_word], nbest[0].finished)
                  for nbest in nbests])
    return [[next(words) for _ in range(count)] for count in counts]


class NotEmpty(Searchable):
    """A model that cannot end at its first step. Its state is that of `model`, and whether the next
    step is the first."""

    def __init__(self, model: Searchable) -> None:
        self._model = model

    def encode(self, parameters: Mapping[str, Array], sources: Any, rows: int) -> tuple[Any, bool]:
        """The initial state."""
        return self._model.encode(parameters, sources, rows), True

    def step(
        self, parameters: Mapping[str, Array], state: tuple[Any, bool], tokens: np.ndarray
    ) -> tuple[Array, tuple[Any, bool], Array | None]:
        """The logits of `model`, with -inf for the end marker at the first step."""
        logits, after, alignment = self._model.step(parameters, state[0], tokens)
        if state[1]:
            logits = logits.copy()
            logits[:, END] = -float("inf")
        return logits, (after, False), alignment

    def select(
        self, state: tuple[Any, bool], rows: np.ndarray, sentences: np.ndarray
    ) -> tuple[Any, bool]:
        """Keep these rows and sentences."""
        return self._model.select(state[0], rows, sentences), state[1]
