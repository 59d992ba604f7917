"""Text in one normal form, and as letters that are never parted from their marks.

Unicode writes é as one character or as e and a combining accent. All text is read in normal form C,
where it is one. A mark that has no such character, as of most scripts of India, stays a character
of its own, and is one letter with what stands before it.
"""

from __future__ import annotations

import unicodedata

FIRST_MARK = "\u0300"  # no character before it is one


def composed(text: str) -> str:
    """The text in normal form C."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def is_mark(character: str) -> bool:
    """Whether a character belongs to the one before it."""
    return character >= FIRST_MARK and unicodedata.category(character)[0] == "M"


def letters(text: str) -> list[str]:
    """The characters of a text, each with the marks behind it. A mark at the start, or behind a
    space, stands alone."""
    if text.isascii():
        return list(text)
    groups: list[str] = []
    for character in text:
        if groups and is_mark(character) and not groups[-1].isspace():
            groups[-1] += character
        else:
            groups.append(character)
    return groups
