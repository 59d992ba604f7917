"""One evaluation of one translator: everything that `nmt evaluate` says of it."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from nmt.data.align import AlignmentScore, Gold, alignment_score
from nmt.data.corpus import Pair
from nmt.data.rare_words import UNK, Dictionary, UnkReplacement
from nmt.data.vocabulary import UNKNOWN
from nmt.evaluation.lengths import EDGES, Bucket, bleu_by_length
from nmt.evaluation.rare import Group, bleu_by_rarity
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
    the pairs, for the alignment error rate; None for none. known: BLEU of the sentences without
    unknown words too (`KnownWords`). rarity: of each source, for BLEU by rarity; None for none.
    """

    search: SearchOptions
    edges: Sequence[int] = EDGES
    dictionary: Dictionary | None = None
    gold: Sequence[Gold] | None = None
    known: bool = False
    rarity: Sequence[float] | None = None


@dataclass(frozen=True)
class TestSet:
    """Pairs to translate: line i belongs to line i."""

    __test__ = False  # no test, whatever its name

    sources: list[list[str]]  # words
    targets: list[list[str]]  # words
    references: list[str]  # the targets as plain text
    gold_pairs: list[Pair]  # words as the gold alignments count them: between spaces

    @property
    def pairs(self) -> list[Pair]:
        """Words on both sides, pairs with an empty side left out: for perplexity."""
        return [pair for pair in zip(self.sources, self.targets, strict=True) if all(pair)]


@dataclass(frozen=True)
class Subject:
    """What is evaluated."""

    name: str
    checkpoint: str  # best or last; of an ensemble, its members'
    epochs: int | None = None  # that its parameters were trained for; None for an ensemble
    speed: TrainingSpeed | None = None  # of training; None for an ensemble, or without a log


class KnownWords(NamedTuple):
    """BLEU where a system knows every word of a source and of its reference, `<unk>` forbidden."""

    sentences: int  # such pairs, by the system's own vocabularies
    bleu: Score | None  # None where there are none


@dataclass(frozen=True)
class Evaluation:
    """What was found out; no replacement and no alignment where not asked for, or no attention."""

    subject: Subject
    perplexity: float  # per target word, `</s>` included
    bleu: Score
    chrf: Score
    chrf3: Score
    lengths: list[Bucket]
    unknown: int  # `<unk>` in the translations
    replaced: dict[str, Score]  # BLEU without them, by convention
    alignment: dict[str, AlignmentScore]  # by convention
    known: KnownWords | None  # None if not asked for
    seconds: float  # to translate the sources, on this machine
    words: int  # in the translations
    rarity: Sequence[Group] = ()  # BLEU of groups from frequent to rare words, if asked for
    character_perplexity: float | None = None  # of the words that a hybrid model spells
    spelled: int = 0  # words of the translations that it spelled
    cut_words: int = 0  # of these, those cut at the limit on characters

    def to_json(self) -> dict[str, Any]:
        """The same as JSON-able values; an infinite perplexity is null."""
        speed = self.subject.speed
        return {
            "name": self.subject.name,
            "checkpoint": self.subject.checkpoint,
            "epochs": self.subject.epochs,
            "training_target_tokens_per_second": speed and {
                "of_cpu_time": speed.cpu, "fastest_quarter": speed.fastest},
            "perplexity": _finite(self.perplexity),
            "character_perplexity": _finite(self.character_perplexity),
            "bleu": self.bleu._asdict(),
            "chrf": self.chrf._asdict(),
            "chrf3": self.chrf3._asdict(),
            "bleu_by_length": [bucket._asdict() for bucket in self.lengths],
            "unknown_words": self.unknown,
            "spelled_words": self.spelled,
            "cut_words": self.cut_words,
            "bleu_after_replacement": {k: v.score for k, v in self.replaced.items()},
            "bleu_without_unknown": self.known and {
                "sentences": self.known.sentences,
                "bleu": self.known.bleu and self.known.bleu.score},
            "bleu_by_rarity": [group._asdict() for group in self.rarity],
            "alignment": {
                k: {"error_rate": v.error_rate, "precision": v.precision, "recall": v.recall,
                    **v._asdict()} for k, v in self.alignment.items()
            },
            "seconds": self.seconds,
            "translated_words": self.words,
        }


def _finite(value: float | None) -> float | None:
    """The value, null where JSON has none."""
    return value if value is not None and math.isfinite(value) else None


def evaluate(
    system: System, subject: Subject, test: TestSet, questions: Questions
) -> Evaluation:
    """Translate, score, force-decode; what needs attention is left out where there is none."""
    if system.recipe.model.attention == "none":
        questions = replace(questions, dictionary=None, gold=None)
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
    perplexities = system.perplexities(test.pairs)
    return Evaluation(
        subject, perplexities["perplexity"], bleu(texts, test.references, tokenize),
        chrf(texts, test.references), chrf(texts, test.references, beta=3),
        bleu_by_length([len(words) for words in test.sources], texts, test.references,
                       questions.edges, tokenize),
        sum(translation.words.count(UNK) for translation in best), replaced,
        _alignment(system, test, questions.gold),
        _known_words(system, test, questions.search) if questions.known else None,
        seconds, sum(len(one.words) for one in best),
        () if questions.rarity is None else
        bleu_by_rarity(questions.rarity, texts, test.references, tokenize),
        perplexities.get("character_perplexity"), sum(len(one.spelled) for one in best),
        sum(one.cut_words for one in best),
    )


def _known_words(system: System, test: TestSet, search: SearchOptions) -> KnownWords:
    """Translate again the pairs without unknown words.

    Source: Bahdanau et al. (2015), Table 1, last column: "the sentences without any unknown word in
    themselves and in the reference translations"; there the models may not produce `<unk>`.
    """
    sides = zip(test.sources, test.targets, strict=True)
    places = [i for i, (x, y) in enumerate(sides)
              if x and y and UNKNOWN not in (*system.source.ids(x), *system.target.ids(y))]
    if not places:
        return KnownWords(0, None)
    found = system.translate([test.sources[i] for i in places], replace(search, unknown=False))
    return KnownWords(len(places), bleu([system.text(nbest[0]) for nbest in found],
                                        [test.references[i] for i in places],
                                        system.recipe.evaluate.bleu_tokenize))


def _alignment(
    system: System, test: TestSet, gold: Sequence[Gold] | None
) -> dict[str, AlignmentScore]:
    """Alignment error rate under both conventions (section 4.4.4)."""
    if gold is None:
        return {}
    forced = system.force(test.gold_pairs)
    return {convention: alignment_score([system.links(one, convention) for one in forced], gold)
            for convention in CONVENTIONS}
