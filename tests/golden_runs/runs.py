"""Golden runs: the results of a run directory, as JSON values.

Paths in recipes are relative to this directory, in which everything here runs.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from golden_runs.recipes import CASES
from same_numbers.draws import error, fingerprint
from tiny_run import nmt

from backend.errors import UserError
from backend.rows import RowGradient
from grads.derivations.examples import Request, Sizes
from grads.stepper.explorer.models import open_model
from nmt.base_system import BaseSystem
from nmt.data.batches import Batch, stream_batches
from nmt.data.corpora import load_corpus
from nmt.language_models import LanguageSystem, read_text
from nmt.multitask import TasksSystem
from nmt.recipe.tasks import TASKS
from nmt.run_files import RECIPE
from nmt.search.interface import SearchOptions
from nmt.system import System
from nmt.training.log import read_log
from nmt.training.run import LOG

HERE = Path(__file__).parent
RUNS = HERE / "runs"
SINGLE, DOUBLE = 1e-5, 1e-9  # relative tolerances of float32 and of float64
GREEDY, BEAM = SearchOptions(longest_word=6), SearchOptions(beam=3, longest_word=6)
Systems = Mapping[str, BaseSystem]
LENGTH, TEMPERATURE = 8, 0.7  # tokens that a language model writes


def opened(directory: Path) -> Systems:
    """The systems of a run directory by name: "" for the run itself, and the tasks of a mixture."""
    recipe = yaml.safe_load((directory / RECIPE).read_text("utf-8"))
    if TASKS in recipe:
        return {"": TasksSystem.open(directory),
                **{name: System.open(directory / name) for name in recipe[TASKS]}}
    return {"": (LanguageSystem if "text" in recipe else System).open(directory)}


def results(systems: Systems) -> dict[str, Any]:
    """The systems' outputs, and their perplexity on the dev set."""
    return {name: _written(system) | _translated(system)
            for name, system in systems.items() if not isinstance(system, TasksSystem)}


def _written(system: BaseSystem) -> dict[str, Any]:
    """A text sampled from a language model."""
    if not isinstance(system, LanguageSystem):
        return {}
    text = system.sample("", LENGTH, TEMPERATURE, np.random.default_rng(1))
    return {"sample": text, "perplexity": system.perplexity(read_text(system.recipe.text)[1])}


def _translated(system: BaseSystem) -> dict[str, Any]:
    """A translator's greedy and beam translations of the dev set, with scores."""
    if not isinstance(system, System):
        return {}
    dev = load_corpus(system.recipe.data).dev
    translations = {name: system.translate(dev.sources, options)
                    for name, options in (("greedy", GREEDY), ("beam", BEAM))}
    return {name: [[{"words": " ".join(hypothesis.words), "score": hypothesis.score}
                    for hypothesis in nbest] for nbest in lists]
            for name, lists in translations.items()} | system.perplexities(dev.pairs)


def gradients(systems: Systems) -> dict[str, Any]:
    """The loss of the dev set as one batch, in nats, and fingerprints of its gradients with respect
    to each stored parameter, in float64 with dropout; for a mixture, of each task's batch."""
    first, *tasks = systems.items()
    return {name: _gradients(first[1], replace(_batch(system), task=name))
            for name, system in tasks or [first]}


def _batch(system: BaseSystem) -> Batch:
    """The dev set of a system, or the beginning of its text."""
    if isinstance(system, LanguageSystem):
        text = read_text(system.recipe.text)[1]
        return stream_batches(system.ids([" ".join(text)], "dev"), 2, 6)[0]
    assert isinstance(system, System)
    pairs = load_corpus(system.recipe.data).dev.pairs
    return next(system.batches(pairs, len(pairs)).in_order())


def _gradients(system: BaseSystem, batch: Batch) -> dict[str, Any]:
    model = system.parametrized or system.model
    stored = {name: np.asarray(array, np.float64)
              for name, array in (system.stored or system.parameters).items()}
    loss, cache = model.loss(stored, batch, model.noise(batch, np.random.default_rng(1), "float64"))
    arrays = {name: gradient.dense() if isinstance(gradient, RowGradient) else gradient
              for name, gradient in model.backward(cache).items()}
    return {"loss": float(loss), "gradients": {name: fingerprint(name, arrays[name])
                                               for name in sorted(arrays)}}


