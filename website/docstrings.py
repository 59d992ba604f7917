"""Docstrings are plain text: what Markdown would take for markup in them is written out.

Text between backticks and indented lines, which are code in both, stay as they are.
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
    return "\n".join(line if line.startswith("    ") else
                     MARKUP.sub(lambda match: match[1] or (
                         "&lt;" if match[2] == "<" else f"\\{match[2]}"), line)
                     for line in text.split("\n"))
