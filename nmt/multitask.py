"""Several tasks trained together, in a run directory that holds a run directory for each task.

    recipe.yaml, log.jsonl, last.safetensors, best.safetensors      the mixture's, for a resume
    TASK/recipe.yaml, *.vocab, last.safetensors, best.safetensors   a task's, like any translator's

A task's directory can be used without the others: its checkpoints hold all its parameters, the
shared ones too. They are written each time the mixture's are; a resume writes those that were
missing when the run was killed. The reference task decides which epoch is `best`, for all tasks,
since they are one system (thesis, Tables 6.2 to 6.6).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from backend import Array
from backend.errors import UserError
from nmt.base_system import BaseSystem
from nmt.data.corpora import ParallelCorpus, load_corpus
from nmt.data.vocabulary import Vocabulary
from nmt.fixed_recipe import fixed_values
from nmt.models.parametrization import Parametrized
from nmt.recipe.tasks import JOINT, TasksRecipe
from nmt.run_directory import RunDirectory, Training
from nmt.run_files import RECIPE
from nmt.system import System
from nmt.training import checkpoint
from nmt.training.progress import Observer
from nmt.training.tasks import PARTS, Mixture, Several, of_task, shared
from nmt.translator_training import (
    Validation,
    dev_lines,
    notes_on,
    side_vocabularies,
    text_of,
)

Corpora = Mapping[str, ParallelCorpus]  # by task
# keys of data that must be equal in a group
OPTIONS = ("min_frequency", "max_vocabulary", "max_characters", "subwords")


@dataclass
class TasksSystem(BaseSystem):
    """Recipe, vocabularies, models and parameters of several tasks."""

    kind, recipes, names = "multi-task translator", TasksRecipe, ()

    recipe: TasksRecipe

    @classmethod
    def names_of(cls, recipe: TasksRecipe) -> tuple[str, ...]:  # type: ignore[override]
        """The vocabularies of all tasks, `task/name`."""
        return tuple(f"{task}/{name}" for task, own_recipe in recipe.tasks.items()
                     for name in System.names_of(own_recipe))

    @classmethod
    def models(
        cls, recipe: TasksRecipe, vocabularies: Mapping[str, Vocabulary],
        directory: Path | None = None,
    ) -> tuple[Several, Parametrized]:
        """The tasks' models as one, and the parametrization that is trained: what tasks share is
        stored once.

        Raises UserError for encoders or decoders that cannot be shared.
        """
        models = {}
        for task, task_recipe in recipe.tasks.items():
            if getattr(task_recipe.model, "lexicon_epsilon", None) is not None:
                raise UserError(f"tasks.{task}.model.lexicon_epsilon: expected null in a mixture "
                                f"of tasks, got {task_recipe.model.lexicon_epsilon}")
            model, within = System.models(task_recipe, of_task(task, vocabularies))
            models[task] = within or model
        several = Several(models)
        try:
            return several, Parametrized(several, shared(models, recipe.share, recipe.private))
        except ValueError as error:
            raise UserError(f"share.{error}") from None

    def task(self, name: str) -> System:
        """The translator of a task, with the current parameters."""
        recipe = self.recipe.tasks[name]
        vocabularies = of_task(name, self.vocabularies)
        model, within = System.models(recipe, vocabularies)
        stored = of_task(name, self.parameters)
        if within is None:
            return System(recipe, vocabularies, model, stored)
        return System(recipe, vocabularies, model, within.plain(stored), within, stored)

    def recipe_files(self) -> dict[str, Any]:
        """The recipes of the mixture and of each task."""
        return {RECIPE: self.recipe} | {f"{name}/{RECIPE}": task_recipe
                                        for name, task_recipe in self.recipe.tasks.items()}

    def saved(
        self, path: Path, file: str, trained: dict[str, Array], facts: Mapping[str, Any]
    ) -> None:
        """Write the same checkpoint of each task, into its directory."""
        parameters = self.plain(trained)
        for name, own_facts in self._facts(facts).items():
            known = {"kind": System.kind, "recipe": fixed_values(self.recipe.tasks[name]),
                     **of_task(name, self.metadata())}
            arrays = {checkpoint.PARAMETERS + key: array
                      for key, array in of_task(name, parameters).items()}
            checkpoint.save(path / name / file, arrays, {"model": known, **own_facts})

    def complete(self, path: Path, file: str) -> None:
        """Write the tasks' checkpoints `file` again, unless all belong to the mixture's update."""
        facts = checkpoint.load_metadata(path / file)
        if not all(_holds(path / name / file, own_facts)
                   for name, own_facts in self._facts(facts).items()):
            saved = checkpoint.load(path / file)
            self.saved(path, file, checkpoint.parameters_of(saved, path / file, self.stored), facts)

    def _facts(self, facts: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        """The epoch, update and scores of each task's checkpoint, from the facts of the
        mixture's."""
        counters = facts.get("training", {}).get("counters", {})
        epoch = facts.get("epoch", counters.get("epoch", 1) - 1)
        step = facts.get("step", counters.get("step"))
        return {name: {"epoch": epoch, "step": step, "scores": scores_of(
            name, facts.get("scores", {}), name == self.reference)} for name in self.recipe.tasks}

    @property
    def reference(self) -> str:
        """The name of the reference task, the first."""
        return next(iter(self.recipe.tasks))


