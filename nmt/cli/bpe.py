"""`nmt bpe`: learn merges from text, cut words into pieces, join the pieces again."""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Collection, Sequence
from functools import cache
from pathlib import Path
from random import Random

from backend.errors import UserError
from nmt.cli.lines import add_file, read_words, write_or_print
from nmt.console.arguments import add_seed, chance, positive
from nmt.console.messages import several
from nmt.console.terminal import print
from nmt.data.annotation import stays_whole
from nmt.data.bpe import Codes, joined, learn, require_library
from nmt.data.corpus import split_words, stream_lines
from nmt.files import check_writable


def add_learn(parser: argparse.ArgumentParser) -> None:
    """The arguments of `nmt bpe learn`."""
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE", help="text in words")
    parser.add_argument("--merges", type=positive, required=True, metavar="N",
                        help="learn N merges")
    parser.add_argument("--output", "-o", type=Path, required=True, metavar="CODES",
                        help="write the merges here, in subword-nmt's format (#version: 0.2)")


def add_apply(parser: argparse.ArgumentParser) -> None:
    """The arguments of `nmt bpe apply`."""
    parser.add_argument("codes", type=Path, metavar="CODES",
                        help="merges of nmt bpe learn or subword-nmt")
    parser.add_argument("--dropout", type=chance, default=0.0, metavar="P",
                        help="leave each merge out with this probability (default: 0)")
    add_seed(parser, "--dropout")
    parser.add_argument("--vocabulary", type=Path, metavar="FILE",
                        help="split pieces that are not in this list of pieces and counts "
                             "(subword-nmt get-vocab)")
    parser.add_argument("--vocabulary-threshold", type=positive, metavar="N",
                        help="... or have a count below N in it")
    add_file(parser)


def add_join(parser: argparse.ArgumentParser) -> None:
    """The arguments of `nmt bpe join`."""
    add_file(parser)


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
    codes, known = Codes.read(options.codes), _vocabulary(options)
    draw = Random(options.seed).random

    def cut(word: str) -> Sequence[str]:
        if stays_whole(word):
            return [word]
        pieces = codes.cut(word, options.dropout, draw if options.dropout else None)
        return pieces if known is None else codes.finer(pieces, known)

    pieces_of = cut if options.dropout else cache(cut)
    write_or_print(options.output, (" ".join(piece for word in words for piece in pieces_of(word))
                                    for words in read_words(options)))


def _vocabulary(options: argparse.Namespace) -> Collection[str] | None:
    """The pieces of `--vocabulary` that are counted often enough; None without the option. Raises
    UserError, with file and line, for a line that is not a piece and its count."""
    path, threshold = options.vocabulary, options.vocabulary_threshold
    if path is None:
        if threshold is not None:
            raise UserError("--vocabulary-threshold: needs --vocabulary FILE")
        return None
    known = set()
    for number, line in enumerate(stream_lines(path), 1):
        piece, count = [*line.split(" "), ""][:2]
        if line != f"{piece} {count}" or not re.fullmatch(r"[0-9]{1,18}", count):
            raise UserError(f"{path}:{number}: expected a piece, a space and its count, got "
                            f"{line!r:.60}")
        if int(count) >= (threshold or 0):
            known.add(piece)
    return known


def run_join(options: argparse.Namespace) -> None:
    """`nmt bpe join`."""
    write_or_print(options.output, (" ".join(joined(words)) for words in read_words(options)))
