"""The evaluation of one translator: all results that `nmt evaluate` reports."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from nmt.analysis.brackets import Brackets, compare, f1_by_length, total
from nmt.analysis.lengths import EDGES, Group, bleu_by_length
from nmt.data.align import AlignmentScore, Gold, alignment_score
from nmt.data.corpus import Pair
from nmt.data.rare_words import UNK, Dictionary, UnkReplacement
from nmt.data.sources import parts
from nmt.data.vocabulary import UNKNOWN
from nmt.evaluation.rare import bleu_by_rarity, is_position, perplexities_by_class
from nmt.evaluation.restoring import Copying, restored
from nmt.evaluation.scores import Score, bleu, chrf, finite
from nmt.evaluation.speed import TrainingSpeed
from nmt.search.constraint import Restriction
from nmt.search.interface import SearchOptions
from nmt.system import System
from nmt.translation import Translation

CONVENTIONS = ("predicted", "read")  # the conventions of footnote 13; both are always measured
REPLACEMENTS = (*CONVENTIONS, "annotation")  # methods of replacing unknown words


@dataclass(frozen=True)
class Questions:
    """The options of an evaluation.

    search: options of the search. edges: the longest length of each bucket. dictionary: for BLEU
    after unknown words are replaced; an empty one copies them; None: no replacement. gold:
    alignments of the pairs, for the alignment error rate; None: it is not computed. known: whether
    to compute BLEU of the sentences without unknown words (`KnownWords`). rarity: a number for each
    source, for BLEU by rarity, or None. restore: the dictionary for unknown words of systems of
    annotated text, or None. trees: whether the targets are linear trees over the sources, for
    bracketing F1. restriction: a restriction of the search, or None.
    """

    search: SearchOptions
    edges: Sequence[int] = EDGES
    dictionary: Dictionary | None = None
    gold: Sequence[Gold] | None = None
    known: bool = False
    rarity: Sequence[float] | None = None
    restore: Dictionary | None = None
    trees: bool = False
    restriction: Restriction | None = None


@dataclass(frozen=True)
class TestSet:
    """Pairs to translate, line by line."""

    __test__ = False  # not a test, in spite of its name

    sources: list[list[str]]  # words
    targets: list[list[str]]  # words
    references: list[str]  # the targets as plain text
    gold_pairs: list[Pair]  # words separated by spaces, as gold alignments count them
    copying: Copying | None = None  # the annotated pairs, for a system of annotated text

    @property
    def lines(self) -> list[Pair]:
        """The system's input and reference output, a pair for each line."""
        if self.copying is not None:
            return self.copying.pairs
        return list(zip(self.sources, self.targets, strict=True))

    @property
    def pairs(self) -> list[Pair]:
        """The pairs without an empty side, for perplexity."""
        return [pair for pair in self.lines if all(pair)]


@dataclass(frozen=True)
class Subject:
    """The system that is evaluated: its name, and facts on it."""

    name: str
    checkpoint: str  # best or last; the members' for an ensemble
    epochs: int | None = None  # epochs that its parameters were trained for; None for an ensemble
    speed: TrainingSpeed | None = None  # of training; None for an ensemble, or without a log
    layers: int | None = None  # of the model; None for an ensemble
    vocabulary: tuple[int, int] | None = None  # words of source and target, without symbols


class KnownWords(NamedTuple):
    """BLEU of the pairs without unknown words, translated without `<unk>`."""

    sentences: int  # number of these pairs, by the system's own vocabularies
    bleu: Score | None  # None if there are no such pairs


