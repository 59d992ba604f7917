"""Run directories: what training writes and everything else opens.

    recipe.yaml        the recipe as it is used, every default filled in
    NAME.vocab         the vocabularies: source and target, or text; a hybrid's of characters too
    last.safetensors   where training stands (`nmt.training.trainer`)
    best.safetensors   the parameters with the best validation score
    log.jsonl          what happened
    TASK/              of a run of several tasks: the run directory of each (`nmt.multitask`)
    .lock              which process writes here, while one does (`nmt.training.directory_lock`)

The checkpoints say the format's version for all of them (`nmt.training.checkpoint`), and those
values of the recipe that make the model and its training data what they are.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

import numpy as np

from backend import Array
from backend.errors import UserError
from backend.files import make_directory
from backend.memory import check_fits
from nmt.checkpoint_option import CHECKPOINTS, DEFAULT
from nmt.data.vocabulary import Vocabulary
from nmt.models.contract import Tables, character_tables
from nmt.models.parametrization import Masked, Parametrized
from nmt.models.registry import make_model
from nmt.recipe import AnyRecipe
from nmt.recipe.file import as_mapping, load_recipe, save_recipe
from nmt.recipe.parametrize import parametrized
from nmt.recipe.tasks import RATIOS, SHARE, TASKS, VOCABULARIES, is_of_tasks
from nmt.recipe.tree import read_tree
from nmt.training import checkpoint
from nmt.training.directory_lock import FILE as LOCK
from nmt.training.directory_lock import DirectoryLock, left_by_killed
from nmt.training.progress import Observer
from nmt.training.trainer import (
    BEST,
    LAST,
    LOG,
    BatchSource,
    Trainer,
    Validate,
    saved_step,
)

R = TypeVar("R", bound=AnyRecipe)
RECIPE = "recipe.yaml"
# What a resumed run may change: where the files lie, and what only translation reads.
FREE = {"data.directory", "data.max_translate_length", "text.train", "text.dev",
        *(f"data.{part}_{side}" for part in ("train", "dev", "test")
          for side in ("source", "target"))}
MADE_BY = ("data", "text", "model", "parametrize")  # sections that a model is made by
MIXED_BY = (RATIOS, SHARE, VOCABULARIES)  # keys that a mixture of tasks is made by
RESUME = "resume"
NAMED = {"parametrize.tied", "parametrize.normalized"}  # mappings whose keys are parameters
SCORED_BY = ("evaluate.bleu", "evaluate.bleu_tokenize")  # what is best goes by them too


class Pruning(NamedTuple):
    """What is left of a pruned model."""

    masks: Mapping[str, np.ndarray]  # bool, by the stored parameter's name, True where it is kept
    facts: dict[str, Any]  # JSON-able: the scheme and the like, which every checkpoint keeps


@dataclass
class BaseSystem:
    """A model with all it needs: recipe, vocabularies, parameters."""

    recipe: Any
    vocabularies: dict[str, Vocabulary]  # by the names that the class has
    model: Any
    parameters: dict[str, Array]  # the model's
    parametrized: Parametrized | None = None  # where the recipe parametrizes: what is trained, and
    stored: dict[str, Array] = field(default_factory=dict)  # the parameters that it is trained by
    pruning: Pruning | None = None  # where weights are pruned

    kind: ClassVar[str]  # as messages and checkpoints name it
    recipes: ClassVar[type[AnyRecipe]]
    names: ClassVar[tuple[str, ...]]  # of the vocabularies: the sources' and, last, the target's

    @classmethod
    def names_of(cls, recipe: AnyRecipe) -> tuple[str, ...]:
        """The vocabularies of a recipe's system, those of characters too."""
        return (*cls.names, *character_tables(recipe.model))

    @classmethod
    def create(
        cls, recipe: AnyRecipe, vocabularies: Mapping[str, Vocabulary],
        pruning: Pruning | None = None,
    ) -> Self:
        """A system with fresh parameters, drawn from the recipe's seed; what is pruned is zero.

        Raises ValueError for a mask that does not fit a parameter.
        """
        model, own = cls.models(recipe, vocabularies)
        _check_memory(model, 1, "the model's parameters")
        rng = np.random.default_rng([recipe.train.seed, 2])
        if pruning is not None:
            own = Parametrized(own or model, {name: Masked(mask)
                                              for name, mask in pruning.masks.items()})
        if own is None:
            return cls(recipe, dict(vocabularies), model, model.initial_parameters(rng))
        stored = own.initial_parameters(rng)
        return cls(recipe, dict(vocabularies), model, own.plain(stored), own, stored, pruning)

    @classmethod
    def models(
        cls, recipe: Any, vocabularies: Mapping[str, Vocabulary]
    ) -> tuple[Any, Parametrized | None]:
        """The model, and where the recipe parametrizes, what is trained in its place."""
        *sources, target = (len(vocabularies[name]) for name in cls.names)
        characters = {name: len(vocabularies[name]) for name in character_tables(recipe.model)}
        model = make_model(recipe.model, Tables(tuple(sources), target, recipe.reverse_source,
                                                **characters))
        return model, parametrized(model, recipe.parametrize)

    def plain(self, trained: dict[str, Array]) -> dict[str, Array]:
        """The model's parameters, from those that are trained."""
        return trained if self.parametrized is None else self.parametrized.plain(trained)

    @classmethod
    def is_in(cls, directory: Path) -> bool:
        """Whether a directory has the vocabularies of a system of this kind."""
        return all((directory / vocabulary_file(name)).is_file() for name in cls.names)

    @classmethod
    def open(cls, directory: str | Path, which: str = DEFAULT) -> Self:
        """Read a run directory, with the parameters of `checkpoint_path(directory, which)`.

        Raises UserError when it is not one of this kind or format, or its files do not match.
        """
        directory = Path(directory)
        what = f"the run directory of a {cls.kind}"
        _need(directory, what, [RECIPE])
        path = checkpoint_path(directory, which)
        kind = checkpoint.load_metadata(path).get("model", {}).get("kind")
        if kind != cls.kind:
            raise UserError(f"{path}: expected a {cls.kind}, found a {kind}"
                            + _tasks_hint(directory))
        _need(directory, what, map(vocabulary_file, cls.names))
        recipe = load_recipe(cls.recipes, directory / RECIPE)
        _need(directory, what, map(vocabulary_file, cls.names_of(recipe)))
        vocabularies = read_vocabularies(directory, cls.names_of(recipe))
        saved = checkpoint.load(path)
        _check_recipe(directory / RECIPE, recipe, saved.metadata, path)
        try:
            system = cls.create(recipe, vocabularies, pruning_of(saved))
        except ValueError as error:
            raise UserError(f"{path}: {error}") from None
        system._take(saved, path)
        return system

    def load(self, directory: Path, which: str = DEFAULT) -> None:
        """Take parameters of a run directory, once they are known to be ours."""
        path = checkpoint_path(directory, which)
        self._take(checkpoint.load(path), path)

    def _take(self, saved: checkpoint.Checkpoint, path: Path) -> None:
        """Take the parameters of a checkpoint that was read from `path`."""
        theirs, ours = saved.metadata.get("model", {}), self.metadata()
        for name in self.vocabularies:
            if theirs.get(name) != ours[name]:
                file = path.parent / vocabulary_file(name)
                raise UserError(f"{file}: this is not the vocabulary that the model in "
                                f"{path.name} was trained with")
        self.stored = checkpoint.parameters_of(saved, path, self.stored or self.parameters)
        self.parameters = self.plain(self.stored)

    def metadata(self) -> dict[str, Any]:
        """What a checkpoint says of the system it belongs to: fingerprints of its vocabularies, and
        what of its recipe no one may change."""
        prints = {name: fingerprint(one.words) for name, one in self.vocabularies.items()}
        pruned = {} if self.pruning is None else {"pruning": self.pruning.facts}
        return {"kind": self.kind, **prints, **pruned, "recipe": fixed_values(self.recipe)}

    def recipe_files(self) -> dict[str, AnyRecipe]:
        """The recipes that a run directory holds, by file."""
        return {RECIPE: self.recipe}

    def saved(
        self, path: Path, file: str, trained: dict[str, Array], facts: Mapping[str, Any]
    ) -> None:
        """What is done in the run directory `path` once its checkpoint `file` was written."""

    def masks(self) -> dict[str, Array]:
        """What a checkpoint holds beside the parameters: the masks, by their names there."""
        masks = {} if self.pruning is None else self.pruning.masks
        return {checkpoint.MASKS + name: mask for name, mask in masks.items()}


