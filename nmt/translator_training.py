"""Training a translator on a parallel corpus, in a run directory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from backend import Array
from backend.errors import UserError
from nmt.base_system import SECOND
from nmt.console.messages import several
from nmt.data import sentence_pieces
from nmt.data.annotation import is_symbol, stays_whole
from nmt.data.bpe import learn
from nmt.data.characters import character_vocabulary
from nmt.data.corpora import EvaluationSet, ParallelCorpus, load_corpus, tokenisers
from nmt.data.corpus import stream_lines
from nmt.data.factors import Factors, check_tags, factor_tables, tagged
from nmt.data.pieces import PieceOptions, PieceVocabulary, build, read_codes
from nmt.data.sources import BOUNDARY, parts
from nmt.data.stored import StoredPairs, StoredSide, sides
from nmt.data.vocabulary import SPECIALS, UNKNOWN, Segmenter, Vocabulary, most_frequent
from nmt.data.word_files import read_words
from nmt.models.contract import character_tables
from nmt.recipe import CHARACTER_PERPLEXITY, DataConfig, Recipe
from nmt.run_directory import RunDirectory, Training
from nmt.system import System, score_bleu
from nmt.training.progress import Observer, Sample
from nmt.training.transfer import SAME, Parent, embed, start_from
from nmt.training.warmup import scale


def build_vocabularies(
    corpus: ParallelCorpus, recipe: Recipe, parent: Parent | None = None
) -> dict[str, Vocabulary]:
    """Source and target vocabularies of the training pairs, by frequency.

    Symbols of annotated corpora (`nmt annotate`) always stay; `data.max_vocabulary` does not count
    them. With a shared vocabulary, the source's has the target's words first, then the other words
    of the sources.
    """
    if parent is not None and parent.words == SAME:
        return dict(parent.system.vocabularies)
    sides = [side_vocabularies([corpus], recipe, name, parent) for name in System.sides_of(recipe)]
    vocabularies = {name: vocabulary for side in sides for name, vocabulary in side.items()}
    if recipe.shared_vocabulary:
        source, target = System.names
        if vocabularies[source].codes != vocabularies[target].codes:
            raise UserError("data.shared_vocabulary: expected a parent that cuts both sides by the "
                            "same codes, got two")
        words = vocabularies[source].words[len(SPECIALS):]
        vocabularies[source] = vocabularies[target].extended(words)
    return {name: vocabularies[name] for name in System.names_of(recipe)}


def side_vocabularies(
    corpora: Sequence[ParallelCorpus], recipe: Recipe, side: str, parent: Parent | None = None
) -> dict[str, Vocabulary]:
    """The vocabularies of one side (`System.sides_of`) over all pairs, by the recipe's options: its
    words, and its tags and characters where the model has them."""
    data, factors = recipe.data, Factors(tuple(getattr(recipe.model, "factors", ())), {})
    if side == "source" and tagged(factors.names):
        _check_tags(data, factors)

    def sentences() -> Iterator[Sequence[str]]:
        return (words for corpus in corpora for words in _forms(corpus, side, factors))

    file = getattr(data, f"{side}_vocabulary", "")
    if data.subwords.used:
        words: Vocabulary = piece_vocabulary(corpora, recipe, side, factors, parent)
    elif file:
        words = Vocabulary(read_words(Path(data.directory) / file))
    else:
        words = Vocabulary(most_frequent(_counts(corpora, side, factors), data.min_frequency,
                                         data.max_vocabulary, is_symbol))
        if len(words) == len(SPECIALS):
            raise UserError(f"data.min_frequency: expected a word of the {side} that occurs "
                            f"{data.min_frequency} times or more, among at most "
                            f"{data.max_vocabulary} (data.max_vocabulary), got none")
    if file and all(i == UNKNOWN for words_of_side in sentences()
                    for i in words.ids(words.pieces(words_of_side))):
        raise UserError(f"{file}: expected words of the training text, got none")
    vocabularies, characters = {side: words}, f"{side}_characters"
    for place, name in enumerate(factor_tables(recipe.model) if side == "source" else (), 1):
        tags = ([factors.parts(word)[place] for word in pair[0]]
                for corpus in corpora for pair in corpus.train)
        vocabularies[name] = Vocabulary.build(tags)
    if characters in character_tables(recipe.model):
        vocabularies[characters] = character_vocabulary(sentences(), data.max_characters)
    return vocabularies


def _check_tags(data: DataConfig, factors: Factors) -> None:
    """Raise UserError, with file and line, for a source word with a wrong number of tags."""
    cut = tokenisers(data)[0].tokenise
    for name in ("train_source", "dev_source", "test_source"):
        path = getattr(data, name)
        lines = stream_lines(Path(data.directory) / path) if path else ()
        check_tags(factors, map(cut, lines), path)


def _forms(corpus: ParallelCorpus, side: str, factors: Factors) -> Iterable[Sequence[str]]:
    """One side's words of all pairs, in the forms that a vocabulary has: without factors."""
    sources, targets = sides(corpus.train)
    if side == "target":
        return targets
    if side == "source" and not factors.names and BOUNDARY not in corpus.train[0][0]:
        return sources
    place = SECOND.index(side) + 1 if side in SECOND else 0
    chosen = (parts(words)[place] for words in sources)
    return (list(map(factors.form, words)) for words in chosen) if factors.names else chosen


