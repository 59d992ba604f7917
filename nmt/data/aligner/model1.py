"""IBM Model 1: each target word comes from any source word, wherever it stands."""

from __future__ import annotations

from typing import cast

import numpy as np

from nmt.data.aligner.word_pairs import Floats, WordPairs


def expectation(corpus: WordPairs, table: Floats) -> Floats:
    """The E-step: p(a_j = i | f, e) of every target word j and source word i, NULL among them.

    Source: Brown et al. (1993), section 4.1, equation 16's fraction:
    p(a_j = i | f, e) = t(f_j | e_i) / (t(f_j | e_0) + ... + t(f_j | e_I)).

    table: t(f | e) of each type. Returns flat posteriors, which are 1 over each target word.
    """
    flat = table[corpus.types]
    for group in corpus.groups:
        rows = cast(Floats, group.of(flat))
        rows /= rows.sum(1, keepdims=True)
    return flat


def best_links(corpus: WordPairs, posteriors: Floats) -> list[list[tuple[int, int]]]:
    """For each pair the links (source word, target word) of the most probable source words.

    A target word whose most probable source word is NULL has no link; ties go to the earlier word,
    NULL first. For Model 1 this is the best alignment; for the HMM it is posterior decoding (Liang
    et al. 2006, section 4).
    """
    links: list[list[tuple[int, int]]] = [[] for _ in range(corpus.number)]
    for group in corpus.groups:
        best = np.argmax(group.of(posteriors), axis=1)
        for j, rows in enumerate(group.steps()):
            for pair, i in zip(group.pairs.tolist(), best[rows].tolist(), strict=False):
                if i:
                    links[pair].append((i - 1, j))
    return links
