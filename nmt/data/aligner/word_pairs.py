"""The arrays of a parallel corpus for EM: an entry for each source and target word of a pair.

The models of this package have a distribution over source words for each target word of each
sentence pair. It is a row of I + 1 entries: NULL, the empty word of Brown et al. (1993), in column
0, then the I source words. Pairs whose sources have the same length form a group, so that nothing
is padded. The rows of the first target words of all pairs of a group come first, then those of the
second words, for the pairs that have one, and so on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Words = Sequence[Sequence[str]]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

NULL = 0  # id of the empty source word


@dataclass(frozen=True)
class Group:
    """Sentence pairs with sources of I words; those with the longest targets come first."""

    pairs: Ints  # (n,) their indices in the corpus
    start: int  # index of their first entry in the flat arrays
    width: int  # I + 1
    active: list[int]  # how many pairs have a word at each target position; non-increasing

    @property
    def rows(self) -> int:
        """The number of target words of all pairs."""
        return sum(self.active)

    def of(self, flat: NDArray[Any]) -> NDArray[Any]:
        """This group's entries of a flat array, as a view (rows, I + 1)."""
        return flat[self.start : self.start + self.rows * self.width].reshape(-1, self.width)

    def steps(self) -> Iterator[slice]:
        """The rows of each target position, from the first."""
        start = 0
        for count in self.active:
            yield slice(start, start + count)
            start += count


@dataclass(frozen=True)
class WordPairs:
    """A corpus as groups, and its types: the distinct (source word, target word) that occur
    together."""

    groups: list[Group]
    types: NDArray[np.int32]  # flat: the type of each entry
    source_of_type: Ints  # (types,) the source word of each type; may be NULL
    target_of_type: Ints  # (types,) its target word, numbered from 0 in order of appearance
    targets_of_source: Floats  # (source words,) number of types of each source word
    number: int  # number of sentence pairs, including those with an empty side

    def sums(self, weights: Floats) -> Floats:
        """Weights of the flat entries, added up for each type."""
        return _sums(self.types, weights, len(self.source_of_type))

    def per_source(self, counts: Floats) -> Floats:
        """Counts of types, added up for each source word."""
        return _sums(self.source_of_type, counts, len(self.targets_of_source))


def _sums(places: NDArray[Any], weights: Floats, size: int) -> Floats:
    """Weights summed by index, as floats: without any weight, `bincount` gives integers."""
    return np.bincount(places, weights, size).astype(np.float64, copy=False)


def word_pairs(sources: Words, targets: Words) -> WordPairs:
    """The arrays of a corpus; pairs with an empty side have no entries."""
    x, _ = _ids(sources, first=NULL + 1)
    y, vocabulary = _ids(targets, first=0)
    lengths: dict[int, list[int]] = {}
    for number, (source, target) in enumerate(zip(x, y, strict=True)):
        if source and target:
            lengths.setdefault(len(source), []).append(number)
    groups: list[Group] = []
    keys: list[Ints] = []
    start = 0
    for length in sorted(lengths):
        numbers = sorted(lengths[length], key=lambda n: -len(y[n]))
        group, group_keys = _group(numbers, x, y, start, vocabulary)
        groups.append(group)
        keys += group_keys
        start += group.rows * group.width
    flat = np.concatenate([np.empty(0, np.int64), *keys])
    distinct, types = np.unique(flat, return_inverse=True)
    source_of_type = distinct // max(vocabulary, 1)
    return WordPairs(groups, types.astype(np.int32), source_of_type, distinct % max(vocabulary, 1),
                     np.bincount(source_of_type).astype(np.float64), len(x))


def _ids(sentences: Words, first: int) -> tuple[list[list[int]], int]:
    """Sentences as ids, which count from `first` in order of appearance, and the number of words.
    """
    known: dict[str, int] = {}
    return [[known.setdefault(word, len(known) + first) for word in sentence]
            for sentence in sentences], len(known)


def _group(
    numbers: list[int], x: list[list[int]], y: list[list[int]], start: int, vocabulary: int
) -> tuple[Group, list[Ints]]:
    """A group, and the keys (n_j * (I + 1),) of its entries for each target position j."""
    source = np.array([[NULL, *x[n]] for n in numbers], np.int64)  # (n, I + 1)
    active = [sum(len(y[n]) > j for n in numbers) for j in range(len(y[numbers[0]]))]
    keys = []
    for j, count in enumerate(active):
        target = np.array([y[n][j] for n in numbers[:count]], np.int64)  # (n_j,)
        keys.append((source[:count] * vocabulary + target[:, None]).ravel())
    return Group(np.array(numbers, np.int64), start, source.shape[1], active), keys