class Training(NamedTuple):
    """What a run is trained on."""

    batches: BatchSource
    validate: Validate
    lines: Iterable[str]  # the training data, which a resumed run must find unchanged
    notes: Sequence[str] = ()  # on the data, for whoever trains and for the log
    dev: Iterable[str] = ()  # the dev data, likewise unchanged


class RunDirectory:
    """Where a recipe is trained: in a new directory, or going on in one.

    Raises UserError, before any work, unless the directory is new or empty, or another process is
    training in it; for a resumed run, unless its model and data are made as they were. The trainer
    checks its own options.
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
        if resume:  # refused now where another process trains here, not after reading the data
            with DirectoryLock(self._path, ()):
                pass

    def vocabularies(
        self, names: Iterable[str], build: Callable[[], Mapping[str, Vocabulary]]
    ) -> Mapping[str, Vocabulary]:
        """Those of the run that goes on, or new ones."""
        return read_vocabularies(self._path, names) if self._resume else build()

    def pruning(self) -> Pruning | None:
        """What the run that goes on has pruned."""
        return pruning_of(checkpoint.load(self._path / LAST)) if self._resume else None

    def write(self, system: BaseSystem, facts: Mapping[str, Any], *, sparse: bool = False) -> None:
        """Write a run of a system that is not to be trained: its parameters are the last.

        Arguments: facts, of the checkpoint; sparse, see `nmt.training.checkpoint.save`.
        Raises UserError where that cannot be; nothing is left behind then.
        """
        with self._new(system):
            parameters = {checkpoint.PARAMETERS + name: array
                          for name, array in (system.stored or system.parameters).items()}
            checkpoint.save(self._path / LAST, parameters | system.masks(),
                            {"model": system.metadata(), **facts}, sparse=sparse)

    def train(self, system: BaseSystem, training: Training, observer: Observer) -> None:
        """Train, and leave the system with its best parameters.

        Raises UserError: a file cannot be written, a loss is not finite, a resumed run would not
        be the one that was interrupted, another process trains here, the directory was deleted or
        moved meanwhile. A new run that fails before it has saved an update leaves nothing behind.
        """
        states = len(self._recipe.train.make_optimizer().state_names)
        _check_memory(system.model, 1 + states, "gradients and the optimizer's state")
        prints = {"data": fingerprint(training.lines), "dev": fingerprint(training.dev)}
        hold = self._held if self._resume else self._new
        with hold(system) as lock:
            trainer = Trainer(
                system.parametrized or system.model, system.stored or system.parameters,
                training.batches, self._recipe.train, self._path, training.validate, observer,
                system.metadata() | prints, notes=training.notes, beside=system.masks(),
                after_save=partial(system.saved, self._path), check_directory=lock.check,
            )
            if self._resume:
                trainer.resume()
                for file, recipe in system.recipe_files().items():
                    save_recipe(recipe, self._path / file)  # more epochs, perhaps
            trainer.train()
        system.load(self._path)

    def _held(self, system: BaseSystem) -> DirectoryLock:
        """The directory for this process alone."""
        return DirectoryLock(self._path, _first_files(system))

    @contextmanager
    def _new(self, system: BaseSystem) -> Iterator[DirectoryLock]:
        """Write recipe and vocabularies, let the run go, take all away if it saves no update."""
        path, made = self._path, not self._path.exists()
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
                for file, recipe in recipes.items():
                    save_recipe(recipe, path / file)
                yield lock
            except BaseException:
                if lock.stands and not saved_step(path):
                    saved = [str(Path(file).parent / one) for file in recipes
                             for one in (LAST, BEST)]
                    _take_back(path, [*names, *saved, LOG, LOCK], made)
                raise


def _first_files(system: BaseSystem) -> list[str]:
    """What a run's directory has from its start."""
    return [*system.recipe_files(), *map(vocabulary_file, system.vocabularies)]


