"""Reading recipes from YAML files and overrides of the command line, and writing them."""

from __future__ import annotations

import dataclasses
import re
from argparse import ArgumentError
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from functools import partial
from importlib.resources import as_file, files
from itertools import chain
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args

import yaml

from backend.errors import UserError
from nmt.console.messages import nearest
from nmt.data.corpus import write_lines
from nmt.models.registry import MODELS, name_of
from nmt.recipe import AnyRecipe, Recipe, kind_of
from nmt.recipe.keys import (
    ARCHITECTURE,
    Key,
    default_of,
    keys_of,
    problem,
    sections_of,
    subsections,
)
from nmt.recipe.limits import beyond_limits
from nmt.recipe.numbers import misread_text
from nmt.recipe.renamed import current_name
from nmt.recipe.tasks import TASKS, TasksRecipe, is_of_tasks, tasks_mapping, tasks_recipe
from nmt.recipe.tree import Entry, Tree, architecture_entry, plain, read_tree, without_model
from nmt.recipe.unused import check_used

R = TypeVar("R", bound=AnyRecipe)
# Characters that no file's name has. The halves of surrogate pairs that are not in this pattern
# stand for bytes that are not UTF-8.
NO_TEXT = re.compile("[\0\ud800-\udc7f\udd00-\udfff]")
Where = Callable[[str], str]  # dotted key -> where it was given: file and line, or "override"


def load_recipe(
    kind: type[R], path: str | Path, overrides: Sequence[str] = (), *, of_run: bool = False
) -> R:
    """Read a recipe and its bases, and apply overrides.

    kind: the class of the recipe, `Recipe`, `LanguageModelRecipe` or `TasksRecipe`, or a base class
    of these. path: the YAML file. overrides: each `--section.key=value`; together they count as
    a recipe based on the file. of_run: whether the file is a run directory's; unused values in it
    are then allowed. Raises UserError, with file and line or the override, as `read_tree` does, for
    an unknown architecture or one with another kind of recipe, an unknown key (naming the nearest
    known one), a value of the wrong type or out of range, and an unused value
    (`nmt.recipe.unused`).
    """
    tree, changes = read_tree(path), [_split(override) for override in overrides]
    if is_of_tasks(tree):
        if not issubclass(TasksRecipe, kind):
            raise UserError(f"{tree[TASKS].place}: {TASKS}: expected a recipe of one model, got "
                            "one of several tasks")
        recipe: Any = tasks_recipe(tree, path, changes, partial(_recipe_of, Recipe, of_run=of_run))
        return recipe
    if kind is TasksRecipe:
        raise UserError(f"{path}: {TASKS}: expected a recipe of several tasks, got a "
                        "single one")
    return _recipe_of(kind, tree, path, changes, of_run=of_run)


def packaged_recipe(name: str, overrides: Sequence[str]) -> Recipe:
    """Read a recipe that comes with the package, by its file's name. Overrides as `load_recipe`."""
    with as_file(files("nmt") / "recipes" / name) as path:
        return load_recipe(Recipe, path, overrides)


def _recipe_of(
    kind: type[R], tree: Tree, path: str | Path, overrides: Sequence[tuple[str, str | None]],
    of_run: bool = False,
) -> R:
    """The recipe of one model, from a file's tree and overrides."""
    overrides = [(current_name(key, "override"), value) for key, value in overrides]
    architecture = _architecture(kind, tree, path, dict(overrides).get(ARCHITECTURE))
    if architecture != architecture_entry(tree).value:
        tree = without_model(tree)
    keys = keys_of(architecture)
    for key, value in overrides:
        if key not in keys:
            raise UserError(f"override {problem(key, architecture)}")
        if value is None:
            raise UserError(f"override: {key}: expected a value, got none")
    chosen = {key: value for key, value in overrides if value is not None}
    entries = dict(_entries(tree, architecture))

    def where(key: str) -> str:
        return "override" if key in chosen else entries[key].place if key in entries else str(path)

    stated = {key: plain(entry.value) for key, entry in entries.items() if key not in chosen}
    flat = _typed(keys, stated, chosen, where)
    recipe = _built(architecture, flat, where)
    for key, value in flat.items():
        if expected := beyond_limits(key, value):
            raise UserError(f"{where(key)}: {key}: expected {expected}, got {value!r}")
    unused = check_used(recipe, chosen if of_run else flat, flat,
                        {name: key.default for name, key in keys.items()}, where, str(path))
    used = {key: value for key, value in flat.items() if key not in unused}
    return recipe if used == flat else _built(architecture, used, where)


