"""Pruned systems and their run directories: pruned, retrained, sparse from the beginning.

Source: thesis, section 6.2.2, "Retraining", and 6.2.3 for its settings: "(a) we start with a
smaller learning rate of 0.5 (the original model uses a learning rate of 1.0), (b) we train for
fewer epochs, 4 instead of 12, using plain SGD, (c) [...] after 2 epochs, we begin to halve the
learning rate every half an epoch, and (d) all other hyperparameters are the same".
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from backend import Array, to_device, to_host
from backend.errors import UserError
from lstm.parameters import Weight
from nmt import language_models, translator_training
from nmt.base_system import BaseSystem, Pruning
from nmt.checkpoint_option import DEFAULT
from nmt.data.corpora import ParallelCorpus, load_corpus
from nmt.fixed_recipe import check_same, run_recipe
from nmt.language_models import LanguageSystem, read_text
from nmt.pruning.classes import classes
from nmt.pruning.schemes import Masks, masks
from nmt.recipe import AnyRecipe
from nmt.recipe.file import load_recipe
from nmt.run_files import checkpoint_path
from nmt.system import System
from nmt.training.progress import Observer

S = TypeVar("S", bound=BaseSystem)
PRUNED, RETRAINED, FROM_SCRATCH = "pruned", "retrained", "sparse from the beginning"
# The settings of retraining that are the same for every run; the rate is half the run's.
RETRAINING = {"epochs": 4, "schedule": "thesis", "halve_after": 2, "halve_every": 0.5}


def open_system(directory: Path, which: str = DEFAULT) -> System | LanguageSystem:
    """Open the translator or language model of a run directory or a checkpoint's file. Errors as
    `BaseSystem.open`."""
    run = checkpoint_path(directory, which).parent
    kind = LanguageSystem if LanguageSystem.is_in(run) else System
    return kind.open(directory, which)


def stored_parameters(system: BaseSystem) -> dict[str, np.ndarray]:
    """The stored parameters of a system, on the host. Pruning applies to these."""
    return {name: np.asarray(to_host(array))
            for name, array in (system.stored or system.parameters).items()}


def stored_weights(system: BaseSystem) -> dict[str, Weight]:
    """The declarations of the stored parameters."""
    return (system.parametrized or system.model).weights()


def masks_for(system: BaseSystem, percent: float, scheme: str) -> Masks:
    """Masks that prune `percent` of a system's weights. Weights that were pruned before stay
    pruned.

    Raises UserError for a percentage below what was pruned before.
    """
    before = None if system.pruning is None else system.pruning.masks
    try:
        return masks(stored_parameters(system), classes(stored_weights(system)), percent, scheme,
                     before)
    except ValueError as error:
        raise UserError(str(error)) from None


def with_masks(
    system: S, masks: Mapping[str, np.ndarray], facts: Mapping[str, Any] | None = None
) -> S:
    """The system with masked parameters.

    Raises UserError if a row of a table that the recipe normalizes would lose all its weights.
    """
    masked = sparse_start(system, masks, facts)
    stored = {name: to_device(np.where(masks[name], array, 0).astype(array.dtype, copy=False)
                              if name in masks else array)
              for name, array in stored_parameters(system).items()}
    return _with_stored(masked, stored)


def sparse_start(
    system: S, masks: Mapping[str, np.ndarray], facts: Mapping[str, Any] | None = None
) -> S:
    """A system with new initial parameters under the masks. Errors as `with_masks`."""
    try:
        pruning = Pruning(dict(masks), dict(facts or {}))
        return type(system).create(system.recipe, system.vocabularies, pruning)
    except ValueError as error:  # a normalized table has a row of zeros
        raise UserError(f"percent: {error}") from None


def _with_stored(system: S, stored: dict[str, Array]) -> S:
    """The system with other parameters."""
    try:
        return replace(system, stored=stored, parameters=system.plain(stored))
    except ValueError as error:
        raise UserError(f"percent: {error}") from None


def prune(system: S, percent: float, scheme: str, run_name: str) -> S:
    """The system without the `percent` of its weights that the scheme chooses.

    run_name: the name of the system's run, for the record. Raises UserError as `masks_for` and
    `with_masks`.
    """
    facts = {"how": PRUNED, "scheme": scheme, "percent": percent, "of": run_name}
    return with_masks(system, masks_for(system, percent, scheme), facts)


# --- training what is left ------------------------------------------------------------------------


def retraining_recipe(
    directory: Path, file: Path | None, how: str, overrides: Sequence[str] = ()
) -> AnyRecipe:
    """The recipe for training the run of `directory` after pruning.

    file: a recipe; None: the run's own, with the thesis's settings if it is retrained. how:
    RETRAINED or FROM_SCRATCH. overrides: of the recipe. Raises UserError for a recipe with another
    model or other data.
    """
    first = run_recipe(AnyRecipe, directory)
    if file is None and how == RETRAINED:
        chosen = {**RETRAINING, "learning_rate": first.train.learning_rate / 2}
        overrides = [*(f"--train.{key}={value}" for key, value in chosen.items()), *overrides]
    recipe = load_recipe(AnyRecipe, file, overrides) if file else \
        run_recipe(AnyRecipe, directory, overrides)
    if type(recipe) is not type(first):
        raise UserError(f"{file}: expected a recipe of the kind that {directory} has, got another")
    check_same(directory, recipe, "train what is left")
    return recipe


def retrain(
    system: BaseSystem, recipe: AnyRecipe, directory: Path, how: str, observer: Observer,
    corpus: ParallelCorpus | None = None,
) -> BaseSystem:
    """Train a pruned system, or new parameters under its masks, in a new run directory.

    system: a system that `prune` has pruned. recipe: a recipe of the same model. how: RETRAINED or
    FROM_SCRATCH. corpus: the corpus, if it was loaded already. Returns the system with its best
    parameters. Raises UserError as training does.
    """
    if isinstance(system, LanguageSystem):
        score = system.perplexity(read_text(system.recipe.text)[1])
    else:
        corpus = corpus or load_corpus(recipe.data)  # type: ignore[attr-defined]
        score = system.perplexity(corpus.dev.pairs)  # type: ignore[attr-defined]
    assert system.pruning is not None
    facts = {**system.pruning.facts, "how": how,
             "pruned_perplexity": score if math.isfinite(score) else None}
    start = sparse_start(replace(system, recipe=recipe), system.pruning.masks, facts)
    if how == RETRAINED:
        start = _with_stored(start, {name: array.copy() for name, array in system.stored.items()})
    if isinstance(start, LanguageSystem):
        return language_models.train(start.recipe, directory, observer, start=start)
    assert isinstance(start, System)
    return translator_training.train(start.recipe, directory, observer, corpus=corpus, start=start)
