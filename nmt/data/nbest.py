"""N-best lists in Moses' format: `line ||| translation ||| name= value ... ||| score`.

Source lines are numbered from 0. The translations of a line stand together, best first.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from backend.errors import UserError
from nmt.data.corpus import number_of, stream_lines

BETWEEN = " ||| "


class Candidate(NamedTuple):
    """A translation of a list."""

    text: str
    features: dict[str, float]
    score: float


def line_of(number: int, candidate: Candidate) -> str:
    """A line of a list."""
    features = " ".join(f"{name}= {value:.10g}" for name, value in candidate.features.items())
    return BETWEEN.join([str(number), candidate.text, features, f"{candidate.score:.4f}"])


def read_nbest(path: str | Path) -> list[list[Candidate]]:
    """The translations of each source line.

    Raises UserError, with file and line, for a line of another form, a source line out of order,
    features that differ from the first line's, and a score that is not a finite number.
    """
    lists: list[list[Candidate]] = []
    names: list[str] | None = None
    for place, line in enumerate(stream_lines(path), 1):
        number, candidate = _parsed(line, f"{path}:{place}")
        expected = [len(lists) - 1, len(lists)] if lists else [0]
        if number not in expected:
            raise UserError(f"{path}:{place}: expected a translation of line "
                            f"{' or '.join(map(str, expected))}, got one of line {number}: the "
                            "list is out of order")
        if names is not None and [*candidate.features] != names:
            raise UserError(f"{path}:{place}: expected the features {' '.join(names)}, got "
                            f"{' '.join(candidate.features) or 'none'}")
        names = [*candidate.features]
        if number == len(lists):
            lists.append([])
        lists[-1].append(candidate)
    if not lists:
        raise UserError(f"{path}: expected translations, got an empty file")
    return lists


def _parsed(line: str, place: str) -> tuple[int, Candidate]:
    """The number of a source line, and a translation of it."""
    number, *text, features, score = parts if len(parts := line.split(BETWEEN)) > 3 else [""] * 4
    if not (number.isascii() and number.isdecimal() and len(number) < 10):
        raise UserError(f"{place}: expected line ||| translation ||| name= value ... ||| score, "
                        f"got {line!r:.80}")
    return int(number), Candidate(BETWEEN.join(text), dict(_features(features, place)),
                                  _number(score, place))


def _features(text: str, place: str) -> Iterator[tuple[str, float]]:
    """Names and values."""
    words, seen = text.split(), set[str]()
    for name, value in zip(words[::2], [*words[1::2], ""] if len(words) % 2 else words[1::2],
                           strict=True):
        if not name.endswith("=") or name in seen:
            raise UserError(f"{place}: expected features, name= value each, got {text!r:.80}")
        seen.add(name)
        yield name.removesuffix("="), _number(value, place)


def _number(text: str, place: str) -> float:
    """A finite number."""
    value = number_of(text)
    if math.isnan(value):
        raise UserError(f"{place}: expected a finite number, got {text!r:.40}")
    return value
