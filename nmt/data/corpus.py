"""Reading and writing text files, and turning parallel lines into training pairs.

A line ends at "\\n" and nowhere else: the other characters that Python takes for line ends (U+0085,
U+2028, form feed and so on) occur inside words, and splitting at them would misalign a parallel
corpus. For the same reason words are separated by spaces and tabs only.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from backend.errors import UserError
from backend.files import write_file

Pair = tuple[list[str], list[str]]  # source words, target words
BLOCK = 1 << 20  # bytes written at once


@dataclass(frozen=True)
class PreparedPairs:
    """The pairs that can be trained on, and how many were left out and why."""

    pairs: list[Pair]
    empty: int  # pairs with no word on one side or both
    too_long: int  # pairs with more than max_length words on one side or both


def split_words(line: str) -> list[str]:
    """The words of a line: what stands between spaces and tabs."""
    return [word for word in line.replace("\t", " ").split(" ") if word]


def decode_lines(path: str | Path) -> list[str]:
    """The lines of a UTF-8 file, exactly: split at "\\n" only, nothing trimmed.

    Raises UserError if the file cannot be read, or, with the line, if it is not valid UTF-8.
    """
    try:
        raw = Path(path).read_bytes()
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from error
    lines = raw.split(b"\n")
    if not lines[-1]:
        lines.pop()  # what follows the last line end is not a line
    try:
        return [line.decode("utf-8") for line in lines]
    except UnicodeDecodeError:
        raise UserError(_first_bad_line(path, lines)) from None


def _first_bad_line(path: str | Path, lines: Sequence[bytes]) -> str:
    """The message for the first line that is not UTF-8."""
    for number, line in enumerate(lines, 1):
        try:
            line.decode("utf-8")
        except UnicodeDecodeError as error:
            byte = f"byte 0x{line[error.start]:02x} at column {error.start + 1}"
            return f"{path}:{number}: expected UTF-8, got {byte}"
    raise AssertionError("every line is UTF-8")


def read_lines(path: str | Path) -> list[str]:
    """The lines of a UTF-8 text file, without a byte order mark and without "\\r" before "\\n".

    Raises UserError if the file cannot be read, or, with the line, if it is not valid UTF-8.
    """
    lines = [line.removesuffix("\r") for line in decode_lines(path)]
    if lines:
        lines[0] = lines[0].removeprefix("\ufeff")
    return lines


def read_parallel(source_path: str | Path, target_path: str | Path) -> tuple[list[str], list[str]]:
    """The lines of two files that translate each other line by line.

    Raises UserError if a file cannot be read or they do not have the same number of lines.
    """
    source, target = read_lines(source_path), read_lines(target_path)
    if len(source) != len(target):
        raise UserError(
            f"parallel files differ in length: {source_path} has {len(source)} lines, "
            f"{target_path} has {len(target)}"
        )
    return source, target


def write_lines(path: str | Path, lines: Iterable[str]) -> None:
    """Writes a UTF-8 file, one line each, in full or not at all: see `backend.files.write_file`.

    Raises ValueError for a line that holds "\\n", UserError if the file cannot be written.
    """
    write_file(path, _blocks(lines))


def _blocks(lines: Iterable[str]) -> Iterator[bytes]:
    """Lines with their ends, a megabyte or so at a time."""
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
    source_lines: Sequence[str],
    target_lines: Sequence[str],
    max_length: int | None = None,
    tokenise_source: Callable[[str], list[str]] = split_words,
    tokenise_target: Callable[[str], list[str]] = split_words,
    cut: bool = False,
) -> PreparedPairs:
    """Parallel lines as pairs of word lists, without the pairs that cannot be trained on.

    max_length: the most words a side may have (`</s>` not counted); None for no limit. A longer
    pair is left out and counted; with `cut` its words past the limit are, on each side, instead.
    An empty side is counted first.
    Raises ValueError if the sides differ in length or max_length < 1.
    """
    if len(source_lines) != len(target_lines):
        sizes = f"{len(source_lines)} and {len(target_lines)}"
        raise ValueError(f"source_lines, target_lines: expected equal numbers, got {sizes}")
    pairs = zip(map(tokenise_source, source_lines), map(tokenise_target, target_lines),
                strict=True)
    return choose_pairs(pairs, max_length, cut)


def choose_pairs(
    pairs: Iterable[Pair], max_length: int | None = None, cut: bool = False
) -> PreparedPairs:
    """The pairs that can be trained on, by the rules of `prepare_pairs`.

    Raises ValueError if max_length < 1.
    """
    if max_length is not None and max_length < 1:
        raise ValueError(f"max_length: expected at least 1, got {max_length}")
    chosen: list[Pair] = []
    empty = too_long = 0
    for source, target in pairs:
        if cut:
            source, target = source[:max_length], target[:max_length]
        if not source or not target:
            empty += 1
        elif max_length is not None and max(len(source), len(target)) > max_length:
            too_long += 1
        else:
            chosen.append((source, target))
    return PreparedPairs(chosen, empty, too_long)
