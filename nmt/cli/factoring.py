"""`nmt factors`: join words and tags of separate files into factored text."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

from backend.errors import UserError
from nmt.console.messages import several
from nmt.data.corpus import split_words, stream_parallel, write_lines
from nmt.data.factors import BAR


def add_factors(parser: argparse.ArgumentParser) -> None:
    """The arguments of `nmt factors`."""
    parser.add_argument("source", type=Path, help="the sentences, in tokens")
    parser.add_argument("tags", type=Path, nargs="+", help="files of tags, of one factor each")
    parser.add_argument("--output", "-o", type=Path, required=True, metavar="FILE",
                        help="write the factored text here")


def run_factors(options: argparse.Namespace) -> None:
    """`nmt factors`.

    Write each word followed by its tags, word|tag, which a translator with model.factors reads.
    Words and tags are separated by spaces; each line of words has a line of tags.
    """
    columns = [_tags(options.source, path) for path in options.tags]
    lines = (words for words, _ in _pairs(options.source, options.tags[0]))
    write_lines(options.output, (" ".join(map(BAR.join, zip(words, *tags, strict=True)))
                                 for words, *tags in zip(lines, *columns, strict=True)))


def _pairs(source: Path, tags: Path) -> Iterator[tuple[list[str], list[str]]]:
    """The words and the tags of each line."""
    lines = stream_parallel(source, tags)
    return ((split_words(words), split_words(line)) for words, line in lines)


def _tags(source: Path, path: Path) -> Iterator[Sequence[str]]:
    """The tags of each line. Raises UserError, with file and line, if they do not fit the words."""
    for number, (words, tags) in enumerate(_pairs(source, path), 1):
        if len(words) != len(tags):
            raise UserError(f"{path}:{number}: expected {several(len(words), 'tag')}, "
                            f"one for each word of {source}, got {len(tags)}")
        if wrong := [tag for tag in tags if BAR in tag]:
            raise UserError(f"{path}:{number}: expected tags without {BAR}, got {wrong[0]!r}")
        yield tags
