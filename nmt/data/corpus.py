"""Reading and writing text files, and making training pairs of parallel lines.

A line ends only at "\\n". The other characters that Python takes for line ends (U+0085, U+2028,
form feed and so on) occur inside words, and splitting there would misalign a parallel corpus. For
the same reason words are separated by spaces and tabs only.
"""

import gzip
import math
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from io import BufferedReader, BytesIO
from itertools import zip_longest
from pathlib import Path
from typing import Protocol, cast

import numpy as np

from backend.errors import UserError
from nmt.console.messages import several
from nmt.console.notes import note
from nmt.console.progress import counted
from nmt.data.letters import composed
from nmt.data.sources import BOUNDARY, as_text, longest, shortened
from nmt.data.stored import Pair, StoredPairs, blocks
from nmt.files import write_file

BLOCK = 1 << 20  # bytes written at once
READ = 1 << 16  # bytes read at once
GZIP = 31  # zlib's number for gzip's format
# The most bytes of a line with its end. A longer line is no sentence: tokenising it would take a
# second. A device such as /dev/zero never ends a line.
LONGEST = 1 << 18
LONGEST_OF_TEXT = 1 << 28  # the same for a language model's text, which may be a single line


class Readable(Protocol):
    """A binary file that is read line by line."""

    def readline(self, size: int, /) -> bytes:
        """The next line with its end, or its first `size` bytes."""


Odd = Callable[[UserError], None]
Reading = Callable[[BufferedReader, str | Path, int], Iterator[str]]


@dataclass(frozen=True)
class PreparedPairs:
    """The pairs that can be trained on, and how many were left out and why."""

    pairs: Sequence[Pair]
    empty: int  # pairs with no word on one side or both
    too_long: int  # pairs with more than max_length words on one side or both


def split_words(line: str) -> list[str]:
    """The words of a line, separated by spaces and tabs."""
    return [word for word in line.replace("\t", " ").split(" ") if word]


def number_of(text: str) -> float:
    """The finite number that a text stands for; NaN if it stands for none."""
    try:
        value = float(text)
    except ValueError:
        return math.nan
    return value if math.isfinite(value) else math.nan


def decoded(
    file: Readable, name: str | Path, longest: int = LONGEST, odd: Odd | None = None,
    start: int = 1,
) -> Iterator[str]:
    """The lines of a UTF-8 file without the "\\n" at their end; nothing else is trimmed.

    odd: is called with the error of a line that is too long or not valid UTF-8, and the line is
    read as empty. Without `odd`, such a line raises UserError with `name` and the line's number.
    start: the number of the first line.
    """
    for number, line in enumerate(iter(partial(file.readline, longest + 1), b""), start):
        text = problem = ""
        if len(line) > longest:
            problem = f"expected a line of at most {longest:,} bytes, got more"
        else:
            try:
                text = line.removesuffix(b"\n").decode()
            except UnicodeDecodeError as error:
                problem = (f"expected UTF-8, got byte 0x{line[error.start]:02x} at column "
                           f"{error.start + 1}")
        if problem:
            invalid_line = UserError(f"{name}:{number}: {problem}")
            if odd is None or not _skipped(file, line):
                raise invalid_line
            odd(invalid_line)
        yield text


def _skipped(file: Readable, line: bytes) -> bool:
    """Skip to the end of a line; False if the line does not end within LONGEST_OF_TEXT bytes."""
    byte_count = 0
    while line and not line.endswith(b"\n"):
        byte_count += len(line)
        if byte_count > LONGEST_OF_TEXT:
            return False
        line = file.readline(BLOCK)
    return True


def plain_lines(
    file: Readable, name: str | Path, longest: int = LONGEST, odd: Odd | None = None,
    start: int = 1,
) -> Iterator[str]:
    """The lines of `decoded` in Unicode's normal form C, without a byte order mark and without
    "\\r" before "\\n". A note names a file that is not in normal form C."""
    for number, line in enumerate(decoded(file, name, longest, odd, start), start):
        plain = composed(line)
        if plain != line:
            note(str(name), f"{name}:{number}: not in Unicode's normal form C; such lines are read "
                            "as if they were")
        yield (plain.removeprefix("\ufeff") if number == 1 else plain).removesuffix("\r")