def _counts(corpora: Sequence[ParallelCorpus], side: str, factors: Factors) -> Counter[str]:
    """How often each form of one side occurs in all pairs."""
    counts = Counter[str]()
    for corpus in corpora:
        forms = _forms(corpus, side, factors)
        counts.update(forms.counts() if isinstance(forms, StoredSide) else
                      chain.from_iterable(forms))
    return counts


def piece_vocabulary(
    corpora: Sequence[ParallelCorpus], recipe: Recipe, side: str, factors: Factors,
    parent: Parent | None = None,
) -> PieceVocabulary:
    """The pieces of one side.

    The codes are read from a file or taken from the parent, or are learned: from this side, or
    joint codes from all sides and from further files. Raises UserError for an invalid file of codes
    and for a parent without pieces, and as `learn` and `nmt.data.pieces.build`.
    """
    data, subwords = recipe.data, recipe.data.subwords
    counts = {name: _counts(corpora, name, factors) for name in System.sides_of(recipe)}
    codes: Segmenter
    if subwords.learned:
        counted = sum(counts.values(), _more_words(data)) if subwords.joint else counts[side]
        words = {word: n for word, n in counted.items() if not stays_whole(word)}
    if subwords.merges is not None:
        codes = learn(words, subwords.merges, "data.subwords.merges")
    elif subwords.size is not None:
        codes = sentence_pieces.learn(words, subwords.size, "data.subwords.size")
    elif subwords.parent_codes:
        codes = _codes_of(parent, side)
    else:
        codes = read_codes(Path(data.directory) / getattr(subwords, f"{side}_codes"))
    kind = "sentencepiece" if isinstance(codes, sentence_pieces.SentencePieces) else "bpe"
    if kind != subwords.kind:
        raise UserError(f"data.subwords.kind: expected {kind}, the kind of the codes, got "
                        f"{subwords.kind}")
    if file := getattr(data, f"{side}_vocabulary", ""):
        return PieceVocabulary(read_words(Path(data.directory) / file), codes)
    options = PieceOptions(subwords.threshold, subwords.dropout, data.min_frequency,
                           data.max_vocabulary)
    return build(counts[side], codes, options, side)


def _codes_of(parent: Parent | None, name: str) -> Segmenter:
    """The codes of one side of a parent."""
    words = parent.system.vocabularies.get(name) if parent else None
    codes: Segmenter | None = words.codes if words else None
    if codes is None:
        raise UserError("data.subwords.parent_codes: expected --init and a run of pieces, got "
                        + (f"{parent.path}, which is one of words" if parent else "no --init"))
    return codes


def _more_words(data: DataConfig) -> Counter[str]:
    """How often each word occurs in the further files that merges are learned from."""
    cut, counts = tokenisers(data)[0].tokenise, Counter[str]()
    for name in data.subwords.more_text:
        for line in stream_lines(Path(data.directory) / name):
            counts.update(cut(line))
    return counts


def train(
    recipe: Recipe, directory: str | Path, observer: Observer, *,
    corpus: ParallelCorpus | None = None, resume: bool = False, start: System | None = None,
    beside: Collection[str] = (), parent: Parent | None = None,
    embeddings: Mapping[str, Path] | None = None,
) -> System:
    """Train in a run directory and return the system with its best parameters.

    corpus: the corpus, if it was loaded already. resume: continue from `last.safetensors`. start:
    the system that a new run starts with, instead of fresh vocabularies and parameters. beside:
    files that a new run's directory may hold. parent: the run whose parameters a new run takes
    where they fit. embeddings: side -> file of word vectors that a new run's tables start with.
    Raises UserError where the data cannot be read, and as `RunDirectory` does.
    """
    run = RunDirectory(directory, recipe, resume, beside)
    corpus = corpus or load_corpus(recipe.data)
    build = partial(build_vocabularies, corpus, recipe, parent)
    system = start or System.create(recipe, run.vocabularies(System.names_of(recipe), build),
                                    run.pruning())
    system, taken = (system, []) if parent is None else start_from(system, parent)
    system, embedded = (system, []) if not embeddings else embed(system, embeddings)
    batches = system.training_batches(corpus.train)
    notes = taken + embedded + notes_on(recipe.model, batches.lengths[:, 0]) + notes_on_rate(recipe)
    training = Training(batches, Validation(system, corpus.dev, observer), text_of(corpus), notes,
                        dev_lines(corpus.dev))
    with run.trainer(system, training, observer) as trainer:
        trainer.train()
    return system


