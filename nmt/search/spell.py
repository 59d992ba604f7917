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
    options = replace(options, nbest=1, unknown=False, minimum_length=1, length_normalisation=0.0)
    propose = partial(best_candidates, count=2 * options.beam)
    nbests = search(speller, parameters, state, np.full(N, options.longest_word + 1), options,
                    propose)
    # The last step is for the boundary: an unfinished word is cut.
    words = iter([SpelledWord(nbest[0].tokens[:options.longest_word], nbest[0].finished)
                  for nbest in nbests])
    return [[next(words) for _ in range(count)] for count in counts]