def _holds(path: Path, facts: Mapping[str, Any]) -> bool:
    """Whether a path leads to a checkpoint with these facts."""
    with suppress(UserError):
        known = checkpoint.load_metadata(path)
        return all(known.get(key) == value for key, value in facts.items())
    return False


def scores_of(task: str, scores: Mapping[str, float], reference: bool) -> dict[str, float]:
    """The scores of a task, from those of the mixture, without the task's name."""
    own_scores = of_task(task, scores)
    plain = {name: score for name, score in scores.items() if "/" not in name}
    return plain if reference else own_scores


def build_vocabularies(corpora: Corpora, recipe: TasksRecipe) -> dict[str, Vocabulary]:
    """The vocabularies of all tasks, `task/name`; tasks that share a side share its vocabulary.

    Raises UserError where tasks of a group have different options for their shared vocabulary.
    """
    vocabularies: dict[str, Vocabulary] = {}
    for language, side in zip(System.names, PARTS, strict=True):
        for group in recipe.groups(side):
            _check_options(recipe, side, group)
            readers = group if recipe.vocabularies == JOINT else group[:1]
            common = side_vocabularies([corpora[task] for task in readers], recipe.tasks[group[0]],
                                       language)
            vocabularies |= {f"{task}/{name}": vocabulary
                             for task in group for name, vocabulary in common.items()}
    return {name: vocabularies[name] for name in TasksSystem.names_of(recipe)}


def _check_options(recipe: TasksRecipe, side: str, group: Sequence[str]) -> None:
    """Raise UserError unless a group's tasks have the same options for their vocabulary."""
    for option in OPTIONS:
        values = {task: getattr(recipe.tasks[task].data, option) for task in group}
        first = values[group[0]]
        for task, value in values.items():
            if value != first:
                raise UserError(f"share.{side}: expected one data.{option}, got {first} in "
                                f"{group[0]} and {value} in {task}".replace("None", "null"))


def train(
    recipe: TasksRecipe, directory: str | Path, observer: Observer, *,
    corpora: Corpora | None = None, resume: bool = False,
) -> TasksSystem:
    """Train in a run directory and return the system with its best parameters.

    Arguments: corpora, if they were loaded already; resume: continue from `last.safetensors`.
    Raises UserError where the data cannot be read, and as `RunDirectory` does.
    """
    run = RunDirectory(directory, recipe, resume)
    corpora = corpora or load_corpora(recipe)
    build: Callable[[], Mapping[str, Vocabulary]] = partial(build_vocabularies, corpora, recipe)
    system = TasksSystem.create(recipe, run.vocabularies(TasksSystem.names_of(recipe), build))
    tasks = {name: system.task(name) for name in recipe.tasks}
    batches = {name: task.training_batches(corpora[name].train) for name, task in tasks.items()}
    notes = [f"{name}: {note}" for name, task_recipe in recipe.tasks.items()
             for note in notes_on(task_recipe.model, batches[name].lengths[:, 0])]
    training = Training(Mixture(batches, recipe.ratios), _Validation(system, tasks, corpora),
                        _lines(corpora, text_of), notes,
                        _lines(corpora, lambda corpus: dev_lines(corpus.dev)))
    with run.trainer(system, training, observer) as trainer:
        trainer.train()
    return system


def load_corpora(recipe: TasksRecipe) -> dict[str, ParallelCorpus]:
    """The corpora of all tasks. Raises UserError as `load_corpus`, naming the task."""
    loaded = {}
    for name, task_recipe in recipe.tasks.items():
        try:
            loaded[name] = load_corpus(task_recipe.data)
        except UserError as error:
            raise UserError(f"tasks.{name}: {error}") from None
    return loaded


def _lines(corpora: Corpora, lines_of: Callable[[ParallelCorpus], Iterator[str]]) -> Iterator[str]:
    """Each task's name, and the lines of its corpus."""
    for name, corpus in corpora.items():
        yield name
        yield from lines_of(corpus)


class _Validation:
    """Scores of the tasks' dev sets: the reference task's under their names, the others' under
    `task/name`."""

    def __init__(self, system: TasksSystem, tasks: Mapping[str, System], corpora: Corpora) -> None:
        self._system, self._tasks, self._corpora = system, tasks, corpora

    def __call__(self, parameters: dict[str, Array]) -> dict[str, float]:
        plain = self._system.plain(parameters)
        scores: dict[str, float] = {}
        for name, task in self._tasks.items():
            own_scores = Validation(task, self._corpora[name].dev)(of_task(name, plain))
            prefix = "" if name == self._system.reference else f"{name}/"
            scores |= {prefix + score: value for score, value in own_scores.items()}
        return scores
