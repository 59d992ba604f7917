"""`nmt bpe`: learn merges from text, segment text by them, join the pieces again."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from random import Random

from backend.errors import UserError
from nmt.console.arguments import chance, natural, positive
from nmt.console.messages import several
from nmt.console.terminal import print
from nmt.data.annotation import stays_whole
from nmt.data.bpe import Codes, joined, learn, require_library
from nmt.data.corpus import plain_lines, split_words, stream_lines, write_lines
from nmt.files import check_writable


def add_learn(parser: argparse.ArgumentParser) -> None:
    """The arguments of `nmt bpe learn`."""
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE")
    parser.add_argument("--merges", type=positive, required=True, metavar="N")
    parser.add_argument("--output", "-o", type=Path, required=True, metavar="CODES",
                        help="the merges, in subword-nmt's format (#version: 0.2)")


def add_apply(parser: argparse.ArgumentParser) -> None:
    """The arguments of `nmt bpe apply`."""
    parser.add_argument("codes", type=Path, metavar="CODES")
    parser.add_argument("--dropout", type=chance, default=0.0, metavar="P",
                        help="leave each merge out with this probability (default: 0)")
    parser.add_argument("--seed", type=natural, default=1, help="of --dropout")
    add_join(parser)


def add_join(parser: argparse.ArgumentParser) -> None:
    """The arguments of `nmt bpe join`."""
    parser.add_argument("file", type=Path, nargs="?", metavar="FILE", help="(default: stdin)")
    parser.add_argument("--output", "-o", type=Path, metavar="FILE", help="(default: stdout)")


def run_learn(options: argparse.Namespace) -> None:
    """`nmt bpe learn`."""
    require_library("nmt bpe learn")
    check_writable(options.output)
    counts = Counter(word for path in options.files for line in stream_lines(path)
                     for word in split_words(line) if not stays_whole(word))
    codes = learn(counts, options.merges, ", ".join(map(str, options.files)))
    codes.write(options.output)
    print(f"{options.output}: {several(len(codes.merges), 'merge')} from "
          f"{several(len(counts), 'different word')}")


def run_apply(options: argparse.Namespace) -> None:
    """`nmt bpe apply`."""
    codes = Codes.read(options.codes)
    draw = Random(options.seed).random

    def cut(word: str) -> Sequence[str]:
        if stays_whole(word):
            return [word]
        return codes.cut(word, options.dropout, draw if options.dropout else None)

    pieces_of = cut if options.dropout else cache(cut)
    _write(options, ([piece for word in words for piece in pieces_of(word)]
                     for words in _read(options)))


def run_join(options: argparse.Namespace) -> None:
    """`nmt bpe join`."""
    _write(options, map(joined, _read(options)))


def _read(options: argparse.Namespace) -> Iterator[list[str]]:
    """The words of each line."""
    if options.file is not None and options.output is not None \
            and options.file.resolve() == options.output.resolve():
        raise UserError(f"--output: expected another file than {options.file}")
    lines = plain_lines(sys.stdin.buffer, "<stdin>") if options.file is None else \
        stream_lines(options.file)
    return map(split_words, lines)


def _write(options: argparse.Namespace, lines: Iterable[Sequence[str]]) -> None:
    """The lines, to a file or stdout."""
    if options.output is not None:
        write_lines(options.output, map(" ".join, lines))
        return
    for line in lines:
        print(" ".join(line))
