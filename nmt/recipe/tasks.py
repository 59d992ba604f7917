"""Recipes of several tasks: a recipe for each task, mixing ratios, and what the tasks share.

    tasks:                      # the first is the reference: all train by its train section
      translation: en-de.yaml   # a recipe's file, relative to this one
      parsing:                  # or a recipe itself, with or without a base
        base: ptb.yaml
        model: {dropout: 0.0}
    ratios: {parsing: 0.01}     # alpha: updates for each update of the reference; default 1
    share: [encoder]            # shared by all tasks; or the tasks that share, by part:
    #   {encoder: [translation, parsing], decoder: [[a, b], [c, d]]}
    vocabularies: joint         # a shared side's words are from the texts of all its tasks;
                                # first: from the text of the first task that shares it
    private: 0.0                # share of a shared layer's units that each task has alone

Of the other tasks' train sections only batch_size and sorted_within are used.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from backend.errors import UserError
from nmt.console.messages import nearest
from nmt.recipe import Recipe, TranslationRecipe
from nmt.recipe.numbers import misread_text
from nmt.recipe.tree import Entry, Tree, based, plain, read_tree
from nmt.training.options import TrainOptions
from nmt.training.tasks import PARTS

TASKS, RATIOS, SHARE, VOCABULARIES, PRIVATE = KEYS = (
    "tasks", "ratios", "share", "vocabularies", "private")
JOINT, FIRST = VOCABULARY_CHOICES = ("joint", "first")
SECTIONS = ("data", "model", "parametrize", "train", "search", "evaluate", "text")
Groups = dict[str, list[list[str]]]
Override = tuple[str, str | None]  # key, value
ReadOne = Callable[[Tree, str, Sequence[Override]], Recipe]  # of a task: tree, place, overrides


@dataclass(frozen=True)
class TasksRecipe(TranslationRecipe):
    """Several tasks, each a translator, that are trained together and share encoders or decoders.
    """

    tasks: dict[str, Recipe]  # by name, the reference first
    ratios: dict[str, float]  # alpha of each task
    share: Groups = field(default_factory=dict)  # encoder, decoder -> groups of tasks that share it
    vocabularies: str = JOINT  # how the words of a shared side are chosen
    private: float = 0.0  # share of a shared layer's units that each task has alone

    def __post_init__(self) -> None:
        for name, task in self.tasks.items():
            if task.data.train_second_source:
                raise UserError(f"{TASKS}.{name}: expected a model of one source among several "
                                "tasks, got one of two (data.train_second_source)")

    @property
    def train(self) -> TrainOptions:  # type: ignore[override]
        """The train section of the reference task."""
        return next(iter(self.tasks.values())).train

    def groups(self, side: str) -> list[list[str]]:
        """The tasks in groups that share a part, encoder or decoder. A task that shares it with no
        other is a group of one."""
        shared = self.share.get(side, [])
        sharing = set(chain.from_iterable(shared))
        return [*shared, *([task] for task in self.tasks if task not in sharing)]


def is_of_tasks(tree: Tree) -> bool:
    """Whether a recipe is one of several tasks."""
    return TASKS in tree


def tasks_recipe(tree: Tree, path: str | Path, overrides: Sequence[Override],
                 read: ReadOne) -> TasksRecipe:
    """The recipe of a tree that `is_of_tasks`.

    path: for messages. overrides: their keys are `section.key` for every task,
    `task.section.key` for one task, or `ratios.task`. read: the function that makes the recipe of a
    task. Raises UserError, with file and line, for an unknown key or task, a ratio that is not
    positive, and a part or a task that cannot be shared; and as `read` does.
    """
    for name, entry in tree.items():
        if name not in KEYS:
            raise UserError(f"{entry.place}: key '{name}' is not known to a recipe of tasks"
                            f"{nearest(name, KEYS)}; keys of one task belong in its recipe")
    named = _named(tree[TASKS])
    by_task, ratios, common = _divided(overrides, named)
    tasks = {name: read(_tree_of(name, entry), f"{entry.place}: {TASKS}.{name}",
                        [*common, *by_task[name]]) for name, entry in named.items()}
    for name, task in tasks.items():
        if task.shared_vocabulary:
            raise UserError(f"{named[name].place}: {TASKS}.{name}: expected data.shared_vocabulary "
                            "false in a recipe of tasks, got true")
    return TasksRecipe(tasks, _ratios(tree.get(RATIOS), list(tasks), ratios),
                       _share(tree.get(SHARE), list(tasks), path),
                       _vocabularies(tree.get(VOCABULARIES)), _private(tree.get(PRIVATE)))


def tasks_mapping(
    recipe: TasksRecipe, mapping_of: Callable[[Recipe], dict[str, Any]]
) -> dict[str, Any]:
    """The whole recipe as plain values; mapping_of: the function that converts a task's recipe."""
    return {TASKS: {name: mapping_of(task) for name, task in recipe.tasks.items()},
            RATIOS: recipe.ratios, SHARE: recipe.share, VOCABULARIES: recipe.vocabularies,
            **({PRIVATE: recipe.private} if recipe.private else {})}  # as in older run directories