def finished(directory: Path) -> dict[str, Any]:
    """The scores of a finished run's epochs, and its `results`."""
    epochs = [{key: record[key] for key in ("loss", "tasks", "scores") if key in record}
              for record in read_log(directory / LOG) if record["event"] == "epoch"]
    return {"epochs": epochs, "results": results(opened(directory))}


def explored(directory: Path, systems: Systems) -> dict[str, Any]:
    """For each system that `grads explore --model` opens, the derivation that shows it, and the
    loss of the dev set's shortest pair."""
    derivations = {}
    for name, system in systems.items():
        if not isinstance(system, TasksSystem):
            with suppress(UserError):  # the stepper does not cover this model
                derivation = open_model(directory / name, *shortest(system), "best").derivation
                request = Request(None, Sizes(), np.random.default_rng(0))
                example = derivation.example(request)
                result = derivation.forward(*example.arguments, **example.named)
                derivations[name] = {"derivation": derivation.name,
                                     "loss": float(derivation.loss(example, result))}
    return derivations


def shortest(system: BaseSystem) -> tuple[str, str | None]:
    """The shortest sentence of the dev set, and its translation."""
    if isinstance(system, LanguageSystem):
        return "Max sieht hier", None
    assert isinstance(system, System)
    dev = load_corpus(system.recipe.data).dev
    source, target = min(zip(dev.sources, dev.references, strict=True),
                         key=lambda pair: len(pair[0]))
    return " ".join(word for word in source if word != system.recipe.data.target_token), target


def computed(name: str, temporary: Path) -> dict[str, Any]:
    """All stored values of a golden run, computed by opening and resuming a copy."""
    copy = temporary / name
    shutil.copytree(RUNS / name, copy)
    return of_copy(copy, resumed=CASES[name].stop > 0)


def of_copy(copy: Path, resumed: bool) -> dict[str, Any]:
    """The same values of a run directory, which is resumed in place."""
    systems = opened(copy)
    numbers = {"results": results(systems), "gradients": gradients(systems),
               "explored": explored(copy, systems)}
    if resumed:
        verb = ["lm", "train"] if LanguageSystem.is_in(copy) else ["train"]
        assert nmt(*verb, "--resume", copy) == 0
        numbers["finished"] = finished(copy)
    return numbers


def check_run(outcome: dict[str, Any], stored: dict[str, Any]) -> None:
    """Raise AssertionError unless a run's computed values equal the stored ones; the stepper may
    open more systems."""
    gradients_checked(outcome["gradients"], stored["gradients"])
    explored = {task: outcome["explored"].get(task) for task in stored["explored"]}
    check({**outcome, "explored": explored, "gradients": {}}, {**stored, "gradients": {}})


def check(tree: Any, stored: Any, tolerance: float = SINGLE, at: str = "") -> None:
    """Raise AssertionError, with the place, unless two trees are equal, numbers up to a
    tolerance."""
    if isinstance(stored, dict):
        assert tree.keys() == stored.keys(), at
        for key, value in stored.items():
            check(tree[key], value, tolerance, f"{at}/{key}")
    elif isinstance(stored, list):
        assert len(tree) == len(stored), at
        for place, (branch, other) in enumerate(zip(tree, stored, strict=True)):
            check(branch, other, tolerance, f"{at}/{place}")
    elif isinstance(stored, float):
        assert tree == pytest.approx(stored, rel=tolerance), at
    else:
        assert tree == stored, at


def gradients_checked(outcome: dict[str, Any], stored: dict[str, Any]) -> None:
    """The same for losses and fingerprints; errors count relative to the gradient, or to 1."""
    assert outcome.keys() == stored.keys()
    for task, expected in stored.items():
        check(outcome[task]["loss"], expected["loss"], DOUBLE, f"{task}/loss")
        assert outcome[task]["gradients"].keys() == expected["gradients"].keys()
        for name, numbers in expected["gradients"].items():
            assert error(outcome[task]["gradients"][name], numbers) <= DOUBLE, f"{task}/{name}"
