"""Notes on stderr on what a command reads, each said once.

A command hears them (`heard`); in a program that imports this package nothing is printed.
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
    """Context: print the notes of what runs in it."""
    before = _said.set(set())
    try:
        yield
    finally:
        _said.reset(before)


def note(about: str, text: str) -> None:
    """Print a line on stderr, the first of all those about the same thing."""
    printed = _said.get()
    if printed is not None and about not in printed:
        printed.add(about)
        print(text, file=sys.stderr)
