"""Probabilities of word translations, p_lex(e | f): a lexicon, its file, and its rows for a batch.

A file has a line for each entry: source word, tab, target word, tab, probability. `nmt align
--lexicon` writes such a file (IBM Model 1 or the HMM). In memory there are only entries of known
words, by row of the source's vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from backend import Array
from backend.errors import UserError
from nmt.data.corpus import number_of, read_lines, split_words, write_lines
from nmt.data.vocabulary import SPECIALS, Vocabulary

MOST = 1.0 + 1e-5  # limit on the sum of a source word's probabilities, which are rounded in files


@dataclass(frozen=True, eq=False)
class Lexicon:
    """Entries by source word: those of word f are `starts[f]` .. `starts[f + 1]`."""

    starts: np.ndarray  # (V_s + 1,)
    words: np.ndarray  # (entries,), ids of target words, ascending for each source word
    p: np.ndarray  # (entries,), float64, above 0; a source word's sum to at most 1

    @classmethod
    def of(cls, entries: Mapping[tuple[int, int], float], source_size: int) -> Lexicon:
        """The lexicon of probabilities by (source id, target id)."""
        pairs = np.array(sorted(entries), np.int64).reshape(-1, 2)
        starts = np.searchsorted(pairs[:, 0], np.arange(source_size + 1))
        return cls(starts, pairs[:, 1], np.array([entries[f, e] for f, e in pairs.tolist()]))

    @property
    def size(self) -> int:
        """The number of source words, V_s."""
        return len(self.starts) - 1


class BatchEntries(NamedTuple):
    """The entries of a batch: U target words for each sentence, which include all words with an
    entry."""

    words: Array  # (B, U), ids of target words, distinct within a sentence
    p: Array  # (B, S, U), p_lex of each word given each source word; 0 on padding


def entries_of(lexicon: Lexicon, ids: np.ndarray, lengths: np.ndarray) -> BatchEntries:
    """The entries of the sentences ids (B, S) with lengths (B,), both on the host.

    A sentence with fewer than U target words is filled up with words of probability 0.
    """
    B, S = ids.shape
    real = np.arange(S) < lengths[:, None]
    starts = lexicon.starts[ids]                                           # (B, S)
    sizes = np.where(real, lexicon.starts[ids + 1] - starts, 0)            # (B, S)
    sentences = []
    for start, size in zip(starts, sizes, strict=True):
        places = np.repeat(start - np.cumsum(size) + size, size) + np.arange(size.sum())
        sentences.append((np.repeat(np.arange(S), size), places,
                          *np.unique(lexicon.words[places], return_inverse=True)))
    U = max(1, *(len(kinds) for _, _, kinds, _ in sentences))
    words, p = np.empty((B, U), np.int64), np.zeros((B, S, U))
    for b, (s, places, kinds, columns) in enumerate(sentences):
        n = len(kinds)
        words[b, :n], words[b, n:] = kinds, np.setdiff1d(np.arange(U), kinds)[: U - n]
        p[b, s, columns] = lexicon.p[places]
    return BatchEntries(words, p)


# --- files ----------------------------------------------------------------------------------------


def read_lexicon(path: str | Path, source: Vocabulary, target: Vocabulary) -> Lexicon:
    """Read a file. Entries of words outside the vocabularies are left out.

    Raises UserError, with file and line, for a line that is not two words and a probability in
    (0, 1] between tabs, for a repeated pair, and for a source word whose probabilities sum to more
    than 1. Raises UserError also if no entry is left.
    """
    entries: dict[tuple[int, int], float] = {}
    sums: dict[str, float] = {}
    line_of_pair: dict[tuple[str, str], int] = {}
    sides = [{word: i for i, word in enumerate(vocabulary.words) if i >= len(SPECIALS)}
             for vocabulary in (source, target)]
    for number, line in enumerate(read_lines(path), 1):
        columns = [split_words(column) for column in line.split("\t")]
        fits = [len(column) for column in columns] == [1, 1, 1]
        p = number_of(columns[2][0]) if fits else math.nan
        if not 0.0 < p <= 1.0:
            raise UserError(f"{path}:{number}: expected a source word, a target word and a "
                            f"probability above 0 and at most 1, between tabs, got {line!r}")
        (f,), (e,), _ = columns
        if (f, e) in line_of_pair:
            raise UserError(f"{path}:{number}: expected a new pair of words, got {f!r} and {e!r}, "
                            f"which are on line {line_of_pair[f, e]} already")
        line_of_pair[f, e], sums[f] = number, sums.get(f, 0.0) + p
        if sums[f] > MOST:
            raise UserError(f"{path}:{number}: expected probabilities of {f!r} of at most 1 "
                            f"together, got {sums[f]:.6g}")
        if f in sides[0] and e in sides[1]:
            entries[sides[0][f], sides[1][e]] = p
    if not entries:
        raise UserError(f"{path}: expected an entry with words of both vocabularies, got none "
                        f"among {len(line_of_pair)}")
    return Lexicon.of(entries, len(source))


def lexicon_lines(lexicon: Lexicon, source: Vocabulary, target: Vocabulary) -> list[str]:
    """The lines of a file with these entries. Reading them gives exactly the same probabilities."""
    f = np.repeat(np.arange(lexicon.size), np.diff(lexicon.starts)).tolist()
    return [f"{source.words[i]}\t{target.words[j]}\t{p!r}" for i, j, p in zip(
        f, lexicon.words.tolist(), lexicon.p.tolist(), strict=True)]


def write_entries(path: str | Path, entries: Iterable[tuple[str, str, float]], least: float) -> int:
    """Write the entries (source word, target word, p) whose p is at least `least`; return how many
    there are."""
    kept = [f"{f}\t{e}\t{p:.6g}" for f, e, p in entries if p >= least]
    write_lines(path, kept)
    return len(kept)
