"""Uyghur in Latin letters, so that it shares pieces with Uzbek or Turkish words.

Source: Nguyen, 3.1.2.1, "a string homomorphism, replacing Arabic letters with English letters or
consonant clusters independent of context". The letters are those of the Uyghur Latin alphabet
(ULY). The hamza that carries a vowel is not written. Other text is unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence

LETTERS = {
    "\u0627": "a", "\u06d5": "e", "\u0628": "b", "\u067e": "p", "\u062a": "t", "\u062c": "j",
    "\u0686": "ch", "\u062e": "x", "\u062f": "d", "\u0631": "r", "\u0632": "z", "\u0698": "zh",
    "\u0633": "s", "\u0634": "sh", "\u063a": "gh", "\u0641": "f", "\u0642": "q", "\u0643": "k",
    "\u06af": "g", "\u06ad": "ng", "\u0644": "l", "\u0645": "m", "\u0646": "n", "\u06be": "h",
    "\u0648": "o", "\u06c7": "u", "\u06c6": "ö", "\u06c8": "ü", "\u06cb": "w", "\u06d0": "ë",
    "\u0649": "i", "\u064a": "y", "\u0626": "", "\u060c": ",", "\u061b": ";", "\u061f": "?",
}
_TABLE = str.maketrans(LETTERS)


def latin(words: Sequence[str]) -> list[str]:
    """Words in Latin letters; a word that would become empty is unchanged."""
    return [word.translate(_TABLE) or word for word in words]
