"""Docstrings are plain text: what Markdown would take for markup in them is written out.

Text between backticks and indented lines, which are code in both, stay as they are; so do the bars
of a table.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

MARKUP = re.compile(r"(`[^`]*`)|([\[\]*_<|])")


class PlainText(griffe.Extension):
    """Escapes every docstring as it is read."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called by griffe for each module, class, function and attribute."""
        if obj.docstring is not None:
            obj.docstring.value = escaped(obj.docstring.value)


def escaped(text: str) -> str:
    """A docstring's text as Markdown that shows it."""
    return "\n".join(line if line.startswith("    ") else MARKUP.sub(_escaped, line)
                     for line in text.split("\n"))


def _escaped(match: re.Match[str]) -> str:
    """What stands for a match of MARKUP."""
    if match[1]:
        return match[1]
    if match[2] == "|" and match.string.startswith("|"):
        return "|"
    return "&lt;" if match[2] == "<" else f"\\{match[2]}"
