"""Vocabularies of pieces of words, by byte pair encoding (`nmt.data.bpe`) or SentencePiece.

The codes cut a word into pieces. A piece outside the vocabulary is cut further, so that only
characters outside the training text are unknown. Symbols of annotated text (`nmt annotate`) stay
whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from backend.errors import UserError
from nmt.data.annotation import is_symbol, stays_whole
from nmt.data.bpe import Codes, Draw
from nmt.data.sentence_pieces import FIRST_BYTE, SentencePieces
from nmt.data.vocabulary import SPECIALS, Segmenter, Vocabulary, most_frequent

SUFFIX = ".codes"
DRAWS = 10  # random segmentations of each word, for the pieces that dropout makes


class PieceVocabulary(Vocabulary):
    """Pieces and their ids, and the codes that cut words into pieces.

    pieces: the pieces in the order of their ids, from id 2 on. Raises ValueError as `Vocabulary`.
    """

    codes: Segmenter

    def __init__(self, pieces: Iterable[str], codes: Segmenter) -> None:
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
        """The pieces of a sentence's words with BPE dropout. draw: the source of random numbers."""
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
        return self.codes.joined(pieces)

    def places(self, pieces: Sequence[str]) -> list[int]:
        """For each piece the index of its word, from 0."""
        return self.codes.places(pieces)

    def write(self, path: str | Path) -> None:
        """Write the pieces, and beside them the codes: `source.vocab` and `source.codes`."""
        super().write(path)
        self.codes.write(codes_of(path))


def codes_of(path: str | Path) -> Path:
    """The file of a vocabulary's codes."""
    return Path(path).with_suffix(SUFFIX)


def read_vocabulary(path: str | Path) -> Vocabulary:
    """Read a vocabulary; it is one of pieces if its codes lie beside it. Errors as
    `Vocabulary.read` and `read_codes`."""
    words = Vocabulary.read(path)
    if not codes_of(path).is_file():
        return words
    return PieceVocabulary(words.words[len(SPECIALS):], read_codes(codes_of(path)))


def read_codes(path: Path) -> Segmenter:
    """Read merges, as `Codes.read`, or a SentencePiece model. Raises UserError for any other file.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None
    if content[:1] != FIRST_BYTE:
        return Codes.read(path)
    try:
        return SentencePieces(content)
    except ValueError:
        raise UserError(f"{path}: expected merges or a model of SentencePiece, got neither"
                        ) from None


@dataclass(frozen=True)
class PieceOptions:
    """Options of a vocabulary of pieces: see `SubwordsConfig` and `DataConfig`."""

    threshold: int = 1
    dropout: float = 0.0
    min_frequency: int = 1
    max_size: int | None = None


def build(
    counts: Mapping[str, int], codes: Segmenter, options: PieceOptions, name: str
) -> PieceVocabulary:
    """The vocabulary of one side, from its training words and their counts.

    With dropout it also has the pieces of some random segmentations of each word (fixed seed).
    name: the side's, for the error. Raises UserError if no piece reaches the threshold.
    """
    counted = _counted(counts, lambda word: codes.cut(word))
    if options.dropout:
        draw = Random(0).random
        counted.update(_counted(dict.fromkeys(counts, 1), lambda word: [
            piece for _ in range(DRAWS) for piece in codes.cut(word, options.dropout, draw)]))
    known = {piece for piece, n in counted.items() if n >= options.threshold or is_symbol(piece)}
    if not known:
        raise UserError(f"data.subwords.threshold: expected pieces of the {name} that occur "
                        f"{options.threshold} times or more, got none; the most frequent occurs "
                        f"{max(counted.values(), default=0)} times")
    kept: Counter[str] = Counter()
    for piece, n in counted.items():
        is_kept = piece in known or is_symbol(piece)
        for finer_piece in [piece] if is_kept else codes.finer([piece], known):
            kept[finer_piece] += n
    return PieceVocabulary(most_frequent(kept, options.min_frequency, options.max_size, is_symbol),
                           codes)


def _counted(counts: Mapping[str, int], cut: Callable[[str], list[str]]) -> Counter[str]:
    """How often each piece occurs."""
    piece_counts: Counter[str] = Counter()
    for word, n in counts.items():
        for piece in [word] if stays_whole(word) else cut(word):
            piece_counts[piece] += n
    return piece_counts