def _plain_blocks(file: BufferedReader, name: str | Path, longest: int) -> Iterator[str]:
    """The lines of `plain_lines`, read by blocks. Only blocks in which a line has to be changed, or
    is invalid, are read line by line."""
    start = 1
    while block := file.read1(READ):
        block += b"" if block.endswith(b"\n") else file.readline(longest + 1)
        text = _plain(block) if start > 1 and len(block) <= longest else None
        lines = plain_lines(BytesIO(block), name, longest, start=start) if text is None else \
            text.removesuffix("\n").split("\n")
        yield from lines
        start += block.count(b"\n")


def _plain(block: bytes) -> str | None:
    """The text of lines none of which `plain_lines` would change or refuse; otherwise None."""
    try:
        text = block.decode()
    except UnicodeDecodeError:
        return None
    return None if "\r" in text or composed(text) != text else text


def lines_as_written(file: Readable, name: str | Path, longest: int = LONGEST) -> Iterator[str]:
    """The lines of `decoded` without white space at their ends, as sacrebleu's command line reads
    them. A note names a file that is not in normal form C."""
    for number, line in enumerate(decoded(file, name, longest), 1):
        if composed(line) != line:
            note(str(name), f"{name}:{number}: not in Unicode's normal form C; scored as it is, as "
                            "sacrebleu does: letters of the two forms differ")
        yield line.rstrip()


def stream_lines(
    path: str | Path, read: Reading = _plain_blocks, longest: int = LONGEST
) -> Iterator[str]:
    """The lines of a UTF-8 text file, one after another; a file named .gz is decompressed.

    Raises UserError if the file cannot be read, and, with the line's number, for a line that is not
    valid UTF-8 or longer than `longest` bytes.
    """
    try:
        raw = gzip.open(path) if _is_compressed(path) else open(path, "rb")
        with cast(BufferedReader, raw) as file:
            yield from counted(read(file, path, longest), f"lines of {os.path.basename(path)}")
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"{path}: cannot be read: {reason}") from error


def decode_lines(path: str | Path) -> list[str]:
    """The lines of a UTF-8 file, split at "\\n" only, with nothing trimmed. Errors as
    `stream_lines`."""
    return list(stream_lines(path, decoded))


def read_lines(path: str | Path, longest: int = LONGEST) -> list[str]:
    """The lines of a UTF-8 text file, as `plain_lines` gives them. Errors as `stream_lines`."""
    return list(stream_lines(path, longest=longest))


def stream_parallel(*paths: str | Path, read: Reading = _plain_blocks) -> Iterator[tuple[str, ...]]:
    """The lines of files, usually two, that are translations of each other line by line.

    read: gives the lines of a file. Raises UserError if a file cannot be read, and, at the end of
    the shortest file, if the files have different numbers of lines.
    """
    sides = [stream_lines(path, read) for path in paths]
    for number, lines in enumerate(zip_longest(*sides)):
        if None in lines:
            first, *others = (
                (path, number + (line is not None) + sum(1 for _ in rest))
                for path, line, rest in zip(paths, lines, sides, strict=True))
            lengths = [f"{first[0]} has {several(first[1], 'line')}",
                       *(f"{path} has {count}" for path, count in others)]
            raise UserError(f"parallel files differ in length: {', '.join(lengths)}")
        yield lines


def stream_texts(paths: Sequence[str | Path]) -> Iterator[str]:
    """The lines of a source file, or the texts of several files, as in `nmt.data.sources`.

    Errors as `stream_parallel`; UserError also for a line that is empty in some of the files only.
    """
    for number, lines in enumerate(stream_parallel(*paths), 1):
        yield as_text(lines, paths, number)


def read_parallel(*paths: str | Path, read: Reading = _plain_blocks) -> list[list[str]]:
    """The lines of each of several parallel files. Arguments and errors as `stream_parallel`."""
    sides: list[list[str]] = [[] for _ in paths]
    for lines in stream_parallel(*paths, read=read):
        for side, line in zip(sides, lines, strict=True):
            side.append(line)
    return sides


