"""IBM Model 1: each target word comes from any source word, wherever it stands."""

from __future__ import annotations

import numpy as np

from nmt.data.aligner.word_pairs import Floats, WordPairs


def uniform(corpus: WordPairs) -> Floats:
    """t(f | e) alike for all words f that stand beside e somewhere; (types,)."""
    return 1.0 / corpus.targets_of_source[corpus.source_of_type]


def expectation(corpus: WordPairs, table: Floats) -> Floats:
    """The E-step: p(a_j = i | f, e) of every target word j and source word i, NULL among them.

    Source: Brown et al. (1993), section 4.1, Model 1:
    p(a_j = i | f, e) = t(f_j | e_i) / (t(f_j | e_0) + ... + t(f_j | e_I)).

    table: t(f | e) of each type. Returns flat posteriors, whose sum over each target word is 1.
    """
    flat = table[corpus.types]
    for group in corpus.groups:
        rows = group.of(flat)
        rows /= rows.sum(1, keepdims=True)
    return flat


def maximisation(corpus: WordPairs, posteriors: Floats) -> Floats:
    """The M-step, of the HMM too: t(f | e) from expected counts c(f, e).

    Source: Brown et al. (1993), section 4.1: t(f | e) = c(f, e) / sum_f' c(f', e). A source
    word without any count keeps zeros.

    posteriors: flat. Returns t(f | e) of each type.
    """
    counts = corpus.sums(posteriors)
    totals = corpus.per_source(counts)
    totals[totals == 0.0] = 1.0
    return counts / totals[corpus.source_of_type]


def best_links(corpus: WordPairs, posteriors: Floats) -> list[list[tuple[int, int]]]:
    """For each pair the links (source word, target word) of the most probable source words.

    A target word whose most probable source word is NULL has no link; ties go to the earlier word,
    NULL first. For Model 1 this is the best alignment; for the HMM it is posterior decoding (Liang
    et al. 2006).
    """
    links: list[list[tuple[int, int]]] = [[] for _ in range(corpus.number)]
    for group in corpus.groups:
        best = np.argmax(group.of(posteriors), axis=1)
        for j, rows in enumerate(group.steps()):
            for pair, i in zip(group.pairs.tolist(), best[rows].tolist(), strict=False):
                if i:
                    links[pair].append((i - 1, j))
    return links
