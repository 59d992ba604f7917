"""Labelled bracketing of parses: precision, recall, F1 (Tables 6.2 and 6.5 of the thesis).

The thesis does not say how F1 is counted. Here it is counted as by EVALB with its file COLLINS.prm,
the standard for results on the Penn Treebank:

- A bracket is a label and the words that it spans; the brackets of a tree are a multiset.
- Labels have no function tags (NP for NP-SBJ), and ADVP and PRT count as equal.
- Neither the root (ROOT, TOP, S1) nor a word's tag is a bracket.
- Punctuation is removed first, and a constituent of punctuation alone is no bracket. EVALB finds
  punctuation by its tags (`,` `:` `.` and both quotation marks), but here tags are XX, so that
  `nmt.data.trees.PUNCTUATION` lists the words that mostly have these tags. On GUM, 80 of 63,666
  words differ: hyphens, dashes and apostrophes. Round brackets stay, as with COLLINS.prm.
- Matching brackets, the reference's and the parse's are each summed over the corpus.

A model's output is repaired first (`nmt.data.trees.repair`). A parse with more or fewer XX than the
sentence has words counts as having no brackets, so that all brackets of the reference are missed.
EVALB leaves such a sentence out of all sums, which would reward the parse.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple

from nmt.analysis.lengths import EDGES, Group, by_length
from nmt.console.messages import several
from nmt.data.trees import PUNCTUATION, ROOTS, Span, plain_label, rebuild, spans

EQUAL = {"PRT": "ADVP"}  # COLLINS.prm: EQ_LABEL ADVP PRT


class Brackets(NamedTuple):
    """Counts of brackets over sentences, and percentages, which are 0 if there are no brackets."""

    sentences: int = 0
    unfit: int = 0  # parses with another number of words
    exact: int = 0  # parses with exactly the brackets of the reference
    matched: int = 0  # brackets of both
    found: int = 0  # brackets of the parses; a key of the JSON
    gold: int = 0  # brackets of the references

    @property
    def precision(self) -> float:
        """The percentage of the parses' brackets that the references have."""
        return _percent(self.matched, self.found)

    @property
    def recall(self) -> float:
        """The percentage of the references' brackets that the parses have."""
        return _percent(self.matched, self.gold)

    @property
    def f1(self) -> float:
        """2 precision recall / (precision + recall), in per cent."""
        return _percent(2 * self.matched, self.found + self.gold)


def _percent(count: int, total: int) -> float:
    return 100.0 * count / total if total else 0.0


def brackets(symbols: Iterable[str], words: Sequence[str]) -> Counter[Span]:
    """The brackets of a tree. Their positions do not count punctuation."""
    kept = [word not in PUNCTUATION for word in words]
    place = [0, *accumulate(kept)]  # position of each word, and of the end
    counts: Counter[Span] = Counter()
    for label, start, end in spans(symbols):
        plain = plain_label(label)
        if place[start] < place[end] and plain not in ROOTS:
            counts[Span(EQUAL.get(plain, plain), place[start], place[end])] += 1
    return counts


def compare(written: Iterable[str], gold: Iterable[str], words: Sequence[str]) -> Brackets:
    """Compare a parse, as the model wrote it, with the reference's symbols.

    Raises ValueError if the reference is no tree over these words.
    """
    gold = list(gold)
    reference, parse = rebuild(gold, words), rebuild(written, words)
    if reference is None or reference.symbols != gold:
        raise ValueError(f"gold: expected the symbols of a tree over "
                         f"{several(len(words), 'word')}, got {' '.join(gold)!r}")
    expected = brackets(gold, words)
    if parse is None:
        return Brackets(1, unfit=1, gold=expected.total())
    parsed = brackets(parse.symbols, words)
    return Brackets(1, 0, int(parsed == expected), (parsed & expected).total(), parsed.total(),
                    expected.total())


def total(parts: Iterable[Brackets]) -> Brackets:
    """The sums of the counts of several sentences."""
    return Brackets(*map(sum, zip(Brackets(), *parts, strict=True)))


def f1_by_length(
    parts: Sequence[Brackets], lengths: Sequence[int], edges: Sequence[int] = EDGES
) -> list[Group]:
    """F1 of each bucket of sentence lengths, in words; see `lengths.by_length`."""
    return by_length(lengths, edges, lambda places: total(parts[i] for i in places).f1)
