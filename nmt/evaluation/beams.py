"""BLEU, length ratio and empty translations by beam size: do wide beams shorten?

Source: Nguyen (2019), 4.1.1: with wider beams the empty translation becomes the best of more and
more sentences (Stahlberg and Byrne, 2019; Murray and Chiang, 2018).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from nmt.evaluation.evaluate import Subject, TestSet
from nmt.evaluation.scores import Score, bleu, length_ratio
from nmt.search.interface import SearchOptions
from nmt.system import System


@dataclass(frozen=True)
class OfBeam:
    """One system with one beam size."""

    name: str  # the system's
    beam: int
    bleu: Score
    length_ratio: float  # words of the translations by those of the references, as BLEU counts them
    empty: int  # best translations without any word, of sources with some
    sentences: int  # sources with a word
    cut: int  # best translations at the limit on steps
    seconds: float  # to translate, on this machine

    def to_json(self) -> dict[str, Any]:
        """The same as JSON-able values."""
        return {**asdict(self), "bleu": self.bleu._asdict()}


def by_beam(
    system: System, subject: Subject, test: TestSet, search: SearchOptions, beam: int
) -> OfBeam:
    """Translate a test set with a beam; everything else of the search is `search`."""
    tokenize = system.recipe.evaluate.bleu_tokenize
    began = time.perf_counter()
    found = system.translate(test.sources, replace(search, beam=beam, nbest=1))
    seconds = time.perf_counter() - began
    best = [nbest[0] for nbest in found]
    texts = [system.text(one) for one in best]
    full = [one for words, one in zip(test.sources, best, strict=True) if words]
    return OfBeam(subject.name, beam, bleu(texts, test.references, tokenize),
                  length_ratio(texts, test.references, tokenize),
                  sum(not one.words for one in full), len(full),
                  sum(not one.finished for one in full), seconds)


def as_rows(found: Sequence[OfBeam]) -> list[list[str]]:
    """A table, its heading first: a row for each system and beam."""
    rows = [["", "beam", "BLEU", "length ratio", "empty", "share", "cut", "seconds"]]
    for one in found:
        rows.append([one.name, str(one.beam), f"{one.bleu.score:.2f}", f"{one.length_ratio:.3f}",
                     str(one.empty), f"{one.empty / max(one.sentences, 1):.1%}", str(one.cut),
                     f"{one.seconds:.0f}"])
    return rows
