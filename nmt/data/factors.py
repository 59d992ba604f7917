"""Factors of source words: features of a word, each with its own table of embeddings.

Source: Sennrich and Haddow (2016); Sennrich's slides: E_1(close) || E_2(adj). A factor is `case`,
the capitalisation of the word, which is then lower-cased; `place`, the position of a piece in its
word; or, under any other name, a tag that follows the word in the text, `Haus|NN` (`nmt factors`).
Tags stand in the order of the factors' names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count

import numpy as np

from backend.errors import UserError
from nmt.console.messages import several
from nmt.data.batches import Side
from nmt.data.bpe import word_places
from nmt.data.vocabulary import Vocabulary

CASE, PLACE = "case", "place"
CASES = ("none", "lower", "title", "upper", "mixed")  # none: for </s> and words without letters
PLACES = ("none", "whole", "begin", "inside", "end")
FIXED = {CASE: CASES, PLACE: PLACES}
BAR = "|"


def table_of(name: str) -> str:
    """The name of the vocabulary of a tag factor."""
    return f"factor_{name}"


def tagged(names: Sequence[str]) -> tuple[str, ...]:
    """The factors that are tags in the text."""
    return tuple(name for name in names if name not in FIXED)


def factor_tables(config: object) -> tuple[str, ...]:
    """The names of the vocabularies of tags that a model of this configuration needs."""
    return tuple(map(table_of, tagged(tuple(getattr(config, "factors", ())))))


def factor_sizes(config: object, vocabularies: Mapping[str, Vocabulary]) -> tuple[int, ...]:
    """The number of values of each factor of a configuration, in their order."""
    return Factors(tuple(getattr(config, "factors", ())), vocabularies).sizes


@dataclass(frozen=True)
class Factors:
    """Splits words of a text with factors into the forms that a vocabulary has, and ids of
    factors."""

    names: tuple[str, ...]
    vocabularies: Mapping[str, Vocabulary]  # vocabularies of the tags, by `table_of`

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of values of each factor."""
        return tuple(len(self.values(name)) for name in self.names)

    def values(self, name: str) -> Sequence[str]:
        """The values of a factor, in the order of their ids."""
        return FIXED[name] if name in FIXED else self.vocabularies[table_of(name)].words

    def parts(self, word: str) -> list[str]:
        """The word without its tags, and its tags. Raises UserError for a wrong number of tags."""
        number = len(tagged(self.names))
        parts = word.rsplit(BAR, number) if number else [word]
        if len(parts) != number + 1 or not all(parts):
            raise UserError(f"expected words with {several(number, 'tag')} behind {BAR} each "
                            f"({', '.join(tagged(self.names))}), got {word!r}")
        return parts

    def form(self, word: str) -> str:
        """The form of a word that the vocabulary has."""
        written = self.parts(word)[0]
        return written.lower() if CASE in self.names else written

    def rows(self, words: Sequence[str], pieces: Sequence[str]) -> list[list[int]]:
        """The ids of each factor, (F, pieces). The pieces of a word share its tags and its case."""
        places = word_places(pieces) if len(pieces) != len(words) else range(len(words))
        parts = [self.parts(word) for word in words]
        rows, tag = [], 0
        for name in self.names:
            if name == PLACE:
                rows.append(places_of(list(places)))
                continue
            if name == CASE:
                word_ids = [CASES.index(case_of(form)) for form, *_ in parts]
            else:
                tag += 1
                tags = [word_parts[tag] for word_parts in parts]
                word_ids = self.vocabularies[table_of(name)].ids(tags)
            rows.append([word_ids[place] for place in places])
        return rows


def case_of(word: str) -> str:
    """The capitalisation of a word, one of CASES."""
    letters = [letter for letter in word if letter.lower() != letter.upper()]
    if not letters:
        return "none"
    if all(letter == letter.lower() for letter in letters):
        return "lower"
    if len(letters) > 1 and all(letter == letter.upper() for letter in letters):
        return "upper"
    rest = letters[1:]
    first = letters[0] != letters[0].lower()
    return "title" if first and all(letter == letter.lower() for letter in rest) else "mixed"


def places_of(words: Sequence[int]) -> list[int]:
    """The id of each piece's position in its word. words: the index of each piece's word."""
    ids = []
    for k, word in enumerate(words):
        begins = k == 0 or words[k - 1] != word
        ends = k + 1 == len(words) or words[k + 1] != word
        name = {(True, True): "whole", (True, False): "begin", (False, True): "end"}.get(
            (begins, ends), "inside")
        ids.append(PLACES.index(name))
    return ids


# --- word and factors packed into one number, as in pairs of ids ----------------------------------


def packed(ids: Sequence[int], rows: Sequence[Sequence[int]], sizes: Sequence[int]) -> list[int]:
    """A number for each word with its factors, in mixed radix; the word's id is the highest digit.
    """
    numbers = list(ids)
    for row, size in zip(rows, sizes, strict=True):
        numbers = [number * size + factor for number, factor in zip(numbers, row, strict=True)]
    return numbers


def unpacked(side: Side, sizes: Sequence[int]) -> Side:
    """A side of packed numbers as words and factors. The factors of padding are 0."""
    numbers, rows = side.ids, []
    real = np.arange(len(numbers))[:, None] < side.lengths                 # (S, B)
    for size in reversed(sizes):
        rows.append(np.where(real, numbers % size, 0))
        numbers = np.where(real, numbers // size, numbers)
    return replace(side, ids=numbers, factors=np.stack(rows[::-1]))


def check_tags(
    factors: Factors, sentences: Iterable[Sequence[str]], name: str,
    numbers: Iterable[int] | None = None,
) -> None:
    """Raise UserError, with file and line, for a word with a wrong number of tags.

    name: the file's name. numbers: the numbers of the sentences' lines; None: 1, 2 and so on.
    """
    for number, words in zip(numbers or count(1), sentences, strict=False):
        try:
            for word in words:
                factors.parts(word)
        except UserError as error:
            raise UserError(f"{name}:{number}: {error}") from None
