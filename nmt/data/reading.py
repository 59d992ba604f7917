"""What an encoder reads of a sentence: words, or pieces, `</s>`, and factors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from nmt.data.batches import Batch, Side
from nmt.data.factors import Factors, packed, unpacked
from nmt.data.vocabulary import END, Vocabulary


@dataclass(frozen=True)
class SourceReader:
    """Converts the words of source sentences to the ids in a batch.

    With factors, pairs hold packed numbers (`packed`), which `batch` unpacks.
    """

    vocabulary: Vocabulary
    factors: Factors
    ends: bool  # whether `</s>` is read after a sentence

    def forms(self, words: Sequence[str]) -> Sequence[str]:
        """The forms of the words that are looked up in the vocabulary."""
        return [self.factors.form(word) for word in words] if self.factors.names else words

    def pieces(self, words: Sequence[str]) -> Sequence[str]:
        """The pieces of the words; the forms themselves if the vocabulary is of words."""
        return self.vocabulary.pieces(self.forms(words))

    def ids(self, pieces: Sequence[str]) -> list[int]:
        """The ids of pieces, and `</s>`."""
        ids = self.vocabulary.ids(pieces)
        return [*ids, END] if ids and self.ends else ids

    def numbers(self, words: Sequence[str], pieces: Sequence[str] | None = None) -> list[int]:
        """The ids of a sentence, each with its factors in one number where there are factors.

        pieces: of its words, if they are known already.
        """
        cut = self.pieces(words) if pieces is None else pieces
        ids = self.ids(cut)
        if not self.factors.names:
            return ids
        rows, more = self.factors.rows(words, cut), [0] * (len(ids) - len(cut))
        return packed(ids, [[*row, *more] for row in rows], self.factors.sizes)

    def sides(self, sources: tuple[Side, ...]) -> tuple[Side, ...]:
        """Unpack sides of packed numbers into words and factors."""
        if not self.factors.names:
            return sources
        return tuple(unpacked(side, self.factors.sizes) for side in sources)

    def batch(self, batch: Batch) -> Batch:
        """Unpack a batch of packed numbers into words and factors."""
        return replace(batch, sources=self.sides(batch.sources))
