"""Recipes as YAML files: read with overrides from the command line, and written."""

from __future__ import annotations

import dataclasses
import difflib
import re
from argparse import ArgumentError
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast, get_args, get_type_hints

import yaml
from jsonargparse import ArgumentParser

from backend.errors import UserError
from nmt.text.corpus import write_lines

R = TypeVar("R")
Where = Callable[[str], str]  # where a dotted key was given: file and line, or "override"
Sections = Mapping[str, type]  # name -> dataclass


def load_recipe(kind: type[R], path: str | Path, overrides: Sequence[str] = ()) -> R:
    """Read a recipe and apply overrides.

    Arguments: kind, `Recipe` or `LanguageModelRecipe`; path of the YAML file; overrides, each
    `--section.key=value`.
    Raises UserError, naming file and line or the override: unreadable file, not YAML, an unknown
    key (with the nearest known one), a value of the wrong type or out of range.
    """
    content, lines = _read(path)
    sections = _sections(kind, content, path, overrides)
    leaves = [f"{name}.{leaf.name}" for name, section in sections.items()
              for leaf in dataclasses.fields(section)]
    for key, line in lines.items():
        _check_key(f"{path}:{line}: key", key, leaves if "." in key else sections)
    for name, values in content.items():
        if not isinstance(values, dict):
            raise UserError(f"{path}:{lines[name]}: {name}: expected a mapping of keys to values, "
                            f"got {values!r}")
    chosen = dict(_split(override, leaves) for override in overrides)
    given = {f"{name}.{key}": value for name, values in content.items()
             for key, value in values.items() if f"{name}.{key}" not in chosen}

    def where(key: str) -> str:
        if key in chosen:
            return "override"
        return f"{path}:{lines[key]}" if key in lines else str(path)

    made = _make_sections(kind, sections, _typed(sections, given, chosen, where), where)
    try:
        return kind(**made)
    except ValueError as error:  # sections that do not fit each other
        raise UserError(f"{where(str(error).split(':')[0])}: {error}") from None


def save_recipe(recipe: Any, path: str | Path) -> None:
    """Write the resolved recipe, every default filled in, in full or not at all."""
    text = yaml.safe_dump(dataclasses.asdict(recipe), sort_keys=False, allow_unicode=True)
    write_lines(path, text.rstrip("\n").split("\n"))


def _sections(
    kind: type, content: Mapping[str, Any], path: str | Path, overrides: Sequence[str]
) -> dict[str, type]:
    """The sections of a recipe; where there are several for a name, its architecture says which."""
    found = {}
    for name, hint in get_type_hints(kind).items():
        members = {member.architecture: member for member in get_args(hint)}
        if not members:
            found[name] = hint
            continue
        values, flag = content.get(name), f"--{name}.architecture="
        wanted = values.get("architecture") if isinstance(values, dict) else None
        for override in overrides:
            wanted = override.removeprefix(flag) if override.startswith(flag) else wanted
        if wanted is not None and wanted not in members:
            raise UserError(f"{path}: {name}.architecture: expected one of {', '.join(members)}, "
                            f"got {wanted!r}")
        found[name] = next(iter(members.values())) if wanted is None else members[wanted]
    return found


def _read(path: str | Path) -> tuple[dict[str, Any], dict[str, int]]:
    """What the file says, and the line of each dotted key."""
    try:
        text = Path(path).read_bytes()
        node, content = yaml.compose(text, yaml.SafeLoader), yaml.safe_load(text)
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, ValueError) as error:  # ValueError: what looks like a date and is none
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        problem = str(getattr(error, "problem", None) or error).split("\n")[0]
        raise UserError(f"{path}{line}: expected YAML, got: {problem}") from None
    if not isinstance(content, dict):
        found = "an empty file" if content is None else type(content).__name__
        raise UserError(f"{path}: expected a mapping of sections, got {found}")
    lines: dict[str, int] = {}
    for key, place in _keys(node):
        if key in lines:
            raise UserError(f"{path}:{place}: key '{key}' stands on line {lines[key]} already")
        lines[key] = place
    # A section whose keys are all commented out is null: an empty one.
    return {str(name): {} if values is None else values for name, values in content.items()}, lines


