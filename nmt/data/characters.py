"""Words outside the vocabulary as characters (Luong, 2016, sections 5.3.2, 5.3.3 and 5.4.1).

The characters of a language are the 200 most frequent in its training words, counted over tokens;
marks are part of their letter (`nmt.data.letters`).
Ids are a `Vocabulary`'s: 0 is an unknown character, 1 (`</s>`) is the boundary that the thesis
writes `_`, which ends each word and starts its spelling.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from nmt.data.letters import letters
from nmt.data.vocabulary import END, UNKNOWN, Vocabulary

LIMIT = 200  # characters a language (5.4.1)
GROUPS = 3  # most groups of words of similar length: more save less padding than they cost
LEAST = 16  # fewest words of a group, if there are several: fewer make matrix products too small

Word = tuple[int, ...]  # ids of its characters, without the boundary


def character_vocabulary(sentences: Iterable[Sequence[str]], limit: int = LIMIT) -> Vocabulary:
    """The `limit` most frequent characters of the sentences' words, beside the two symbols."""
    words = (word for sentence in sentences for word in sentence)
    return Vocabulary.build((letters(word) for word in words), max_size=limit + 2)


class Spelling:
    """Converts between words and the ids of their characters, for one language."""

    def __init__(self, words: Vocabulary, characters: Vocabulary) -> None:
        self._words, self._characters = words, characters
        self._known: dict[str, Word] = {}  # so that the tokens of a type share one tuple

    def rare(self, sentence: Sequence[str]) -> tuple[Word, ...]:
        """The characters of each word that has no id of its own, in order."""
        ids = self._words.ids(sentence)
        return tuple(self.spelled(word) for word, i in zip(sentence, ids, strict=True)
                     if i == UNKNOWN)

    def spelled(self, word: str) -> Word:
        """The characters of a word; of a letter that is not known, itself and its marks."""
        if word not in self._known:
            characters = [character for letter in letters(word)
                          for character in ([letter] if self._is_known(letter) else letter)]
            self._known[word] = tuple(self._characters.ids(characters))
        return self._known[word]

    def _is_known(self, letter: str) -> bool:
        """Whether a letter with its marks has an id of its own."""
        return self._characters.ids([letter]) != [UNKNOWN]

    def word(self, ids: Iterable[int]) -> str:
        """The word of these characters."""
        return "".join(self._characters.tokens(ids))


class Spelled(NamedTuple):
    """The characters of words of similar length, on the host."""

    ids: np.ndarray  # (L, N) int64, a word in each column, ended by END, padded with END
    lengths: np.ndarray  # (N,) int64, characters and the END
    places: np.ndarray  # (M,) int64, their positions: t B + b of the steps (S, B) of their side
    words: np.ndarray  # (M,) int64, which of the N words is there; 0 .. N - 1 if by token


def unknown_steps(steps: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Which of the ids `steps` (S, B) are unknown words, padding apart: (S, B) bool."""
    return np.asarray((steps == UNKNOWN) & (np.arange(len(steps))[:, None] < lengths))


def spelled_words(
    steps: np.ndarray, lengths: np.ndarray, rare: Sequence[Sequence[Word]], by_type: bool,
    least: int = LEAST,
) -> tuple[Spelled, ...]:
    """The characters of a side's unknown words, in groups of similar length.

    Arguments: steps (S, B), ids of which `lengths` (B,) are real; rare, for each sentence the words
    whose id is UNKNOWN, from the first step on; by_type, whether equal words share a column, as on
    the source (5.3.2), or each token has its own (5.3.3); least, the fewest words of a group if
    there are several.
    Raises ValueError for another number of words than the steps have.
    """
    B = steps.shape[1]
    b, t = np.nonzero(unknown_steps(steps, lengths).T)     # sentence by sentence
    words = [word for sentence in rare for word in sentence]
    if len(words) != len(t):
        raise ValueError(f"rare: expected a word for each of {len(t)} unknown ids, got "
                         f"{len(words)}")
    return by_length(words, t * B + b, by_type, least)


def by_length(
    words: Sequence[Word], places: np.ndarray, by_type: bool, least: int = LEAST
) -> tuple[Spelled, ...]:
    """Words in at most GROUPS groups of equal size, the shortest first: little is padded.

    Arguments: words, and the position of each, places (M,); the others as in `spelled_words`.
    """
    if not words:
        return ()
    number = {word: n for n, word in enumerate(dict.fromkeys(words))}
    columns: Sequence[Word] = [*number] if by_type else words
    column_of = np.array([number[word] for word in words]) if by_type else np.arange(len(words))
    order = np.argsort([len(word) for word in columns], kind="stable")
    groups = min(GROUPS, max(1, len(columns) // least))
    return tuple(_group(columns, kept, column_of, places)
                 for kept in np.array_split(order, groups))


def spelled_too(
    steps: np.ndarray, lengths: np.ndarray, groups: Sequence[Spelled], share: float,
    characters: Sequence[Word], rng: np.random.Generator, least: int = LEAST,
) -> tuple[Spelled, ...]:
    """The characters of a target's unknown words and of a share of its other words, by token.

    The author's `charTgtSample`: so many words of the vocabulary, drawn for each batch, are spelled
    in training too; the end marker is not.

    Arguments: steps (T, B), ids of which `lengths` (B,) are real; groups, the unknown words'; share
    of the other words, rounded down; characters, of each word of the vocabulary; rng: host
    generator; least, as in `spelled_words`.
    """
    real = np.arange(len(steps))[:, None] < lengths
    known = np.flatnonzero(real & (steps != UNKNOWN) & (steps != END))
    drawn = rng.choice(known, int(share * len(known)), replace=False)
    words = [tuple(group.ids[: group.lengths[word] - 1, word].tolist())
             for group in groups for word in group.words]
    words += [characters[id_] for id_ in steps.reshape(-1)[drawn]]
    places = np.concatenate([*(group.places for group in groups), drawn])
    return by_length(words, places.astype(np.int64), False, least)


def _group(
    columns: Sequence[Word], kept: np.ndarray, column_of: np.ndarray, places: np.ndarray
) -> Spelled:
    """A group: the words `kept` (N,) of `columns`, and their positions among `places` (M,)."""
    lengths = np.array([len(columns[k]) + 1 for k in kept], dtype=np.int64)
    ids = np.full((lengths.max(), len(kept)), END, dtype=np.int64)
    for n, k in enumerate(kept):
        ids[: len(columns[k]), n] = columns[k]
    new_columns = np.full(len(columns), -1)
    new_columns[kept] = np.arange(len(kept))
    words = new_columns[column_of]
    positions = np.flatnonzero(words >= 0)
    positions = positions[np.argsort(words[positions], kind="stable")]  # in the columns' order
    return Spelled(ids, lengths, places[positions], words[positions])
