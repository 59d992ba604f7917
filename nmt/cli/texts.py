"""`nmt detokenise`, `nmt statistics`, `nmt join-pairs`: join and count text."""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path

from rich.table import Table

from backend.errors import UserError
from nmt.cli.lines import add_file, read_words, write_or_print
from nmt.cli.options import add_pairs
from nmt.console.arguments import positive
from nmt.console.messages import several
from nmt.console.terminal import Console, print
from nmt.data.characters import LIMIT
from nmt.data.corpus import split_words, stream_lines, stream_parallel, write_lines
from nmt.data.joined_pairs import join_pairs
from nmt.data.letters import letters


def add_detokenise(parser: argparse.ArgumentParser) -> None:
    """The arguments of `nmt detokenise`."""
    add_file(parser)
    parser.add_argument("--language", default="en", metavar="CODE",
                        help="use the rules of this language, such as fr; languages without "
                             "rules use those of English (default: en)")


def run_detokenise(options: argparse.Namespace) -> None:
    """`nmt detokenise`.

    Join tokens into text with the usual spacing of the language, as Moses' detokenizer.perl does.
    Escapes such as &apos; become the characters that they stand for.
    """
    from sacremoses import MosesDetokenizer

    join = MosesDetokenizer(lang=options.language).detokenize
    write_or_print(options.output, map(join, read_words(options)))


def add_statistics(parser: argparse.ArgumentParser) -> None:
    """The arguments of `nmt statistics`."""
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE", help="text in words")
    parser.add_argument("--characters", type=positive, default=LIMIT, metavar="N",
                        help=f"count N characters as frequent (default: {LIMIT})")


def run_statistics(options: argparse.Namespace) -> None:
    """`nmt statistics`.

    Count what Table 5.1 of Luong (2016) counts: sentences, tokens and types of words and of
    characters, and the share of word types that the most frequent characters can spell. Words are
    separated by spaces, which are not counted as characters.

    Raises UserError for a file without words.
    """
    columns = [_counts(path, options.characters) for path in options.files]
    table = Table("", *(path.name for path in options.files), box=None)
    names = ("sentences", "words", "characters", "types of words", "types of characters",
             f"word types of {options.characters} characters")
    for row in zip(names, *columns, strict=True):
        table.add_row(*row)
    Console().print(table)


def _counts(path: Path, limit: int) -> tuple[str, ...]:
    """The column of a file. Raises UserError if it has no words."""
    sentences, words, characters = 0, Counter[str](), Counter[str]()
    for line in stream_lines(path):
        sentences += 1
        words.update(split_words(line))
    if not words:
        raise UserError(f"{path}: expected text, found no word")
    for word, times in words.items():
        for letter in letters(word):
            characters[letter] += times
    frequent = set(sorted(characters, key=lambda letter: (-characters[letter], letter))[:limit])
    covered = sum(frequent.issuperset(letters(word)) for word in words)
    numbers = sentences, words.total(), characters.total(), len(words), len(characters)
    return *(f"{number:,}" for number in numbers), f"{100 * covered / len(words):.1f} %"


def add_join_pairs(parser: argparse.ArgumentParser) -> None:
    """The arguments of `nmt join-pairs`."""
    add_pairs(parser)
    parser.add_argument("--most", type=positive, required=True, metavar="N",
                        help="join at most N pairs")
    parser.add_argument("--overlapping", action="store_true", help="begin a window at each pair")
    parser.add_argument("--output", "-o", type=Path, required=True, metavar="DIR",
                        help="write the files here, under their own names")


def run_join_pairs(options: argparse.Namespace) -> None:
    """`nmt join-pairs`.

    Make long sentences from short ones. The first pair stays alone, the next two are joined, then
    three, and so on to N; then one again, two and so on. Each pair is used once, which suits
    text to score. With --overlapping a sentence begins at each pair, which suits training text.

    Raises UserError if a file would be overwritten, and if there is no pair.
    """
    paths = options.source, options.target
    outputs = [options.output / path.name for path in paths]
    if outputs[0] == outputs[1] or {path.resolve() for path in outputs} & {
            path.resolve() for path in paths}:
        raise UserError(f"--output: expected a directory other than that of {paths[0]}, and files "
                        "whose names differ")
    pairs = (tuple(line.strip(" ") for line in pair) for pair in stream_parallel(*paths))
    windows = list(join_pairs(pairs, options.most, options.overlapping))
    if not windows:
        raise UserError(f"{paths[0]}, {paths[1]}: expected at least one pair of sentences, got "
                        "none")
    options.output.mkdir(parents=True, exist_ok=True)
    for path, side in zip(outputs, zip(*windows, strict=True), strict=True):
        write_lines(path, side)
    print(f"{', '.join(map(str, outputs))}: {several(len(windows), 'pair')}")
