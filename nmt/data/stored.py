"""Sentences that need not fit into memory: their text is on disk, an index of offsets in memory.

A corpus is read once, from the first line to the last, so that it may come through a pipe. Training
reads single sentences from the stored text by index. Memory holds 12 bytes for each sentence, and
the last block of text. A text of one block needs no file.
"""

from __future__ import annotations

import os
import tempfile
from abc import abstractmethod
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice, pairwise
from operator import itemgetter
from typing import IO, Any, TypeVar, overload

import numpy as np

from backend.errors import UserError

T = TypeVar("T")
BLOCK = 1 << 25  # bytes of text that are kept in memory before they are written to disk
IN_ORDER = 1 << 8  # sentences read at a time when all are read in order
Words = list[str]
Pair = tuple[Words, Words]  # source words, target words


class Lazy(Sequence[T]):
    """A sequence whose items are made on demand. Sequences with equal items are equal."""

    @abstractmethod
    def item(self, place: int) -> T:
        """The item at a position. Raises IndexError if there is none."""

    @overload
    def __getitem__(self, place: int) -> T: ...
    @overload
    def __getitem__(self, place: slice) -> list[T]: ...
    def __getitem__(self, place: int | slice) -> T | list[T]:
        if isinstance(place, slice):
            return self.items(range(*place.indices(len(self))))
        return self.item(place)

    def items(self, places: range) -> list[T]:
        """The items at positions, all of which exist."""
        return [self.item(place) for place in places]

    def __eq__(self, other: object) -> bool:
        return (isinstance(other, Sequence) and len(self) == len(other)
                and all(item == other_item for item, other_item in zip(self, other, strict=True)))

    __hash__ = None  # type: ignore[assignment]


class Mapped(Lazy[T]):
    """A function applied to the items of another sequence, anew at each access."""

    def __init__(self, function: Callable[[Any], T], items: Sequence[Any]) -> None:
        self._function, self._items = function, items

    def __len__(self) -> int:
        return len(self._items)

    def item(self, place: int) -> T:
        return self._function(self._items[place])


class StoredSentences(Lazy[Words]):
    """Tokenised sentences, in the order in which they were appended.

    A sentence is stored as its words with spaces between, so that no word may be empty or hold a
    space. Text beyond one block is in an unnamed file in the directory of temporary files.
    """

    def __init__(self, sentences: Iterable[Words] = ()) -> None:
        self._ends = array("q", [0])  # bytes of text up to the end of each sentence
        self._lengths = array("i")  # words of each sentence
        self._file: IO[bytes] | None = None
        self._descriptor = -1  # of the file
        self._block, self._before = bytearray(), 0  # the last block, and the bytes before it
        for words in sentences:
            self.append(words)

    def append(self, words: Words) -> None:
        """Append a sentence. Raises UserError if it cannot be written to disk."""
        self._block += " ".join(words).encode()
        self._ends.append(self._before + len(self._block))
        self._lengths.append(len(words))
        if len(self._block) >= BLOCK:
            self._store()

    def _store(self) -> None:
        """Move the block to disk."""
        try:
            self._file = self._file or tempfile.TemporaryFile(buffering=0)
            self._descriptor = self._file.fileno()
            remaining = memoryview(self._block)
            while remaining:
                remaining = remaining[self._file.write(remaining):]
        except OSError as error:
            raise UserError(f"{tempfile.gettempdir()}: cannot store the sentences here: "
                            f"{error.strerror}; set TMPDIR to another directory") from error
        self._before += len(self._block)
        self._block = bytearray()

    @property
    def lengths(self) -> np.ndarray:
        """(N,) int32, the words of each sentence."""
        return np.array(self._lengths, dtype=np.int32)

    def __len__(self) -> int:
        return len(self._lengths)

    def __iter__(self) -> Iterator[Words]:
        return (text.split(" ") if text else [] for text in self.texts())

    def texts(self) -> Iterator[str]:
        """The sentences in order, each as text: its words with spaces between."""
        for first in range(0, len(self), IN_ORDER):
            ends = self._ends[first : first + IN_ORDER + 1]
            start = ends[0]
            text = self._text(start, ends[-1])
            for end, following in pairwise(ends):
                yield text[end - start : following - start].decode()

    def item(self, place: int) -> Words:
        """The words of a sentence."""
        if not self._lengths[place]:
            return []
        place += len(self) if place < 0 else 0
        return self._text(self._ends[place], self._ends[place + 1]).decode().split(" ")

    def _text(self, start: int, end: int) -> bytes:
        """The text from byte `start` to byte `end`, from the file and from the block."""
        in_file = max(min(end, self._before) - start, 0)
        first = os.pread(self._descriptor, in_file, start) if in_file else b""
        return first + self._block[start + in_file - self._before : end - self._before]


class StoredText(Lazy[str]):
    """The words of stored sentences as one sequence."""

    def __init__(self, sentences: StoredSentences, count: int) -> None:
        """count: the number of sentences, from the first, whose words are in the sequence."""
        self._sentences, lengths = sentences, sentences.lengths[:count]
        self._starts = np.append(0, np.cumsum(lengths, dtype=np.int64))  # (N + 1,)

    def __len__(self) -> int:
        return int(self._starts[-1])

    def __iter__(self) -> Iterator[str]:
        return chain.from_iterable(islice(self._sentences, len(self._starts) - 1))

    def item(self, place: int) -> str:
        """The word at a position."""
        place = range(len(self))[place]
        return self.items(range(place, place + 1))[0]

    def items(self, places: range) -> Words:
        """The words at positions."""
        if places.step != 1 or not places:
            return super().items(places)
        first, last = np.searchsorted(self._starts, [places[0], places[-1]], "right").tolist()
        words = [word for i in range(first - 1, last) for word in self._sentences.item(i)]
        start = places[0] - int(self._starts[first - 1])
        return words[start : start + len(places)]


class StoredPairs(Lazy[Pair]):
    """Pairs of sentences."""

    def __init__(self, pairs: Iterable[Pair] = ()) -> None:
        self._source, self._target = StoredSentences(), StoredSentences()
        for pair in pairs:
            self.append(pair)

    @property
    def sides(self) -> tuple[StoredSentences, StoredSentences]:
        """The sources and the targets."""
        return self._source, self._target

    def __iter__(self) -> Iterator[Pair]:
        return zip(self._source, self._target, strict=True)

    def append(self, pair: Pair) -> None:
        """Append a pair. Errors as `StoredSentences.append`."""
        self._source.append(pair[0])
        self._target.append(pair[1])

    @property
    def lengths(self) -> np.ndarray:
        """(N, 2) int32, the words of each source and target."""
        return np.stack([self._source.lengths, self._target.lengths], axis=1)

    def __len__(self) -> int:
        return len(self._target)

    def item(self, place: int) -> Pair:
        """The words of both sides."""
        return self._source.item(place), self._target.item(place)


def sides(pairs: Sequence[Pair]) -> tuple[Iterable[Words], Iterable[Words]]:
    """The sources and the targets of pairs. Of stored pairs, one side is read without the other."""
    if isinstance(pairs, StoredPairs):
        return pairs.sides
    return map(itemgetter(0), pairs), map(itemgetter(1), pairs)
