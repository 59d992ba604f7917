"""Phrases with the same meaning in any two languages, by the formatting rules of Unicode CLDR.

A form is a function from a locale to text: it holds a datum (a day, a price, three countries) and
formats it by the rules of that locale. The two sides of a translation are one form called for two
locales: CLDR decides on word order, agreement and plural, and the translation is always right.

Numbers come from grids and years from one century. The words thus form a nearly closed set, which a
model of words can learn without copying.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import partial
from typing import Literal, TypeVar

import numpy as np
from babel import Locale, UnknownLocaleError, dates, lists, numbers, units

from backend.errors import UserError
from nmt.data.tokenise import natural_tokeniser

T = TypeVar("T")
Form = Callable[[Locale], str]
Template = Callable[[np.random.Generator, "Names"], Form]

ROUND = (150, 200, 250, 300, 400, 500, 600, 750, 800, 1000, 1500, 2000, 2500, 5000, 10000)
WHOLE = (*range(1, 101), *ROUND)
HALVES = tuple(Decimal(n) + Decimal("0.5") for n in range(21))
AMOUNTS = (*[1] * 10, *WHOLE, *HALVES)  # ten times 1, since singulars would be rare otherwise
FIRST_DAY, LAST_DAY = date(1950, 1, 1), date(2049, 12, 31)
Unit = Literal["second", "minute", "hour", "day", "week", "month", "year"]
DAY = 86400  # seconds; months and years as Babel counts them
SECONDS: dict[Unit, int] = {"second": 1, "minute": 60, "hour": 3600, "day": DAY}
SECONDS |= {"week": 7 * DAY, "month": 30 * DAY, "year": 365 * DAY}
LIST_STYLES: tuple[Literal["standard", "or"], ...] = ("standard", "or")
TENDER_DAY = date(2024, 1, 1)  # the currencies are those of this day, so the corpus never changes

BIDI_MARKS = dict.fromkeys(map(ord, "\u200e\u200f\u061c"))
BLOB = re.compile(r"[0-9]+([-./:])[0-9]+\1[0-9]+")  # a whole date or time in one word
STUCK = re.compile(r"[^\W\d_][0-9]|[0-9][^\W\d_]")  # a letter beside a digit
LOOKUP_ERRORS = (LookupError, ValueError, AttributeError)  # what Babel raises on missing data


def normalise(text: str) -> str:
    """Text in NFC with plain spaces and apostrophes, which the tokenisers know.

    Every run of white space becomes one space, because CLDR separates numbers from units by
    no-break spaces (U+00A0, U+202F). U+2019 becomes an ASCII apostrophe, as in Moses'
    normalisation. Invisible marks of writing direction (U+200E, U+200F, U+061C) are dropped.
    """
    text = unicodedata.normalize("NFC", text.translate(BIDI_MARKS).replace("\u2019", "'"))
    return " ".join(text.split())


def parse_locale(name: str) -> Locale:
    """The locale of a CLDR identifier such as en, pt_BR or zh-Hans. Raises UserError if unknown."""
    try:
        return Locale.parse(name.replace("-", "_"))
    except (UnknownLocaleError, ValueError, TypeError, AttributeError):
        form = "a CLDR locale such as en, fr, pt_BR or zh_Hans"
        raise UserError(f"locale: expected {form}, got {name!r}") from None


@dataclass(frozen=True)
class Names:
    """The codes that both locales of a pair have names for, in alphabetical order."""

    territories: tuple[str, ...]
    languages: tuple[str, ...]
    currencies: tuple[str, ...]  # legal tender somewhere
    signs: tuple[str, ...]  # the currencies whose sign or code does not stick to the number
    units: tuple[str, ...]


def shared_names(source: Locale, target: Locale) -> Names:
    """The territories, languages, currencies and units that both locales name."""
    tender = {c for t in source.territories for c in _tender(str(t))}
    currencies = tuple(c for c in _both(source.currencies, target.currencies) if c in tender)
    return Names(
        territories=_both(source.territories, target.territories),
        languages=_both(source.languages, target.languages),
        currencies=currencies,
        signs=tuple(c for c in currencies if _has_sign(source, c) and _has_sign(target, c)),
        units=tuple(
            unit
            for unit in _both(source.unit_display_names, target.unit_display_names)
            if _names_unit(source, unit) and _names_unit(target, unit)
        ),
    )


def _tender(territory: str) -> list[str]:
    return numbers.get_territory_currencies(territory, TENDER_DAY, TENDER_DAY)


def _has_sign(locale: Locale, currency: str) -> bool:
    """Whether prices of a currency add few words to the vocabulary.

    They do with a sign apart from the number, unlike KMF12, and without three decimals, unlike
    12.500.
    """
    text = normalise(numbers.format_currency(12, currency, locale=locale))
    return not STUCK.search(text) and numbers.get_currency_precision(currency) <= 2


def _both(source: Iterable[str], target: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(source) & set(target)))


def _names_unit(locale: Locale, unit: str) -> bool:
    """Whether the locale has a long pattern for a unit; Babel prints the code where it has none."""
    try:
        return unit not in units.format_unit(2, unit, "long", locale=locale)
    except LOOKUP_ERRORS:
        return False


# The templates: each draws one datum and returns its form.


def day(rng: np.random.Generator, names: Names, width: str) -> Form:
    """A day: "Wednesday, March 7, 1984"."""
    when = _day(rng)
    return lambda locale: dates.format_date(when, width, locale=locale)


def part_of_date(rng: np.random.Generator, names: Names, skeleton: str) -> Form:
    """Some fields of a day, by CLDR skeleton: "March 1984", "1st quarter 1984"."""
    when = _day(rng)
    return lambda locale: dates.format_skeleton(skeleton, when, locale=locale)


def days(rng: np.random.Generator, names: Names) -> Form:
    """A span of days: "Mar 7 – 9, 1984"."""
    start = _day(rng)
    end = min(start + timedelta(days=int(rng.integers(1, 60))), LAST_DAY)
    return lambda locale: dates.format_interval(start, end, "yMMMd", locale=locale)


def clock(rng: np.random.Generator, names: Names, width: str) -> Form:
    """A time of day: "3:30 PM"; in full with its zone, "3:30:00 PM Coordinated Universal Time"."""
    when = _clock(rng)
    return lambda locale: dates.format_time(when, width, locale=locale)


def moment(rng: np.random.Generator, names: Names) -> Form:
    """A day with a time: "Mar 7, 1984, 3:30:00 PM"."""
    when = datetime.combine(_day(rng), _clock(rng))
    return lambda locale: dates.format_datetime(when, "medium", locale=locale)


def span(rng: np.random.Generator, names: Names, relative: bool) -> Form:
    """A length of time, "12 weeks", or one from now, "in 12 weeks", "12 weeks ago"."""
    unit = _pick(rng, tuple(SECONDS))
    amount = int(rng.integers(1, 61)) * (_pick(rng, (-1, 1)) if relative else 1)
    delta = timedelta(seconds=amount * SECONDS[unit])
    return lambda locale: dates.format_timedelta(
        delta,
        granularity=unit,
        threshold=float("inf"),  # no conversion of units, as of 12 weeks to "3 months"
        add_direction=relative,
        format="long",
        locale=locale,
    )


def measure(rng: np.random.Generator, names: Names) -> Form:
    """A physical amount: "2.5 kilometers"."""
    amount, unit = _pick(rng, AMOUNTS), _pick(rng, names.units)
    return lambda locale: units.format_unit(amount, unit, "long", locale=locale)


def price(rng: np.random.Generator, names: Names) -> Form:
    """Money with its sign: "€2.50"."""
    amount, currency = _pick(rng, AMOUNTS), _pick(rng, names.signs)
    return lambda locale: numbers.format_currency(amount, currency, locale=locale)


def money(rng: np.random.Generator, names: Names) -> Form:
    """Money in words: "2.5 Swiss francs"."""
    amount, currency = _pick(rng, AMOUNTS), _pick(rng, names.currencies)
    return lambda locale: numbers.format_currency(
        amount, currency, locale=locale, currency_digits=False, format_type="name"
    )


def percentage(rng: np.random.Generator, names: Names) -> Form:
    """A share: "12.5%"."""
    share = Decimal(_pick(rng, AMOUNTS)) / 100
    return lambda locale: numbers.format_percent(share, locale=locale, decimal_quantization=False)


def large_number(rng: np.random.Generator, names: Names) -> Form:
    """A large round number in words: "12 million"; from 2, since Babel takes 1 for a plural."""
    number = int(rng.integers(2, 100)) * 1000 ** int(rng.integers(1, 5))
    return lambda locale: numbers.format_compact_decimal(number, format_type="long", locale=locale)


def listed(rng: np.random.Generator, names: Names, kind: str) -> Form:
    """One to three names: "France, Benin, or Peru"."""
    chosen = _several(rng, getattr(names, kind))
    style = _pick(rng, LIST_STYLES)
    return lambda locale: lists.format_list(
        [getattr(locale, kind)[code] for code in chosen], style, locale=locale
    )


def weekdays(rng: np.random.Generator, names: Names) -> Form:
    """One to three days of the week: "Monday or Friday"."""
    chosen = _several(rng, range(7))
    style = _pick(rng, LIST_STYLES)
    return lambda locale: lists.format_list(
        [locale.days["stand-alone"]["wide"][i] for i in chosen], style, locale=locale
    )


def measures(rng: np.random.Generator, names: Names) -> Form:
    """Two physical amounts: "2 liters and 5 grams"."""
    forms = [measure(rng, names), measure(rng, names)]
    return lambda locale: lists.format_list([f(locale) for f in forms], locale=locale)


def _pick(rng: np.random.Generator, options: Sequence[T]) -> T:
    return options[int(rng.integers(len(options)))]


def _several(rng: np.random.Generator, options: Sequence[T]) -> list[T]:
    """One to three different options."""
    chosen: list[T] = []
    for _ in range(int(rng.integers(1, 4))):
        option = _pick(rng, options)
        chosen += [] if option in chosen else [option]
    return chosen


def _day(rng: np.random.Generator) -> date:
    return FIRST_DAY + timedelta(days=int(rng.integers((LAST_DAY - FIRST_DAY).days + 1)))


def _clock(rng: np.random.Generator) -> time:
    """A time of day, at a multiple of five minutes and a multiple of 30 seconds."""
    return time(int(rng.integers(24)), 5 * int(rng.integers(12)), 30 * int(rng.integers(2)))


# Each template with its share of the clauses. Names have the largest shares, since there are a
# thousand of them to learn.
TEMPLATES: tuple[tuple[float, Template], ...] = (
    *((1, partial(day, width=width)) for width in ("full", "long", "medium", "short")),
    *((0.5, partial(part_of_date, skeleton=s)) for s in ("yMMMM", "MMMMd", "yQQQQ", "MMMEd")),
    *((0.5, partial(clock, width=width)) for width in ("short", "medium", "full")),
    (1, days),
    (1, moment),
    (1, partial(span, relative=False)),
    (2, partial(span, relative=True)),
    (2, measure),
    (1, measures),
    (1, price),
    (2, money),
    (0.5, percentage),
    (0.5, large_number),
    (0.5, weekdays),
    (3, partial(listed, kind="territories")),
    (4, partial(listed, kind="languages")),
)
JOINTS = ("{0}; {1}", "{0}: {1}", "{0} / {1}", "{0} ({1})")  # the same in every language
CLAUSES = (1, 1, 1, 2, 2, 2, 2, 3, 3, 3)  # clauses per phrase, equally probable


class PhraseBook:
    """The phrases of a pair of locales, of which `draw` draws one.

    A template is dropped if either locale lacks the data for it, or writes a whole date or time as
    one word (German 07.03.84), which a vocabulary of words cannot cover.
    """

    def __init__(self, source: Locale, target: Locale) -> None:
        self.source, self.target = source, target
        self.names = shared_names(source, target)
        usable = [(weight, t) for weight, t in TEMPLATES if self._usable(t)]
        self.templates = [template for _, template in usable]
        self.bounds = np.cumsum([weight for weight, _ in usable])

    def _usable(self, template: Template, tries: int = 8) -> bool:
        """Whether a template works in both locales and keeps the vocabulary nearly closed."""
        rng = np.random.default_rng(0)
        for _ in range(tries):
            try:
                form = template(rng, self.names)
                texts = [(locale, normalise(form(locale))) for locale in (self.source, self.target)]
            except LOOKUP_ERRORS:
                return False
            for locale, text in texts:
                words = natural_tokeniser(locale.language).tokenise(text)
                if not words or any(BLOB.search(word) for word in words):
                    return False
        return True

    def draw(self, rng: np.random.Generator) -> tuple[str, str]:
        """One phrase of one to three clauses, in the source and in the target locale.

        Clauses are joined as a CLDR list (half of the phrases) or by neutral punctuation.
        """
        form = self._clause(rng)
        others = [self._clause(rng) for _ in range(_pick(rng, CLAUSES) - 1)]
        if others and rng.random() < 0.5:
            form = _listing([form, *others])
        else:
            for other in others:
                form = _joint(_pick(rng, JOINTS), form, other)
        return normalise(form(self.source)), normalise(form(self.target))

    def _clause(self, rng: np.random.Generator) -> Form:
        place = np.searchsorted(self.bounds, rng.random() * self.bounds[-1], side="right")
        return self.templates[int(place)](rng, self.names)


def _listing(forms: list[Form]) -> Form:
    return lambda locale: lists.format_list([form(locale) for form in forms], locale=locale)


def _joint(pattern: str, first: Form, second: Form) -> Form:
    return lambda locale: pattern.format(first(locale), second(locale))
