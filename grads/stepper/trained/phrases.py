"""The phrases that the models of the package are trained on: a closed set of some sixty words."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
from babel import Locale, lists

from nmt.data.cldr_phrases import (
    LIST_STYLES,
    Form,
    PhraseBook,
    normalise,
    parse_locale,
    part_of_date,
    span,
    weekdays,
)
from nmt.data.corpus import Pair
from nmt.data.tokenise import natural_tokeniser

TEMPLATES = (partial(span, relative=True), partial(part_of_date, skeleton="MMMMd"), weekdays)
LARGEST = 12  # number in a phrase
LONGEST = 8  # words of a side
SIZE, DEV = 1700, 200  # phrases, of which so many are not trained on


def phrases(seed: int = 1) -> list[Pair]:
    """German phrases with their English translations, as words: "vor 8 Stunden oder 1. Juni".

    One or two clauses: a span of time from now, a day of the year, or days of the week.
    """
    locales = parse_locale("de"), parse_locale("en")
    cut = [natural_tokeniser(locale.language).tokenise for locale in locales]
    rng, names = np.random.default_rng(seed), PhraseBook(*locales).names
    pairs: dict[str, Pair] = {}
    while len(pairs) < SIZE:
        forms = [TEMPLATES[rng.integers(len(TEMPLATES))](rng, names)
                 for _ in range(rng.integers(1, 3))]
        style = int(rng.integers(2))
        source, target = (tokenise(normalise(listed(forms, style, locale)))
                          for tokenise, locale in zip(cut, locales, strict=True))
        if max(len(source), len(target)) <= LONGEST and all(map(small, source)):
            pairs.setdefault(" ".join(source), (source, target))
    return list(pairs.values())


def listed(forms: Sequence[Form], style: int, locale: Locale) -> str:
    """Clauses joined as the locale lists things: with "and", or with "or"."""
    return lists.format_list([form(locale) for form in forms], LIST_STYLES[style], locale=locale)


def small(word: str) -> bool:
    """Whether a word is not a number above LARGEST, such as "13" or "13."."""
    digits = word.rstrip(".")
    return not digits.isdigit() or int(digits) <= LARGEST