@dataclass(frozen=True)
class Evaluation:
    """The results of an evaluation. Those of replacement and alignment are missing if they were not
    requested, or if the system has no attention."""

    subject: Subject
    perplexity: float  # per target word, `</s>` included
    bleu: Score
    chrf: Score
    chrf3: Score
    lengths: list[Group]
    unknown: int  # unknown words in the translations
    replaced: dict[str, Score]  # BLEU after their replacement, by REPLACEMENTS
    alignment: dict[str, AlignmentScore]  # alignment error rates by convention
    known: KnownWords | None  # None if not requested
    seconds: float  # seconds to translate the sources, on this machine
    words: int  # words in the translations
    rarity: Sequence[Group] = ()  # BLEU of groups from frequent to rare words, if requested
    character_perplexity: float | None = None  # of the words that a hybrid model spells
    spelled: int = 0  # spelled words in the translations
    cut_words: int = 0  # how many of these were cut at the limit on characters
    rarity_replaced: dict[str, list[Group]] = field(default_factory=dict)  # by REPLACEMENTS
    classes: dict[str, float] = field(default_factory=dict)  # perplexities of words and positions
    pointers: dict[str, int] = field(default_factory=dict)  # outcomes of symbols, as in `resolve`
    brackets: Brackets | None = None  # bracketing F1, if requested
    brackets_by_length: Sequence[Group] = ()
    replaced_chrf3: dict[str, Score] = field(default_factory=dict)  # as `replaced`
    outputs: dict[str, list[str]] = field(default_factory=dict)  # texts by stage: `side_by_side`

    def to_json(self) -> dict[str, Any]:
        """The results as JSON values. An infinite perplexity is null."""
        speed = self.subject.speed
        return {
            "name": self.subject.name,
            "checkpoint": self.subject.checkpoint,
            "epochs": self.subject.epochs,
            "training_target_tokens_per_second": speed and {
                "of_cpu_time": speed.cpu, "fastest_quarter": speed.fastest},
            "perplexity": finite(self.perplexity),
            "character_perplexity": finite(self.character_perplexity),
            "bleu": self.bleu._asdict(),
            "chrf": self.chrf._asdict(),
            "chrf3": self.chrf3._asdict(),
            "bleu_by_length": [group.to_json("bleu") for group in self.lengths],
            "unknown_words": self.unknown,
            "spelled_words": self.spelled,
            "cut_words": self.cut_words,
            "perplexity_by_class": {k: finite(v) for k, v in self.classes.items()},
            "layers": self.subject.layers,
            "vocabulary": self.subject.vocabulary,
            "bleu_after_replacement": {k: v.score for k, v in self.replaced.items()},
            "chrf3_after_replacement": {k: v.score for k, v in self.replaced_chrf3.items()},
            "pointers": self.pointers,
            "bracketing": self.brackets and {
                "f1": self.brackets.f1, "precision": self.brackets.precision,
                "recall": self.brackets.recall, **self.brackets._asdict()},
            "f1_by_length": [group.to_json("f1") for group in self.brackets_by_length],
            "bleu_without_unknown": self.known and {
                "sentences": self.known.sentences,
                "bleu": self.known.bleu and self.known.bleu.score},
            "bleu_by_rarity": [group.to_json("bleu") for group in self.rarity],
            "bleu_by_rarity_after_replacement": {
                k: [group.to_json("bleu") for group in v] for k, v in self.rarity_replaced.items()},
            "alignment": {
                k: {"error_rate": v.error_rate, "precision": v.precision, "recall": v.recall,
                    **v._asdict()} for k, v in self.alignment.items()
            },
            "seconds": self.seconds,
            "translated_words": self.words,
        }


def evaluate(system: System, subject: Subject, test: TestSet, questions: Questions) -> Evaluation:
    """Translate, score and force-decode. Without attention, results that need it are left out.

    A system of annotated text (`test.copying`) is scored twice: with `<unk>` for each unknown word,
    and after unknown words are replaced.
    """
    if system.recipe.model.attention == "none":
        questions = replace(questions, dictionary=None, gold=None)
    tokenize = system.recipe.evaluate.bleu_tokenize
    began = time.perf_counter()
    nbests = system.translate([source for source, _ in test.lines], questions.search,
                              restriction=questions.restriction)
    best = [nbest[0] for nbest in nbests]
    seconds = time.perf_counter() - began
    output = _output(system, test, best, questions)
    texts = [system.detokenise(words) for words in output.before]
    rarity = questions.rarity
    perplexities = system.perplexities(test.pairs)
    lengths = [len(parts(words)[0]) for words in test.sources]  # of the first source
    parses = _parses(system, test, best) if questions.trees else []
    return Evaluation(
        subject, perplexities["perplexity"], bleu(texts, test.references, tokenize),
        chrf(texts, test.references), chrf(texts, test.references, beta=3),
        bleu_by_length(lengths, texts, test.references, questions.edges, tokenize),
        sum(words.count(UNK) for words in output.before),
        {method: bleu(after, test.references, tokenize) for method, after in output.after.items()},
        _alignment(system, test, questions.gold),
        _known_words(system, test, questions.search) if questions.known else None,
        seconds, sum(map(len, output.before)),
        () if rarity is None else bleu_by_rarity(rarity, texts, test.references, tokenize),
        character_perplexity=perplexities.get("character_perplexity"),
        spelled=sum(len(translation.spelled) for translation in best),
        cut_words=sum(translation.cut_words for translation in best),
        rarity_replaced={} if rarity is None else {
            method: bleu_by_rarity(rarity, after, test.references, tokenize)
            for method, after in output.after.items()},
        classes=_by_class(system, test), pointers=output.pointers,
        brackets=total(parses) if questions.trees else None,
        brackets_by_length=f1_by_length(parses, lengths, questions.edges) if parses else (),
        replaced_chrf3={method: chrf(after, test.references, beta=3)
                        for method, after in output.after.items()},
        outputs=_stages(system, best, texts, output.after),
    )


