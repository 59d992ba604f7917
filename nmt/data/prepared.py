"""Signs that a text is in tokens already, escaped or cut into pieces, by other programs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple, TypeVar

from nmt.console.messages import several
from nmt.console.notes import note

T = TypeVar("T")
SAMPLE = 1000  # lines that are looked at


class Sign(NamedTuple):
    """What other programs leave in a line."""

    description: str
    pattern: re.Pattern[str]
    least: float  # the share of lines from which on it tells


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
    """The signs in a sample of lines, with how many lines have each; "" without any."""
    sample = [line for line in islice(lines, SAMPLE) if line.strip()]
    descriptions = []
    for sign in SIGNS:
        count = sum(sign.pattern.search(line) is not None for line in sample)
        if count and count >= sign.least * len(sample):
            descriptions.append(f"{count} {'has' if count == 1 else 'have'} {sign.description}")
    return f"of {several(len(sample), 'line')}, {', '.join(descriptions)}" if descriptions else ""


def attached(lines: Iterable[str]) -> str:
    """The sign in a sample of lines that they are not in tokens: punctuation at the words; "" where
    most have none."""
    sample = [line for line in islice(lines, SAMPLE) if line.strip()]
    count = sum(_ATTACHED.search(line) is not None for line in sample)
    return f"of {several(len(sample), 'line')}, {count} have punctuation at words" \
        if 2 * count > len(sample) else ""


def watched(
    items: Iterable[T], lines: Callable[[T], Sequence[str]], paths: Sequence[str | Path]
) -> Iterator[T]:
    """The items of a text that is cut into words, with a note on the first file whose first lines
    have signs that it is in tokens.

    lines: the lines of an item, one of each of the `paths`.
    """
    sample: list[T] = []
    for item in items:
        if len(sample) < SAMPLE:
            sample.append(item)
            if len(sample) == SAMPLE:
                tell(zip(*map(lines, sample), strict=True), paths)
        yield item
    if len(sample) < SAMPLE:
        tell(zip(*map(lines, sample), strict=True), paths)


def tell(texts: Iterable[Iterable[str]], paths: Sequence[str | Path]) -> None:
    """Note, once, the first of the texts that has signs that it is in tokens."""
    for path, text in zip(paths, texts, strict=False):
        if description := signs(text):
            note("data.tokenise", f"{path}: looks tokenised already: {description}. data.tokenise "
                                  "tokenises it again; --data.tokenise none trains on it as it is")
            return
