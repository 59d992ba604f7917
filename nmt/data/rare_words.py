"""Replacing unknown words of a translation by means of the attention (thesis, 3.2 and 4.2)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from backend.errors import UserError
from nmt.data.align import Link
from nmt.data.attention_links import DEFAULT
from nmt.data.corpus import read_lines, split_words, write_lines
from nmt.data.vocabulary import SPECIALS, UNKNOWN

UNK = SPECIALS[UNKNOWN]
Dictionary = Mapping[str, Sequence[str]]  # source word -> target words


@dataclass(frozen=True)
class UnkReplacement:
    """Options for replacing unknown words.

    dictionary: translations of source words; words without an entry are copied. aligned_word:
    `predicted` or `read`, the target word that a step's weights belong to; see
    `nmt.data.attention_links`.
    """

    dictionary: Dictionary = field(default_factory=dict)
    aligned_word: str = DEFAULT


def replace_unknown(
    words: Sequence[str], source: Sequence[str], links: Sequence[Link], dictionary: Dictionary
) -> list[str]:
    """Replace every `<unk>` by the translation of the source word that it is linked to.

    Source: thesis section 3.2: "a word dictionary lookup"; "if a word does not appear in our
    dictionary, then we apply the identity translation".

    words: a translation. source: the sentence as it was written. links: (source word, target word),
    at most one for each target word. An `<unk>` without a link stays.
    """
    linked = {target: source[place] for place, target in links}
    result: list[str] = []
    for place, word in enumerate(words):
        if word == UNK and place in linked:
            result += dictionary.get(linked[place], (linked[place],))
        else:
            result.append(word)
    return result


def read_dictionary(path: str | Path) -> dict[str, list[str]]:
    """Read a dictionary: UTF-8 lines of a source word, a tab, its translation in target words.

    The words are those of the model's tokenisation. Blank lines and a byte order mark are skipped.
    Raises UserError, with file and line, for a line without exactly one tab, one source word and a
    translation, for a carriage return within a line, and for a repeated source word.
    """
    entries: dict[str, list[str]] = {}
    lines: dict[str, int] = {}
    for number, line in enumerate(read_lines(path), 1):
        if not split_words(line):
            continue
        columns = [split_words(column) for column in line.split("\t")]
        if len(columns) != 2 or len(columns[0]) != 1 or not columns[1] or "\r" in line:
            raise UserError(f"{path}:{number}: expected a source word, a tab and its translation, "
                            f"got {line!r}")
        ((word,), translation) = columns
        if word in lines:
            raise UserError(f"{path}:{number}: expected a new source word, got {word!r}, which is "
                            f"on line {lines[word]} already")
        entries[word], lines[word] = translation, number
    return entries


def write_dictionary(path: str | Path, dictionary: Dictionary) -> None:
    """Write a dictionary, which `read_dictionary` reads."""
    write_lines(path, (f"{word}\t{' '.join(translation)}"
                       for word, translation in dictionary.items()))


def dictionary_of(
    sources: Sequence[Sequence[str]], targets: Sequence[Sequence[str]],
    links: Sequence[Sequence[Link]], min_count: int = 1, max_translations: int = 1,
) -> dict[str, list[str]]:
    """The `max_translations` most frequent translations of each source word in an aligned corpus.

    Source: thesis section 3.2, footnote 2: the translation with the highest probability, estimated
    from alignment links; a pair is added "only if its alignment count exceeds 100", which is
    min_count 101. Of equally frequent translations the first in alphabetical order wins.

    sources, targets: the words of each sentence pair. links: its links. Returns entries by source
    word.
    """
    counts: Counter[tuple[str, str]] = Counter()
    for source, target, sentence in zip(sources, targets, links, strict=True):
        counts.update((source[i], target[j]) for i, j in sentence)
    best: dict[str, list[str]] = {}
    for (word, translation), count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        if count >= min_count and len(best.get(word, ())) < max_translations:
            best.setdefault(word, []).append(translation)
    return dict(sorted(best.items()))
