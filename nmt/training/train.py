"""Training a translator from a recipe."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from backend import Array
from nmt.data.corpora import EvaluationSet, ParallelCorpus, load_corpus
from nmt.data.vocabulary import Vocabulary
from nmt.evaluation.scores import Score, bleu
from nmt.recipe import Recipe
from nmt.run_directory import RunDirectory, Training
from nmt.search.interface import SearchOptions
from nmt.system import System
from nmt.training.progress import Observer


def build_vocabularies(corpus: ParallelCorpus, recipe: Recipe) -> dict[str, Vocabulary]:
    """Source and target vocabularies of the training pairs, by frequency."""
    data = recipe.data
    return {name: Vocabulary.build((pair[side] for pair in corpus.train), data.min_frequency,
                                   data.max_vocabulary)
            for side, name in enumerate(System.names)}


def train(
    recipe: Recipe, directory: str | Path, observer: Observer, *,
    corpus: ParallelCorpus | None = None, resume: bool = False,
) -> System:
    """Train in a run directory and return the system with its best parameters.

    Arguments: corpus, if it was loaded already; resume goes on where `last.safetensors` stands.
    Raises UserError where the data cannot be read, and as `RunDirectory` does.
    """
    run = RunDirectory(directory, recipe, resume)
    corpus = corpus or load_corpus(recipe.data)
    build = partial(build_vocabularies, corpus, recipe)
    system = System.create(recipe, run.vocabularies(System.names, build))
    batches = system.batches(corpus.train, recipe.train.batch_size)
    run.train(system, Training(batches, _Validation(system, corpus.dev), _lines(corpus)), observer)
    return system


def score_bleu(system: System, evaluation: EvaluationSet, options: SearchOptions) -> Score:
    """BLEU of the system on an evaluation set, with the recipe's tokenisation."""
    found = system.translate(evaluation.sources, options)
    return bleu([system.text(nbest[0]) for nbest in found], evaluation.references,
                system.recipe.evaluate.bleu_tokenize)


def _lines(corpus: ParallelCorpus) -> Iterator[str]:
    """The training data, a line for each side of each pair."""
    return (" ".join(words) for pair in corpus.train for words in pair)


class _Validation:
    """Scores of the dev set at the end of an epoch: perplexity and, where wanted, greedy BLEU."""

    def __init__(self, system: System, dev: EvaluationSet) -> None:
        self._system, self._dev = system, dev

    def __call__(self, parameters: dict[str, Array]) -> dict[str, float]:
        system, recipe = replace(self._system, parameters=parameters), self._system.recipe
        scores = {"perplexity": system.perplexity(self._dev.pairs)}
        if recipe.evaluate.bleu:
            greedy = replace(recipe.search, beam=1, nbest=1, length_normalisation=0.0)
            scores["bleu"] = score_bleu(system, self._dev, greedy).score
        return scores
