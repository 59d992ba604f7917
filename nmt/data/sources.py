"""Sentences in several sources that a model reads together.

Such a sentence is one text, with a line for each source, and one list of words, with a line end
between the words of two sources. So code that stores, counts and sorts sentences needs no change. A
sentence is empty if any of its sources is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

from backend.errors import UserError

BOUNDARY = "\n"  # in no line and no word of a text


def places(words: Sequence[str]) -> list[slice]:
    """The slice of the words of each source."""
    boundaries = [-1, *(i for i, word in enumerate(words) if word == BOUNDARY), len(words)]
    return [slice(start + 1, end) for start, end in pairwise(boundaries)]


def parts(words: Sequence[str]) -> list[Sequence[str]]:
    """The words of each source. A list of one source's words is its only part."""
    return [words[place] for place in places(words)] if BOUNDARY in words else [words]


def joined(sentences: Sequence[Sequence[str]]) -> list[str]:
    """The words of all sources as one list, which is empty if any source is."""
    if not all(sentences):
        return []
    return [word for words in sentences for word in (BOUNDARY, *words)][1:]


def longest(words: Sequence[str]) -> int:
    """The number of words of the longest source."""
    return max(map(len, parts(words)))


def shortened(words: Sequence[str], max_length: int | None) -> list[str]:
    """The first `max_length` words of each source."""
    return joined([source_words[:max_length] for source_words in parts(words)])


def tokenise_each(cutters: Sequence[Callable[[str], list[str]]], text: str) -> list[str]:
    """The words of a text with a line for each source, each tokenised by its own tokeniser.

    Raises UserError for a wrong number of lines.
    """
    lines = text.split(BOUNDARY)
    if len(lines) != len(cutters):
        raise UserError(f"source: expected a sentence of each of the {len(cutters)} sources that "
                        f"the model reads, got {len(lines)}")
    return joined([cut(line) for cut, line in zip(cutters, lines, strict=True)])


def as_text(lines: Sequence[str], names: Sequence[str | Path], number: int) -> str:
    """Line `number` of the sources' files as one text to translate. names: the names of the files.

    Raises UserError if the line is empty in some of the files only.
    """
    filled = [bool(line.strip()) for line in lines]
    if any(filled) and not all(filled):
        filled_file, empty_file = names[filled.index(True)], names[filled.index(False)]
        raise UserError(f"{empty_file}:{number}: expected a sentence, as {filled_file} has one "
                        "there, got an empty line")
    return BOUNDARY.join(lines)
