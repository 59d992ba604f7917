"""Pieces of raw text by SentencePiece (Kudo and Richardson, 2018; a unigram model, Kudo, 2018).

Words are separated by spaces. The first piece of a word begins with `▁`, so that the pieces restore
the text. A model may have a normalisation of its own, which its file describes; a model that is
learned here has none.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from importlib.util import find_spec
from itertools import accumulate
from pathlib import Path
from typing import Any

from backend.errors import UserError, missing
from nmt.console.progress import busy
from nmt.data.annotation import stays_whole
from nmt.data.bpe import Draw
from nmt.data.corpus import LONGEST
from nmt.files import write_file

LIBRARY = "sentencepiece"
SPACE = "\u2581"
FIRST_BYTE = b"\n"  # of a model's file: the first field of its message


class SentencePieces:
    """A SentencePiece model with the methods of `nmt.data.bpe.Codes`.

    model: the bytes of its file. Raises ValueError for bytes that are no model, and UserError
    without the library.
    """

    def __init__(self, model: bytes) -> None:
        require_library("a vocabulary of SentencePiece")
        from sentencepiece import SentencePieceProcessor

        self.model = model
        try:
            self._processor: Any = SentencePieceProcessor(model_proto=model)
        except RuntimeError:
            raise ValueError("model: expected a model of SentencePiece") from None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SentencePieces) and self.model == other.model

    __hash__ = None  # type: ignore[assignment]

    def cut(self, word: str, dropout: float = 0.0, draw: Draw | None = None) -> list[str]:
        """The pieces of a word. Dropout is not supported (`SubwordsConfig` refuses it)."""
        pieces: list[str] = self._processor.encode(word, out_type=str)
        return pieces or [SPACE]  # for a word that the model's normalisation removes

    def finer(self, pieces: Sequence[str], known: Collection[str]) -> list[str]:
        """The pieces, with those that are not known cut into characters."""
        return [finer_piece for piece in pieces
                for finer_piece in ([piece] if piece in known else piece)]

    def joined(self, pieces: Iterable[str]) -> list[str]:
        """The words that pieces make."""
        words: list[str] = []
        for piece in pieces:
            if _begins(piece) or not words:
                words.append(piece.removeprefix(SPACE))
            else:
                words[-1] += piece
        return words

    def places(self, pieces: Sequence[str]) -> list[int]:
        """For each piece the index of its word, from 0."""
        return list(accumulate((_begins(piece) for piece in pieces[1:]), initial=0))

    def lines(self) -> list[str]:
        """A hash that identifies the model."""
        return [hashlib.sha256(self.model).hexdigest()]

    def write(self, path: str | Path) -> None:
        """Write a file that SentencePiece reads."""
        write_file(path, [self.model])


def _begins(piece: str) -> bool:
    """Whether a word begins with a piece."""
    return piece.startswith(SPACE) or stays_whole(piece)


def require_library(option: str) -> None:
    """Raise UserError, naming the option, unless the library is installed."""
    if find_spec(LIBRARY) is None:
        raise UserError(f"{option}: {missing(LIBRARY, LIBRARY)}")


def learn(counts: Mapping[str, int], size: int, option: str) -> SentencePieces:
    """Learn a unigram model of at most `size` pieces from words and their counts.

    option: the option that needs the model, for the error. Raises UserError without the library, if
    there is nothing to learn, and if there are more characters than pieces.
    """
    require_library(option)
    try:
        with busy(f"learning {size} pieces"):
            return SentencePieces(_learned(tuple(f"{word}\t{counts[word]}"
                                                 for word in sorted(counts)), size))
    except RuntimeError as error:
        reason = str(error).rpartition("] ")[2] or "it learned nothing"
        raise UserError(f"{option}: expected text that SentencePiece learns {size} pieces from, "
                        f"got: {reason}") from None


@lru_cache(maxsize=1)  # both sides of a joint vocabulary make the same call
def _learned(lines: tuple[str, ...], size: int) -> bytes:
    """The bytes of the model that the library learns from lines of a word and its count."""
    from sentencepiece import SentencePieceTrainer

    model = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter(lines), input_format="tsv", model_writer=model, vocab_size=size,
        hard_vocab_limit=False, model_type="unigram", character_coverage=1.0,
        normalization_rule_name="identity", num_threads=1, minloglevel=2,
        max_sentence_length=LONGEST)
    return model.getvalue()
