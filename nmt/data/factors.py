"""Factors of source words: features beside the word itself, each with a table of embeddings.

Source: Sennrich and Haddow (2016); Sennrich's slides: E_1(close) || E_2(adj). A factor is `case`
(of the word as it is written; words are then lower-cased), `place` (of a piece in its word), or by
any other name a tag that the text has behind the word, `Haus|NN` (`nmt factors`), in that order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from backend.errors import UserError
from nmt.data.batches import Side
from nmt.data.bpe import word_places
from nmt.data.vocabulary import Vocabulary

CASE, PLACE = "case", "place"
CASES = ("none", "lower", "title", "upper", "mixed")  # none: </s>, and words without letters
PLACES = ("none", "whole", "begin", "inside", "end")
FIXED = {CASE: len(CASES), PLACE: len(PLACES)}
BAR = "|"


def table_of(name: str) -> str:
    """The vocabulary of a factor that the text has."""
    return f"factor_{name}"


def tagged(names: Sequence[str]) -> tuple[str, ...]:
    """Of factors those that the text has."""
    return tuple(name for name in names if name not in FIXED)


def factor_tables(config: object) -> tuple[str, ...]:
    """The vocabularies of factors that a model of this configuration needs."""
    return tuple(map(table_of, tagged(tuple(getattr(config, "factors", ())))))


def factor_sizes(config: object, vocabularies: Mapping[str, Vocabulary]) -> tuple[int, ...]:
    """Values of each factor of a configuration, in their order."""
    return Factors(tuple(getattr(config, "factors", ())), vocabularies).sizes


@dataclass(frozen=True)
class Factors:
    """Between words as a text has them, forms as a vocabulary has them, and factors."""

    names: tuple[str, ...]
    vocabularies: Mapping[str, Vocabulary]  # of those that the text has, by `table_of`

    @property
    def sizes(self) -> tuple[int, ...]:
        """Values of each."""
        return tuple(FIXED[name] if name in FIXED else len(self.vocabularies[table_of(name)])
                     for name in self.names)

    def parts(self, word: str) -> list[str]:
        """The form as it is written, and its tags. Raises UserError for another number of them."""
        number = len(tagged(self.names))
        found = word.rsplit(BAR, number) if number else [word]
        if len(found) != number + 1 or not all(found):
            raise UserError(f"expected words with {number} tags behind {BAR} each "
                            f"({', '.join(tagged(self.names))}), got {word!r}")
        return found

    def form(self, word: str) -> str:
        """What the vocabulary has of a word."""
        written = self.parts(word)[0]
        return written.lower() if CASE in self.names else written

    def rows(self, words: Sequence[str], pieces: Sequence[str]) -> list[list[int]]:
        """Ids of each factor, (F, pieces): of a word that is cut, the same for all its pieces."""
        places = word_places(pieces) if len(pieces) != len(words) else range(len(words))
        parts = [self.parts(word) for word in words]
        found, tag = [], 0
        for name in self.names:
            if name == PLACE:
                found.append(places_of(list(places)))
                continue
            if name == CASE:
                own = [CASES.index(case_of(one[0])) for one in parts]
            else:
                tag += 1
                own = self.vocabularies[table_of(name)].ids(one[tag] for one in parts)
            found.append([own[place] for place in places])
        return found


def case_of(word: str) -> str:
    """How a word is written, one of CASES."""
    letters = [letter for letter in word if letter.lower() != letter.upper()]
    if not letters:
        return "none"
    if all(letter == letter.lower() for letter in letters):
        return "lower"
    if len(letters) > 1 and all(letter == letter.upper() for letter in letters):
        return "upper"
    rest = letters[1:]
    first = letters[0] != letters[0].lower()
    return "title" if first and all(one == one.lower() for one in rest) else "mixed"


def places_of(words: Sequence[int]) -> list[int]:
    """Of pieces, by the word that each belongs to: where in it they stand."""
    found = []
    for k, word in enumerate(words):
        begins = k == 0 or words[k - 1] != word
        ends = k + 1 == len(words) or words[k + 1] != word
        name = {(True, True): "whole", (True, False): "begin", (False, True): "end"}.get(
            (begins, ends), "inside")
        found.append(PLACES.index(name))
    return found


# --- word and factors as one number, as pairs of ids hold them ------------------------------------


def packed(ids: Sequence[int], rows: Sequence[Sequence[int]], sizes: Sequence[int]) -> list[int]:
    """One number for a word and its factors: ids are the highest digit, sizes the bases below."""
    numbers = list(ids)
    for row, size in zip(rows, sizes, strict=True):
        numbers = [number * size + own for number, own in zip(numbers, row, strict=True)]
    return numbers


def unpacked(side: Side, sizes: Sequence[int]) -> Side:
    """A side of such numbers as words and factors; on padding all factors are 0."""
    numbers, rows = side.ids, []
    real = np.arange(len(numbers))[:, None] < side.lengths                 # (S, B)
    for size in reversed(sizes):
        rows.append(np.where(real, numbers % size, 0))
        numbers = np.where(real, numbers // size, numbers)
    return replace(side, ids=numbers, factors=np.stack(rows[::-1]))
