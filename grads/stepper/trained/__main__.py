"""`python -m grads.stepper.trained OUTPUT [NAME ...]`: trains the models of the package again."""

from __future__ import annotations

import contextlib
import hashlib
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from grads.stepper.trained import DIRECTORY, FACTS, facts
from grads.stepper.trained.phrases import DEV, SIZE, phrases
from nmt import language_models, translator_training
from nmt.console.terminal import print
from nmt.data.corpora import EvaluationSet, ParallelCorpus
from nmt.data.corpus import Pair, write_lines
from nmt.files import write_text
from nmt.recipe import LanguageModelRecipe, Recipe
from nmt.recipe.file import load_recipe
from nmt.run_files import RECIPE
from nmt.training import checkpoint
from nmt.training.progress import Observer
from nmt.training.run import BEST, LAST, LOG

LANGUAGE = ("rnn", "lstm")


def main(output: Path, names: Sequence[str] = ()) -> None:
    """Train all models, or those named, each in a directory below `output`, and write `models.json`
    there."""
    by_name = dict(facts()) if (DIRECTORY / FACTS).exists() else {}
    for name in names or [path.parent.name for path in sorted(DIRECTORY.glob(f"*/{RECIPE}"))]:
        train = train_language_model if name in LANGUAGE else train_translator
        train(DIRECTORY / name / RECIPE, (output / name).resolve())
        for rest in (LAST, LOG):
            (output / name / rest).unlink()
        by_name[name] = described(output / name / BEST)
        print(f"{name}: {by_name[name]}", flush=True)
    write_text(output / FACTS, json.dumps(by_name, indent=1, sort_keys=True) + "\n")


def train_translator(recipe: Path, directory: Path) -> None:
    """Train a translator from German to English."""
    pairs = phrases()
    corpus = ParallelCorpus(pairs[DEV:], evaluation(pairs[:DEV]), None, 0, 0)
    translator_training.train(load_recipe(Recipe, recipe), directory, Observer(), corpus=corpus)


def train_language_model(recipe: Path, directory: Path) -> None:
    """The English side, from files where the recipe has them: in the working directory."""
    with tempfile.TemporaryDirectory() as place, contextlib.chdir(place):
        for file, rows in (("train.en", slice(DEV, None)), ("dev.en", slice(DEV))):
            write_lines(Path(file), [" ".join(target) for _, target in phrases()[rows]])
        language_models.train(load_recipe(LanguageModelRecipe, recipe), directory, Observer())


def evaluation(pairs: list[Pair]) -> EvaluationSet:
    """An evaluation set of phrases that are not trained on."""
    return EvaluationSet([source for source, _ in pairs], [" ".join(y) for _, y in pairs], pairs)


def described(path: Path) -> dict[str, Any]:
    """The facts on a checkpoint for `models.json`."""
    content = path.read_bytes()
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest(),
            "perplexity": checkpoint.load_metadata(path)["scores"]["perplexity"],
            "phrases": SIZE - DEV, "dev": DEV}


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
