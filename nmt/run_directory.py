"""Run directories: written by training, opened by all other commands.

    recipe.yaml          the recipe, with every default filled in
    NAME.vocab           a vocabulary: source and target, or text; a hybrid has characters too
    NAME.codes           the merges that cut words, for a vocabulary of pieces
    last.safetensors     the state of training, for a resume (`nmt.training.state`)
    best.safetensors     the parameters with the best validation score
    epoch-N.safetensors  the parameters after the last epochs (`train.keep`)
    log.jsonl            the training log (`nmt.training.log`)
    lexicon.tsv          the entries of known words, for a model with a lexicon's bias
    init.json            what the run took from another run's parameters (`nmt.training.transfer`)
    TASK/                a task's run directory, in a run of several tasks (`nmt.multitask`)
    .lock                the process that is writing here (`nmt.training.directory_lock`)

Each checkpoint holds the version of the format of all these files (`nmt.training.checkpoint`), and
the values of the recipe that determine the model and its training data.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from backend.errors import UserError
from nmt.base_system import BaseSystem, Pruning, check_memory, pruning_of
from nmt.data.corpus import write_lines
from nmt.data.vocabulary import Vocabulary
from nmt.files import make_directory, write_text
from nmt.fixed_recipe import check_same, run_recipe
from nmt.recipe import AnyRecipe
from nmt.recipe.file import save_recipe
from nmt.run_files import (
    INIT,
    LEXICON,
    RECIPE,
    check_new,
    checkpoints_in,
    codes_file,
    fingerprint,
    need,
    read_vocabularies,
    take_back,
    vocabulary_file,
)
from nmt.training import checkpoint
from nmt.training.batch_source import Training
from nmt.training.directory_lock import DirectoryLock, left_by_killed
from nmt.training.progress import Observer
from nmt.training.run import BEST, LAST, LOG, Run, saved_step
from nmt.training.trainer import Trainer
from nmt.training.world import current

R = TypeVar("R", bound=AnyRecipe)


class RunDirectory:
    """The directory in which a recipe is trained: a new one, or that of a resumed run.

    Raises UserError, before any work, if a new run's directory is not empty, if another process is
    training in it, or if a resumed run would have another model or other data. The trainer checks
    its own options.
    """

    def __init__(self, path: str | Path, recipe: AnyRecipe, resume: bool,
                 beside: Collection[str] = ()) -> None:
        """beside: names of files that a new run's directory may hold; they are left as they are."""
        self._path, self._recipe, self._resume = Path(path), recipe, resume
        self._beside = beside
        if resume:
            check_same(self._path, recipe)
        else:
            check_new(self._path, beside)
        self._world = current()
        if resume and self._world.first:  # raises now if another process is training here
            with DirectoryLock(self._path, ()):
                pass

    def vocabularies(
        self, names: Iterable[str], build: Callable[[], Mapping[str, Vocabulary]]
    ) -> Mapping[str, Vocabulary]:
        """The vocabularies of the resumed run, or else new ones from `build`."""
        return read_vocabularies(self._path, names) if self._resume else build()

    def pruning(self) -> Pruning | None:
        """The pruning of the resumed run, or None."""
        return pruning_of(checkpoint.load(self._path / LAST)) if self._resume else None

    def write(self, system: BaseSystem, facts: Mapping[str, Any], *, sparse: bool = False) -> None:
        """Write a run of a system that is not trained here; its parameters are the last checkpoint.

        facts: metadata of the checkpoint. sparse: see `nmt.training.checkpoint.save`. Raises
        UserError if the run cannot be written; nothing is then left behind.
        """
        with self._new(system):
            parameters = {checkpoint.PARAMETERS + name: array
                          for name, array in (system.stored or system.parameters).items()}
            checkpoint.save(self._path / LAST, parameters | system.masks(),
                            {"model": system.metadata(), **facts}, sparse=sparse)

    @contextmanager
    def trainer(
        self, system: BaseSystem, training: Training, observer: Observer
    ) -> Iterator[Trainer]:
        """Context of the system's trainer. After the with-block the system has its best parameters.

        Raises UserError if a file cannot be written, a loss is not finite, a resumed run would
        differ from the one that was interrupted, another process is training here, or the directory
        was deleted or moved. A new run that fails before it saves an update leaves nothing behind.
        """
        train = self._recipe.train
        states = len(train.make_optimizer().state_names) + (train.moving_average > 0)
        check_memory(system.model, 1 + states, "gradients and the optimizer's state")
        prints = {"data": fingerprint(training.lines), "dev": fingerprint(training.dev)}
        self._world.check_same("vocabularies and data", system.metadata() | prints)
        hold = self._held if self._resume else self._new
        with hold(system) if self._world.first else nullcontext() as lock:
            run = Run(self._path, self._world, metadata=system.metadata() | prints,
                      beside=system.masks(), check=lock.check if lock else None,
                      after_save=partial(system.saved, self._path))
            trainer = Trainer(system.parametrized or system.model,
                              system.stored or system.parameters, training, self._recipe.train,
                              run, observer if self._world.first else None)
            if self._resume:
                trainer.resume()
                if self._world.first:
                    self._complete(system)
            yield trainer
            self._world.wait()  # until the best parameters are written
        system.load(self._path)

    def _complete(self, system: BaseSystem) -> None:
        """Write the recipes, which may have more epochs, and what an interrupted save left out."""
        for file, recipe in system.recipe_files().items():
            save_recipe(recipe, self._path / file)
        for file in checkpoints_in(self._path):
            system.complete(self._path, file)

    def _held(self, system: BaseSystem) -> DirectoryLock:
        """The lock on the directory."""
        return DirectoryLock(self._path, _first_files(system))

    @contextmanager
    def _new(self, system: BaseSystem) -> Iterator[DirectoryLock]:
        """Context of a new run: write recipes and vocabularies; remove all files again if the run
        fails before it saves an update."""
        path, is_new = self._path, not self._path.exists()
        check_new(path, self._beside)
        make_directory(path)
        recipes, names = system.recipe_files(), _first_files(system)
        with self._held(system) as lock:
            check_new(path, {*self._beside, *names})
            try:
                for file in recipes:
                    make_directory((path / file).parent, within=path)
                for name, vocabulary in system.vocabularies.items():
                    vocabulary.write(path / vocabulary_file(name))
                if lines := system.lexicon():
                    write_lines(path / LEXICON, lines)
                for file, recipe in recipes.items():
                    save_recipe(recipe, path / file)
                if system.origin is not None:
                    write_text(path / INIT, json.dumps(system.origin, indent=1) + "\n")
                yield lock
            except BaseException:
                if lock.stands and not saved_step(path):
                    places = [Path(file).parent for file in reversed(recipes)]
                    saved = [str(place / checkpoint_file) for place in places
                             for checkpoint_file in checkpoints_in(path / place)]
                    # A process killed in between leaves a run that can be resumed or restarted.
                    take_back(path, [LOG, *saved, *names], is_new)
                raise


