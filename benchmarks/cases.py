"""Training steps to be timed without a corpus: model, sizes, and batches of random token ids."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import nmt
from backend.errors import UserError
from nmt.data.batches import Batch, make_batch
from nmt.models.contract import Tables
from nmt.recipe import Recipe
from nmt.recipe.file import load_recipe
from nmt.training.options import TrainOptions

DIRECTORY = Path(nmt.__file__).parent / "recipes"


class Case(NamedTuple):
    """A model, its training options, and the sizes that a corpus would determine."""

    model: Any  # its configuration
    train: TrainOptions
    reverse_source: bool
    source_size: int  # words of the vocabulary
    target_size: int
    source: int  # words of every sentence
    target: int  # with its end marker

    @property
    def tables(self) -> Tables:
        """The sizes for the model."""
        return Tables((self.source_size,), self.target_size, self.reverse_source)


class Sizes(NamedTuple):
    """The source of a known case: a recipe's file, and the sizes of its corpus."""

    file: str
    vocabularies: tuple[int, int]
    lengths: tuple[int, int]
    overrides: tuple[str, ...] = ()


# Vocabularies and mean lengths of the training sets; the target's with its end marker.
MULTI30K = (7857, 5919), (12, 14)  # German, English; words that occur twice or more
KNOWN = {
    "demo": Sizes("demo.yaml", (1937, 2099), (10, 10)),
    "multi30k-de-en": Sizes("multi30k-de-en.yaml", *MULTI30K),
    "multi30k-thesis": Sizes("multi30k-thesis.yaml", *MULTI30K),
    "multi30k-rnnsearch": Sizes("multi30k-rnnsearch.yaml", *MULTI30K),
    "thesis-size": Sizes("thesis/global-general.yaml", (50002, 50002), (25, 25),
                         ("--model.dropout=0.0",)),  # 50,000 words, <unk> and </s>
}
LARGE = ("thesis-size",)
TINY = ("--model.hidden_size=8", "--model.embedding_size=6", "--train.batch_size=4")


def load_case(name: str, options: argparse.Namespace) -> Case:
    """A known case, or the recipe in a file; tiny where `--quick` says so.

    Raises UserError for a name that is neither.
    """
    tiny = TINY if options.quick else ()
    if name in KNOWN:
        file, vocabularies, lengths, overrides = KNOWN[name]
        recipe = load_recipe(Recipe, DIRECTORY / file, (*overrides, *tiny))
    elif name.endswith((".yaml", ".yml")):
        vocabularies, lengths = (options.vocabulary,) * 2, (options.length,) * 2
        recipe = load_recipe(Recipe, name, tiny)
    else:
        raise UserError(f"--recipe: expected a YAML file or one of {', '.join(KNOWN)}, "
                        f"got {name!r}")
    if options.quick:
        vocabularies, lengths = (30, 31), (5, 4)
    return Case(recipe.model, recipe.train, recipe.reverse_source, *vocabularies, *lengths)


def random_batch(case: Case, rng: np.random.Generator, sentences: int | None = None) -> Batch:
    """Random token ids; all sentences have the case's lengths."""
    B = sentences or case.train.batch_size
    source = rng.integers(2, case.source_size, (B, case.source)).tolist()
    target = rng.integers(2, case.target_size, (B, case.target - 1)).tolist()
    return make_batch(list(zip(source, target, strict=True)), range(B),
                      case.reverse_source)


def short(name: str) -> str:
    """A recipe's name: of a file of ours with its directory, of another the file's."""
    if name in KNOWN:
        return name
    path = Path(name).resolve().with_suffix("")
    return str(path.relative_to(DIRECTORY)) if path.is_relative_to(DIRECTORY) else path.name
