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
    nbests = system.translate(test.sources, replace(search, beam=beam, nbest=1))
    seconds = time.perf_counter() - began
    best = [nbest[0] for nbest in nbests]
    texts = [system.text(translation) for translation in best]
    full = [translation for words, translation in zip(test.sources, best, strict=True) if words]
    return OfBeam(subject.name, beam, bleu(texts, test.references, tokenize),
                  length_ratio(texts, test.references, tokenize),
                  sum(not translation.words for translation in full), len(full),
                  sum(not translation.finished for translation in full), seconds)


def as_rows(results: Sequence[OfBeam]) -> list[list[str]]:
    """A table, its heading first: a row for each system and beam."""
    rows = [["", "beam", "BLEU", "length ratio", "empty", "share", "cut", "seconds"]]
    for result in results:
        rows.append([result.name, str(result.beam), f"{result.bleu.score:.2f}",
                     f"{result.length_ratio:.3f}", str(result.empty),
                     f"{result.empty / max(result.sentences, 1):.1%}", str(result.cut),
                     f"{result.seconds:.0f}"])
    return rows