def _parses(system: System, test: TestSet, best: Sequence[Translation]) -> list[Brackets]:
    """The bracket counts of each linear tree against the reference."""
    return [compare(system.whole_words(translation), gold, words)
            for translation, gold, words in zip(best, test.targets, test.sources, strict=True)]


def _stages(
    system: System, best: Sequence[Translation], texts: list[str], after: dict[str, list[str]]
) -> dict[str, list[str]]:
    """The translations by stage: before and after the model spells unknown words, or before and
    after unknown words are replaced by the first method."""
    if any(translation.spelled for translation in best):
        unspelled = [system.detokenise(translation.unspelled) for translation in best]
        return {"": unspelled, "spelled": texts}
    replaced = {f"unk replaced ({method})": replaced for method, replaced in [*after.items()][:1]}
    return {"": texts, **replaced}


class _Output(NamedTuple):
    """Translations before and after the replacement of unknown words."""

    before: list[list[str]]  # words, pieces joined
    after: dict[str, list[str]]  # plain text, by REPLACEMENTS
    pointers: dict[str, int]


def _output(
    system: System, test: TestSet, best: Sequence[Translation], questions: Questions
) -> _Output:
    """The translations to score."""
    outputs = [system.whole_words(translation) for translation in best]
    if test.copying is not None:
        texts = restored(system, test.copying, outputs, questions.restore or {})
        after = {"annotation": [system.detokenise(words) for words in texts.after]}
        return _Output(texts.before, after, dict(texts.counts))
    after = {}
    for convention in CONVENTIONS if questions.dictionary is not None else ():
        replacement = UnkReplacement(questions.dictionary or {}, convention)
        after[convention] = [system.text_without_unknown(translation, source, replacement)
                             for translation, source in zip(best, test.sources, strict=True)]
    return _Output(outputs, after, {})


def _by_class(system: System, test: TestSet) -> dict[str, float]:
    """The perplexities of words and of positions, for systems of posall."""
    if not any(is_position(word) for _, target in test.pairs for word in target):
        return {}
    perplexities = perplexities_by_class(system.force(test.pairs))
    return {name: value for name, (value, _) in perplexities.items()}


def _known_words(system: System, test: TestSet, search: SearchOptions) -> KnownWords:
    """Translate the pairs without unknown words again, without `<unk>`, and score them.

    Source: Bahdanau et al. (2015), Table 1, last column: "the sentences without any unknown word in
    themselves and in the reference translations"; there the models may not produce `<unk>`.
    """
    sides = zip(test.sources, test.targets, strict=True)
    places = [i for i, (x, y) in enumerate(sides)
              if x and y and UNKNOWN not in (*system.source_ids(x), *system.target_ids(y))]
    if not places:
        return KnownWords(0, None)
    nbests = system.translate([test.sources[i] for i in places], replace(search, unknown=False))
    return KnownWords(len(places), bleu([system.text(nbest[0]) for nbest in nbests],
                                        [test.references[i] for i in places],
                                        system.recipe.evaluate.bleu_tokenize))


def _alignment(
    system: System, test: TestSet, gold: Sequence[Gold] | None
) -> dict[str, AlignmentScore]:
    """The alignment error rates under both conventions (section 4.4.4)."""
    if gold is None:
        return {}
    forced = system.force(test.gold_pairs)
    return {convention: alignment_score([
        system.word_links(translation, source, convention)
        for translation, (source, _) in zip(forced, test.gold_pairs, strict=True)], gold)
            for convention in CONVENTIONS}