def _check_memory(model: Any, copies: int, what: str) -> None:
    """Raise UserError where the memory does not hold so many copies of all parameters."""
    count = sum(math.prod(weight.shape) for weight in model.weights().values())
    check_fits(4 * count * copies, f"{what}, {count:,} numbers{' each' * (copies > 1)}",
               "smaller layers, or fewer words in the vocabularies, need less")


def pruning_of(saved: checkpoint.Checkpoint) -> Pruning | None:
    """What a checkpoint says of pruning; None where it has no masks."""
    masks = saved.select(checkpoint.MASKS)
    return Pruning(masks, saved.metadata.get("model", {}).get("pruning", {})) if masks else None


def vocabulary_file(name: str) -> str:
    """The file of a vocabulary."""
    return f"{name}.vocab"


def file_names(kind: type[BaseSystem], recipe: AnyRecipe) -> list[str]:
    """What a run of a recipe writes into its directory."""
    return [RECIPE, *map(vocabulary_file, kind.names_of(recipe)), LAST, BEST, LOG]


def checkpoint_path(directory: Path, which: str) -> Path:
    """The best checkpoint of a run, or the last, which also serves where no score was kept.

    Raises ValueError unless `which` is one of `nmt.checkpoint_option.CHECKPOINTS`.
    """
    if which not in CHECKPOINTS:
        raise ValueError(f"which: expected one of {', '.join(CHECKPOINTS)}, got {which!r}")
    best = directory / BEST
    return best if which == "best" and best.is_file() else directory / LAST


