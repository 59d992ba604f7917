"""The only file that knows the names of this tree. If the contract changes, only this file changes.

Arguments and results have the names, options and shapes of the tree that stored the numbers.
`RENAMED` maps its weights' names and layouts to the current ones.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors.numpy import load_file
from same_numbers import draws

from backend.rows import RowGradient
from lstm.cells import CELLS
from nmt.cli import main
from nmt.data.batches import Batch, Side, make_batch, make_sources
from nmt.models.contract import Noise, Tables
from nmt.models.language_model import LanguageModel, LanguageModelConfig
from nmt.models.registry import make_model as build
from nmt.models.rnnsearch_config import RNNSearchConfig
from nmt.models.translator import ModelConfig
from nmt.search.beam import beam_search, greedy
from nmt.search.interface import SearchOptions
from nmt.training.optimizers import SGD, Adadelta, Adam, gradient_scale

MASKS = 7  # seed of the dropout masks
Arrays = dict[str, np.ndarray]


def same(array: np.ndarray) -> np.ndarray:
    """An array whose layout has not changed."""
    return array


class Renamed(NamedTuple):
    """Weights of one pattern: their new name, and their arrays from the old layout and back."""

    old: str  # a regular expression of the whole old name
    new: str  # the new name, with the groups of `old` as \\1, \\2 ...
    to_new: Callable[[np.ndarray], np.ndarray] = same
    to_old: Callable[[np.ndarray], np.ndarray] = same  # of gradients: the inverse permutation


RENAMED = (Renamed(r"(.*)\.T", r"\1.W"),)  # the first match counts


def renamed(old: str) -> Renamed:
    """The current name and layout of a weight."""
    for renaming in RENAMED:
        if match := re.fullmatch(renaming.old, old):
            return renaming._replace(new=match.expand(renaming.new))
    return Renamed(old, old)


def to_new(parameters: Mapping[str, np.ndarray]) -> Arrays:
    """Parameters under the names and in the layouts of this tree."""
    table = {name: renamed(name) for name in parameters}
    return {table[name].new: table[name].to_new(array) for name, array in parameters.items()}


def to_old(gradients: Mapping[str, Any], names: Mapping[str, Any]) -> Arrays:
    """Dense gradients under the old `names`; AssertionError where one is missing or too many."""
    table = {name: renamed(name) for name in names}
    assert {renaming.new for renaming in table.values()} == gradients.keys()
    return {name: renaming.to_old(dense(gradients[renaming.new]))
            for name, renaming in table.items()}


def dense(gradient: Any) -> np.ndarray:
    """A gradient written out in full."""
    return np.asarray(gradient.dense() if isinstance(gradient, RowGradient) else gradient)


# --- models ---------------------------------------------------------------------------------------

CONFIGS: dict[str, Any] = {
    "luong": ModelConfig, "rnnsearch": RNNSearchConfig, "language model": LanguageModelConfig}


OPTIONS = {"clip_dh": "clip_elements"}  # current names of keys of the model section


def make_model(architecture: str, config: Mapping[str, Any], size: int, reverse: bool) -> Any:
    """A model with `size` words on each side."""
    options = {OPTIONS.get(name, name): value for name, value in config.items()
               if name != "architecture"}
    return build(CONFIGS[architecture](**options), Tables((size,), size, reverse))


def make_pairs(batch: Mapping[str, Any], reverse: bool) -> Batch:
    """A batch of sentence pairs. Sources are reversed here, if the model reads them reversed."""
    pairs = list(zip(batch["sources"], batch["targets"], strict=True))
    return make_batch(pairs, range(len(pairs)), reverse)


def run(
    architecture: str, config: Mapping[str, Any], size: int, reverse: bool,
    batch: Mapping[str, Any], parameters: Arrays,
) -> tuple[float, Arrays]:
    """Loss in nats and gradients of one configuration, with dropout where it has any.

    Arguments: size of each vocabulary; batch, `sources` and `targets`, lists of ids in reading
    order without the end marker, or `inputs` and `targets` (T, B); parameters by old name. Beside
    its gradients a language model returns the states that it ends in as `last.{layer}.{k}`.
    """
    model = make_model(architecture, config, size, reverse)
    if architecture == "language model":
        return run_stream(model, batch, parameters)
    made = make_pairs(batch, reverse)
    loss, cache = model.loss(to_new(parameters), made, noise(model, made))
    return float(loss), to_old(model.backward(cache), parameters)


def noise(model: Any, batch: Batch) -> Noise | None:
    """The dropout masks of a batch."""
    return model.noise(batch, np.random.default_rng(MASKS), "float64")


def run_stream(
    model: LanguageModel, batch: Mapping[str, Any], parameters: Arrays
) -> tuple[float, Arrays]:
    """The same for a language model, which starts from a state and returns its last state."""
    inputs, targets = (np.array(batch[key]) for key in ("inputs", "targets"))
    config = model.config
    before = draws.states(config.layers, CELLS[config.unit].states, inputs.shape[1],
                          config.hidden_size)
    T, B = inputs.shape
    target = Side(np.concatenate([inputs[:1], targets]), np.full(B, T))
    made = Batch((), target, np.arange(B), before, read=inputs)
    loss, cache = model.loss(to_new(parameters), made, noise(model, made))
    last = {f"last.{layer}.{k}": np.array(array) for layer, state in enumerate(cache.state)
            for k, array in enumerate(state)}
    return float(loss), to_old(model.backward(cache), parameters) | last


# --- search ---------------------------------------------------------------------------------------


def search(
    architecture: str, config: Mapping[str, Any], size: int, reverse: bool,
    batch: Mapping[str, Any], parameters: Arrays, options: Mapping[str, Any],
) -> list[list[Any]]:
    """The hypotheses of each sentence, best first, with the fields of `Hypothesis`."""
    model = make_model(architecture, config, size, reverse)
    sources = make_sources(batch["sources"], reverse)
    how = SearchOptions(**options)
    if how.beam == 1:
        return [[hypothesis] for hypothesis in greedy(model, to_new(parameters), sources, how)]
    return beam_search(model, to_new(parameters), sources, how)


# --- optimizers -----------------------------------------------------------------------------------

OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "sgd": lambda: SGD(0.5), "adam": lambda: Adam(0.01), "adadelta": lambda: Adadelta(0.8)}


def update(
    optimizer: Any, parameters: Arrays, gradients: Mapping[str, Any], sentences: int,
    max_norm: float,
) -> tuple[float, float]:
    """One clipped update in place, as the trainer makes it: the factor, and the norm before.

    A gradient is an array, or ids, values and the table's shape.
    """
    made = {name: RowGradient(*g) if isinstance(g, tuple) else g for name, g in gradients.items()}
    scale, norm = gradient_scale(made, sentences, max_norm)
    optimizer.update(parameters, made, scale)
    return float(scale), float(norm)


# --- runs -----------------------------------------------------------------------------------------


def train(
    kind: str, recipe: Path, directory: Path, *options: str
) -> tuple[list[float], Arrays]:
    """Train by the command line: all losses and scores of the log, and the last parameters.

    The parameters have the names and layouts of this tree.
    """
    command = ["train"] if kind == "translator" else ["lm", "train"]
    main([*command, str(recipe), "--output", str(directory), *options])
    lines = (directory / "log.jsonl").read_text("utf-8").splitlines()
    losses = [number for record in map(json.loads, lines)
              for number in (record["loss"], *record.get("scores", {}).values())]
    prefix = "parameters/"
    return losses, {name.removeprefix(prefix): array
                    for name, array in load_file(directory / "last.safetensors").items()
                    if name.startswith(prefix)}
