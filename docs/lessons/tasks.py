"""What the translators of lessons 4 and 5 are trained on: dates, and digits to repeat."""

from __future__ import annotations

from typing import Any

import numpy as np

from nmt.data.cldr_phrases import PhraseBook, day, normalise, parse_locale
from nmt.data.tokenise import natural_tokeniser


def dates(number: int, seed: int = 1) -> list[tuple[list[str], list[str]]]:
    """Distinct pairs of tokenised dates from 2010 to 2019, English and Spanish."""
    rng = np.random.default_rng(seed)
    pairs: dict[str, tuple[list[str], list[str]]] = {}
    book = PhraseBook(parse_locale("en"), parse_locale("es"))
    cut = [natural_tokeniser(language).tokenise for language in ("en", "es")]
    while len(pairs) < number:
        form = day(rng, book.names, "full")
        english, spanish = (normalise(form(locale)) for locale in (book.source, book.target))
        if english[-4:-1] == "201":
            pairs[english] = (cut[0](english), cut[1](spanish))
    return list(pairs.values())


def digits(rng: Any, number: int, length: int | None = None) -> list[tuple[list[int], list[int]]]:
    """Pairs of equal sequences of 1 to 10 digits (ids 2 to 11), or of the given length."""
    lengths = rng.integers(1, 11, number) if length is None else [length] * number
    return [(x, x) for x in (rng.integers(2, 12, size=n).tolist() for n in lengths)]