def epochs_of(path: Path) -> int | None:
    """How many epochs a checkpoint's parameters were trained for; None where it does not say."""
    known = checkpoint.load_metadata(path)
    if epoch := known.get("training", {}).get("counters", {}).get("epoch"):
        return epoch - 1  # that is the epoch to come
    return known.get("epoch")


def read_vocabularies(directory: Path, names: Iterable[str]) -> dict[str, Vocabulary]:
    """The vocabularies of a run directory by name."""
    return {name: Vocabulary.read(directory / vocabulary_file(name)) for name in names}


def resumable(kind: type[R], directory: Path, overrides: Iterable[str]) -> R:
    """The recipe of a run to go on with. Raises UserError where there is none of this format."""
    if not (directory / LAST).exists() and left_by_killed(directory):
        raise UserError(f"{directory}: the run was killed before its first checkpoint; begin it "
                        "again with the command that began it")
    _need(directory, "a run directory to go on in", [RECIPE, LAST])
    checkpoint.load_metadata(directory / LAST)
    return load_recipe(kind, directory / RECIPE, list(overrides))


def check_new(path: Path, beside: Collection[str] = ()) -> None:
    """Raise UserError unless a new run may write here: nothing yet, or nothing visible in it.

    beside: files that may be there. So may what a run wrote whose process was killed before its
    first checkpoint.
    """
    if (path / LAST).exists():
        raise UserError(f"{path / LAST}: a training run is here already; resume it or choose "
                        "another directory")
    if path.exists() and not path.is_dir():
        raise UserError(f"{path}: expected a directory, found a file")
    known = {Path(name).parts[0] for name in {*beside, *left_by_killed(path)}}
    found = sorted(p.name for p in path.iterdir()
                   if not p.name.startswith(".") and p.name not in known) if path.is_dir() else []
    if found:
        raise UserError(f"{path}: expected a new or empty directory, found {found[0]} in it")


def fingerprint(lines: Iterable[str]) -> str:
    """A digest that tells vocabularies and corpora apart."""
    digest, between = hashlib.sha256(), b""
    for line in lines:
        digest.update(between + line.encode())
        between = b"\n"
    return digest.hexdigest()[:16]


