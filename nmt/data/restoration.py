"""Turning annotated translations into words again (thesis, section 3.2).

There are two steps. `resolve` reads the symbols of `nmt.data.annotation` and finds the source word
of each unknown word. `restore` replaces each unknown word by its source word's translation, or by
the source word itself. The result of the first step, with `<unk>` for each unknown word, is the
translation "before" of Figure 3.6.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from nmt.data.align import Link
from nmt.data.annotation import UNK, known, symbol_of, unknown_numbers
from nmt.data.rare_words import Dictionary, replace_unknown


@dataclass
class Resolved:
    """A translation without symbols, and where its unknown words come from."""

    words: list[str]  # each unknown word is `<unk>`
    links: list[Link] = field(default_factory=list)  # source word, unknown word
    counts: Counter[str] = field(default_factory=Counter)  # outcomes of the unknown words


def resolve(
    words: Sequence[str], source: Sequence[str], method: str,
    source_words: Collection[str] = (),
) -> Resolved:
    """Read the symbols of one translation.

    A pointer outside the sentence, or past the last unknown word of the source, is moved to the
    nearest word and also counted as "outside". Null pointers, `<unk>` without a pointer, and,
    with noalign, more unknown words than the source has, stay `<unk>` and are counted as "null". A
    positional symbol of posall that follows no word is dropped and counted as "stray".

    words: a translation. source: the sentence as it was written. source_words: the source
    vocabulary, which noalign and copyable need. Raises ValueError for a symbol of another method.
    """
    for word in words:
        symbol = symbol_of(word)
        if symbol is not None and symbol.method != method:
            raise ValueError(f"expected symbols of {method}, got {word} of {symbol.method}")
    if method == "noalign":
        return _noalign(words, source, source_words)
    if method == "copyable":
        return _copyable(words, source, source_words)
    return _posall(words, source) if method == "posall" else _posunk(words, source)


def restore(resolved: Resolved, source: Sequence[str], dictionary: Dictionary) -> list[str]:
    """The words of a translation, with each unknown word replaced by its source word's translation
    or, where the dictionary has none, by the source word."""
    return replace_unknown(resolved.words, source, resolved.links, dictionary)


def _noalign(
    words: Sequence[str], source: Sequence[str], source_words: Collection[str]
) -> Resolved:
    """The i-th unknown word comes from the i-th unknown word of the source (section 3.4.2)."""
    resolved = Resolved(list(words))
    unknown = [i for i, word in enumerate(source) if not known(word, source_words)]
    places = [j for j, word in enumerate(words) if word == UNK]
    for number, j in enumerate(places):
        if number < len(unknown):
            _point(resolved, j, unknown[number], source)
        else:
            resolved.counts["null"] += 1
    return resolved


def _copyable(
    words: Sequence[str], source: Sequence[str], source_words: Collection[str]
) -> Resolved:
    """`<unk_n>` comes from the n-th distinct unknown word (section 3.2.1)."""
    resolved = Resolved([])
    numbers = unknown_numbers(source, source_words)
    places = [source.index(word) for word in numbers]
    for j, word in enumerate(words):
        symbol = symbol_of(word)
        resolved.words.append(UNK if symbol else word)
        if symbol is not None and symbol.number is not None and places:
            resolved.counts["outside"] += symbol.number > len(places)
            _point(resolved, j, places[min(symbol.number, len(places)) - 1], source)
        elif symbol is not None or word == UNK:
            resolved.counts["null"] += 1
    return resolved


def _posunk(words: Sequence[str], source: Sequence[str]) -> Resolved:
    """`<unkpos_d>` comes from source word j - d (section 3.2.3)."""
    resolved = Resolved([])
    for j, word in enumerate(words):
        symbol = symbol_of(word)
        resolved.words.append(UNK if symbol else word)
        if symbol is not None or word == UNK:
            _point_by(resolved, j, symbol.number if symbol else None, source)
    return resolved


def _posall(words: Sequence[str], source: Sequence[str]) -> Resolved:
    """`<unk>` before `<p_d>` comes from source word j - d, j without symbols (section 3.2.2)."""
    resolved = Resolved([])
    distances: list[int | None] = []
    annotated = True  # whether the last word has its symbol
    for word in words:
        symbol = symbol_of(word)
        if symbol is None:
            resolved.words.append(word)
            distances.append(None)
        elif annotated:
            resolved.counts["stray"] += 1
        else:
            distances[-1] = symbol.number
        annotated = symbol is not None
    for j, word in enumerate(resolved.words):
        if word == UNK:
            _point_by(resolved, j, distances[j], source)
    return resolved


def _point_by(resolved: Resolved, j: int, distance: int | None, source: Sequence[str]) -> None:
    """Link unknown word j to source word j - d, or count it as null."""
    if distance is None or not source:
        resolved.counts["null"] += 1
    else:
        _point(resolved, j, j - distance, source)


def _point(resolved: Resolved, j: int, i: int, source: Sequence[str]) -> None:
    """Link unknown word j to source word i, or to the nearest."""
    nearest = min(max(i, 0), len(source) - 1)
    resolved.counts["outside"] += nearest != i
    resolved.counts["pointed"] += 1
    resolved.links.append((nearest, j))