def _built(architecture: str, flat: Mapping[str, Any], where: Where) -> Any:
    """The recipe of these values by dotted key."""
    values = _nested(flat)
    values.get("model", {}).pop("architecture", None)
    return _make(kind_of(architecture), values, dataclasses.MISSING, "", where,
                 {"model": MODELS[architecture].config})


def as_text(recipe: AnyRecipe) -> str:
    """The resolved recipe as YAML, every default filled in."""
    return yaml.safe_dump(as_mapping(recipe), sort_keys=False, allow_unicode=True)


def as_mapping(recipe: AnyRecipe) -> dict[str, Any]:
    """The sections of a recipe as nested mappings; the model's section has the architecture."""
    if isinstance(recipe, TasksRecipe):
        return tasks_mapping(recipe, as_mapping)
    mapping = dataclasses.asdict(recipe)  # type: ignore[call-overload]
    return mapping | {"model": {"architecture": name_of(recipe.model), **mapping["model"]}}


def save_recipe(recipe: AnyRecipe, path: str | Path) -> None:
    """Write the resolved recipe, completely or not at all."""
    write_lines(path, as_text(recipe).rstrip("\n").split("\n"))


def _split(override: str) -> tuple[str, str | None]:
    """The key and the value of `--key=value`; the value is None if there is none."""
    key, equals, value = override.removeprefix("--").partition("=")
    return key, value if equals else None


def _architecture(kind: type[AnyRecipe], tree: Tree, path: str | Path, override: str | None) -> str:
    """The name of the recipe's architecture. Raises UserError if its recipes are of another kind.
    """
    entry = architecture_entry(tree) if override is None else Entry(override, "override")
    fitting = [name for name in MODELS if issubclass(kind_of(name), kind)]
    if entry.value not in fitting:
        hint = "" if entry.value in list(MODELS) else nearest(str(entry.value), fitting)
        raise UserError(f"{entry.place or path}: {ARCHITECTURE}: expected one of "
                        f"{', '.join(fitting)}, got {plain(entry.value)!r}{hint}")
    return str(entry.value)


def _entries(tree: Tree, architecture: str, prefix: str = "") -> Iterator[tuple[str, Entry]]:
    """The entries of a recipe by dotted key. Raises UserError for unknown keys."""
    keys = keys_of(architecture)
    sections = sections_of(keys)
    for name, entry in tree.items():
        key = prefix + name
        if key in keys:
            yield key, entry
        elif key not in sections:
            raise UserError(f"{entry.place}: key {problem(key, architecture)}")
        elif isinstance(entry.value, dict):
            yield from _entries(entry.value, architecture, f"{key}.")
        elif entry.value is not None:  # an empty section: all its keys are commented out
            raise UserError(f"{entry.place}: {key}: expected a mapping of keys to values, got "
                            f"{entry.value!r}")


