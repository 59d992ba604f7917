"""One evaluation of one translator: everything that `nmt evaluate` says of it."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from nmt.data.align import AlignmentScore, Gold, alignment_score
from nmt.data.corpus import Pair
from nmt.data.rare_words import UNK, Dictionary, UnkReplacement
from nmt.evaluation.lengths import EDGES, Bucket, bleu_by_length
from nmt.evaluation.scores import Score, bleu, chrf
from nmt.evaluation.speed import TrainingSpeed
from nmt.search.interface import SearchOptions
from nmt.system import System

CONVENTIONS = ("predicted", "read")  # of footnote 13: both are always measured


@dataclass(frozen=True)
class Questions:
    """What an evaluation is to find out.

    search: how to translate. edges: of the length buckets. dictionary: BLEU after the unknown
    words are replaced too; empty for copies only; None for no replacement. gold: alignments of
    the pairs, for the alignment error rate; None for none.
    """

    search: SearchOptions
    edges: Sequence[int] = EDGES
    dictionary: Dictionary | None = None
    gold: Sequence[Gold] | None = None


@dataclass(frozen=True)
class TestSet:
    """Pairs to translate: line i belongs to line i."""

    __test__ = False  # no test, whatever its name

    sources: list[list[str]]  # words
    references: list[str]  # plain text
    pairs: list[Pair]  # words on both sides, empty lines left out: for perplexity
    gold_pairs: list[Pair]  # words as the gold alignments count them: between spaces


@dataclass(frozen=True)
class Subject:
    """What is evaluated."""

    name: str
    checkpoint: str  # best or last; of an ensemble, its members'
    epochs: int | None = None  # that its parameters were trained for; None for an ensemble
    speed: TrainingSpeed | None = None  # of training; None for an ensemble, or without a log


@dataclass(frozen=True)
class Evaluation:
    """What was found out."""

    subject: Subject
    perplexity: float  # per target word, `</s>` included
    bleu: Score
    chrf: Score
    lengths: list[Bucket]
    unknown: int  # `<unk>` in the translations
    replaced: dict[str, Score]  # BLEU without them, by convention; empty if not asked for
    alignment: dict[str, AlignmentScore]  # by convention; empty if not asked for
    seconds: float  # to translate the sources, on this machine
    words: int  # in the translations

    def to_json(self) -> dict[str, Any]:
        """The same as JSON-able values; an infinite perplexity is null."""
        speed = self.subject.speed
        return {
            "name": self.subject.name,
            "checkpoint": self.subject.checkpoint,
            "epochs": self.subject.epochs,
            "training_target_tokens_per_second": speed and {
                "of_cpu_time": speed.cpu, "fastest_quarter": speed.fastest},
            "perplexity": self.perplexity if math.isfinite(self.perplexity) else None,
            "bleu": self.bleu._asdict(),
            "chrf": self.chrf._asdict(),
            "bleu_by_length": [bucket._asdict() for bucket in self.lengths],
            "unknown_words": self.unknown,
            "bleu_after_replacement": {k: v.score for k, v in self.replaced.items()},
            "alignment": {
                k: {"error_rate": v.error_rate, "precision": v.precision, "recall": v.recall,
                    **v._asdict()} for k, v in self.alignment.items()
            },
            "seconds": self.seconds,
            "translated_words": self.words,
        }


def evaluate(
    system: System, subject: Subject, test: TestSet, questions: Questions
) -> Evaluation:
    """Translate, score, force-decode.

    Raises ValueError: replacement or alignment is asked of a model without attention.
    """
    if system.recipe.model.attention == "none" and (
        questions.dictionary is not None or questions.gold is not None
    ):
        raise ValueError(f"questions: expected a model with attention, {subject.name} has none")
    tokenize = system.recipe.evaluate.bleu_tokenize
    began = time.perf_counter()
    best = [nbest[0] for nbest in system.translate(test.sources, questions.search)]
    seconds = time.perf_counter() - began
    texts = [system.text(translation) for translation in best]
    replaced = {}
    if questions.dictionary is not None:
        for convention in CONVENTIONS:
            how = UnkReplacement(questions.dictionary, convention)
            without = [system.text_without_unknown(translation, source, how)
                       for translation, source in zip(best, test.sources, strict=True)]
            replaced[convention] = bleu(without, test.references, tokenize)
    return Evaluation(
        subject, system.perplexity(test.pairs), bleu(texts, test.references, tokenize),
        chrf(texts, test.references),
        bleu_by_length([len(words) for words in test.sources], texts, test.references,
                       questions.edges, tokenize),
        sum(translation.words.count(UNK) for translation in best), replaced,
        _alignment(system, test, questions.gold), seconds, sum(len(one.words) for one in best),
    )


def _alignment(
    system: System, test: TestSet, gold: Sequence[Gold] | None
) -> dict[str, AlignmentScore]:
    """Alignment error rate under both conventions (section 4.4.4)."""
    if gold is None:
        return {}
    forced = system.force(test.gold_pairs)
    return {convention: alignment_score([system.links(one, convention) for one in forced], gold)
            for convention in CONVENTIONS}
