"""Evaluating systems of annotated text on plain text (thesis, sections 3.2 and 3.4.2).

This does for a system what `nmt annotate`, `nmt translate` and `nmt restore` do in sequence. It
gives annotated sources and references, and translations before and after unknown words are
replaced.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from nmt.data.align import Link
from nmt.data.annotation import Rules, annotate, link_probabilities, symbol_of
from nmt.data.corpus import Pair
from nmt.data.rare_words import Dictionary
from nmt.data.restoration import resolve, restore
from nmt.system import System


class Copying(NamedTuple):
    """The annotated text of a system, and the method that restores its unknown words.

    method: one of `nmt.data.annotation.METHODS`. pairs: annotated sources and references, a pair
    for each line. written: the words of the sources before annotation.
    """

    method: str
    pairs: list[Pair]
    written: list[list[str]]


class Restored(NamedTuple):
    """Translations, with a list of words for each line, and the outcomes of their unknown words."""

    before: list[list[str]]  # each unknown word is `<unk>`
    after: list[list[str]]
    counts: Counter[str]


def method_of(system: System) -> str | None:
    """The method of a system, found by the symbols of its target vocabulary.

    Without symbols it is noalign if the system has no attention; otherwise None, since unknown
    words are then replaced by attention.
    """
    methods = {symbol.method for word in system.target.words if (symbol := symbol_of(word))}
    if methods:
        return min(methods)
    return "noalign" if system.recipe.model.attention == "none" else None


def annotated(
    system: System, method: str, pairs: Sequence[Pair], links: Sequence[Sequence[Link]] | None
) -> Copying:
    """The pairs, annotated as this system's training text was.

    links: the links of each pair; None for noalign, which uses none.
    """
    links = [[] for _ in pairs] if links is None or method == "noalign" else links
    rules = Rules(method, frozenset(system.source.words), frozenset(system.target.words),
                  link_probabilities(pairs, links))
    counts: Counter[str] = Counter()
    annotated_pairs = [annotate(pair, links_of_pair, rules, counts)
                       for pair, links_of_pair in zip(pairs, links, strict=True)]
    return Copying(method, annotated_pairs, [list(source) for source, _ in pairs])


def restored(
    system: System, copying: Copying, translations: Sequence[Sequence[str]], dictionary: Dictionary
) -> Restored:
    """The translations of a system with its symbols replaced."""
    known = frozenset(system.source.words)
    restored_texts = Restored([], [], Counter())
    for words, source in zip(translations, copying.written, strict=True):
        resolved = resolve(words, source, copying.method, known)
        restored_texts.before.append(resolved.words)
        restored_texts.after.append(restore(resolved, source, dictionary))
        restored_texts.counts.update(resolved.counts)
    return restored_texts
