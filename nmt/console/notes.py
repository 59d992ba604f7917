"""Notes on stderr about what a command reads; each is printed once.

A command switches them on (`heard`). In a program that imports this package nothing is printed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from nmt.console.terminal import print

_said: ContextVar[set[str] | None] = ContextVar("said", default=None)


@contextmanager
def heard() -> Iterator[None]:
    """Context in which notes are printed."""
    before = _said.set(set())
    try:
        yield
    finally:
        _said.reset(before)


def note(about: str, text: str) -> None:
    """Print a line on stderr, unless there was one on the same subject. about: the subject."""
    printed = _said.get()
    if printed is not None and about not in printed:
        printed.add(about)
        print(text, file=sys.stderr)
