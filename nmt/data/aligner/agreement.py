"""Alignment by agreement: the two directions are trained together.

Source: Liang, Taskar and Klein (2006). In each iteration of EM the posteriors of both directions
are multiplied, p(a_j = i) p(b_i = j), before the M-steps. So each direction learns most from links
that are probable in the other direction too. The Berkeley aligner, which the thesis used (section
3.3.1), does the same.
"""

from __future__ import annotations

import numpy as np

from nmt.data.aligner.word_pairs import Floats, Ints, WordPairs


class Agreement:
    """The positions of both directions' entries in one table of all word pairs.

    forward, backward: the same corpus as (sources, targets) and as (targets, sources).
    """

    def __init__(self, forward: WordPairs, backward: WordPairs) -> None:
        sources, targets = _lengths(forward)
        offsets = np.concatenate([[0], np.cumsum(sources * targets)])
        self._corpora = (forward, backward)
        self._size = int(offsets[-1])
        self._places = (_places(forward, offsets, (targets, np.ones_like(targets))),
                        _places(backward, offsets, (np.ones_like(targets), targets)))

    def multiply(self, forward: Floats, backward: Floats) -> None:
        """Replace both flat arrays of posteriors by their products, in place.

        NULL gets the rest of each word's probability, so that the sum is 1 again.
        """
        product = np.ones(self._size)
        directions = (forward, backward)
        is_word = [places >= 0 for places in self._places]
        for flat, places, words in zip(directions, self._places, is_word, strict=True):
            product[places[words]] *= flat[words]
        for flat, places, words in zip(directions, self._places, is_word, strict=True):
            flat[words] = product[places[words]]
        for corpus, flat in zip(self._corpora, directions, strict=True):
            for group in corpus.groups:
                rows = group.of(flat)
                rows[:, 0] = np.maximum(1.0 - rows[:, 1:].sum(1), 0.0)  # not -1e-17


def _lengths(corpus: WordPairs) -> tuple[Ints, Ints]:
    """The lengths of each pair's source and target; both are 0 if a side is empty."""
    sources, targets = np.zeros(corpus.number, np.int64), np.zeros(corpus.number, np.int64)
    for group in corpus.groups:
        sources[group.pairs] = group.width - 1
        for count in group.active:
            targets[group.pairs[:count]] += 1
    return sources, targets


def _places(corpus: WordPairs, offsets: Ints, strides: tuple[Ints, Ints]) -> Ints:
    """The index of each flat entry in a table of all (source word, target word); -1 for NULL.

    offsets: where each pair's table begins. strides: for each pair, the distance in the table
    between neighbouring words of a row, and between rows.
    """
    flat = np.full(len(corpus.types), -1, np.int64)
    along, across = strides
    for group in corpus.groups:
        places = group.of(flat)
        columns = np.arange(group.width - 1)
        for j, rows in enumerate(group.steps()):
            pairs = group.pairs[: group.active[j]]
            row_starts = offsets[pairs] + j * across[pairs]
            places[rows, 1:] = row_starts[:, None] + columns * along[pairs][:, None]
    return flat
