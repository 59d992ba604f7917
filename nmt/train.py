"""Training a translator from a recipe, in a model directory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

from backend import Array
from nmt.data import EvaluationSet, ParallelCorpus, load_corpus
from nmt.evaluate import Score, bleu
from nmt.folder import RECIPE, check_new, check_resumed, fingerprint, new_run
from nmt.recipe import Recipe
from nmt.recipe_file import save_recipe
from nmt.search.combine import Ensemble
from nmt.search.interface import SearchOptions
from nmt.system import SOURCE_VOCABULARY, TARGET_VOCABULARY, System
from nmt.text.vocabulary import Vocabulary
from nmt.training.progress import Observer
from nmt.training.trainer import Trainer


def build_vocabularies(corpus: ParallelCorpus, recipe: Recipe) -> tuple[Vocabulary, Vocabulary]:
    """Source and target vocabularies of the training pairs, by frequency."""
    data = recipe.data
    source, target = (
        Vocabulary.build((pair[side] for pair in corpus.train), data.min_frequency,
                         data.max_vocabulary)
        for side in (0, 1)
    )
    return source, target


def train(
    recipe: Recipe, folder: str | Path, observer: Observer, *, corpus: ParallelCorpus | None = None,
    resume: bool = False,
) -> System:
    """Train in `folder` and return the system with its best parameters.

    Arguments: corpus, if it was loaded already; resume goes on where `last.safetensors` stands.
    Raises UserError: the folder holds another run, the data cannot be read, a loss is not finite,
    a resumed run would not be the one that was interrupted. A new run that fails before its first
    checkpoint leaves nothing behind.
    """
    folder = Path(folder)
    if resume:
        check_resumed(folder, recipe)
    else:
        check_new(folder)
    corpus = corpus or load_corpus(recipe.data)
    system = _create(recipe, corpus, folder, resume)
    vocabularies = {SOURCE_VOCABULARY: system.source, TARGET_VOCABULARY: system.target}
    assert not isinstance(system.model, Ensemble)  # but one that was made or resumed
    with nullcontext() if resume else new_run(folder, recipe, vocabularies):
        trainer = Trainer(
            system.model, system.parameters,
            system.batches(corpus.train, recipe.train.batch_size), recipe.train, folder,
            _Validation(system, corpus.dev), observer,
            system.metadata() | {"data": fingerprint(_lines(corpus))},
        )
        if resume:
            trainer.resume()
            save_recipe(recipe, folder / RECIPE)  # more epochs, perhaps
        trainer.train()
    system.load(folder)
    return system


def score_bleu(system: System, evaluation: EvaluationSet, options: SearchOptions) -> Score:
    """BLEU of the system on an evaluation set, with the recipe's tokenisation."""
    found = system.translate(evaluation.sources, options)
    return bleu([system.text(nbest[0]) for nbest in found], evaluation.references,
                system.recipe.evaluate.bleu_tokenize)


def _create(recipe: Recipe, corpus: ParallelCorpus, folder: Path, resume: bool) -> System:
    """The system to train."""
    if resume:
        return System.create(recipe, Vocabulary.read(folder / SOURCE_VOCABULARY),
                             Vocabulary.read(folder / TARGET_VOCABULARY))
    return System.create(recipe, *build_vocabularies(corpus, recipe))


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
