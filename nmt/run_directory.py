"""Run directories: what training writes and everything else opens.

    recipe.yaml        the recipe as it is used, every default filled in
    NAME.vocab         the vocabularies: source and target, or text; a hybrid's of characters too
    last.safetensors   where training stands (`nmt.training.trainer`)
    best.safetensors   the parameters with the best validation score
    log.jsonl          what happened
    TASK/              of a run of several tasks: the run directory of each (`nmt.multitask`)

The checkpoints say the format's version for all of them (`nmt.training.checkpoint`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

import numpy as np

from backend import Array
from backend.errors import UserError
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
from nmt.training.progress import Observer
from nmt.training.trainer import BEST, LAST, LOG, BatchSource, Trainer, Validate

R = TypeVar("R", bound=AnyRecipe)
RECIPE = "recipe.yaml"
# What a resumed run may change: where the files lie, and what only translation reads.
FREE = {"data.directory", "data.max_translate_length", "text.train", "text.dev",
        *(f"data.{part}_{side}" for part in ("train", "dev", "test")
          for side in ("source", "target"))}


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
        """What a checkpoint says of the system it belongs to: fingerprints of its vocabularies."""
        prints = {name: fingerprint(one.words) for name, one in self.vocabularies.items()}
        pruned = {} if self.pruning is None else {"pruning": self.pruning.facts}
        return {"kind": self.kind, **prints, **pruned}

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


class RunDirectory:
    """Where a recipe is trained: in a new directory, or going on in one.

    Raises UserError, before any work, unless the directory is new or empty; for a resumed run,
    unless its model and data are made as they were. The trainer checks its own options.
    """

    def __init__(self, path: str | Path, recipe: AnyRecipe, resume: bool) -> None:
        self._path, self._recipe, self._resume = Path(path), recipe, resume
        if resume:
            check_same(self._path, recipe)
        else:
            check_new(self._path)

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
        be the one that was interrupted. A new run that fails before its first checkpoint leaves
        nothing behind.
        """
        with nullcontext() if self._resume else self._new(system):
            trainer = Trainer(
                system.parametrized or system.model, system.stored or system.parameters,
                training.batches, self._recipe.train, self._path, training.validate, observer,
                system.metadata() | {"data": fingerprint(training.lines)}, notes=training.notes,
                beside=system.masks(), after_save=partial(system.saved, self._path),
            )
            if self._resume:
                trainer.resume()
                for file, recipe in system.recipe_files().items():
                    save_recipe(recipe, self._path / file)  # more epochs, perhaps
            trainer.train()
        system.load(self._path)

    @contextmanager
    def _new(self, system: BaseSystem) -> Iterator[None]:
        """Write recipe and vocabularies, let the run go, take all away if no checkpoint comes."""
        path, made = self._path, not self._path.exists()
        check_new(path)
        recipes, vocabularies = system.recipe_files(), system.vocabularies
        try:
            for file in recipes:
                (path / file).parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"{path}: cannot make the directory: {error.strerror}") from error
        try:
            for name, vocabulary in vocabularies.items():
                vocabulary.write(path / vocabulary_file(name))
            for file, recipe in recipes.items():
                save_recipe(recipe, path / file)
            yield
        except BaseException:
            if not (path / LAST).exists():
                beside = [str(Path(file).parent / BEST) for file in recipes]
                _take_back(path, [*recipes, LOG, *beside, *map(vocabulary_file, vocabularies)],
                           made)
            raise


def pruning_of(saved: checkpoint.Checkpoint) -> Pruning | None:
    """What a checkpoint says of pruning; None where it has no masks."""
    masks = saved.select(checkpoint.MASKS)
    return Pruning(masks, saved.metadata.get("model", {}).get("pruning", {})) if masks else None


def vocabulary_file(name: str) -> str:
    """The file of a vocabulary."""
    return f"{name}.vocab"


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
    if "training" in known:
        return known["training"]["counters"]["epoch"] - 1  # that is the epoch to come
    return known.get("epoch")


def read_vocabularies(directory: Path, names: Iterable[str]) -> dict[str, Vocabulary]:
    """The vocabularies of a run directory by name."""
    return {name: Vocabulary.read(directory / vocabulary_file(name)) for name in names}


def resumable(kind: type[R], directory: Path, overrides: Iterable[str]) -> R:
    """The recipe of a run to go on with. Raises UserError where there is none of this format."""
    _need(directory, "a run directory to go on in", [RECIPE, LAST])
    checkpoint.load_metadata(directory / LAST)
    return load_recipe(kind, directory / RECIPE, list(overrides))


def check_new(path: Path) -> None:
    """Raise UserError unless a new run may write here: nothing yet, or nothing visible in it."""
    if (path / LAST).exists():
        raise UserError(f"{path / LAST}: a training run is here already; resume it or choose "
                        "another directory")
    if path.exists() and not path.is_dir():
        raise UserError(f"{path}: expected a directory, found a file")
    found = sorted(p.name for p in path.iterdir() if not p.name.startswith(".")) \
        if path.is_dir() else []
    if found:
        raise UserError(f"{path}: expected a new or empty directory, found {found[0]} in it")


def fingerprint(lines: Iterable[str]) -> str:
    """A digest that tells vocabularies and corpora apart."""
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def check_same(path: Path, recipe: AnyRecipe, what: str = "resume") -> None:
    """Raise UserError if the run in `path` has another model, or its data are made otherwise."""
    before = _flat(as_mapping(load_recipe(type(recipe), path / RECIPE)))
    now = _flat(as_mapping(recipe))
    changes = [f"{key}: was {was!r}, now {now.get(key)!r}" for key, was in before.items()
               if _is_fixed(key) and was != now.get(key, was)]
    if changes:
        raise UserError(f"{path}: cannot {what} with other options: {'; '.join(changes)}")


def _is_fixed(key: str) -> bool:
    """Whether a resumed run must find a value as it was; of tasks it stands behind their names."""
    parts = key.split(".")
    if parts[0] in (RATIOS, SHARE, VOCABULARIES):
        return True
    own = parts[2:] if parts[0] == TASKS else parts
    return own[0] in ("data", "text", "model") and ".".join(own) not in FREE


def _tasks_hint(directory: Path) -> str:
    """Where the translators of a run of several tasks are; "" for another run."""
    tree = read_tree(directory / RECIPE)
    tasks = tree[TASKS].value if is_of_tasks(tree) else {}
    return f"; its tasks are {', '.join(str(directory / name) for name in tasks)}" if tasks else ""


def _flat(mapping: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested values by dotted key."""
    flat: dict[str, Any] = {}
    for name, value in mapping.items():
        flat |= _flat(value, f"{prefix}{name}.") if isinstance(value, dict) \
            else {prefix + name: value}
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
