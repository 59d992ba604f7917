"""Sentences of several sources that a model reads together.

They are one text with a line of each source, and one list of words with a line end between those of
the sources: whatever stores, counts and sorts sentences need not know of them. A sentence of which
a source is empty is empty.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

from backend.errors import UserError

BOUNDARY = "\n"  # no line and no word of a text holds it


def places(words: Sequence[str]) -> list[slice]:
    """Where the words of each source stand."""
    boundaries = [-1, *(i for i, word in enumerate(words) if word == BOUNDARY), len(words)]
    return [slice(start + 1, end) for start, end in pairwise(boundaries)]


def parts(words: Sequence[str]) -> list[Sequence[str]]:
    """The words of each source; of one source, the words."""
    return [words[place] for place in places(words)] if BOUNDARY in words else [words]


def joined(sentences: Sequence[Sequence[str]]) -> list[str]:
    """One list of the words of each source; empty if one of them is."""
    if not all(sentences):
        return []
    return [word for words in sentences for word in (BOUNDARY, *words)][1:]


def longest(words: Sequence[str]) -> int:
    """How many words the longest source has."""
    return max(map(len, parts(words)))


def shortened(words: Sequence[str], most: int | None) -> list[str]:
    """The first `most` words of each source."""
    return joined([source_words[:most] for source_words in parts(words)])


def tokenise_each(cutters: Sequence[Callable[[str], list[str]]], text: str) -> list[str]:
    """The words of a text with a line of each source, each cut by its own tokeniser.

    Raises UserError for another number of lines.
    """
    lines = text.split(BOUNDARY)
    if len(lines) != len(cutters):
        raise UserError(f"source: expected a sentence of each of the {len(cutters)} sources that "
                        f"the model reads, got {len(lines)}")
    return joined([cut(line) for cut, line in zip(cutters, lines, strict=True)])


def as_text(lines: Sequence[str], names: Sequence[str | Path], number: int) -> str:
    """The lines of each source, number `number` of the files `names`, as one text to translate.

    Raises UserError for a line that is empty in one of the files only.
    """
    filled = [bool(line.strip()) for line in lines]
    if any(filled) and not all(filled):
        filled_file, empty_file = names[filled.index(True)], names[filled.index(False)]
        raise UserError(f"{empty_file}:{number}: expected a sentence, as {filled_file} has one "
                        "there, got an empty line")
    return BOUNDARY.join(lines)
