"""Untrusted text on a terminal: control characters are escaped.

A word of a vocabulary, a key of a recipe or a file's name may hold codes that colour a terminal,
move its cursor, set its title or change the direction of text. So commands print by `print` and
`Console`, which escape text. The stream itself is never wrapped, because rich's own codes go
through it. Text in pipes and files is unchanged.
"""

from __future__ import annotations

import builtins
import re
import sys
from collections.abc import Iterable
from typing import IO, Any, TextIO

import rich.console
from rich.segment import Segment

# Controls except tab and newline, marks of text direction, other line separators, and halves
# of surrogate pairs.
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
                     "\ud800-\udfff]")


def escaped(text: str) -> str:
    r"""The text with control characters as `\x1b` and the like."""
    return CONTROL.sub(lambda match: ascii(match[0])[1:-1], text)


def print(
    *values: object, sep: str = " ", end: str = "\n", file: TextIO | None = None,
    flush: bool = False,
) -> None:
    """Python's `print`, which escapes text that goes to a terminal."""
    stream = file or sys.stdout
    text = sep.join(map(str, values)) + end
    builtins.print(escaped(text) if stream.isatty() else text, end="", file=stream, flush=flush)


class Console(rich.console.Console):
    """rich's console. Its own control codes reach the terminal; those in texts are escaped.

    A console that draws a bar is given its `file`. Any other prints to the current sys.stdout,
    which, while a bar is drawn, prints above the bar.
    """

    @property
    def file(self) -> IO[str]:
        """The stream that the console prints to."""
        return getattr(self._file, "rich_proxied_file", self._file) or sys.stdout

    @file.setter
    def file(self, stream: IO[str]) -> None:
        self._file = stream

    @classmethod
    def of_tables(cls) -> Console:
        """A console for tables on stdout, without markup. In a pipe, tables are 160 columns wide.
        """
        return cls(highlight=False, markup=False, width=None if sys.stdout.isatty() else 160)

    def render(self, *args: Any, **kwargs: Any) -> Iterable[Segment]:
        """The segments of something to print, with their text escaped."""
        for segment in super().render(*args, **kwargs):
            yield segment if segment.control else Segment(escaped(segment.text), segment.style)
