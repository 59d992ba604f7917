"""Run directories: written by training, opened by all other commands.

    recipe.yaml        the recipe as it is used, every default filled in
    NAME.vocab         the vocabularies: source and target, or text; a hybrid's of characters too
    NAME.codes         of a vocabulary of pieces, the merges by which words are cut
    last.safetensors   where training stands (`nmt.training.state`)
    best.safetensors   the parameters with the best validation score
    epoch-N.safetensors    those after the last epochs (`train.keep`)
    log.jsonl          what happened
    lexicon.tsv        of a model with a lexicon's bias, the entries of known words
    init.json          what a run began with of another's parameters (`nmt.training.transfer`)
    TASK/              of a run of several tasks: the run directory of each (`nmt.multitask`)
    .lock              the process that is writing here (`nmt.training.directory_lock`)

The checkpoints hold the version of the format of all these files (`nmt.training.checkpoint`), and
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

    Raises UserError, before any work, if the directory is not new or empty, or another process is
    training in it; for a resumed run, if its model or data would differ. The trainer checks its own
    options.
    """

    def __init__(self, path: str | Path, recipe: AnyRecipe, resume: bool,
                 beside: Collection[str] = ()) -> None:
        """beside: names of files that may lie in a new run's directory, and are left as they are.
        """
        self._path, self._recipe, self._resume = Path(path), recipe, resume
        self._beside = beside
        if resume:
            check_same(self._path, recipe)
        else:
            check_new(self._path, beside)
        self._world = current()
        if resume and self._world.first:  # refused now where another process trains here
            with DirectoryLock(self._path, ()):
                pass

    def vocabularies(
        self, names: Iterable[str], build: Callable[[], Mapping[str, Vocabulary]]
    ) -> Mapping[str, Vocabulary]:
        """The vocabularies of the resumed run, or new ones made by `build`."""
        return read_vocabularies(self._path, names) if self._resume else build()

    def pruning(self) -> Pruning | None:
        """The pruning of the resumed run, or None."""
        return pruning_of(checkpoint.load(self._path / LAST)) if self._resume else None

    def write(self, system: BaseSystem, facts: Mapping[str, Any], *, sparse: bool = False) -> None:
        """Write a run of a system that is not trained further, with its parameters as the last
        checkpoint.

        Arguments: facts, of the checkpoint; sparse, see `nmt.training.checkpoint.save`.
        Raises UserError if it cannot be written; nothing is left behind then.
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
        """The trainer of the system, which has its best parameters after the with-block.

        Raises UserError: a file cannot be written, a loss is not finite, a resumed run would not
        be the one that was interrupted, another process trains here, the directory was deleted or
        moved meanwhile. A new run that fails before it has saved an update leaves nothing behind.
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
        """Write the recipes, with more epochs perhaps, and what a stopped save left unwritten."""
        for file, recipe in system.recipe_files().items():
            save_recipe(recipe, self._path / file)
        for file in checkpoints_in(self._path):
            system.complete(self._path, file)

    def _held(self, system: BaseSystem) -> DirectoryLock:
        """The locked directory."""
        return DirectoryLock(self._path, _first_files(system))

    @contextmanager
    def _new(self, system: BaseSystem) -> Iterator[DirectoryLock]:
        """Context: write recipe and vocabularies; remove all files again if the run saves no
        update."""
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
                    # Killed in between, it can be resumed or, without a checkpoint, begun again.
                    take_back(path, [LOG, *saved, *names], is_new)
                raise


def _first_files(system: BaseSystem) -> list[str]:
    """The files that a run's directory has from its start."""
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
    """How many epochs a checkpoint's parameters were trained for; None if it does not hold that."""
    known = checkpoint.load_metadata(path)
    if epoch := known.get("training", {}).get("counters", {}).get("epoch"):
        return epoch - 1  # it is the next epoch
    return known.get("epoch")


def resumable(kind: type[R], directory: Path, overrides: Iterable[str]) -> R:
    """The recipe of a run to resume. Raises UserError if there is none of this format."""
    if not (directory / LAST).exists() and left_by_killed(directory):
        raise UserError(f"{directory}: the run was killed before its first checkpoint; start it "
                        "again with the same command")
    need(directory, "a run directory to resume", [RECIPE, LAST])
    checkpoint.load_metadata(directory / LAST)
    return run_recipe(kind, directory, list(overrides))