def _keys(node: yaml.Node | None, section: str = "") -> Iterator[tuple[str, int]]:
    """Sections and the dotted keys in them, with their lines."""
    for key, value in node.value if isinstance(node, yaml.MappingNode) else ():
        yield f"{section}{key.value}", key.start_mark.line + 1
        if not section:
            yield from _keys(value, f"{key.value}.")


def _split(override: str, leaves: Collection[str]) -> tuple[str, str]:
    """Key and value of `--key=value`."""
    key, equals, value = override.removeprefix("--").partition("=")
    _check_key("override", key, leaves)
    if not equals:
        raise UserError(f"override: {key}: expected a value, got none")
    return key, value


def _check_key(what: str, key: str, known: Collection[str]) -> None:
    """Raise UserError for an unknown key, suggesting the known one whose name is nearest."""
    if key in known:
        return
    last = {name.split(".")[-1]: name for name in known}  # `epochs` means `train.epochs`
    nearest = difflib.get_close_matches(key, known, n=1, cutoff=0.75)
    nearest = nearest or [last[name] for name in
                          difflib.get_close_matches(key.split(".")[-1], last, n=1)]
    hint = f"; did you mean '{nearest[0]}'?" if nearest else ""
    raise UserError(f"{what} '{key}' is not known{hint}")


def _typed(
    sections: Sections, given: Mapping[str, Any], chosen: Mapping[str, str], where: Where
) -> dict[str, Any]:
    """Value by dotted key: of the file, or of its override, of the type that its section names."""
    parser, expected = ArgumentParser(exit_on_error=False), dict[str, str]()
    for name, section in sections.items():
        types = get_type_hints(section)
        for leaf in dataclasses.fields(section):
            key = f"{name}.{leaf.name}"
            expected[key] = str(leaf.type).replace("None", "null")
            parser.add_argument(f"--{key}", type=types[leaf.name])

    def wrong(key: str) -> UserError:
        return UserError(f"{where(key)}: {key}: expected {expected[key]}, "
                         f"got {chosen.get(key, given.get(key))!r}".replace("None", "null"))

    try:
        arguments = [f"--{key}={value}" for key, value in chosen.items()]
        found = parser.parse_args(arguments, namespace=parser.parse_object(_nested(given)))
    except ArgumentError as error:
        named = re.search(r'"([\w.]+)"', str(error))
        if named is None or named[1] not in expected:
            raise UserError(" ".join(str(error).split())) from None
        raise wrong(named[1]) from None
    values = {key: found[key] for key in [*given, *chosen]}
    for key, value in values.items():
        if value is None and "null" not in expected[key]:  # jsonargparse lets null through
            raise wrong(key)
    return values


def _nested(flat: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Dotted keys as a mapping of sections."""
    nested: dict[str, dict[str, Any]] = {}
    for key, value in flat.items():
        section, leaf = key.split(".")
        nested.setdefault(section, {})[leaf] = value
    return nested


def _make_sections(
    kind: type, sections: Sections, values: Mapping[str, Any], where: Where
) -> dict[str, Any]:
    """The sections, each the recipe's default with the values given, which it checks itself."""
    given = _nested(values)
    defaults = {f.name: f.default_factory for f in dataclasses.fields(kind)}
    made = {}
    for name, section in sections.items():
        factory, chosen = defaults[name], given.get(name, {})
        default = None if factory is dataclasses.MISSING else factory()
        try:
            if isinstance(default, section):
                made[name] = dataclasses.replace(cast(Any, default), **chosen)
            else:
                made[name] = section(**chosen)
        except ValueError as error:
            key = f"{name}.{str(error).split(':')[0]}"
            raise UserError(f"{where(key)}: {name}.{error}") from None
    return made
