"""`nmt prune`: prune a model's weights, and train those that are left."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from backend.errors import UserError
from nmt.base_system import BaseSystem
from nmt.cli.options import add_new_run, add_run
from nmt.cli.training import begin, end
from nmt.console.arguments import percent
from nmt.console.terminal import print
from nmt.pruning.classes import classes, in_order
from nmt.pruning.run import (
    FROM_SCRATCH,
    RETRAINED,
    open_system,
    prune,
    retrain,
    retraining_recipe,
    stored_weights,
)
from nmt.pruning.schemes import SCHEMES
from nmt.recipe import AnyRecipe, Recipe
from nmt.run_directory import RunDirectory, epochs_of
from nmt.run_files import check_new, checkpoint_path
from nmt.training.progress import ConsoleObserver
from nmt.training.run import LAST


def add_prune(parser: argparse.ArgumentParser) -> None:
    """The arguments of `nmt prune`."""
    add_run(parser)
    parser.add_argument("--percent", type=percent, required=True, metavar="X",
                        help="prune X percent of the weights, in [0, 100); biases are never pruned")
    parser.add_argument("--scheme", choices=tuple(SCHEMES), default="class-blind",
                        help="prune the smallest of all; of each class; or relative to each "
                             "class's standard deviation (default: class-blind)")
    add_new_run(parser)
    parser.add_argument("--sparse", action="store_true",
                        help="write only the remaining weights, and a bit mask")
    after = parser.add_mutually_exclusive_group()
    after.add_argument("--retrain", nargs="?", const="", metavar="RECIPE",
                       help="train the remaining weights by RECIPE (default: the run's recipe for "
                            "4 epochs, from half its learning rate, which is halved every half "
                            "epoch after 2)")
    after.add_argument("--from-scratch", nargs="?", const="", metavar="RECIPE",
                       help="train with the same mask from new initial values, by RECIPE "
                            "(default: the run's recipe)")


def run_prune(options: argparse.Namespace) -> None:
    """`nmt prune`.

    Write a run directory whose model has its smallest weights set to zero (thesis, section 6.2).
    --retrain and --from-scratch then train the other weights; --section.key VALUE changes the
    recipe of that training.
    """
    check_new(options.output)
    recipe = _training_recipe(options)
    system = open_system(options.run_directory, options.checkpoint)
    pruned = prune(system, options.percent, options.scheme, options.run_directory.name)
    print(table(pruned))
    if recipe is not None:
        _train(pruned, recipe, options)
        return
    before = checkpoint_path(options.run_directory, options.checkpoint)
    run = RunDirectory(options.output, pruned.recipe, resume=False)
    run.write(pruned, {"epoch": epochs_of(before)}, sparse=options.sparse)
    print(f"parameters: {_bytes(parameter_bytes(system))} unpruned; "
          f"{options.output / LAST}: {_bytes((options.output / LAST).stat().st_size)}")
    print(f"run directory: {options.output}")


def _how(options: argparse.Namespace) -> str | None:
    """The kind of training after pruning, RETRAINED or FROM_SCRATCH; None for none."""
    if options.retrain is not None:
        return RETRAINED
    return None if options.from_scratch is None else FROM_SCRATCH


def _training_recipe(options: argparse.Namespace) -> AnyRecipe | None:
    """The recipe for training the remaining weights, with overrides; None without training."""
    kind = _how(options)
    if kind is None:
        if options.overrides:
            raise UserError(f"{options.overrides[0]}: needs --retrain or --from-scratch: nothing "
                            "else trains")
        return None
    if options.sparse:
        raise UserError("--sparse: cannot be used with --retrain or --from-scratch; prune the "
                        "retrained run by the same percentage instead")
    name = options.retrain or options.from_scratch
    return retraining_recipe(options.run_directory, Path(name) if name else None, kind,
                             options.overrides)


def _train(pruned: BaseSystem, recipe: AnyRecipe, options: argparse.Namespace) -> None:
    """Train the remaining weights, and print the scores."""
    kind: Any = _how(options)
    if isinstance(recipe, Recipe):
        observer, corpus = begin(recipe, options.output)
        trained: Any = retrain(pruned, recipe, options.output, kind, observer, corpus)
        end(trained, options.output, corpus)
        return
    retrain(pruned, recipe, options.output, kind, ConsoleObserver())
    print(f"run directory: {options.output}")


def parameter_bytes(system: BaseSystem) -> int:
    """The size of a system's parameters in bytes."""
    return sum(array.nbytes for array in (system.stored or system.parameters).values())


def table(system: BaseSystem) -> str:
    """A table of how many weights are pruned, by weight class and in all."""
    assert system.pruning is not None
    masks, named = system.pruning.masks, classes(stored_weights(system))
    rows = [(group, counts({name: masks[name] for name, weight_class in named.items()
                            if weight_class == group}))
            for group in in_order(named.values())]
    rows.append(("all classes", counts(masks)))
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:{width}} {pruned:>11,} of {size:>11,} weights pruned "
                     f"({100 * pruned / size:5.1f} %)" for name, (pruned, size) in rows)


def counts(masks: Mapping[str, np.ndarray]) -> tuple[int, int]:
    """The number of weights that the masks prune, and the number of all weights."""
    size = sum(mask.size for mask in masks.values())
    return size - sum(int(mask.sum()) for mask in masks.values()), size


def _bytes(count: int) -> str:
    """Bytes in millions."""
    return f"{count / 1e6:.2f} MB"