def check_same(path: Path, recipe: AnyRecipe, what: str = RESUME) -> None:
    """Raise UserError if the run in `path` has another model, or its data are made otherwise.

    For RESUME, scores of the dev data, and what tasks share, too.
    """
    saved = checkpoint_path(path, DEFAULT)
    known = checkpoint.load_metadata(saved).get("model", {}) if saved.is_file() else {}
    before = known.get("recipe") or fixed_values(load_recipe(type(recipe), path / RECIPE))
    sections = (*MADE_BY, *MIXED_BY, "evaluate") if what == RESUME else MADE_BY[:3]
    before = {key: value for key, value in before.items()
              if _of_its_task(key).split(".")[0] in sections}
    changes = _changes(before, fixed_values(recipe), "now")
    if changes:
        raise UserError(f"{path}: cannot {what} with other options: {changes}")


def fixed_values(recipe: AnyRecipe) -> dict[str, Any]:
    """What no one may change of a recipe that was trained by: value by dotted key, as in JSON."""
    flat = _flat(as_mapping(recipe))
    return json.loads(json.dumps({key: value for key, value in flat.items()
                                  if _is_fixed(_of_its_task(key))}))


def _is_fixed(key: str) -> bool:
    """Whether a value of a recipe of one task decides what is trained."""
    return key not in FREE and (key.split(".")[0] in (*MADE_BY, *MIXED_BY) or key in SCORED_BY)


def _check_recipe(
    path: Path, recipe: AnyRecipe, metadata: Mapping[str, Any], trained: Path
) -> None:
    """Raise UserError if a run's recipe is not the one that its checkpoint was trained by.

    How a model is scored may change here. Checkpoints that were written before they held their
    recipe say nothing.
    """
    before = metadata.get("model", {}).get("recipe", {})
    changes = _changes({key: value for key, value in before.items()
                        if _of_its_task(key) not in SCORED_BY}, fixed_values(recipe), "here")
    if changes:
        raise UserError(f"{path}: this is not the recipe that {trained.name} was trained by: "
                        f"{changes}")


def _changes(before: Mapping[str, Any], now: Mapping[str, Any], when: str) -> str:
    """What differs of the keys that both have: versions of the program may know more."""
    return "; ".join(f"{key}: was {was!r}, {when} {now[key]!r}" for key, was in before.items()
                     if key in now and was != now[key])


def _of_its_task(key: str) -> str:
    """A key as the recipe of its task has it; others as they are."""
    return key.split(".", 2)[-1] if key.startswith(f"{TASKS}.") else key


def _tasks_hint(directory: Path) -> str:
    """Where the translators of a run of several tasks are; "" for another run."""
    tree = read_tree(directory / RECIPE)
    tasks = tree[TASKS].value if is_of_tasks(tree) else {}
    return f"; its tasks are {', '.join(str(directory / name) for name in tasks)}" if tasks else ""


def _flat(mapping: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested values by dotted key."""
    flat: dict[str, Any] = {}
    for name, value in mapping.items():
        key = prefix + name
        nested = isinstance(value, dict) and _of_its_task(key) not in NAMED
        flat |= _flat(value, f"{key}.") if nested else {key: value}
    return flat


def _need(directory: Path, what: str, files: Iterable[str]) -> None:
    """Raise UserError unless the directory has these files."""
    for file in files:
        if not (directory / file).is_file():
            found = "a file" if directory.is_file() else "no such directory"
            found = f"no {file} in it" if directory.is_dir() else found
            raise UserError(f"{directory}: expected {what}, found {found}")


def _take_back(directory: Path, names: Collection[str], made: bool) -> None:
    """Remove the files, and the directories made for them, as far as that can be done."""
    with suppress(OSError):
        for name in names:
            (directory / name).unlink(missing_ok=True)
        for inner in {(directory / name).parent for name in names} - {directory}:
            inner.rmdir()
        if made:
            directory.rmdir()
