"""`nmt detokenise` and `nmt statistics`: text in tokens, joined and counted."""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path

from rich.table import Table

from backend.errors import UserError
from nmt.cli.bpe import add_join, read_words, write_joined
from nmt.console.arguments import positive
from nmt.console.terminal import Console
from nmt.data.characters import LIMIT
from nmt.data.corpus import split_words, stream_lines
from nmt.data.letters import letters


def add_detokenise(parser: argparse.ArgumentParser) -> None:
    """The arguments of `nmt detokenise`."""
    parser.description = (
        "Join tokens to text with the usual spacing of the language, as Moses' detokenizer.perl "
        "does; &apos; and the like become the characters that they stand for."
    )
    add_join(parser)
    parser.add_argument("--language", default="en", metavar="CODE",
                        help="such as fr; of one without rules those of English (default: en)")


def run_detokenise(options: argparse.Namespace) -> None:
    """`nmt detokenise`."""
    from sacremoses import MosesDetokenizer

    join = MosesDetokenizer(lang=options.language).detokenize
    write_joined(options, ([join(words)] for words in read_words(options)))


def add_statistics(parser: argparse.ArgumentParser) -> None:
    """The arguments of `nmt statistics`."""
    parser.description = (
        "Count what Table 5.1 of Luong (2016) counts: sentences, tokens and types of words and of "
        "characters, and the share of word types that need no other characters than the most "
        "frequent ones. Words are those between spaces; spaces are no characters."
    )
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE")
    parser.add_argument("--characters", type=positive, default=LIMIT, metavar="N",
                        help=f"the most frequent ones (default: {LIMIT})")


def run_statistics(options: argparse.Namespace) -> None:
    """`nmt statistics`. Raises UserError for a file without words."""
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
