"""Measures the cost of a hybrid model's training step over a word model's (Luong: "10-20 %").

Section 5.4.2 has the quoted number. Both models are those of recipes/hybrid-small (one layer, 192
units). The text is real, since the cost depends on the share of rare words; DIR has the files that
the recipes name. A step is the trainer's: forward, backward, clip, update. The two models are timed
alternately on the same batches, taken at equal distances in an epoch. First the hybrid model's loss
of words, with only the target's characters, is compared with the word model's loss in float64: with
the same weights they must be equal.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache, partial
from itertools import product

import numpy as np

from backend.errors import UserError
from benchmarks.case import Case, Prepared
from benchmarks.devices import Device
from benchmarks.pictures import Chart, Panel
from benchmarks.recipes import DIRECTORY
from benchmarks.records import ratios
from benchmarks.runner import Benchmark, Record
from benchmarks.training import EXACT, our_step, random_parameters
from nmt.data.batches import Batch, TextBatches
from nmt.data.corpora import ParallelCorpus, load_corpus
from nmt.recipe import Recipe
from nmt.recipe.file import load_recipe
from nmt.system import System
from nmt.translator_training import build_vocabularies

WORD, HYBRID = "word", "separate-path"  # recipes of hybrid-small
SMALL = ("--data.corpus=cldr", "--data.train_size=40", "--data.dev_size=2", "--data.test_size=2",
         "--train.batch_size=8", "--model.hidden_size=6", "--model.embedding_size=6")


def cases(options: argparse.Namespace) -> Iterator[Case]:
    """A case for every vocabulary size and every depth of the character networks."""
    if options.data is None and not options.quick:
        raise UserError("--data: expected the directory of the text, got none")
    corpus = cache(lambda: load_corpus(recipe_of(WORD, options).data))
    for size, layers in product(options.vocabularies, options.layers):
        yield Case("hybrid training step", {"vocabulary": size, "layers": layers},
                   partial(prepare, size, layers, corpus, options), options.batches, "batches")


def recipe_of(name: str, options: argparse.Namespace, *overrides: str) -> Recipe:
    """A recipe of hybrid-small on the text of the options."""
    where = SMALL if options.quick else (f"--data.directory={options.data}",)
    return load_recipe(Recipe, DIRECTORY / "hybrid-small" / f"{name}.yaml", (*where, *overrides))


def prepare(
    size: int, layers: int, load: Callable[[], ParallelCorpus], options: argparse.Namespace,
    _: Device,
) -> Prepared:
    """Compare both models for a vocabulary and a depth. Returns their steps over all batches, and
    the share of rare words among the target's words."""
    corpus, vocabulary = load(), f"--data.max_vocabulary={size}"
    deep = (vocabulary, f"--model.character_layers={layers}",
            *["--model.character_embedding_size=5"] * options.quick)
    recipes = {"word": recipe_of(WORD, options, vocabulary),
               "hybrid": recipe_of(HYBRID, options, *deep)}
    systems = {name: System.create(recipe, build_vocabularies(corpus, recipe))
               for name, recipe in recipes.items()}
    batches = {name: chosen(system.batches(corpus.train, recipes[name].train.batch_size), options)
               for name, system in systems.items()}
    difference = compare(recipes["hybrid"], systems, batches)
    sides = [batch.target for batch in batches["hybrid"]]
    rare = (sum(len(group.places) for side in sides for group in side.characters)
            / sum(int(side.lengths.sum()) for side in sides))

    def steps(name: str) -> Callable[[], list[float]]:
        model, parameters, train = (systems[name].model, systems[name].parameters,
                                    recipes[name].train)
        calls = [our_step(model, parameters, batch, train) for batch in batches[name]]
        return lambda: [step() for step in calls]

    return Prepared({name: steps(name) for name in ("hybrid", "word")},
                    {"words' loss": difference}, fields=lambda _: {"rare_share": rare})


def chosen(source: TextBatches, options: argparse.Namespace) -> list[Batch]:
    """Batches of an epoch, at equal distances."""
    indices = source.epoch(np.random.default_rng(options.seed))
    places = np.linspace(0, len(indices) - 1, min(options.batches, len(indices))).astype(int)
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
    theirs, _ = systems["word"].model.loss(parameters, words)
    difference = abs(float(model.loss(parameters, rare)[1].losses.words) / float(theirs) - 1)
    if not difference < EXACT:
        raise AssertionError(f"hybrid: the words' losses differ by {difference:.1e}")
    return difference


def chart(record: Record) -> Chart:
    """The cost of each vocabulary and depth."""
    cost = {"{vocabulary} words, layers: {layers}".format(**row["sizes"]):
            100 * (ratios(row)["word"] - 1) for row in record["rows"]}
    return Chart("Hybrid models: what reading and writing rare words by character costs",
                 "0 % is a model of words alone; a shorter bar is better.",
                 [Panel("bars", {"": cost}, "time of a training step over the word model's, %")])


BENCHMARKS = {"hybrid": Benchmark(
    cases, {"data": None, "vocabularies": [10000, 3000], "layers": [1], "batches": 12, "seed": 1},
    {"vocabularies": [20], "layers": [1, 2], "batches": 1}, seconds=45.0, free=("data",),
    chart=chart)}
