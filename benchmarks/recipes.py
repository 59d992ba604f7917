"""Measures target tokens/s of a training step of the recipes, with the time split by part.

Each recipe keeps its model, optimizer, dropout and batch size. Words are random and sentences have
one length, so that no corpus is needed. A step is the trainer's: forward, backward, clip, update.
The peer is eager PyTorch. `recipes-large` has the thesis's size (4 layers, 1000 units, 50,000
words, batch 128, no dropout) and takes minutes on two cores.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np

import nmt
from backend import gemm
from backend.errors import UserError
from benchmarks import training
from benchmarks.case import Case, Limit, Prepared, expect_equal
from benchmarks.devices import Device
from benchmarks.parts import PARTS, Stopwatch, watching
from benchmarks.pictures import Chart, Panel
from benchmarks.records import Row, nested, speeds
from benchmarks.runner import Benchmark, Record
from benchmarks.training import Workload, our_step, random_batch
from nmt.data.batches import Batch
from nmt.models.registry import make_model
from nmt.recipe import Recipe
from nmt.recipe.file import load_recipe
from nmt.training.options import TrainOptions

DIRECTORY = Path(nmt.__file__).parent / "recipes"


class Sizes(NamedTuple):
    """The source of a known workload: a recipe's file, and the sizes of its corpus."""

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
LARGE = "thesis-size"
TINY = ("--model.hidden_size=8", "--model.embedding_size=6", "--train.batch_size=4")


def load(name: str, options: argparse.Namespace) -> Workload:
    """A known workload, or the recipe in a file; tiny with `--quick`.

    Raises UserError if the name is neither.
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
    return Workload(recipe.model, recipe.train, recipe.reverse_source, *vocabularies, *lengths)


def short(name: str) -> str:
    """A recipe's name: the file's name, for our own files with the directory."""
    path = Path(name).resolve().with_suffix("")
    return str(path.relative_to(DIRECTORY)) if path.is_relative_to(DIRECTORY) else path.name


def cases(options: argparse.Namespace) -> Iterator[Case]:
    """A case for each recipe."""
    for name in options.recipe:
        work = load(name, options)
        yield step_case(short(name), work, work.of_few_words(), options.seed, split=True,
                        sizes={}, seconds=1.0 if name == LARGE else 3.0,
                        least=2 if name == LARGE else None)


def step_case(
    name: str, work: Workload, few: Workload, seed: int, sentences: int | None = 2, *,
    split: bool = False, bound: bool = False, **declared: Any,
) -> Case:
    """A training step as a case.

    Arguments: few, what is compared in float64, over `sentences` (None: all of a batch); split,
    whether the time is also split by part; bound, whether on the CPU its matrix products alone are
    timed beside it; declared, further fields of the case.
    """
    amount = work.train.batch_size * work.target

    def prepare(device: Device) -> Prepared:
        differences = training.compare(few, 7 if sentences else seed, sentences)
        rng = np.random.default_rng(seed)
        model: Any = make_model(work.model, work.tables)
        parameters, batch = model.initial_parameters(rng), random_batch(work, rng)
        peer = training.peer_on(device, model, parameters)
        noise = model.noise(batch, np.random.default_rng(7), "float32")
        differences |= expect_equal("ours and PyTorch's" if peer else "ours and NumPy's", {
            "float32 loss": training.loss_difference(model, parameters, batch, noise, peer)},
            {"float32 loss": training.CLOSE if gemm.precision() == "float32" else training.ROUGH})
        calls = {"here": our_step(model, parameters, batch, work.train)}
        if peer is not None:
            calls["PyTorch"] = training.their_step(peer, batch, work.train)
        iterations: list[dict[str, float]] = []
        if split:
            calls["here, by part"] = split_step(model, parameters, batch, work.train, device,
                                                  iterations)
        limit = (Limit(products_alone(calls["here"]), amount) if bound and device.name == "cpu"
                 else None)
        return Prepared({name: device.finished(call) for name, call in calls.items()}, differences,
                        {} if peer is not None else {"PyTorch": "not run"}, limit,
                        fields=lambda _: {"parts": medians(iterations[1:])} if split else {})

    return Case(name, prepare=prepare, amount=amount, unit="target tokens", **declared)


def products_alone(step: Callable[[], Any]) -> Callable[[], Any]:
    """NumPy's matrix products of a step alone, in their order, on the same memory. No step with
    these products can be faster."""
    multiply, products = np.matmul, list[tuple[Any, Any, Any]]()

    def noted(a: Any, b: Any, out: Any = None) -> Any:
        products.append((a, b, multiply(a, b, out=out)))
        return products[-1][2]

    with patch.object(np, "matmul", noted):
        step()
    return lambda: [multiply(a, b, out=out) for a, b, out in products]


def split_step(
    model: Any, parameters: dict[str, Any], batch: Batch, train: TrainOptions,
    device: Device, iterations: list[dict[str, float]],
) -> Callable[[], float]:
    """A training step whose seconds by part are appended to `found`, a mapping for each step."""
    watch = Stopwatch(device.synchronise)
    step = our_step(model, parameters, batch, train, watch)

    def split() -> float:
        with watching(watch):
            loss = step()
        iterations.append(dict(watch.seconds))
        watch.seconds.clear()
        return loss

    return split


def medians(iterations: list[dict[str, float]]) -> dict[str, float]:
    """The median seconds of each part that took any, in the order of `PARTS`."""
    by_part = {label: float(np.median([seconds.get(label, 0.0) for seconds in iterations]))
               for label in PARTS}
    return {label: seconds for label, seconds in by_part.items() if seconds}


def shares(row: Row) -> dict[str, float]:
    """The parts of a row's step in percent of their sum."""
    return {label: 100 * seconds / sum(row["parts"].values())
            for label, seconds in row["parts"].items()}


def chart(record: Record) -> Chart:
    """A bar for each recipe, cut into the parts of its step."""
    pieces = nested((label, f"{row['case']},\n{speeds(row)['here']:,.0f} target tokens/s", share)
                    for row in record["rows"] for label, share in shares(row).items())
    ordered = {label: pieces[label] for label in PARTS if label in pieces}
    return Chart("Where the time of a training step goes, by recipe", "a bar is one step, its "
                 "pieces stand in the order of the legend; beside its name, how many target "
                 "tokens are trained on in a second.",
                 [Panel("stack", ordered, "% of a training step")])


SIZES = {"vocabulary": 10000, "length": 20, "seed": 1}
RECIPES = Benchmark(cases, {"recipe": [name for name in KNOWN if name != LARGE], **SIZES},
                    seconds=4.0, gpu=True, chart=chart)
BENCHMARKS = {
    "recipes": RECIPES,
    "recipes-large": RECIPES._replace(sizes={"recipe": [LARGE], **SIZES}),
}
