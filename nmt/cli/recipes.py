"""`nmt recipe` and `nmt init`: print a recipe with its defaults, and write a recipe to edit."""

from __future__ import annotations

import argparse
import re
from importlib.resources import files
from pathlib import Path

import yaml

from backend.errors import UserError
from nmt.cli.own_files import (
    DEFAULT,
    add_own_files,
    english_where_unknown,
    own_recipe,
    own_values,
)
from nmt.console.arguments import HelpWithLines
from nmt.console.terminal import print
from nmt.data.corpus import stream_lines, write_lines
from nmt.data.prepared import tell
from nmt.recipe import AnyRecipe
from nmt.recipe import page as recipe_page
from nmt.recipe.file import as_text, load_recipe


def add_recipe(parser: argparse.ArgumentParser) -> None:
    """The arguments of `nmt recipe`."""
    parser.formatter_class = HelpWithLines
    parser.epilog = recipe_page.keys_in_short()
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("recipe", nargs="?", type=Path,
                        help="a YAML file, printed with its bases merged and every default "
                             "filled in")
    source.add_argument("--doc", action="store_true",
                        help="print docs/recipe.md: every key with its type, default and meaning")


def run_recipe(options: argparse.Namespace) -> None:
    """`nmt recipe`."""
    if options.doc:
        print(recipe_page.page(), end="")
    else:
        print(as_text(load_recipe(AnyRecipe, options.recipe, options.overrides)), end="")


def add_init(parser: argparse.ArgumentParser) -> None:
    """The arguments of `nmt init`."""
    parser.add_argument("recipe", type=Path, metavar="FILE", help="the YAML file to make")
    add_own_files(parser)


def run_init(options: argparse.Namespace) -> None:
    """`nmt init`: write a commented recipe, for the user's files if they are given."""
    if options.recipe.exists():
        raise UserError(f"{options.recipe}: expected a new file, found one")
    text = (files("nmt") / "recipes" / DEFAULT).read_text("utf-8")
    text = text.replace(f"nmt/recipes/{DEFAULT}", str(options.recipe), 1)
    values = english_where_unknown(own_values(options))
    recipe = own_recipe(None, values, [])  # checks the values before the file is written
    paths = [path for path in (options.train or ()) if Path(path).is_file()]
    if recipe.data.tokenise != "none":
        tell(map(stream_lines, paths), paths)
    for key, value in values.items():
        text = _with_value(text, key.removeprefix("data."), value)
    write_lines(options.recipe, text.rstrip("\n").split("\n"))
    print(f"{options.recipe}; train by it: nmt train {options.recipe} --output runs/"
          f"{options.recipe.stem}")


def _with_value(text: str, key: str, value: str) -> str:
    """A recipe's text with a value for a key of its data section. A key without a value stays a
    comment."""
    if not value or value == "." or key == "corpus":
        return text
    written = yaml.safe_dump(value, allow_unicode=True, width=10**6).split("\n")[0]  # `no`: quoted
    return re.sub(rf"^  (?:# )?{key}: \S+", lambda match: f"  {key}: {written}", text, count=1,
                  flags=re.MULTILINE)
