"""Annotating unknown words with the source words that they come from (thesis, section 3.2).

Words outside a vocabulary become symbols. A symbol in the target says which source word it is
linked to. Positions count from 0: source words in written order, even if a model reads them in
reverse, and target words without positional symbols. `nmt.data.restoration` turns the symbols of a
translation back into words.

| method | source | target |
|---|---|---|
| noalign | `<unk>` | `<unk>` |
| copyable | `<unk_1>`, `<unk_2>` ... in order | `<unk_n>` as the source word, else `<unk_0>` |
| posall | `<unk>` | after each word, `<unk>` too, `<p_d>` or `<p_null>` |
| posunk | `<unk>` | `<unkpos_d>` or `<unkpos_null>` |

A pointer d in -7 .. 7 from target word j names source word i = j - d (section 3.2.2 and Table 3.3;
Figures 3.3 and 3.4 disagree, see docs/errata.md).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from backend.errors import check_among
from nmt.data.align import Link
from nmt.data.corpus import Pair
from nmt.data.vocabulary import SPECIALS, UNKNOWN

METHODS = ("noalign", "copyable", "posall", "posunk")
WINDOW = 7  # largest |d|
UNK = SPECIALS[UNKNOWN]

_SYMBOL = re.compile(r"<unk_([0-9]{1,9})>|<p_(-?[0-9]{1,9}|null)>|<unkpos_(-?[0-9]{1,9}|null)>")

NULL = "<null>"  # dummy source of monolingual text (Sennrich, Haddow and Birch, 2016)
_LANGUAGE = re.compile(r"<2[\w-]{1,40}>")  # in front of a source: the target language


class Symbol(NamedTuple):
    """An annotation symbol: its method, and its number, None for null."""

    method: str
    number: int | None


def symbol_of(word: str) -> Symbol | None:
    """A word as a symbol of copyable, posall or posunk; None for all other words."""
    match = _SYMBOL.fullmatch(word)
    if match is None:
        return None
    method, text = next((method, text) for method, text in
                        zip(METHODS[1:], match.groups(), strict=True) if text is not None)
    null = text == "null" or (method == "copyable" and int(text) == 0)
    return Symbol(method, None if null else int(text))


def is_symbol(word: str) -> bool:
    """Whether a word is a symbol of copyable, posall or posunk, or one that `names_source`."""
    return symbol_of(word) is not None or names_source(word)


def stays_whole(word: str) -> bool:
    """Whether a word is a symbol, which is never cut into pieces."""
    return word[:1] == "<" and (word in SPECIALS or is_symbol(word))


def names_source(word: str) -> bool:
    """Whether a word is the dummy source of monolingual text, or a symbol of the target
    language."""
    return word == NULL or is_language(word)


def is_language(word: str) -> bool:
    """Whether a word is a symbol of the target language, `<2de>` (Johnson et al., 2016)."""
    return _LANGUAGE.fullmatch(word) is not None


def method_of(words: Iterable[str]) -> str | None:
    """The method (copyable, posall or posunk) of the first symbol among the words; None if there is
    no symbol."""
    return next((symbol.method for word in words if (symbol := symbol_of(word))), None)


def _spelt(method: str, number: int | None) -> str:
    """The symbol with this number, None for null; the inverse of `symbol_of`."""
    name = {"copyable": "unk", "posall": "p", "posunk": "unkpos"}[method]
    null = "0" if method == "copyable" else "null"
    return f"<{name}_{null if number is None else number}>"


@dataclass(frozen=True)
class Rules:
    """The rules by which a corpus is annotated.

    method: one of METHODS. source_words, target_words: the vocabularies; a word that is spelt like
    a symbol counts as unknown. probability: p(target word | source word), 0 for pairs without an
    entry. Of several links of a target word, which the thesis leaves open, the most probable one is
    taken, then the nearest, then the first.
    """

    method: str
    source_words: Collection[str]
    target_words: Collection[str]
    probability: Mapping[tuple[str, str], float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_among("method", self.method, METHODS)


def annotate(pair: Pair, links: Sequence[Link], rules: Rules, counts: Counter[str]) -> Pair:
    """A sentence pair with symbols in place of its unknown words.

    Source: thesis (3.2.1 copyable), (3.2.2 posall), (3.2.3 posunk), section 3.4.2 for noalign.

    links: (source word, target word). counts: the outcomes for the target's unknown words are added
    to it: "pointed"; "null" for a word without a link (copyable: without a link to an unknown
    word); "far" for a word whose links are all outside the window, which is null too; "unknown"
    with noalign.
    """
    source, target = pair
    numbers = unknown_numbers(source, rules.source_words) if rules.method == "copyable" else {}
    marked_source = [word if known(word, rules.source_words) else
                     _spelt("copyable", numbers[word]) if rules.method == "copyable" else UNK
                     for word in source]
    marked_target: list[str] = []
    for j, word in enumerate(target):
        linked = [i for i, target_place in links if target_place == j]
        is_known = known(word, rules.target_words)
        number, outcome = _number(j, linked, pair, numbers, rules)
        marked_target += _marked(word, is_known, number, rules.method)
        if not is_known:
            counts[outcome] += 1
    return marked_source, marked_target


def known(word: str, words: Collection[str]) -> bool:
    """Whether a word is in a vocabulary; a word that is spelt like a symbol is not."""
    return word in words and word not in SPECIALS and not is_symbol(word)


def unknown_numbers(source: Sequence[str], source_words: Collection[str]) -> dict[str, int]:
    """The unknown words of a source sentence -> their numbers, from 1; equal words share one
    (3.2.1)."""
    unknown = dict.fromkeys(word for word in source if not known(word, source_words))
    return {word: number for number, word in enumerate(unknown, 1)}


def _number(
    j: int, linked: Sequence[int], pair: Pair, numbers: Mapping[str, int], rules: Rules
) -> tuple[int | None, str]:
    """The number in the symbol of target word j, None for null, and the outcome to count."""
    source, target = pair
    if rules.method == "noalign":
        return None, "unknown"
    if rules.method == "copyable":
        reachable = [i for i in linked if source[i] in numbers]
    else:
        reachable = [i for i in linked if abs(j - i) <= WINDOW]
    if not reachable:
        return None, "far" if linked and rules.method != "copyable" else "null"

    def rank(i: int) -> tuple[float, int, int]:
        return -rules.probability.get((source[i], target[j]), 0.0), abs(j - i), i

    best = min(reachable, key=rank)
    return (numbers[source[best]] if rules.method == "copyable" else j - best), "pointed"


def _marked(word: str, is_known: bool, number: int | None, method: str) -> list[str]:
    """A target word as written in the annotated corpus."""
    if method == "posall":
        return [word if is_known else UNK, _spelt(method, number)]
    if is_known:
        return [word]
    return [UNK if method == "noalign" else _spelt(method, number)]


def link_probabilities(
    pairs: Sequence[Pair], links: Sequence[Sequence[Link]]
) -> dict[tuple[str, str], float]:
    """p(target word | source word), the pair's share of the source word's links (footnote 2)."""
    counts: Counter[tuple[str, str]] = Counter()
    for (source, target), sentence in zip(pairs, links, strict=True):
        counts.update((source[i], target[j]) for i, j in sentence)
    totals: Counter[str] = Counter()
    for (word, _), count in counts.items():
        totals[word] += count
    return {pair: count / totals[pair[0]] for pair, count in counts.items()}