def write_lines(path: str | Path, lines: Iterable[str]) -> None:
    """Write lines to a UTF-8 file, completely or not at all: see `nmt.files.write_file`. A file
    named .gz is compressed.

    Raises ValueError for a line with "\\n" in it, and UserError if the file cannot be written.
    """
    blocks = _blocks(lines)
    write_file(path, _compressed(blocks) if _is_compressed(path) else blocks)


def _is_compressed(path: str | Path) -> bool:
    """Whether a file's name is that of a gzip file."""
    return str(path).endswith(".gz")


def _compressed(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Blocks compressed by gzip."""
    compressor = zlib.compressobj(wbits=GZIP)
    yield from map(compressor.compress, blocks)
    yield compressor.flush()


def _blocks(lines: Iterable[str]) -> Iterator[bytes]:
    """Encoded lines with their ends, in blocks of about a megabyte."""
    block = bytearray()
    for line in lines:
        if "\n" in line:
            raise ValueError(f"lines: expected no line end inside a line, got {line!r}")
        block += line.encode("utf-8") + b"\n"
        if len(block) >= BLOCK:
            yield bytes(block)
            block.clear()
    yield bytes(block)


def prepare_pairs(
    source_lines: Sequence[str], target_lines: Sequence[str], max_length: int | None = None,
    tokenise_source: Callable[[str], list[str]] = split_words,
    tokenise_target: Callable[[str], list[str]] = split_words, cut: bool = False,
) -> PreparedPairs:
    """Parallel lines as pairs of word lists, without the pairs that cannot be trained on.

    max_length: the most words of a side, without `</s>`; None for no limit. A longer pair is left
    out and counted; with `cut`, its sides are truncated instead. A pair that is both empty on one
    side and too long on the other counts as empty. Raises ValueError if there are different numbers
    of lines.
    """
    pairs = zip(map(tokenise_source, source_lines), map(tokenise_target, target_lines), strict=True)
    return choose_pairs(pairs, max_length, cut)


def choose_pairs(
    pairs: Iterable[Pair], max_length: int | None = None, cut: bool = False,
    max_pairs: int | None = None,
) -> PreparedPairs:
    """The first `max_pairs` pairs, or all, that can be trained on by the rules of `prepare_pairs`.
    """
    texts = (([" ".join(source) for source, _ in block], [" ".join(target) for _, target in block])
             for block in blocks(pairs))
    return choose_texts(texts, max_length, cut, max_pairs)


def choose_texts(
    texts: Iterable[tuple[Sequence[str], Sequence[str]]], max_length: int | None = None,
    cut: bool = False, max_pairs: int | None = None,
) -> PreparedPairs:
    """The pairs of `choose_pairs`. texts: blocks of sources and targets, as words with spaces
    between."""
    chosen = StoredPairs()
    empty = too_long = 0
    for sources, targets in texts:
        if cut:
            sources, targets = ([_shortened(text, max_length) for text in side]
                                for side in (sources, targets))
        lengths = np.array([*map(_length, sources), *map(_length, targets)]).reshape(2, -1)
        is_empty = np.minimum(*lengths) == 0
        is_long = ~is_empty & (np.maximum(*lengths) > (max_length or np.inf))
        kept, last = np.flatnonzero(~is_empty & ~is_long).tolist(), len(sources)
        if max_pairs is not None and len(chosen) + len(kept) >= max_pairs:
            kept = kept[: max_pairs - len(chosen)]
            last = kept[-1] + 1
        chosen.sentences.extend([text for i in kept for text in (sources[i], targets[i])])
        empty += int(is_empty[:last].sum())
        too_long += int(is_long[:last].sum())
        if len(chosen) == max_pairs:
            break
    return PreparedPairs(chosen, empty, too_long)


def _length(text: str) -> int:
    """The number of words of a text, of its longest source if it has several."""
    if BOUNDARY in text:
        return longest(text.split(" "))
    return text.count(" ") + 1 if text else 0


def _shortened(text: str, max_length: int | None) -> str:
    """The first `max_length` words of a text, of each of its sources."""
    return " ".join(shortened(text.split(" "), max_length))
