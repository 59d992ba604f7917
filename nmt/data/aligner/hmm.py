"""The HMM alignment model: a target word's source position depends on that of the word before.

Source: Vogel et al. (1996), with the empty word as in Och and Ney (2003). A state is the position
of the last aligned source word: i for the i-th word, 0 before the first link. From position k, a
target word is generated

    from NULL with probability p_0; the position stays k;
    or from word i with probability (1 - p_0) p(i | k, I); the position becomes i.

p(i | k, I) depends only on the jump i - k (Vogel), and is interpolated with 1 / I:

    p(i | k, I) = (1 - u) c(i - k) / sum_i' c(i' - k) + u / I.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nmt.data.aligner.word_pairs import Floats, Group, WordPairs

UNSEEN = 1e-6  # added to the count of each jump, so that no row of p(i | k, I) is 0 / 0


@dataclass(frozen=True)
class Jumps:
    """Relative weights c(d) of jumps, and the two fixed probabilities."""

    weights: Floats  # (2 I_max + 1,), of d = -I_max .. I_max
    null: float  # p_0
    uniform: float  # u

    def matrix(self, length: int) -> Floats:
        """(1 - p_0) p(i | k, I): rows k = 0 .. I, columns i = 1 .. I. Each row sums to 1 - p_0."""
        weights = self.weights[_places(length, len(self.weights))]
        jump = weights / weights.sum(1, keepdims=True)
        return (1.0 - self.null) * ((1.0 - self.uniform) * jump + self.uniform / length)


def even_jumps(corpus: WordPairs, null: float, uniform: float) -> Jumps:
    """The initial jumps, which all have the same weight."""
    longest = max((group.width - 1 for group in corpus.groups), default=0)
    return Jumps(np.ones(2 * longest + 1), null, uniform)


def expectation(corpus: WordPairs, table: Floats, jumps: Jumps) -> tuple[Floats, Jumps]:
    """The E-step by the forward-backward algorithm (Baum 1972), and the M-step of the jumps.

    table: t(f | e) of each type. Returns flat posteriors p(a_j = i | f, e), as Model 1 does, and
    new jumps, whose weights are the expected counts of jumps.
    """
    flat = table[corpus.types]
    counts = np.full_like(jumps.weights, UNSEEN)
    for group in corpus.groups:
        rows = group.of(flat)
        matrix = jumps.matrix(group.width - 1)
        before, scales = _alphas(group, rows, matrix, jumps.null)
        expected = _betas(group, rows, matrix, jumps.null, before, scales)
        places = _places(group.width - 1, len(counts))
        counts += np.bincount(places.ravel(), expected.ravel(), len(counts))
    return flat, Jumps(counts, jumps.null, jumps.uniform)


def _places(length: int, size: int) -> np.ndarray:
    """(I + 1, I): the index, among `size` weights, of the jump from k = 0 .. I to i = 1 .. I."""
    return np.arange(1, length + 1) - np.arange(length + 1)[:, None] + size // 2


def _alphas(
    group: Group, table: Floats, matrix: Floats, null: float
) -> tuple[Floats, list[Floats]]:
    """The forward recursion: p(position before a word | words before it), for each target word, and
    p(word | words before it).

    table: (rows, I + 1), t(f_j | NULL), t(f_j | e_1) .. of each row. Returns an array of the same
    shape, and an array (n_j, 1) for each target position.
    """
    before = np.empty_like(table)
    position = np.zeros((len(group.pairs), group.width))
    position[:, 0] = 1.0
    scales = []
    for rows in group.steps():
        t = table[rows]  # (n_j, I + 1)
        before[rows] = position = position[: len(t)]
        after = null * t[:, :1] * position
        after[:, 1:] += t[:, 1:] * (position @ matrix)
        scales.append(after.sum(1, keepdims=True))
        position = after / scales[-1]
    return before, scales


def _betas(
    group: Group, table: Floats, matrix: Floats, null: float, before: Floats, scales: list[Floats],
) -> Floats:
    """The backward recursion: writes the posteriors over `table`; returns the expected count of
    each jump, (I + 1, I)."""
    expected = np.zeros_like(matrix)
    later = np.empty((0, group.width))  # p(words after | position) / p(words after | words before)
    for rows, scale in zip(reversed(list(group.steps())), reversed(scales), strict=True):
        ending = np.ones((len(scale) - len(later), group.width))  # targets that end here
        later = np.concatenate([later, ending])  # (n_j, I + 1)
        t = table[rows] / scale
        word = t[:, 1:] * later[:, 1:]  # p(this word from i, and what follows)
        from_null = null * t[:, :1] * later
        expected += before[rows].T @ word
        table[rows, 0] = (before[rows] * from_null).sum(1)
        table[rows, 1:] = word * (before[rows] @ matrix)
        later = from_null + word @ matrix.T
    return expected * matrix
