"""Byte pair encoding (Sennrich, Haddow and Birch, 2016), in subword-nmt's file format.

A word starts as its characters, each with its marks (`nmt.data.letters`), and `</w>` at the last
one. Then merges join neighbouring symbols: of the merges that apply, the one that was learned first
is applied, until none applies. (In files of version 0.1 `</w>` is a separate symbol.) In text, all
pieces of a word except the last end in `@@`. BPE dropout (Provilkov et al., 2020, Algorithm 1)
skips each merge with some probability, drawn for each position and each pass over the word.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import redirect_stderr, suppress
from functools import lru_cache
from importlib.util import find_spec
from itertools import count, pairwise
from pathlib import Path

from backend.errors import UserError, missing
from nmt.console.messages import several
from nmt.console.progress import busy
from nmt.data.corpus import decode_lines, write_lines
from nmt.data.letters import is_mark, letters

HEADER, OLD_HEADER = "#version: 0.2", "#version: 0.1"
END_OF_WORD = "</w>"
CONTINUED = "@@"
LIBRARY = "subword_nmt"
PRIVATE = 0xF0000  # first of 65,534 characters that stand for nothing

Merge = tuple[str, str]
Draw = Callable[[], float]  # the next number from [0, 1)


class Codes:
    """Merges, in the order in which they were learned.

    If some merge joins a mark to the symbol before it, as in codes that subword-nmt learned by
    itself, words start as characters without their marks. Of equal merges the first counts, as in
    subword-nmt. end_apart: whether words start with `</w>` as a separate symbol, as in codes of
    version 0.1. Raises ValueError for a merge that is not two symbols without spaces.
    """

    def __init__(self, merges: Iterable[Merge], end_apart: bool = False) -> None:
        self.merges = tuple(merges)
        self.end_apart = end_apart
        self._ranks: dict[Merge, int] = {}
        symbols = (symbol for merge in self.merges for symbol in merge)
        self._cut = list if any(is_mark(symbol[0]) for symbol in symbols) else letters
        self._parts: dict[str, Merge] = {}  # result of a merge -> the first merge that makes it
        for rank, merge in enumerate(self.merges):
            if problem := _problem(merge):
                raise ValueError(f"merges: {problem}")
            self._ranks.setdefault(merge, rank)
            self._parts.setdefault("".join(merge), merge)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Codes) and self.lines() == other.lines()

    __hash__ = None  # type: ignore[assignment]

    def cut(self, word: str, dropout: float = 0.0, draw: Draw | None = None) -> list[str]:
        """The pieces of a word, as written in text.

        dropout: the probability that a merge is skipped. draw: the source of random numbers.
        """
        *before, last = self._cut(word)
        symbols = [*before, last, END_OF_WORD] if self.end_apart else [*before, last + END_OF_WORD]
        get = self._ranks.get
        while len(symbols) > 1:
            ranked = [(rank, place) for place, pair in enumerate(pairwise(symbols))
                      if (rank := get(pair)) is not None
                      and (draw is None or draw() >= dropout)]
            if not ranked:
                break
            symbols = self._merged(symbols, ranked)                          # (Sennrich bpe)
        return _written(symbols)

    def _merged(self, symbols: list[str], ranked: Sequence[tuple[int, int]]) -> list[str]:
        """The symbols after the merge of the lowest rank is applied at all its positions; ranked:
        (rank, position) of all merges that apply."""
        first = min(ranked)[0]
        result = "".join(self.merges[first])
        merged: list[str] = []
        end = 0
        for rank, place in ranked:
            if rank == first and place >= end:  # of three equal symbols the first two are merged
                merged += symbols[end:place]
                merged.append(result)
                end = place + 2
        return merged + symbols[end:]

    def finer(self, pieces: Sequence[str], known: Collection[str]) -> list[str]:
        """The pieces of a word, where each piece that is not known is split as its last merge
        joined it, again and again, down to characters: subword-nmt's vocabulary threshold."""
        return [finer_piece for piece in pieces for finer_piece in self._parts_of(piece, known)]

    def _parts_of(self, piece: str, known: Collection[str]) -> list[str]:
        """The piece itself if it is known, else the known pieces that it splits into."""
        ends_word = not piece.endswith(CONTINUED)
        merge = self._parts.get(piece + END_OF_WORD if ends_word else piece.removesuffix(CONTINUED))
        if ends_word and self.end_apart and (merge is None or merge[1] == END_OF_WORD):
            merge = self._parts.get(piece)
        if piece in known or merge is None:
            return [piece]
        left, right = merge
        right = right.removesuffix(END_OF_WORD) if ends_word else right + CONTINUED
        return self._parts_of(left + CONTINUED, known) + self._parts_of(right, known)

    def joined(self, pieces: Iterable[str]) -> list[str]:
        """The words that pieces make."""
        return joined(pieces)

    def places(self, pieces: Sequence[str]) -> list[int]:
        """For each piece the index of its word, from 0."""
        return word_places(pieces)

    def lines(self) -> list[str]:
        """The lines of the codes' file without the header of version 0.2; they identify the codes.
        """
        return [*[OLD_HEADER] * self.end_apart, *map(" ".join, self.merges)]

    def write(self, path: str | Path) -> None:
        """Write a file that `read`, and subword-nmt, reads."""
        write_lines(path, [*[HEADER] * (not self.end_apart), *self.lines()])

    @classmethod
    def read(cls, path: str | Path) -> Codes:
        """Read codes as subword-nmt does: UTF-8, `#version: 0.2` (version 0.1 without it), then
        lines of two symbols with a space between them. Blank lines at the end are ignored.

        Raises UserError, with file and line, for another version, and for a line that is no merge.
        """
        lines = [line.strip("\r ") for line in decode_lines(path)]
        header = lines[0] if lines and lines[0].startswith("#version") else ""
        if header not in ("", HEADER, OLD_HEADER):
            raise UserError(f"{path}:1: expected {HEADER}, or none of codes of version 0.1, got "
                            f"{header!r:.60}")
        while lines and not lines[-1]:
            lines.pop()
        if not lines:
            raise UserError(f"{path}:1: expected {HEADER}, got nothing")
        merges = []
        for number, line in enumerate(lines[1:] if header else lines, 2 if header else 1):
            merge = tuple(line.split(" "))
            if problem := _problem(merge):
                raise UserError(f"{path}:{number}: {problem}")
            merges.append((merge[0], merge[1]))
        return cls(merges, header != HEADER)


