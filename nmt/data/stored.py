"""Sentences that need not fit into memory: their text is on disk, an index of offsets in memory.

A corpus is read once, from the first line to the last, so that it may come through a pipe. Training
reads single sentences from the stored text by index. Memory holds 12 bytes for each sentence, and
the last block of text. A text of one block needs no file.
"""

from __future__ import annotations

import json
import os
import tempfile
from abc import abstractmethod
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import sha256
from itertools import chain, islice, pairwise
from operator import itemgetter
from pathlib import Path
from typing import IO, Any, Self, TypeVar, overload

import numpy as np

from backend.errors import UserError

T = TypeVar("T")
BLOCK = 1 << 25  # bytes of text that are kept in memory before they are written to disk
AT_ONCE = 1 << 10  # sentences that are appended together, or read together when all are read
DIGITS = 16  # of the digest that identifies a text
Words = list[str]
Pair = tuple[Words, Words]  # source words, target words


class Lazy(Sequence[T]):
    """A sequence whose items are made on demand. Sequences with equal items are equal."""

    @abstractmethod
    def item(self, place: int) -> T:
        """The item at a position that exists."""

    @overload
    def __getitem__(self, place: int) -> T: ...
    @overload
    def __getitem__(self, place: slice) -> list[T]: ...
    def __getitem__(self, place: int | slice) -> T | list[T]:
        if isinstance(place, slice):
            return self.items(range(*place.indices(len(self))))
        return self.item(range(len(self))[place])

    def items(self, places: range) -> list[T]:
        """The items at positions, all of which exist."""
        return [self.item(place) for place in places]

    def __eq__(self, other: object) -> bool:
        return (isinstance(other, Sequence) and len(self) == len(other)
                and all(item == other_item for item, other_item in zip(self, other, strict=True)))

    __hash__ = None  # type: ignore[assignment]


class Mapped(Lazy[T]):
    """A function applied to the items of another sequence, at each access."""

    def __init__(self, function: Callable[[Any], T], items: Sequence[Any]) -> None:
        self._function, self._items = function, items

    def __len__(self) -> int:
        return len(self._items)

    def item(self, place: int) -> T:
        return self._function(self._items[place])


class StoredTexts(Iterator[str]):
    """Sentences as texts: their words with spaces between."""

    def __init__(self, texts: Iterator[str], fingerprint: str) -> None:
        """fingerprint: the fingerprint of the texts, from `nmt.run_files.fingerprint`."""
        self._texts, self.fingerprint = texts, fingerprint

    def __iter__(self) -> Iterator[str]:
        return self._texts

    def __next__(self) -> str:
        return next(self._texts)


class StoredSentences(Lazy[Words]):
    """Tokenised sentences, in the order in which they were appended.

    A sentence is stored as its words with spaces between, so that no word may be empty or hold a
    space, and a line end. Text beyond one block is in an unnamed file in the directory of temporary
    files.
    """

    def __init__(self, sentences: Iterable[Words] = ()) -> None:
        self._ends = array("q", [0])  # bytes of text up to each line end
        self._lengths = array("i")  # words of each sentence
        self._file: IO[bytes] | None = None
        self._descriptor = -1  # of the file
        self._block, self._before = bytearray(), 0  # the last block, and the bytes before it
        self._digest = sha256()  # of the text without its last line end
        self._fingerprint = ""  # of an opened file
        for block in blocks(sentences):
            self.extend([" ".join(words) for words in block])

    @classmethod
    def opened(cls, path: Path, ends: array[int], lengths: array[int], fingerprint: str) -> Self:
        """Sentences whose `content` is in a file, to which nothing can be appended. ends, lengths:
        their `offsets`. fingerprint: of their texts."""
        sentences = cls()
        sentences._ends, sentences._lengths, sentences._fingerprint = ends, lengths, fingerprint
        sentences._file, sentences._before = open(path, "rb", buffering=0), ends[-1]
        sentences._descriptor = sentences._file.fileno()
        return sentences

    def append(self, words: Words) -> None:
        """Append a sentence. Raises UserError if it cannot be written to disk."""
        self.extend([" ".join(words)])

    def extend(self, texts: Sequence[str]) -> None:
        """Append sentences that are texts: their words with spaces between. Errors as `append`."""
        lines = [text.encode() for text in texts]
        if not lines:
            return
        sizes = np.fromiter(map(len, lines), np.int64, len(lines))
        spaces = np.fromiter([text.count(" ") for text in texts], np.int32, len(lines))
        text = b"\n".join(lines)
        self._digest.update(b"\n" + text if len(self) else text)
        ends = self._before + len(self._block) + np.cumsum(sizes + 1)
        self._ends.frombytes(ends.tobytes())
        self._lengths.frombytes((spaces + (sizes > 0)).astype(np.int32).tobytes())
        self._block += text + b"\n"
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
        """(N,) int32, the words of each sentence; nothing may be appended while it is in use."""
        lengths = np.frombuffer(self._lengths, np.int32)
        lengths.flags.writeable = False
        return lengths

    def __len__(self) -> int:
        return len(self._lengths)

    def __iter__(self) -> Iterator[Words]:
        return map(_words, self.texts())

    def texts(self) -> StoredTexts:
        """The sentences in order, each as text: its words with spaces between."""
        return StoredTexts(chain.from_iterable(self._texts(first, first + AT_ONCE)
                                               for first in range(0, len(self), AT_ONCE)),
                           self._fingerprint or self._digest.hexdigest()[:DIGITS])

    def content(self) -> Iterator[bytes]:
        """The bytes of all texts, each with a line end."""
        return (self._text(start, min(start + BLOCK, self._ends[-1]))
                for start in range(0, self._ends[-1], BLOCK))

    def offsets(self) -> tuple[memoryview, memoryview]:
        """(N + 1,) int64, the ends of the texts in `content`, after a 0; (N,) int32, the words of
        each."""
        return memoryview(self._ends), memoryview(self._lengths)

    def item(self, place: int) -> Words:
        """The words of a sentence."""
        return self.items(range(place, place + 1))[0]

    def items(self, places: range) -> list[Words]:
        """The words of sentences."""
        if places.step != 1 or not places:
            return super().items(places)
        return list(map(_words, self._texts(places.start, places.stop)))

    def _texts(self, first: int, last: int) -> list[str]:
        """The sentences from `first` to before `last`, as texts."""
        ends = self._ends[first : last + 1].tolist()
        text = self._text(ends[0], ends[-1])
        lines = text.decode().split("\n")
        if len(lines) == len(ends):
            return lines[:-1]
        return [text[start - ends[0] : end - ends[0] - 1].decode()  # some have line ends within
                for start, end in pairwise(ends)]

    def _text(self, start: int, end: int) -> bytes:
        """The text from byte `start` to byte `end`, from the file and from the block."""
        in_file = max(min(end, self._before) - start, 0)
        first = os.pread(self._descriptor, in_file, start) if in_file else b""
        return first + self._block[start + in_file - self._before : end - self._before]


