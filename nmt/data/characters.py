"""Words outside the vocabulary as characters (Luong, 2016, sections 5.3.2, 5.3.3 and 5.4.1).

A language has the 200 most frequent characters of its training words, counted over tokens. Marks
are part of their letter (`nmt.data.letters`). Ids are those of a `Vocabulary`: 0 is an unknown
character; 1, `</s>`, is the boundary that the thesis writes `_`, which ends each word and starts
its spelling.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from nmt.data.letters import letters
from nmt.data.vocabulary import END, UNKNOWN, Vocabulary

LIMIT = 200  # characters of a language (5.4.1)
GROUPS = 3  # the most groups of words of similar length: more groups save less than they cost
LEAST = 16  # the fewest words of a group, of several: below it matrix products are too small

Word = tuple[int, ...]  # the ids of a word's characters, without the boundary


def character_vocabulary(sentences: Iterable[Sequence[str]], limit: int = LIMIT) -> Vocabulary:
    """The two symbols and the `limit` most frequent characters of the sentences' words."""
    words = (word for sentence in sentences for word in sentence)
    return Vocabulary.build((letters(word) for word in words), max_size=limit + 2)


class Spelling:
    """Converts between words and the ids of their characters, for one language."""

    def __init__(self, words: Vocabulary, characters: Vocabulary) -> None:
        self._words, self._characters = words, characters
        self._known: dict[str, Word] = {}  # lets the tokens of a type share one tuple

    def rare(self, sentence: Sequence[str]) -> tuple[Word, ...]:
        """The characters of each unknown word of a sentence, in order."""
        ids = self._words.ids(sentence)
        return tuple(self.spelled(word) for word, i in zip(sentence, ids, strict=True)
                     if i == UNKNOWN)

    def spelled(self, word: str) -> Word:
        """The ids of a word's characters; an unknown letter is split from its marks."""
        if word not in self._known:
            characters = [character for letter in letters(word)
                          for character in ([letter] if self._is_known(letter) else letter)]
            self._known[word] = tuple(self._characters.ids(characters))
        return self._known[word]

    def _is_known(self, letter: str) -> bool:
        """Whether a letter with its marks has an id of its own."""
        return self._characters.ids([letter]) != [UNKNOWN]

    def word(self, ids: Iterable[int]) -> str:
        """The word that these characters spell."""
        return "".join(self._characters.tokens(ids))


class Spelled(NamedTuple):
    """The characters of words of similar length, on the host."""

    ids: np.ndarray  # (L, N) int64, a word in each column, ended by END, padded with END
    lengths: np.ndarray  # (N,) int64, characters including the END
    places: np.ndarray  # (M,) int64, where they stand: t B + b in the steps (S, B) of their side
    words: np.ndarray  # (M,) int64, which of the N words stands there; 0 .. N - 1 if by token


def unknown_steps(steps: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """(S, B) bool: which of the ids `steps` (S, B) are unknown words and not padding."""
    return np.asarray((steps == UNKNOWN) & (np.arange(len(steps))[:, None] < lengths))


def spelled_words(
    steps: np.ndarray, lengths: np.ndarray, rare: Sequence[Sequence[Word]], by_type: bool,
    least: int = LEAST,
) -> tuple[Spelled, ...]:
    """The characters of a side's unknown words, in groups of similar length.

    steps: (S, B) ids, of which the first `lengths` (B,) are real. rare: for each sentence the words
    whose id is UNKNOWN, from the first step on. by_type: whether equal words share a column, as on
    the source (5.3.2), or each token has its own (5.3.3). least: the fewest words of a group, where
    there are several groups. Raises ValueError unless there is a word for each unknown id.
    """
    B = steps.shape[1]
    b, t = np.nonzero(unknown_steps(steps, lengths).T)     # in the order of the sentences
    words = [word for sentence in rare for word in sentence]
    if len(words) != len(t):
        raise ValueError(f"rare: expected a word for each of {len(t)} unknown ids, got "
                         f"{len(words)}")
    return by_length(words, t * B + b, by_type, least)


def by_length(
    words: Sequence[Word], places: np.ndarray, by_type: bool, least: int = LEAST
) -> tuple[Spelled, ...]:
    """Words in at most GROUPS groups of equal size, the shortest first, so that little is padded.

    words: the words at the positions `places` (M,). Other arguments as in `spelled_words`.
    """
    if not words:
        return ()
    number = {word: n for n, word in enumerate(dict.fromkeys(words))}
    columns: Sequence[Word] = [*number] if by_type else words
    column_of = np.array([number[word] for word in words]) if by_type else np.arange(len(words))
    order = np.argsort([len(word) for word in columns], kind="stable")
    groups = min(GROUPS, max(1, len(columns) // least))
    return tuple(_group(columns, kept, column_of, places) for kept in np.array_split(order, groups))


def spelled_too(
    steps: np.ndarray, lengths: np.ndarray, groups: Sequence[Spelled], share: float,
    characters: Sequence[Word], rng: np.random.Generator, least: int = LEAST,
) -> tuple[Spelled, ...]:
    """The characters of a target's unknown words and of a share of its other words, by token.

    This is the author's `charTgtSample`: in training, some known words, drawn for each batch, are
    spelled too. The end marker is never spelled.

    steps: (T, B) ids, of which the first `lengths` (B,) are real. groups: the unknown words. share:
    of the known words, rounded down. characters: the characters of each word of the vocabulary.
    rng: host generator. least: as in `spelled_words`.
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
