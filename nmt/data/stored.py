"""Sentences that need not fit into memory: their text on disk, an index of offsets in memory.

A corpus is read once, from first line to last, so that it may come through a pipe. Training reads
single sentences by index from the stored text. Memory holds 12 bytes a sentence and the last block
of text; a text of one block needs no file.
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
IN_ORDER = 1 << 8  # sentences that are read at once where all are read in order
Words = list[str]
Pair = tuple[Words, Words]  # source words, target words


class Lazy(Sequence[T]):
    """A sequence whose items are made when they are asked for; equal to one of equal items."""

    @abstractmethod
    def item(self, place: int) -> T:
        """The item at a place. Raises IndexError where there is none."""

    @overload
    def __getitem__(self, place: int) -> T: ...
    @overload
    def __getitem__(self, place: slice) -> list[T]: ...
    def __getitem__(self, place: int | slice) -> T | list[T]:
        if isinstance(place, slice):
            return self.items(range(*place.indices(len(self))))
        return self.item(place)

    def items(self, places: range) -> list[T]:
        """The items at places that there are."""
        return [self.item(place) for place in places]

    def __eq__(self, other: object) -> bool:
        return (isinstance(other, Sequence) and len(self) == len(other)
                and all(item == other_item for item, other_item in zip(self, other, strict=True)))

    __hash__ = None  # type: ignore[assignment]


class Mapped(Lazy[T]):
    """The items of another sequence after a function, which is called anew each time."""

    def __init__(self, function: Callable[[Any], T], items: Sequence[Any]) -> None:
        self._function, self._items = function, items

    def __len__(self) -> int:
        return len(self._items)

    def item(self, place: int) -> T:
        return self._function(self._items[place])


class StoredSentences(Lazy[Words]):
    """Tokenised sentences in the order in which they were appended.

    No word may be empty or hold a space: a sentence is stored as its words with spaces between.
    Text beyond one block is in an unnamed file in the directory of temporary files.
    """

    def __init__(self, sentences: Iterable[Words] = ()) -> None:
        self._ends = array("q", [0])  # bytes of text up to the end of each sentence
        self._lengths = array("i")  # words of each
        self._file: IO[bytes] | None = None
        self._descriptor = -1  # bytes in the file
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
        """Write the block to disk."""
        try:
            self._file = self._file or tempfile.TemporaryFile(buffering=0)
            self._descriptor = self._file.fileno()
            remaining = memoryview(self._block)
            while remaining:
                remaining = remaining[self._file.write(remaining):]
        except OSError as error:
            raise UserError(f"{tempfile.gettempdir()}: cannot keep the sentences there: "
                            f"{error.strerror}; TMPDIR says where else") from error
        self._before += len(self._block)
        self._block = bytearray()

    @property
    def lengths(self) -> np.ndarray:
        """(N,) int32, words of each."""
        return np.array(self._lengths, dtype=np.int32)

    def __len__(self) -> int:
        return len(self._lengths)

    def __iter__(self) -> Iterator[Words]:
        return (text.split(" ") if text else [] for text in self.texts())

    def texts(self) -> Iterator[str]:
        """The sentences in order, each as its words with spaces between."""
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
        """The text from one byte to another, of which a part may be in the file."""
        in_file = max(min(end, self._before) - start, 0)
        first = os.pread(self._descriptor, in_file, start) if in_file else b""
        return first + self._block[start + in_file - self._before : end - self._before]


class StoredText(Lazy[str]):
    """The words of stored sentences as one sequence, with the index at which each sentence
    begins."""

    def __init__(self, sentences: StoredSentences, count: int) -> None:
        """count: how many sentences, from the first."""
        self._sentences, lengths = sentences, sentences.lengths[:count]
        self._starts = np.append(0, np.cumsum(lengths, dtype=np.int64))  # (N + 1,)

    def __len__(self) -> int:
        return int(self._starts[-1])

    def __iter__(self) -> Iterator[str]:
        return chain.from_iterable(islice(self._sentences, len(self._starts) - 1))

    def item(self, place: int) -> str:
        """A word."""
        place = range(len(self))[place]
        return self.items(range(place, place + 1))[0]

    def items(self, places: range) -> Words:
        """Consecutive words."""
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
        """(N, 2) int32, words of source and target."""
        return np.stack([self._source.lengths, self._target.lengths], axis=1)

    def __len__(self) -> int:
        return len(self._target)

    def item(self, place: int) -> Pair:
        """The words of both sides."""
        return self._source.item(place), self._target.item(place)


def sides(pairs: Sequence[Pair]) -> tuple[Iterable[Words], Iterable[Words]]:
    """The sources and the targets of pairs, of which stored ones need not be read for both."""
    if isinstance(pairs, StoredPairs):
        return pairs.sides
    return map(itemgetter(0), pairs), map(itemgetter(1), pairs)
