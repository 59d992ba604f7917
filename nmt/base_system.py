"""The base of all systems: a model with its recipe, vocabularies, parameters and files."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from backend import Array
from backend.errors import UserError
from backend.memory import check_fits
from nmt.checkpoint_option import DEFAULT
from nmt.data.factors import factor_sizes, factor_tables
from nmt.data.lexicon import Lexicon, lexicon_lines, read_lexicon
from nmt.data.vocabulary import Vocabulary
from nmt.fixed_recipe import check_recipe, fixed_values, run_recipe
from nmt.models.contract import Tables, character_tables
from nmt.models.parametrization import Masked, Parametrized
from nmt.models.registry import architecture_of, make_model
from nmt.recipe import AnyRecipe
from nmt.recipe.parametrize import parametrized
from nmt.run_files import (
    LEXICON,
    RECIPE,
    checkpoint_path,
    codes_file,
    fingerprint,
    need,
    read_vocabularies,
    tasks_hint,
    vocabulary_file,
)
from nmt.training import checkpoint

SECOND = ("second_source",)  # vocabularies of further sources


class Pruning(NamedTuple):
    """Which weights of a pruned model are left."""

    masks: Mapping[str, np.ndarray]  # stored parameter's name -> bool, True where a weight is kept
    facts: dict[str, Any]  # JSON values that every checkpoint keeps, such as the scheme


@dataclass
class BaseSystem:
    """A model with its recipe, vocabularies and parameters."""

    recipe: Any
    vocabularies: dict[str, Vocabulary]  # by name: see `names_of`
    model: Any
    parameters: dict[str, Array]  # the model's
    parametrized: Parametrized | None = None  # what is trained where the recipe parametrizes
    stored: dict[str, Array] = field(default_factory=dict)  # the parameters of `parametrized`
    pruning: Pruning | None = None  # None: no weight is pruned
    origin: dict[str, Any] | None = None  # what a new run takes from others (training.transfer)

    kind: ClassVar[str]  # its name in messages and checkpoints
    recipes: ClassVar[type[AnyRecipe]]
    names: ClassVar[tuple[str, ...]]  # the source's vocabulary and, last, the target's

    @classmethod
    def sides_of(cls, recipe: AnyRecipe) -> tuple[str, ...]:
        """The names of the vocabularies that a recipe's model reads and, last, predicts."""
        further = SECOND[: max(0, architecture_of(recipe.model).sources - 1)]
        return (*cls.names[:-1], *further, cls.names[-1])

    @classmethod
    def names_of(cls, recipe: AnyRecipe) -> tuple[str, ...]:
        """The names of all vocabularies of a recipe's system, with characters and factors."""
        model = recipe.model
        return (*cls.sides_of(recipe), *character_tables(model), *factor_tables(model))

    @classmethod
    def create(
        cls, recipe: AnyRecipe, vocabularies: Mapping[str, Vocabulary],
        pruning: Pruning | None = None, directory: Path | None = None,
    ) -> Self:
        """A system with parameters initialised from the recipe's seed; pruned weights are zero.

        directory: the run that is opened; None for a new run, which reads its lexicon from the
        data. Raises ValueError for a mask that does not fit its parameter.
        """
        model, parametrized = cls.models(recipe, vocabularies, directory)
        check_memory(model, 1, "the model's parameters")
        rng = np.random.default_rng([recipe.train.seed, 2])
        if pruning is not None:
            masked = {name: Masked(mask) for name, mask in pruning.masks.items()}
            parametrized = Parametrized(parametrized or model, masked)
        if parametrized is None:
            return cls(recipe, dict(vocabularies), model, model.initial_parameters(rng))
        stored = parametrized.initial_parameters(rng)
        return cls(recipe, dict(vocabularies), model, parametrized.plain(stored), parametrized,
                   stored, pruning)

    @classmethod
    def models(
        cls, recipe: Any, vocabularies: Mapping[str, Vocabulary], directory: Path | None = None
    ) -> tuple[Any, Parametrized | None]:
        """The model and, if the recipe parametrizes it, the `Parametrized` model that is trained.

        directory: the run whose lexicon the model has; None: the data's.
        """
        *sources, target = (len(vocabularies[name]) for name in cls.sides_of(recipe))
        characters = {name: len(vocabularies[name]) for name in character_tables(recipe.model)}
        model = make_model(recipe.model, Tables(tuple(sources), target, recipe.reverse_source,
                                                **characters,
                                                factors=factor_sizes(recipe.model, vocabularies),
                                                lexicon=_lexicon(recipe, vocabularies, directory)))
        return model, parametrized(model, recipe.parametrize, recipe.shared_vocabulary)

    def plain(self, trained: dict[str, Array]) -> dict[str, Array]:
        """The model's parameters, computed from the stored parameters that are trained."""
        return trained if self.parametrized is None else self.parametrized.plain(trained)

    @classmethod
    def is_in(cls, directory: Path) -> bool:
        """Whether a directory has the vocabularies of a system of this kind."""
        return all((directory / vocabulary_file(name)).is_file() for name in cls.names)

    @classmethod
    def open(cls, directory: str | Path, which: str = DEFAULT) -> Self:
        """Read a run directory, with the parameters of `checkpoint_path(directory, which)`.

        directory: the run's directory, or a file of a checkpoint in it. Raises UserError for a run
        of another kind or format, and for files that do not match.
        """
        path = checkpoint_path(Path(directory), which)
        directory, expected = path.parent, f"the run directory of a {cls.kind}"
        need(directory, expected, [RECIPE])
        kind = checkpoint.load_metadata(path).get("model", {}).get("kind")
        if kind != cls.kind:
            raise UserError(f"{path}: expected a {cls.kind}, found a {kind}"
                            + tasks_hint(directory))
        need(directory, expected, map(vocabulary_file, cls.names))
        recipe = run_recipe(cls.recipes, directory, saved=path)
        need(directory, expected, map(vocabulary_file, cls.names_of(recipe)))
        vocabularies = read_vocabularies(directory, cls.names_of(recipe))
        saved = checkpoint.load(path)
        check_recipe(directory / RECIPE, recipe, saved.metadata, path)
        try:
            system = cls.create(recipe, vocabularies, pruning_of(saved), directory)
        except ValueError as error:
            raise UserError(f"{path}: {error}") from None
        system._take(saved, path)
        return system

    def load(self, directory: Path, which: str = DEFAULT) -> None:
        """Load the parameters of a run directory. Raises UserError unless they are of this
        system."""
        path = checkpoint_path(directory, which)
        self._take(checkpoint.load(path), path)

    def _take(self, saved: checkpoint.Checkpoint, path: Path) -> None:
        """Take the parameters of a checkpoint that was read from `path`. Raises UserError unless
        vocabularies, codes and lexicon are those of its training."""
        saved_facts, facts = saved.metadata.get("model", {}), self.metadata()
        for name in self.vocabularies:
            codes = codes_file(name)
            for key, file, problem in ((name, vocabulary_file(name), "this is not the vocabulary"),
                                       (codes, codes, "these are not the codes")):
                if saved_facts.get(key) != facts.get(key):
                    raise UserError(f"{path.parent / file}: {problem} that the model in "
                                    f"{path.name} was trained with")
        if saved_facts.get(LEXICON) != facts.get(LEXICON):
            raise UserError(f"{path.parent / LEXICON}: this is not the lexicon that the model in "
                            f"{path.name} was trained with")
        self.stored = checkpoint.parameters_of(saved, path, self.stored or self.parameters)
        self.parameters = self.plain(self.stored)

    def metadata(self) -> dict[str, Any]:
        """The metadata of a checkpoint: fingerprints of the vocabularies, and the values of the
        recipe that must not change."""
        prints = {name: fingerprint(vocabulary.words)
                  for name, vocabulary in self.vocabularies.items()}
        prints |= {codes_file(name): fingerprint(vocabulary.codes.lines())
                   for name, vocabulary in self.vocabularies.items() if vocabulary.codes}
        if lines := self.lexicon():
            prints[LEXICON] = fingerprint(lines)
        pruned = {} if self.pruning is None else {"pruning": self.pruning.facts}
        return {"kind": self.kind, **prints, **pruned, "recipe": fixed_values(self.recipe)}

    def lexicon(self) -> list[str]:
        """The lines of the lexicon's file; none for a model without a lexicon."""
        entries = getattr(self.model, "lexicon", None)
        return [] if entries is None else lexicon_lines(
            entries, *(self.vocabularies[name] for name in self.sides_of(self.recipe)))

    def recipe_files(self) -> dict[str, AnyRecipe]:
        """The recipes that a run directory holds, by file."""
        return {RECIPE: self.recipe}

    def saved(
        self, path: Path, file: str, trained: dict[str, Array], facts: Mapping[str, Any]
    ) -> None:
        """Hook that is called after the checkpoint `file` of the run directory `path` is written.
        """

    def complete(self, path: Path, file: str) -> None:
        """Hook that is called for each checkpoint `file` before a run in `path` is resumed: the
        process may have been killed between writing the file and `saved`."""

    def masks(self) -> dict[str, Array]:
        """The pruning masks, by their names in a checkpoint."""
        masks = {} if self.pruning is None else self.pruning.masks
        return {checkpoint.MASKS + name: mask for name, mask in masks.items()}


def _lexicon(
    recipe: Any, vocabularies: Mapping[str, Vocabulary], directory: Path | None
) -> Lexicon | None:
    """The lexicon of a recipe's model, from the run's directory or else from the data."""
    if getattr(recipe.model, "lexicon_epsilon", None) is None:
        return None
    path = Path(recipe.data.directory) / recipe.data.lexicon if directory is None \
        else directory / LEXICON
    return read_lexicon(path, vocabularies["source"], vocabularies["target"])


def check_memory(model: Any, copies: int, description: str) -> None:
    """Raise UserError if `copies` copies of all parameters do not fit into memory. description:
    what they are, for the error."""
    count = sum(math.prod(weight.shape) for weight in model.weights().values())
    check_fits(4 * count * copies, f"{description}, {count:,} numbers{' each' * (copies > 1)}",
               "smaller layers, or fewer words in the vocabularies, need less")


def pruning_of(saved: checkpoint.Checkpoint) -> Pruning | None:
    """The pruning stored in a checkpoint; None if it has no masks."""
    masks = saved.select(checkpoint.MASKS)
    return Pruning(masks, saved.metadata.get("model", {}).get("pruning", {})) if masks else None