def _named(entry: Entry) -> Tree:
    """The tasks by name. Raises UserError for a name that is not letters, digits, - and _, or that
    is the name of a section."""
    if not (isinstance(entry.value, dict) and entry.value):
        raise _wrong(entry, TASKS, "a mapping of names to recipes")
    for name, task in entry.value.items():
        if not re.fullmatch(r"[\w-]+", name) or name in (*SECTIONS, *KEYS):
            raise UserError(f"{task.place}: {TASKS}: expected a name of letters, digits, - and _ "
                            f"that no section of a recipe has, got {name!r}")
    return entry.value


def _tree_of(name: str, entry: Entry) -> Tree:
    """The tree of a task's entry, which is a file's name or the sections themselves."""
    directory = Path(entry.place.rpartition(":")[0]).parent  # of this entry's file, maybe a base
    if isinstance(entry.value, str) and entry.value:
        if not os.path.isfile(directory / entry.value):
            raise UserError(f"{entry.place}: {TASKS}.{name}: expected a recipe's file, found none "
                            f"at {directory / entry.value}")
        tree = read_tree(directory / entry.value)
    elif isinstance(entry.value, dict):
        tree = based(entry.value)
    else:
        raise _wrong(entry, f"{TASKS}.{name}", "a recipe's file or its sections")
    if is_of_tasks(tree):
        raise UserError(f"{tree[TASKS].place}: {TASKS}: expected a recipe of one task within "
                        "another, got one of several")
    return tree


def _divided(
    overrides: Sequence[Override], named: Tree
) -> tuple[dict[str, list[Override]], dict[str, str | None], list[Override]]:
    """The overrides of each task, those of ratios, and those of all tasks."""
    by_task: dict[str, list[Override]] = {name: [] for name in named}
    ratios: dict[str, str | None] = {}
    common: list[Override] = []
    for key, value in overrides:
        first, _, task_key = key.partition(".")
        if first in by_task:
            by_task[first].append((task_key, value))
        elif first == RATIOS and task_key in by_task:
            ratios[task_key] = value
        elif first in SECTIONS:
            common.append((key, value))
        else:
            known = [*named, *(f"{RATIOS}.{name}" for name in named), *SECTIONS]
            raise UserError(f"override '{key}' is not known: expected section.key for all "
                            f"tasks, or task.section.key for one{nearest(key, known)}")
    return by_task, ratios, common