def notes_on(config: Any, lengths: np.ndarray) -> list[str]:
    """Notes for the user on attention by position. lengths: (N,) of the training sources."""
    attention, notes = getattr(config, "attention", "none"), []
    if attention == "global" and config.score == "location":
        longer = int((lengths > config.location_length).sum())
        if longer:
            words = several(config.location_length, "word")
            notes.append(f"model.location_length: training sources of more than {words}: {longer} "
                         f"of {len(lengths)}; what is behind those is not attended to")
    if attention.startswith("local") and 2 * config.window + 1 >= lengths.max():
        notes.append(f"model.window: 2 x {config.window} + 1 words hold any training source whole; "
                     f"the longest has {lengths.max()}")
    return notes


def notes_on_rate(recipe: Recipe) -> list[str]:
    """A note on lambda of Nguyen Eq. 3.8, where there is a warm-up."""
    peak, warmup, d = recipe.train.learning_rate, recipe.train.warmup, recipe.model.hidden_size
    return [f"train.learning_rate: {peak:g} after {warmup} updates, lambda = "
            f"{scale(peak, warmup, d):.3g} at d = {d} (Nguyen 3.8)"] if warmup else []


def text_of(corpus: ParallelCorpus) -> Iterator[str]:
    """The training data, a line for each side of each pair."""
    pairs = corpus.train
    if isinstance(pairs, StoredPairs):
        return pairs.sentences.texts()
    return (" ".join(words) for pair in pairs for words in pair)


def dev_lines(dev: EvaluationSet) -> Iterator[str]:
    """The dev data: the sources as words, the references as plain text."""
    return (text for words, reference in zip(dev.sources, dev.references, strict=True)
            for text in (" ".join(words), reference))


class Validation:
    """Scores of the dev set at the end of an epoch: perplexity and, where wanted, greedy BLEU."""

    def __init__(self, system: System, dev: EvaluationSet, observer: Observer | None = None
                 ) -> None:
        """observer: receives sample translations. Raises UserError if the dev set does not have the
        score that decides the best checkpoint."""
        self._system, self._dev, self._observer = system, dev, observer
        known = all(UNKNOWN not in system.target.ids(target) for _, target in dev.pairs)
        if system.recipe.train.criterion == CHARACTER_PERPLEXITY and known:
            raise UserError(f"train.criterion: expected a dev set with words outside the target "
                            f"vocabulary for {CHARACTER_PERPLEXITY}, got none")

    def __call__(self, parameters: dict[str, Array]) -> dict[str, float]:
        system, recipe = self._system, self._system.recipe
        system = replace(system, parameters=system.plain(parameters))
        scores = system.perplexities(self._dev.pairs)
        greedy = replace(recipe.search, beam=1, nbest=1, length_normalisation=0.0)
        if recipe.evaluate.bleu:
            nbests = system.translate(self._dev.sources, greedy)
            scores["bleu"] = score_bleu(system, self._dev, nbests).score
        if self._observer is not None and recipe.evaluate.samples:
            references = some_references(self._dev, recipe.evaluate.samples)
            nbests, written = system.translate(list(references), greedy), tokenisers(recipe.data)[0]
            self._observer.on_samples([
                Sample(" | ".join(map(written.detokenise, parts(words))), system.text(nbest[0]),
                       reference)
                for (words, reference), nbest in zip(references.items(), nbests, strict=True)])
        return scores


def some_references(dev: EvaluationSet, count: int) -> dict[tuple[str, ...], str]:
    """The first `count` distinct sources of the dev set that have a reference, with it."""
    references: dict[tuple[str, ...], str] = {}
    for words, reference in zip(dev.sources, dev.references, strict=True):
        if len(references) == count:
            break
        if words and reference:
            references.setdefault(tuple(words), reference)
    return references
