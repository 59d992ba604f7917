"""`--train a.en a.fr` of `nmt train` and `nmt init`: a recipe for the user's own two files."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from babel import localedata

from backend.errors import UserError
from nmt.console.terminal import print
from nmt.data.tokenise import BY_LANGUAGE
from nmt.recipe import Recipe
from nmt.recipe.file import load_recipe, packaged_recipe

SETS = ("train", "dev", "test")
SIDES = ("source", "target")
DEFAULT = "own.yaml"  # a recipe that comes with the package
NOTHING = {f"data.{name}_{side}": "" for name in SETS for side in (*SIDES, "second_source")}


def add_own_files(parser: argparse.ArgumentParser) -> None:
    """Add `--train`, `--dev` and `--test`, which take two files each."""
    for name, text in (("train", "train on these sentences and their translations"),
                       ("dev", "validate on these (default: lines of --train)"),
                       ("test", "score these at the end")):
        parser.add_argument(f"--{name}", nargs=2, metavar=("SOURCE", "TARGET"), help=text)


def own_values(options: argparse.Namespace) -> dict[str, str]:
    """The recipe's values that `--train`, `--dev` and `--test` set, by dotted key; empty without
    these options.

    Raises UserError for `--dev` or `--test` without `--train`, and for a file that is given twice.
    """
    sets = {name: getattr(options, name) for name in SETS if getattr(options, name)}
    if not sets:
        return {}
    if "train" not in sets:
        raise UserError(f"--{next(iter(sets))}: needs --train")
    _check_distinct(sets)
    values = {"data.corpus": "files", "data.directory": ".", **NOTHING}
    for name, paths in sets.items():
        values |= {f"data.{name}_{side}": path for side, path in zip(SIDES, paths, strict=True)}
    languages = map(language_of, sets["train"])
    return values | {f"data.{side}_language": language
                     for side, language in zip(SIDES, languages, strict=True) if language}


def _check_distinct(sets: dict[str, list[str]]) -> None:
    """Raise UserError if a file is given twice."""
    seen: dict[Path, str] = {}
    for name, paths in sets.items():
        for path in paths:
            before = seen.setdefault(Path(path).resolve(), name)
            if before != name or paths[0] == paths[1]:
                raise UserError(f"--{name}: expected two files of its own, got {path} twice")


def language_of(path: str) -> str | None:
    """The language code in a file's name, such as `fr` in train.fr and train.fr.txt; None if there
    is none."""
    for code in reversed(Path(path).name.split(".")[1:]):
        if re.fullmatch(r"[a-z]{2,3}([_-][A-Za-z]{2,4})?", code) and \
                localedata.exists(code.replace("-", "_")):
            return code
    return None


def own_recipe(path: Path | None, values: dict[str, str], overrides: list[str]) -> Recipe:
    """The recipe of a file, or the default recipe, with these values and then the overrides."""
    if path is None:
        values = english_where_unknown(values, overrides)
    given = [*(f"--{key}={value}" for key, value in values.items()), *overrides]
    if path is not None:
        return load_recipe(Recipe, path, given)
    return packaged_recipe(DEFAULT, given)


def english_where_unknown(values: dict[str, str], overrides: Sequence[str] = ()) -> dict[str, str]:
    """The values with English as the language of files whose names have none. A message says so if
    the tokeniser's rules depend on the language."""
    by_language = {f"--data.tokenise={name}" for name in BY_LANGUAGE} & {*overrides}
    for side in SIDES:
        file, key = values.get(f"data.train_{side}"), f"data.{side}_language"
        if file is not None and key not in values:
            values = values | {key: "en"}
            if by_language and not any(override.startswith(f"--{key}=") for override in overrides):
                print(f"{file}: no language in its name: tokenised by the rules of English; "
                      f"--{key} names another language", file=sys.stderr)
    return values