def _first_files(system: BaseSystem) -> list[str]:
    """The names of the files that a run directory has from the start of training."""
    codes = [codes_file(name) for name, vocabulary in system.vocabularies.items()
             if vocabulary.codes]
    origin = [] if system.origin is None else [INIT]
    origin += [LEXICON] if system.lexicon() else []
    return [*system.recipe_files(), *map(vocabulary_file, system.vocabularies), *codes, *origin]


def file_names(kind: type[BaseSystem], recipe: AnyRecipe) -> list[str]:
    """The names of the files that a run of a recipe writes."""
    names = kind.names_of(recipe)
    return [RECIPE, *map(vocabulary_file, names), *map(codes_file, names), LAST, BEST, LOG]


def epochs_of(path: Path) -> int | None:
    """How many epochs a checkpoint's parameters were trained for; None if it does not say."""
    known = checkpoint.load_metadata(path)
    if epoch := known.get("training", {}).get("counters", {}).get("epoch"):
        return epoch - 1  # the counter holds the next epoch
    return known.get("epoch")


def resumable(kind: type[R], directory: Path, overrides: Iterable[str]) -> R:
    """The recipe of a run to resume. Raises UserError if there is no run of this format."""
    if not (directory / LAST).exists() and left_by_killed(directory):
        raise UserError(f"{directory}: the run was killed before its first checkpoint; start it "
                        "again with the same command")
    need(directory, "a run directory to resume", [RECIPE, LAST])
    checkpoint.load_metadata(directory / LAST)
    return run_recipe(kind, directory, list(overrides))
