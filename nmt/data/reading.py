"""Sentences as encoders read them: words or pieces, `</s>` and factors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from nmt.data.batches import Batch, Side, SourceIds
from nmt.data.bpe import Draw
from nmt.data.factors import Factors, packed, unpacked
from nmt.data.pieces import PieceVocabulary
from nmt.data.sources import joined, parts
from nmt.data.vocabulary import END, SPECIALS, UNKNOWN, Vocabulary


@dataclass(frozen=True)
class SourceReader:
    """Converts the words of source sentences to the ids of a batch.

    With factors, sentences are stored as packed numbers (`packed`), which `batch` unpacks.
    """

    vocabulary: Vocabulary
    factors: Factors
    ends: bool  # whether the encoder reads `</s>` after a sentence

    def forms(self, words: Sequence[str]) -> Sequence[str]:
        """The forms of the words that the vocabulary has."""
        return [self.factors.form(word) for word in words] if self.factors.names else words

    def pieces(self, words: Sequence[str]) -> Sequence[str]:
        """The pieces of the words; with a vocabulary of words, their forms."""
        return self.vocabulary.pieces(self.forms(words))

    def drawn(self, words: Sequence[str], dropout: float, draw: Draw) -> Sequence[str]:
        """The pieces of the words with BPE dropout. draw: the source of random numbers."""
        assert isinstance(self.vocabulary, PieceVocabulary)
        return self.vocabulary.drawn(self.forms(words), dropout, draw)

    def unknown(self, words: Sequence[str]) -> list[str]:
        """The words or pieces that are not in the vocabulary."""
        cut = self.pieces(words)
        ids = self.vocabulary.ids(cut)
        return [piece for piece, i in zip(cut, ids, strict=True) if i == UNKNOWN]

    def columns(self, words: Sequence[str]) -> list[str]:
        """The words or pieces that the columns of an alignment with a sentence stand for."""
        cut = self.pieces(words)
        return [*cut, SPECIALS[END]] if self.ends else list(cut)

    def ids(self, pieces: Sequence[str]) -> list[int]:
        """The ids of pieces, and `</s>`."""
        ids = self.vocabulary.ids(pieces)
        return [*ids, END] if ids and self.ends else ids

    def numbers(
        self, words: Sequence[str], pieces: Sequence[str] | None = None
    ) -> list[int] | SourceIds:
        """The ids of a sentence; with factors, each id is packed with its factors in one number.

        pieces: of the words, if they are known already.
        """
        cut = self.pieces(words) if pieces is None else pieces
        ids = self.ids(cut)
        if not self.factors.names:
            return ids
        return packed(ids, self.rows(words, cut), self.factors.sizes)

    def rows(self, words: Sequence[str], pieces: Sequence[str]) -> list[list[int]]:
        """The ids of each factor of a sentence in pieces; the factors of `</s>` are 0."""
        zeros = [0] * (len(self.ids(pieces)) - len(pieces))
        return [[*row, *zeros] for row in self.factors.rows(words, pieces)]

    def sides(self, sources: tuple[Side, ...]) -> tuple[Side, ...]:
        """Unpack sides of packed numbers into words and factors."""
        if not self.factors.names:
            return sources
        return tuple(unpacked(side, self.factors.sizes) for side in sources)

    def batch(self, batch: Batch) -> Batch:
        """Unpack a batch of packed numbers into words and factors."""
        return replace(batch, sources=self.sides(batch.sources))


@dataclass(frozen=True)
class SourcesReader:
    """As `SourceReader`, for sentences in several sources (`nmt.data.sources`) with a reader each.
    """

    readers: tuple[SourceReader, ...]

    def pieces(self, words: Sequence[str]) -> Sequence[str]:
        """The pieces of each source, with a boundary between them."""
        return joined([reader.pieces(source_words) for reader, source_words in self._each(words)])

    def drawn(self, words: Sequence[str], dropout: float, draw: Draw) -> Sequence[str]:
        """As `SourceReader.drawn`."""
        return joined([reader.drawn(source_words, dropout, draw)
                       for reader, source_words in self._each(words)])

    def unknown(self, words: Sequence[str]) -> list[str]:
        """As `SourceReader.unknown`, for all sources."""
        return [word for reader, source_words in self._each(words)
                for word in reader.unknown(source_words)]

    def columns(self, words: Sequence[str]) -> list[str]:
        """As `SourceReader.columns`, with a boundary between sources."""
        return joined([reader.columns(source_words) for reader, source_words in self._each(words)])

    def ids(self, pieces: Sequence[str]) -> list[int]:
        """The ids of pieces of each source, `</s>` at the boundary."""
        return [i for reader, source_pieces in self._each(pieces)
                for i in (END, *reader.ids(source_pieces))][1:]

    def numbers(self, words: Sequence[str], pieces: Sequence[str] | None = None) -> SourceIds:
        """The ids of a sentence in each source; pieces as in `SourceReader.numbers`."""
        cut = self.pieces(words) if pieces is None else pieces
        return SourceIds(reader.ids(source_words) for reader, source_words in self._each(cut))

    def sides(self, sources: tuple[Side, ...]) -> tuple[Side, ...]:
        """The sides unchanged: several sources have no factors."""
        return sources

    def batch(self, batch: Batch) -> Batch:
        """The batch unchanged."""
        return batch

    def _each(self, words: Sequence[str]) -> list[tuple[SourceReader, Sequence[str]]]:
        """Each reader with its source's words."""
        return list(zip(self.readers, parts(words) if words else [[]] * len(self.readers),
                        strict=True))
