"""The lines of words that verbs read from files or stdin, and write to files or stdout."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from backend.errors import UserError
from nmt.console.arguments import add_output
from nmt.console.terminal import print
from nmt.data.corpus import Pair, plain_lines, read_parallel, split_words, stream_lines, write_lines


def add_file(parser: argparse.ArgumentParser) -> None:
    """Add `FILE`, by default stdin, and `--output`, by default stdout."""
    parser.add_argument("file", type=Path, nargs="?", metavar="FILE",
                        help="text to read (default: stdin)")
    add_output(parser, "text")


def read_words(options: argparse.Namespace) -> Iterator[list[str]]:
    """The words of each line of the file, or of stdin. Raises UserError if --output is the same
    file."""
    if options.file is not None and options.output is not None \
            and options.file.resolve() == options.output.resolve():
        raise UserError(f"--output: expected a file other than {options.file}")
    lines = plain_lines(sys.stdin.buffer, "<stdin>") if options.file is None else \
        stream_lines(options.file)
    return map(split_words, lines)


def read_pairs_of_words(source: Path, target: Path) -> list[Pair]:
    """The pairs of lines of two files as words, which are separated by spaces."""
    return pairs_of_words(*read_parallel(source, target))


def pairs_of_words(sources: Iterable[str], targets: Iterable[str]) -> list[Pair]:
    """Pairs of lines as words, which are separated by spaces."""
    return [(split_words(x), split_words(y)) for x, y in zip(sources, targets, strict=True)]


def write_or_print(path: Path | None, lines: Iterable[str]) -> None:
    """Write lines to a file, or without one to stdout."""
    if path is not None:
        write_lines(path, lines)
        return
    for line in lines:
        print(line)
