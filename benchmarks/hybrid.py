"""What a training step of a hybrid model costs over the word model's (Luong, 5.4.2: "10-20 %").

Both are those of recipes/hybrid-small (one layer, 192 units), on real text, since the cost depends
on the share of rare words. DIR has the files that these recipes name. A step is the trainer's:
forward, backward, clip, update. The two are timed alternately on the same batches, at equal
distances in an epoch. First the hybrid's loss of words, with only the target's characters, is
compared with the word model's in float64: with the same weights they are the same model.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from backend.command import positive
from backend.errors import UserError
from benchmarks.cases import DIRECTORY
from benchmarks.options import make_parser
from benchmarks.options import parse as read_options
from benchmarks.paired import timed
from benchmarks.pictures import COLOURS, titled
from benchmarks.record import publish_rows
from benchmarks.timing import describe, environment
from benchmarks.training_step import EXACT, our_step, random_parameters
from nmt.data.batches import Batch, TextBatches
from nmt.data.corpora import ParallelCorpus, load_corpus
from nmt.models.contract import losses
from nmt.recipe import Recipe
from nmt.recipe.file import load_recipe
from nmt.system import System
from nmt.translator_training import build_vocabularies

WORD, HYBRID = "word", "separate-path"  # recipes of hybrid-small
QUICK = {"vocabularies": [20], "layers": [1, 2], "batches": 1, "seconds": 0.01}
SMALL = ("--data.corpus=cldr", "--data.train_size=40", "--data.dev_size=2", "--data.test_size=2",
         "--train.batch_size=8", "--model.hidden_size=6", "--model.embedding_size=6")


def main(arguments: list[str]) -> None:
    """Compare, print, and write `hybrid-<kernels>.json`."""
    options = parse(arguments)
    print(describe(environment()))
    corpus = load_corpus(recipe_of(WORD, options).data)
    rows = [run(size, layers, corpus, options)
            for size in options.vocabularies for layers in options.layers]
    asked = {name: value for name, value in vars(options).items() if name != "data"}
    publish_rows("hybrid", asked, rows, picture, directory=options.output)


def parse(arguments: list[str]) -> argparse.Namespace:
    """The command line of this benchmark."""
    parser = make_parser("hybrid", __doc__, seconds=45.0)
    parser.add_argument("--data", type=Path, metavar="DIR", help="the text; needed unless --quick")
    parser.add_argument("--vocabularies", type=positive, nargs="+", default=[10000, 3000],
                        help="words of each language, default 10000 3000")
    parser.add_argument("--layers", type=positive, nargs="+", default=[1],
                        help="of the character networks, default 1")
    parser.add_argument("--batches", type=positive, default=12, help="of an epoch, default 12")
    parser.add_argument("--seed", type=int, default=1, help="of parameters and order, default 1")
    options = read_options(parser, arguments, free=("data",))
    if options.quick:
        vars(options).update(QUICK)
    elif options.data is None:
        raise UserError("--data: expected the directory of the text, got none")
    return options


def recipe_of(name: str, options: argparse.Namespace, *overrides: str) -> Recipe:
    """A recipe of hybrid-small on the text of the options."""
    where = SMALL if options.quick else (f"--data.directory={options.data}",)
    return load_recipe(Recipe, DIRECTORY / "hybrid-small" / f"{name}.yaml", (*where, *overrides))


def run(
    size: int, layers: int, corpus: ParallelCorpus, options: argparse.Namespace
) -> dict[str, Any]:
    """Compare, time and print one vocabulary and depth of the characters; the record's row."""
    vocabulary = f"--data.max_vocabulary={size:.0f}"
    deep = (vocabulary, f"--model.character_layers={layers:.0f}",
            *["--model.character_embedding_size=5"] * options.quick)
    recipes = {"word": recipe_of(WORD, options, vocabulary),
               "hybrid": recipe_of(HYBRID, options, *deep)}
    systems = {name: System.create(recipe, build_vocabularies(corpus, recipe))
               for name, recipe in recipes.items()}
    batches = {name: chosen(system.batches(corpus.train, recipes[name].train.batch_size), options)
               for name, system in systems.items()}
    difference = compare(recipes["hybrid"], systems, batches)
    seconds = times(systems, batches, options)
    cost = seconds["hybrid"] / seconds["word"] - 1
    sides = [batch.target for batch in batches["hybrid"]]
    rare = (sum(len(group.places) for side in sides for group in side.characters)
            / sum(int(side.lengths.sum()) for side in sides))
    print(f"{size:6.0f} words, {layers:.0f} character layer(s): word model "
          f"{1e3 * seconds['word']:.1f} ms a step, hybrid {1e3 * seconds['hybrid']:.1f} ms, "
          f"{cost:+.0%}; {rare:.1%} of the target rare; equal to {difference:.0e}")
    return {"vocabulary": size, "layers": layers, "seconds": seconds, "cost": cost,
            "rare_share": rare, "difference": difference}


def chosen(source: TextBatches, options: argparse.Namespace) -> list[Batch]:
    """Batches of one epoch, in equal distances."""
    indices = source.epoch(np.random.default_rng(options.seed))
    places = np.linspace(0, len(indices) - 1, min(int(options.batches), len(indices))).astype(int)
    return [source.batch(indices[place]) for place in places]


def compare(
    recipe: Recipe, systems: Mapping[str, System], batches: Mapping[str, list[Batch]]
) -> float:
    """The relative difference of the words' losses in float64. Raises AssertionError above
    EXACT."""
    words, rare = batches["word"][0], batches["hybrid"][0]
    if not (words.target.ids == rare.target.ids).all():
        raise AssertionError("hybrid: the batches are not those of the word model")
    vocabularies = dict(systems["hybrid"].vocabularies)
    del vocabularies["source_characters"]
    config = replace(recipe.model, source_characters=False)
    model = System.create(replace(recipe, model=config), vocabularies).model
    parameters = random_parameters(model, np.random.default_rng(0))
    ours, _ = losses(*model.loss(parameters, rare))
    theirs, _ = systems["word"].model.loss(parameters, words)
    difference = abs(float(ours) / float(theirs) - 1)
    if not difference < EXACT:
        raise AssertionError(f"hybrid: the words' losses differ by {difference:.1e}")
    return difference


def times(
    systems: Mapping[str, System], batches: Mapping[str, list[Batch]], options: argparse.Namespace
) -> dict[str, float]:
    """Seconds of a step of each model: the mean over batches of the medians of each."""
    total = dict.fromkeys(systems, 0.0)
    number = len(batches["word"])
    for place in range(number):
        steps = {name: our_step(system.model, system.parameters, batches[name][place],
                                system.recipe.train) for name, system in systems.items()}
        for name, timing in timed(steps, options.seconds / number).items():
            total[name] += timing.median / number
    return total


def picture(plt: Any, record: Mapping[str, Any]) -> Any:
    """The cost of each vocabulary and depth."""
    rows = record["rows"]
    figure, axes = plt.subplots(figsize=(5.6, 3.0), layout="constrained")
    labels = [f"{row['vocabulary']:g} words, {row['layers']:g} layer"
              + "s" * (row["layers"] > 1) for row in rows]
    bars = axes.barh(labels, [100 * row["cost"] for row in rows], color=COLOURS[0])
    axes.bar_label(bars, [f"{100 * row['cost']:+.0f} %" for row in rows], padding=3)
    axes.set(xlabel="time of a training step over the word model's, %")
    axes.margins(x=0.15)
    titled(figure, "Hybrid models: what reading and writing rare words by character costs",
           record["environment"], "0 % is a model of words alone; a shorter bar is better.")
    return figure
