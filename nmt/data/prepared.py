"""Signs that another program has tokenised or escaped a text, or cut it into pieces."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple, TypeVar

from nmt.console.messages import several
from nmt.console.notes import note

T = TypeVar("T")
SAMPLE = 1000  # lines of a text that are examined


class Sign(NamedTuple):
    """A trace that other programs leave in lines."""

    description: str
    pattern: re.Pattern[str]
    least: float  # the smallest share of lines that makes it a sign


def _sign(description: str, pattern: str, least: float) -> Sign:
    return Sign(description, re.compile(pattern), least)


SIGNS = (
    _sign("a full stop that stands apart at the end", r" [.。]$", 0.5),
    _sign("a comma that stands apart", r"\S [,،、] ", 0.1),
    _sign("&apos; and the like", r"&(?:apos|quot|amp|lt|gt|#91|#93|#124);", 0.02),
    _sign("a hyphen as @-@", r" @[-/.,]@ ", 0.005),
    _sign("a hyphen as ##AT##-##AT##", r"##AT##-##AT##", 0.005),
    _sign("pieces that end in @@", r"\S@@(?: |$)", 0.02),
    _sign("pieces that begin with ▁", r"(?:^| )▁", 0.1),
    _sign("joiners, ￭", r"(?:￭(?: |$))|(?: ￭)", 0.02),
)
_ATTACHED = re.compile(r"\w[.,!?;:](?: |$)")


def signs(lines: Iterable[str]) -> str:
    """The signs in a sample of lines, each with the number of its lines; "" without any sign."""
    sample = [line for line in islice(lines, SAMPLE) if line.strip()]
    descriptions = []
    for sign in SIGNS:
        count = sum(sign.pattern.search(line) is not None for line in sample)
        if count and count >= sign.least * len(sample):
            descriptions.append(f"{count} {'has' if count == 1 else 'have'} {sign.description}")
    return f"of {several(len(sample), 'line')}, {', '.join(descriptions)}" if descriptions else ""


def attached(lines: Iterable[str]) -> str:
    """A message that most of a sample of lines are not tokenised, since punctuation touches words;
    "" otherwise."""
    sample = [line for line in islice(lines, SAMPLE) if line.strip()]
    count = sum(_ATTACHED.search(line) is not None for line in sample)
    return f"of {several(len(sample), 'line')}, {count} have punctuation at words" \
        if 2 * count > len(sample) else ""


def watched(
    items: Iterator[T], lines: Callable[[T], Sequence[str]], paths: Sequence[str | Path]
) -> Iterator[T]:
    """The items of a text that is going to be tokenised. A note names the first file whose first
    lines look tokenised already.

    lines: the function that gives an item's lines, one for each of the `paths`.
    """
    sample = list(islice(items, SAMPLE))
    tell(zip(*map(lines, sample), strict=True), paths)
    return chain(sample, items)


def tell(texts: Iterable[Iterable[str]], paths: Sequence[str | Path]) -> None:
    """Print a note, once, on the first of the texts that looks tokenised already."""
    for path, text in zip(paths, texts, strict=False):
        if description := signs(text):
            note("data.tokenise", f"{path}: looks tokenised already: {description}. data.tokenise "
                                  "tokenises it again; --data.tokenise none trains on it as it is")
            return
