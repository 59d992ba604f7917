"""What an encoder reads of a sentence: words, or pieces, `</s>`, and factors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from nmt.data.batches import Batch, Side
from nmt.data.factors import Factors, packed, unpacked
from nmt.data.vocabulary import END, Vocabulary


@dataclass(frozen=True)
class SourceReader:
    """Between a source sentence's words and what is in a batch.

    Of words with factors, pairs hold numbers of both (`packed`), which a batch parts again.
    """

    vocabulary: Vocabulary
    factors: Factors
    ends: bool  # whether `</s>` is read after a sentence

    def forms(self, words: Sequence[str]) -> Sequence[str]:
        """The words as the vocabulary has them."""
        return [self.factors.form(word) for word in words] if self.factors.names else words

    def pieces(self, words: Sequence[str]) -> Sequence[str]:
        """The same, or the pieces that they are cut into."""
        return self.vocabulary.pieces(self.forms(words))

    def ids(self, pieces: Sequence[str]) -> list[int]:
        """The ids of pieces, and `</s>`."""
        ids = self.vocabulary.ids(pieces)
        return [*ids, END] if ids and self.ends else ids

    def numbers(self, words: Sequence[str], pieces: Sequence[str] | None = None) -> list[int]:
        """The ids of a sentence, each with its factors in one number where there are factors.

        pieces: those that its words were cut into, if they were already.
        """
        cut = self.pieces(words) if pieces is None else pieces
        ids = self.ids(cut)
        if not self.factors.names:
            return ids
        rows, more = self.factors.rows(words, cut), [0] * (len(ids) - len(cut))
        return packed(ids, [[*row, *more] for row in rows], self.factors.sizes)

    def sides(self, sources: tuple[Side, ...]) -> tuple[Side, ...]:
        """Sides of such numbers as words and factors."""
        if not self.factors.names:
            return sources
        return tuple(unpacked(side, self.factors.sizes) for side in sources)

    def batch(self, batch: Batch) -> Batch:
        """A batch of such numbers as words and factors."""
        return replace(batch, sources=self.sides(batch.sources))
