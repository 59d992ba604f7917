"""Text in one normal form, and as letters that are never separated from their marks.

Unicode writes é as one character, or as e and a combining accent. All text is read in normal form
C, where é is one character. A letter with a mark that has no such character, as in most scripts of
India, stays two characters, which together count as one letter.
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
    """The characters of a text, each with the marks that follow it. A mark at the start or after a
    space stands alone."""
    if text.isascii():
        return list(text)
    groups: list[str] = []
    for character in text:
        if groups and is_mark(character) and not groups[-1].isspace():
            groups[-1] += character
        else:
            groups.append(character)
    return groups
