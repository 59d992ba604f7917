"""The mapping between words and integer ids."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain, repeat
from pathlib import Path
from typing import Protocol

from backend.errors import UserError
from nmt.data.bpe import Draw
from nmt.data.corpus import decode_lines, write_lines

UNKNOWN, END = 0, 1
SPECIALS = ("<unk>", "</s>")  # ids 0 and 1; padding has no symbol, since batches have lengths


class Segmenter(Protocol):
    """Cuts words into pieces: `nmt.data.bpe.Codes`, `nmt.data.sentence_pieces.SentencePieces`."""

    def cut(self, word: str, dropout: float = 0.0, draw: Draw | None = None) -> list[str]: ...
    def finer(self, pieces: Sequence[str], known: Collection[str]) -> list[str]: ...
    def joined(self, pieces: Iterable[str]) -> list[str]: ...
    def places(self, pieces: Sequence[str]) -> list[int]: ...
    def lines(self) -> list[str]: ...
    def write(self, path: str | Path) -> None: ...


class Vocabulary:
    """Words and their ids: `<unk>` is 0, `</s>` is 1, and the words of the corpus follow.

    `</s>` ends a sentence and also starts the decoder (the `_` of the thesis's algorithms). A word
    of the corpus that is spelt `</s>` or `<unk>` is an unknown word.

    words: the words of the corpus, in the order of their ids, from id 2 on, without the two
    symbols. Raises ValueError for a repeated word, a symbol, and a word with white space.
    """

    codes: Segmenter | None = None  # cuts words into pieces; None: a vocabulary of whole words

    def __init__(self, words: Iterable[str]) -> None:
        self.words = (*SPECIALS, *words)
        self._ids = {word: i for i, word in enumerate(self.words) if i >= len(SPECIALS)}
        for place, word in enumerate(self.words[len(SPECIALS) :], len(SPECIALS)):
            problem = _problem(word)
            if problem is None and self._ids[word] != place:
                problem = "appears twice"
            if problem:
                raise ValueError(f"words: expected distinct words, got {word!r}, which {problem}")

    @classmethod
    def build(
        cls, sentences: Iterable[Sequence[str]], min_frequency: int = 1,
        max_size: int | None = None, always: Callable[[str], bool] = lambda word: False,
    ) -> Vocabulary:
        """The most frequent words of a tokenised corpus; ties are in the order of code points.

        sentences: lists of words. min_frequency: rarer words are left out. max_size: the largest
        size of the vocabulary, including the two symbols; None for no limit. always: whether a word
        stays whatever its frequency; max_size does not count such words.
        """
        counts = Counter(chain.from_iterable(sentences))
        return cls(most_frequent(counts, min_frequency, max_size, always))

    def extended(self, words: Iterable[str]) -> Vocabulary:
        """The vocabulary with further words added at its end."""
        known = set(self.words)
        added = [word for word in words if word not in known]
        return self._of([*self.words[len(SPECIALS):], *added])

    def _of(self, words: Iterable[str]) -> Vocabulary:
        """A vocabulary of the same kind."""
        return Vocabulary(words)

    def __len__(self) -> int:
        return len(self.words)

    def ids(self, tokens: Iterable[str]) -> list[int]:
        """The ids of words; 0 for a word outside the vocabulary. No `</s>` is added."""
        return list(map(self._ids.get, tokens, repeat(UNKNOWN)))

    def pieces(self, words: Sequence[str]) -> Sequence[str]:
        """The units that have ids: here the words themselves (`nmt.data.pieces` cuts them)."""
        return words

    def whole(self, pieces: Sequence[str]) -> list[str]:
        """The words that the pieces make."""
        return list(pieces)

    def places(self, pieces: Sequence[str]) -> list[int]:
        """The index of each piece's word."""
        return list(range(len(pieces)))

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """The words of ids. Raises ValueError for an id outside [0, size)."""
        return [self._word(int(i)) for i in ids]

    def _word(self, i: int) -> str:
        if not 0 <= i < len(self.words):
            raise ValueError(f"ids: expected ids in [0, {len(self.words)}), got {i}")
        return self.words[i]

    def write(self, path: str | Path) -> None:
        """Write one word per line, UTF-8, symbols first. On failure the old file is unchanged."""
        write_lines(path, self.words)

    @classmethod
    def read(cls, path: str | Path) -> Vocabulary:
        """Read a file that `write` made. Lines end at "\\n" only, and nothing is trimmed.

        Raises UserError, with file and line, if the file is missing or not UTF-8, does not begin
        with the two symbols, or has a line that is empty, repeated or not one word.
        """
        words = decode_lines(path)
        for number, symbol in enumerate(SPECIALS, 1):
            word = words[number - 1] if len(words) >= number else "the end of the file"
            if word != symbol:
                raise UserError(f"{path}:{number}: expected {symbol} on this line, got {word!r}")
        first_line: dict[str, int] = {}
        for number, word in enumerate(words[len(SPECIALS) :], len(SPECIALS) + 1):
            problem = _problem(word)
            if problem is None and word in first_line:
                problem = f"is on line {first_line[word]} already"
            if problem:
                raise UserError(f"{path}:{number}: expected a new word, got {word!r}, {problem}")
            first_line[word] = number
        return cls(words[len(SPECIALS) :])


def most_frequent(
    counts: Mapping[str, int], min_frequency: int, max_size: int | None,
    always: Callable[[str], bool],
) -> list[str]:
    """The words that `Vocabulary.build` keeps, from their counts in the corpus."""
    kept = {word for word in counts if word not in SPECIALS and always(word)}
    frequent = [w for w, n in counts.items()
                if n >= min_frequency and w not in SPECIALS and w not in kept]

    def by_frequency(word: str) -> tuple[int, str]:
        return -counts[word], word

    frequent.sort(key=by_frequency)
    kept.update(frequent if max_size is None else frequent[: max_size - len(SPECIALS)])
    return sorted(kept, key=by_frequency)


def _problem(word: str) -> str | None:
    """Why a word is not allowed in a vocabulary, or None."""
    if not word:
        return "is empty"
    if any(space in word for space in " \t\n"):
        return "holds a space, tab or line end"
    return "is a reserved symbol" if word in SPECIALS else None
