"""Vocabularies of pieces of words, by byte pair encoding (`nmt.data.bpe`).

A word is cut by the codes; a piece outside the vocabulary is cut further, so that only characters
that are not in the training text are unknown. Symbols of annotated text (`nmt annotate`) stay
whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from backend.errors import UserError
from nmt.data.annotation import is_symbol
from nmt.data.bpe import Codes, Draw, joined
from nmt.data.vocabulary import SPECIALS, Vocabulary, most_frequent

SUFFIX = ".codes"
DRAWS = 10  # of each word, for the pieces that dropout makes


class PieceVocabulary(Vocabulary):
    """Pieces and their ids, and the codes by which words are cut.

    pieces: in the order of their ids, from id 2 on. Raises ValueError as `Vocabulary`.
    """

    codes: Codes

    def __init__(self, pieces: Iterable[str], codes: Codes) -> None:
        super().__init__(pieces)
        self.codes = codes
        self._cut: dict[str, list[str]] = {}  # by word

    def pieces(self, words: Sequence[str]) -> list[str]:
        """The pieces of a sentence's words."""
        cut = self._cut
        for word in words:
            if word not in cut:
                cut[word] = self._pieces(word)
        return [piece for word in words for piece in cut[word]]

    def drawn(self, words: Sequence[str], dropout: float, draw: Draw) -> list[str]:
        """The pieces with BPE dropout; draw: the source of random numbers."""
        return [piece for word in words for piece in self._pieces(word, dropout, draw)]

    def _pieces(self, word: str, dropout: float = 0.0, draw: Draw | None = None) -> list[str]:
        if stays_whole(word):
            return [word]
        pieces = self.codes.cut(word, dropout, draw)
        ids = self._ids
        return pieces if all(piece in ids for piece in pieces) else self.codes.finer(pieces, ids)

    def _of(self, words: Iterable[str]) -> PieceVocabulary:
        """These pieces with the same codes."""
        return PieceVocabulary(words, self.codes)

    def whole(self, pieces: Sequence[str]) -> list[str]:
        """The words that pieces make."""
        return joined(pieces)

    def write(self, path: str | Path) -> None:
        """Write the pieces, and beside them the codes: `source.vocab` and `source.codes`."""
        super().write(path)
        self.codes.write(codes_of(path))


def codes_of(path: str | Path) -> Path:
    """The file of a vocabulary's codes."""
    return Path(path).with_suffix(SUFFIX)


def read_vocabulary(path: str | Path) -> Vocabulary:
    """A vocabulary; one of pieces where its codes lie beside it. Errors as `Vocabulary.read` and
    `Codes.read`."""
    words = Vocabulary.read(path)
    if not codes_of(path).is_file():
        return words
    return PieceVocabulary(words.words[len(SPECIALS):], Codes.read(codes_of(path)))


def stays_whole(word: str) -> bool:
    """Whether a word is a symbol, which is not cut."""
    return word[:1] == "<" and (word in SPECIALS or is_symbol(word))


@dataclass(frozen=True)
class PieceOptions:
    """Options of a vocabulary of pieces: see `SubwordsConfig` and `DataConfig`."""

    threshold: int = 1
    dropout: float = 0.0
    min_frequency: int = 1
    max_size: int | None = None


def build(
    counts: Mapping[str, int], codes: Codes, options: PieceOptions, name: str
) -> PieceVocabulary:
    """The vocabulary of one side, from its training words and how often each occurs.

    With dropout it also has the pieces of some random segmentations of each word (fixed seed).
    name: the side's, for the error. Raises UserError where no piece reaches the threshold.
    """
    found = _counted(counts, lambda word: codes.cut(word))
    if options.dropout:
        draw = Random(0).random
        found.update(_counted(dict.fromkeys(counts, 1), lambda word: [
            piece for _ in range(DRAWS) for piece in codes.cut(word, options.dropout, draw)]))
    known = {piece for piece, n in found.items() if n >= options.threshold or is_symbol(piece)}
    if not known:
        raise UserError(f"data.subwords.threshold: expected pieces of the {name} that occur "
                        f"{options.threshold} times or more, got none; the most frequent occurs "
                        f"{max(found.values(), default=0)} times")
    kept: Counter[str] = Counter()
    for piece, n in found.items():
        for part in [piece] if piece in known or is_symbol(piece) else codes.finer([piece], known):
            kept[part] += n
    return PieceVocabulary(most_frequent(kept, options.min_frequency, options.max_size, is_symbol),
                           codes)


def _counted(
    counts: Mapping[str, int], cut: Callable[[str], list[str]]
) -> Counter[str]:
    """How often each piece occurs."""
    found: Counter[str] = Counter()
    for word, n in counts.items():
        for piece in [word] if stays_whole(word) else cut(word):
            found[piece] += n
    return found