def _words(text: str) -> Words:
    """The words of a sentence that is stored as text."""
    return text.split(" ") if text else []


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
    """Pairs of sentences; in the store each source is followed by its target."""

    def __init__(self, pairs: Iterable[Pair] = (), sentences: StoredSentences | None = None
                 ) -> None:
        """sentences: of the pairs, if they are stored already."""
        self.sentences = StoredSentences(chain.from_iterable(pairs)) if sentences is None \
            else sentences
        self.counts: Sequence[bytes] = (b"", b"")  # JSON of `StoredSide.counts`, if known

    @property
    def sides(self) -> tuple[StoredSide, StoredSide]:
        """The sources and the targets."""
        source, target = self.counts
        return StoredSide(self.sentences, 0, source), StoredSide(self.sentences, 1, target)

    def __iter__(self) -> Iterator[Pair]:
        sentences = iter(self.sentences)
        return zip(sentences, sentences, strict=True)

    def append(self, pair: Pair) -> None:
        """Append a pair. Errors as `StoredSentences.append`."""
        self.sentences.extend([" ".join(words) for words in pair])

    @property
    def lengths(self) -> np.ndarray:
        """(N, 2) int32, the words of each source and target. See `StoredSentences.lengths`."""
        return self.sentences.lengths.reshape(-1, 2)

    def __len__(self) -> int:
        return len(self.sentences) // 2

    def item(self, place: int) -> Pair:
        """The words of both sides."""
        source, target = self.sentences[2 * place : 2 * place + 2]
        return source, target


class StoredSide(Lazy[Words]):
    """The sources, or the targets, of stored pairs."""

    def __init__(self, sentences: StoredSentences, side: int, counts: bytes) -> None:
        """sentences: the sentences of the pairs. side: 0 for the sources, 1 for the targets.
        counts: the words' counts as JSON, if known."""
        self._sentences, self._side, self._counts = sentences, side, counts

    def __len__(self) -> int:
        return len(self._sentences) // 2

    def __iter__(self) -> Iterator[Words]:
        return map(_words, self._texts())

    def item(self, place: int) -> Words:
        """The words of a sentence."""
        return self._sentences[2 * place + self._side]

    def counts(self) -> Counter[str]:
        """How often each word occurs."""
        if self._counts:
            return Counter(json.loads(self._counts))
        counts = Counter[str]()
        for texts in blocks(self._texts()):
            counts.update(" ".join(texts).split(" "))
        del counts[""]  # of empty sentences
        return counts

    def _texts(self) -> Iterator[str]:
        return islice(self._sentences.texts(), self._side, None, 2)


def blocks(items: Iterable[T]) -> Iterator[list[T]]:
    """The items in lists of AT_ONCE; the last list may be shorter."""
    remaining = iter(items)
    while block := list(islice(remaining, AT_ONCE)):
        yield block


def sides(pairs: Sequence[Pair]) -> tuple[Iterable[Words], Iterable[Words]]:
    """The sources and the targets of pairs. Of stored pairs, one side is read without the other."""
    if isinstance(pairs, StoredPairs):
        return pairs.sides
    return map(itemgetter(0), pairs), map(itemgetter(1), pairs)
