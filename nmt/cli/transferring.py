"""`nmt train --init`: start a run from the parameters of another."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from backend.errors import UserError
from nmt.checkpoint_option import DEFAULT
from nmt.console.arguments import options_given
from nmt.recipe import Recipe, TranslationRecipe
from nmt.run_files import checkpoint_path
from nmt.system import System
from nmt.training import checkpoint
from nmt.training.transfer import MATCH, TABLE_OF, WORDS, Parent

R = TypeVar("R", bound=TranslationRecipe)


def add_init(parser: argparse.ArgumentParser) -> None:
    """Add `--init`, `--init-words`, `--freeze` and `--init-embeddings`."""
    parser.add_argument("--init", type=Path, metavar="DIR",
                        help="start from the parameters of this run")
    parser.add_argument("--init-words", choices=WORDS, metavar="HOW",
                        help="... and copy word vectors: match, of equal words (default); "
                             "random, of any source word; same, with its vocabularies")
    parser.add_argument("--freeze", nargs="+", metavar="P",
                        help="... and do not train these, such as encoder.*")
    parser.add_argument("--init-embeddings", nargs=2, action="append", metavar=("SIDE", "FILE"),
                        help="start from vectors of source or target in word2vec's or GloVe's "
                             "format")


def embeddings(options: argparse.Namespace) -> dict[str, Path]:
    """The files of `--init-embeddings` by side. Raises UserError for an unknown or repeated side.
    """
    files = options.init_embeddings or []
    for side, file in files:
        if side not in TABLE_OF or [other for other, _ in files].count(side) > 1:
            raise UserError(f"--init-embeddings: expected source or target, each once, got {side} "
                            f"{file}")
    if files and options.resume is not None:
        raise UserError("--init-embeddings: cannot be used with --resume: the run already has "
                        "parameters")
    return {side: Path(file) for side, file in files}


def transferred(recipe: R, options: argparse.Namespace) -> tuple[R, Parent | None]:
    """The recipe with its frozen parameters, and the run to start from, if any.

    Raises UserError for options that do not fit together, and for a run that the recipe cannot
    start from.
    """
    if options.init is None:
        for option in options_given(options, "init_words", "freeze"):
            raise UserError(f"{option}: needs --init")
        return recipe, None
    if options.resume is not None:
        raise UserError("--init: cannot be used with --resume: the run already has parameters")
    if not isinstance(recipe, Recipe):
        raise UserError("--init: expected the recipe of one translator, got one of several tasks")
    path = checkpoint_path(options.init, DEFAULT)
    system = System.open(options.init)
    known = checkpoint.load_metadata(path)
    step = known.get("step", known.get("training", {}).get("counters", {}).get("step"))
    parent = Parent(system, path, step, options.init_words or MATCH)
    parent.check(recipe)
    frozen = [*recipe.parametrize.frozen, *(options.freeze or ())]
    return replace(recipe, parametrize=replace(recipe.parametrize, frozen=frozen)), parent