def _typed(
    keys: Mapping[str, Key], values: Mapping[str, Any], chosen: Mapping[str, str], where: Where
) -> dict[str, Any]:
    """Dotted key -> value, from the file or its override, converted to the declared type.

    Raises UserError for a value of another type, and for text that no file's name can hold."""
    for key, text in (*values.items(), *chosen.items()):
        if isinstance(text, str) and str not in _kinds(keys[key].type) and \
                (problem := misread_text(text)):
            raise UserError(f"{where(key)}: {key}: expected {problem}")
    scalars = {bool, int, float, str, NoneType}
    typed_already = {key: value for key, value in values.items()
                     if type(value) in _kinds(keys[key].type) & scalars}
    unconverted = {key: value for key, value in values.items() if key not in typed_already}

    def wrong(key: str) -> UserError:
        value = chosen.get(key, values.get(key))
        quoted = ", in quotes" if keys[key].type is str and type(value) not in (str, NoneType) \
            else ""
        if quoted and isinstance(value, bool):
            quoted += " (without them YAML takes no, off, yes for truth values)"
        shown = str(value) if isinstance(value, date) else repr(value)
        return UserError(f"{where(key)}: {key}: expected {keys[key].written}{quoted}, "
                         f"got {shown}".replace("None", "null"))

    arguments = [f"--{key}={value}" for key, value in chosen.items()]
    try:
        typed = typed_already | _converted(keys, unconverted, arguments)
    except ArgumentError as error:
        named = re.search(r'"([\w.]+)"', str(error))
        if named is None or named[1] not in keys:
            raise UserError(f"override {', '.join(chosen)}: expected YAML of that type, got: "
                            + " ".join(str(error).split())) from None
        raise wrong(named[1]) from None
    except (AttributeError, IndexError):  # PyYAML, of `!!timestamp x` and `!!float :`
        raise UserError(f"override {', '.join(chosen)}: expected YAML, got a tag that does not fit "
                        f"its value in {' '.join(arguments)!r}") from None
    values = {key: typed[key] for key in (*values, *chosen)}
    for key, value in values.items():
        if value is None and "null" not in keys[key].written:  # jsonargparse lets null through
            raise wrong(key)
        if unfit := next(filter(NO_TEXT.search, _texts(value)), None):
            raise UserError(f"{where(key)}: {key}: expected no NUL character and no half of a "
                            f"surrogate pair, got {unfit!r}")
    return values


def _converted(
    keys: Mapping[str, Key], values: Mapping[str, Any], arguments: Sequence[str]
) -> dict[str, Any]:
    """Dotted key -> converted value, for values of a file and for `--key=value` arguments."""
    if not values and not arguments:
        return {}
    from jsonargparse import ArgumentParser  # slow to import

    parser, names = ArgumentParser(exit_on_error=False), [
        *values, *(argument[2:].partition("=")[0] for argument in arguments)]
    for key in names:
        parser.add_argument(f"--{key}", type=keys[key].type)
    namespace = parser.parse_args(list(arguments), namespace=parser.parse_object(_nested(values)))
    return {key: namespace[key] for key in names}


def _texts(value: Any) -> Iterator[str]:
    """The texts in a value, which may be a mapping or a list."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in chain(value, value.values()) if isinstance(value, dict) else value:
            yield from _texts(item)


def _kinds(kind: Any) -> set[Any]:
    """A type and, if it is a union, the types in it."""
    return {kind, *(get_args(kind) if isinstance(kind, UnionType) else ())}


def _nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted keys as a mapping of sections."""
    nested: dict[str, Any] = {}
    for key, value in flat.items():
        *sections, leaf = key.split(".")
        inner = nested
        for section in sections:
            inner = inner.setdefault(section, {})
        inner[leaf] = value
    return nested


def _make(
    section: type, values: Mapping[str, Any], default: Any, prefix: str, where: Where,
    types: Mapping[str, type] | None = None,
) -> Any:
    """Make a section of the given values and of defaults. A section checks its own values; the
    error names where the value was given."""
    inner, section_values = subsections(section, types), dict(values)
    for field in dataclasses.fields(section):
        kind = inner.get(field.name)
        if kind is None:
            continue
        within = default_of(field, default, kind)
        if field.name in values or within is dataclasses.MISSING:
            section_values[field.name] = _make(kind, values.get(field.name, {}), within,
                                               f"{prefix}{field.name}.", where)
    try:
        if default is dataclasses.MISSING:
            return section(**section_values)
        return dataclasses.replace(default, **section_values)
    except ValueError as error:
        key = prefix + str(error).split(":")[0]
        raise UserError(f"{where(key)}: {prefix}{error}") from None