def _problem(merge: Sequence[str]) -> str | None:
    """Why a merge is invalid, or None."""
    if len(merge) != 2 or not all(merge) or any(set(" \n\r") & set(symbol) for symbol in merge):
        return f"expected two symbols with a space between them, got {' '.join(merge)!r:.60}"
    return None


def _written(symbols: Sequence[str]) -> list[str]:
    """Symbols as pieces of text: all but the last get `@@`, the last loses its `</w>`."""
    *before, last = symbols[:-1] if symbols[-1] == END_OF_WORD else symbols
    return [*(symbol + CONTINUED for symbol in before), last.removesuffix(END_OF_WORD)]


def joined(pieces: Iterable[str]) -> list[str]:
    """Join pieces into words; `@@` at the end of the last piece is dropped."""
    words, word = [], ""
    for piece in pieces:
        if piece.endswith(CONTINUED):
            word += piece.removesuffix(CONTINUED)
        else:
            words.append(word + piece)
            word = ""
    return [*words, word] if word else words


def word_places(pieces: Sequence[str]) -> list[int]:
    """For each piece the index of its word, from 0."""
    places, place = [], 0
    for piece in pieces:
        places.append(place)
        place += not piece.endswith(CONTINUED)
    return places


def require_library(option: str) -> None:
    """Raise UserError, naming the option, unless subword-nmt is installed."""
    if find_spec(LIBRARY) is None:
        raise UserError(f"{option}: {missing('subword-nmt', 'bpe')}, which learns merges")


def learn(counts: Mapping[str, int], merges: int, option: str) -> Codes:
    """Learn merges from words and their counts, by subword-nmt.

    Only pairs of symbols that occur twice are merged, so that there may be fewer merges than asked
    for. option: the option that needs the merges, for the error. Raises UserError without the
    library, and if no pair occurs twice.
    """
    require_library(option)
    words = {word: letters(word) for word in sorted(counts)
             if not set(word) & set(" \t\n") and not is_mark(word[0])}
    joint = sorted({letter for word in words.values() for letter in word
                    if len(letter) > 1 or letter == "\r"})
    single = dict(zip(joint, map(chr, count(PRIVATE)), strict=False))  # the library would cut them
    lines = tuple(f"{''.join(single.get(letter, letter) for letter in word)} {counts[name]}"
                  for name, word in words.items())
    marked = str.maketrans({substitute: letter for letter, substitute in single.items()})
    learned = ((left.translate(marked), right.translate(marked))
               for left, right in _learned(lines, merges).merges)
    codes = Codes(merge for merge in learned if "\r" not in "".join(merge))  # no file holds it
    if not codes.merges:
        raise UserError(f"{option}: expected words with a pair of characters that occurs twice, "
                        f"got none in {several(len(lines), 'different word')}")
    return codes


@lru_cache(maxsize=1)  # both sides of a joint vocabulary make the same call
def _learned(lines: tuple[str, ...], merges: int) -> Codes:
    """The codes that the library learns from lines of a word and its count."""
    from subword_nmt.learn_bpe import learn_bpe

    file = io.StringIO()
    with busy(f"learning {merges} merges"), redirect_stderr(io.StringIO()):  # no second bar
        with suppress(ValueError):  # max() of no pair at all, when all words are one symbol each
            learn_bpe(lines, file, merges, is_dict=True)
    lines_of_codes = (line.split(" ") for line in file.getvalue().split("\n")[1:-1])
    return Codes((left, right) for left, right in lines_of_codes)