def _ratios(entry: Entry | None, names: Sequence[str],
            overrides: Mapping[str, str | None]) -> dict[str, float]:
    """The mixing ratio alpha of each task."""
    ratios = dict.fromkeys(names, 1.0)
    if entry is not None and not isinstance(entry.value, dict):
        raise _wrong(entry, RATIOS, "a mapping of tasks to numbers")
    entries = ({} if entry is None else entry.value) | {
        name: Entry(value, "override") for name, value in overrides.items()}
    for name, given in entries.items():
        _check_task(name, names, given.place, RATIOS)
        ratio = _number(given.value)
        if not 0 < ratio < math.inf:
            raise _wrong(given, f"{RATIOS}.{name}", "a positive number")
        if name == names[0] and ratio != 1:
            raise _wrong(given, f"{RATIOS}.{name}", "1 for the first task, the reference")
        ratios[name] = ratio
    return ratios


def _number(value: Any) -> float:
    """The value as a number; NaN if it is not a number."""
    try:
        odd = isinstance(value, bool) or (isinstance(value, str) and misread_text(value))
        return math.nan if odd else float(value)
    except (TypeError, ValueError):
        return math.nan


def _share(entry: Entry | None, names: Sequence[str], path: str | Path) -> Groups:
    """The groups of tasks that share a part: encoder or decoder -> groups."""
    if entry is None:
        raise UserError(f"{path}: {SHARE}: expected [encoder], [decoder], both, or the "
                        "tasks that share each; [] if nothing is shared")
    if isinstance(entry.value, list):
        entries = {side: Entry(list(names), entry.place) for side in map(_text, entry.value)}
    elif isinstance(entry.value, dict):
        entries = entry.value
    else:
        raise _wrong(entry, SHARE, "a list of parts, or a mapping of parts to tasks")
    for side, side_entry in entries.items():
        if side not in PARTS:
            raise UserError(f"{side_entry.place}: {SHARE}: expected one of {', '.join(PARTS)}, got "
                            f"{side!r}{nearest(side, PARTS)}")
    return {side: _groups(side, entries[side], names) for side in PARTS if side in entries}


def _groups(side: str, entry: Entry, names: Sequence[str]) -> list[list[str]]:
    """The groups of an entry, which is a list of tasks or of several lists. No task is in two."""
    value, key = entry.value, f"{SHARE}.{side}"
    lists = value if isinstance(value, list) and all(isinstance(item, list) for item in value) \
        else [value]
    seen: set[str] = set()
    for group in lists:
        if not isinstance(group, list) or (len(group) < 2 and group != list(names)):
            raise _wrong(entry, key, "a list of two or more tasks, or lists of them")
        for name in map(_text, group):
            _check_task(name, names, entry.place, key)
            if name in seen:
                raise UserError(f"{entry.place}: {key}: expected each task once, got {name!r} "
                                "again")
            seen.add(name)
    return [list(map(_text, group)) for group in lists if len(group) > 1]


def _vocabularies(entry: Entry | None) -> str:
    """The value of `vocabularies`, checked."""
    if entry is not None and entry.value not in VOCABULARY_CHOICES:
        raise _wrong(entry, VOCABULARIES, " or ".join(VOCABULARY_CHOICES))
    return JOINT if entry is None else str(entry.value)


def _private(entry: Entry | None) -> float:
    """The value of `private`, a number from 0 to below 1."""
    value = 0.0 if entry is None else _number(entry.value)
    if entry is not None and not 0.0 <= value < 1.0:
        raise _wrong(entry, PRIVATE, "a number from 0 to below 1")
    return value


def _wrong(entry: Entry, key: str, expected: str) -> UserError:
    """The error for the value of a key."""
    return UserError(f"{entry.place}: {key}: expected {expected}, got {_shown(entry.value)}")


def _check_task(name: str, names: Sequence[str], place: str, key: str) -> None:
    """Raise UserError unless there is a task of this name."""
    if name not in names:
        raise UserError(f"{place}: {key}: expected tasks among {', '.join(names)}, got "
                        f"{name!r}{nearest(name, names)}")


def _text(value: Any) -> str:
    """A name as text, which YAML may have read as another type."""
    return value if isinstance(value, str) else _shown(value)


def _shown(value: Any) -> str:
    """A value approximately as YAML writes it, for messages."""
    return repr(plain(value)).replace("None", "null")
