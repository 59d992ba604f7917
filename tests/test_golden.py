"""Losses, gradients and small training runs against values once computed by PyTorch.

Does not need PyTorch. `golden/make_golden.py` says where the values come from.
"""

from __future__ import annotations

import json
from importlib import import_module

import numpy as np
import pytest
from golden.cases import (
    CASES,
    PATH,
    RUNS,
    SOURCE_SIZE,
    STEPS,
    TARGET_SIZE,
    fingerprint,
    golden_batch,
    golden_parameters,
    run_batches,
)

from backend.rows import RowGradient
from nmt.models.translator import Translator
from nmt.training.optimizers import SGD, Adam, gradient_scale

GOLDEN = json.loads(PATH.read_text(encoding="utf-8"))
TOLERANCE = 1e-10
TEN_DIGITS = 5e-11  # half a unit in the tenth digit, relative
OPTIMIZERS = {"adam": Adam, "sgd": SGD}


@pytest.mark.parametrize("case", CASES)
def test_golden(case):
    """Each number to 1e-10 of its gradient's norm."""
    expected, model = GOLDEN[case], Translator(CASES[case], SOURCE_SIZE, TARGET_SIZE)
    loss, cache = model.loss(golden_parameters(CASES[case]), golden_batch())
    gradients = model.backward(cache)
    assert abs(float(loss) - expected["loss"]) < TOLERANCE * expected["loss"]
    assert gradients.keys() == expected["gradients"].keys()
    for name, gradient in gradients.items():
        gradient = gradient.dense() if isinstance(gradient, RowGradient) else gradient
        numbers = np.array(expected["gradients"][name])
        assert numbers[1] > 0
        assert np.abs(fingerprint(gradient) - numbers).max() < TOLERANCE * numbers[1], name


def test_every_case_has_values():
    assert GOLDEN.keys() == CASES.keys() | {"runs"}
    assert GOLDEN["runs"].keys() == RUNS.keys()


def numbers(tree):
    """The numbers of nested mappings and lists, with the path to each."""
    if isinstance(tree, float):
        return {(): tree}
    branches = tree.items() if isinstance(tree, dict) else enumerate(tree)
    return {(key, *path): number for key, branch in branches
            for path, number in numbers(branch).items()}


def test_the_script_still_makes_these_values():
    pytest.importorskip("torch", reason="PyTorch (extra `oracle`) is not installed")
    computed, recorded = numbers(import_module("golden.make_golden").make()), numbers(GOLDEN)
    assert computed.keys() == recorded.keys()
    assert len(computed) > 300
    for path, number in recorded.items():
        assert computed[path] == pytest.approx(number, rel=1e-11, abs=1e-13), path


# --- training runs ------------------------------------------------------------------------------


def train(run):
    """Ten updates by our model and optimizer: the losses and the norms before clipping."""
    config = CASES[run.case]
    model, parameters = Translator(config, SOURCE_SIZE, TARGET_SIZE), golden_parameters(config)
    optimizer = OPTIMIZERS[run.optimizer](run.learning_rate)
    losses, norms = [], []
    for batch in run_batches():
        loss, cache = model.loss(parameters, batch)
        gradients = model.backward(cache)
        scale, norm = gradient_scale(gradients, len(batch.indices), run.max_norm)
        optimizer.update(parameters, gradients, scale)
        losses.append(float(loss))
        norms.append(float(norm))
    return np.array(losses), np.array(norms)


def worst(actual, expected):
    """The largest relative difference of ten numbers from the ten golden ones."""
    assert len(actual) == len(expected) == STEPS
    return np.abs(actual / np.array(expected) - 1).max()


@pytest.mark.parametrize("name", RUNS)
def test_training_run(name):
    """All ten losses and gradient norms to ten digits, float64: model and optimizer together."""
    losses, norms = train(RUNS[name])
    assert worst(losses, GOLDEN["runs"][name]["losses"]) < TEN_DIGITS
    assert worst(norms, GOLDEN["runs"][name]["norms"]) < TEN_DIGITS


def test_the_clipped_run_clips_some_updates_and_not_others():
    run = RUNS["sgd-clipped"]
    clipped = np.array(GOLDEN["runs"]["sgd-clipped"]["norms"]) > run.max_norm
    assert clipped.any()
    assert not clipped.all()


@pytest.mark.parametrize("name, change", [
    ("adam", {"learning_rate": 0.02 * (1 + 1e-6)}),
    ("sgd-clipped", {"max_norm": None}),
])
def test_a_slightly_different_run_is_told_apart(name, change):
    """Negative control: the first loss is the same, a later one is not."""
    losses, _ = train(RUNS[name]._replace(**change))
    expected = GOLDEN["runs"][name]["losses"]
    assert abs(losses[0] / expected[0] - 1) < TEN_DIGITS
    assert worst(losses, expected) > TEN_DIGITS
