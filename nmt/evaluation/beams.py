"""BLEU, length ratio and empty translations by beam size: do wide beams shorten translations?

Source: Nguyen (2019), 4.1.1: with wider beams, the empty translation is the best one for more and
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
    """The results of a system with a beam size."""

    name: str  # the system's
    beam: int
    bleu: Score
    length_ratio: float  # words of translations / words of references, as BLEU counts them
    empty: int  # best translations without words, of sources with words
    sentences: int  # sources with words
    cut: int  # best translations that were cut at the limit on steps
    seconds: float  # time to translate, on this machine

    def to_json(self) -> dict[str, Any]:
        """The results as JSON values."""
        return {**asdict(self), "bleu": self.bleu._asdict()}


def by_beam(
    system: System, subject: Subject, test: TestSet, search: SearchOptions, beam: int
) -> OfBeam:
    """Translate a test set with a beam size; all other options are those of `search`."""
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
    """The rows of a table: a heading, and a row for each system and beam."""
    rows = [["", "beam", "BLEU", "length ratio", "empty", "share", "cut", "seconds"]]
    for result in results:
        rows.append([result.name, str(result.beam), f"{result.bleu.score:.2f}",
                     f"{result.length_ratio:.3f}", str(result.empty),
                     f"{result.empty / max(result.sentences, 1):.1%}", str(result.cut),
                     f"{result.seconds:.0f}"])
    return rows
