"""Run directories of earlier code are read, searched, differentiated, stepped through and resumed,
and give what they gave.

`make_golden_runs.py` made them. Words are the same exactly, float32 numbers to 1e-5, the float64
ones of gradients to 1e-9 of the gradient.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from explored import checked
from golden_runs import runs
from golden_runs.recipes import CASES
from same_numbers.draws import error

from grads.stepper.explorer import build

SINGLE, DOUBLE = 1e-5, 1e-9
SAMPLE = (  # a run of each architecture and each derivation that the stepper has for models
    "luong-dot-global", "luong-no-attention", "luong-lexical-normalised", "luong-rnn", "rnnsearch",
    "deep-fusion", "hybrid-target", "hybrid-same", "transformer", "transformer-post",
    "transformer-countdown", "language", "language-lstm", "language-rnn")
PAGE = "language-rnn"  # whose page is the smallest


def check(found: Any, stored: Any, tolerance: float = SINGLE, at: str = "") -> None:
    """Raise AssertionError, with the place, unless two trees are the same, numbers nearly."""
    if isinstance(stored, dict):
        assert found.keys() == stored.keys(), at
        for key, value in stored.items():
            check(found[key], value, tolerance, f"{at}/{key}")
    elif isinstance(stored, list):
        assert len(found) == len(stored), at
        for place, (one, other) in enumerate(zip(found, stored, strict=True)):
            check(one, other, tolerance, f"{at}/{place}")
    elif isinstance(stored, float):
        assert found == pytest.approx(stored, rel=tolerance), at
    else:
        assert found == stored, at


def check_gradients(found: dict[str, Any], stored: dict[str, Any]) -> None:
    """The same for losses and fingerprints, of which errors count relative to the whole gradient."""
    assert found.keys() == stored.keys()
    for task, one in stored.items():
        check(found[task]["loss"], one["loss"], DOUBLE, f"{task}/loss")
        assert found[task]["gradients"].keys() == one["gradients"].keys()
        for name, numbers in one["gradients"].items():
            assert error(found[task]["gradients"][name], numbers) <= DOUBLE, f"{task}/{name}"


@pytest.fixture(autouse=True)
def _here(monkeypatch):
    """Paths in the recipes are relative to this directory."""
    monkeypatch.chdir(runs.HERE)


@pytest.mark.parametrize("name", CASES)
def test_a_run_gives_what_it_gave(name, tmp_path):
    stored = json.loads((runs.RUNS / f"{name}.json").read_text("utf-8"))
    found = runs.computed(name, tmp_path)
    check_gradients(found.pop("gradients"), stored.pop("gradients"))
    explored = {task: found["explored"].get(task) for task in stored["explored"]}
    check(found | {"explored": explored}, stored)


def explored(name):
    """What is stored of the stepper on a run."""
    return json.loads((runs.RUNS / f"{name}.json").read_text("utf-8"))["explored"][""]


@pytest.mark.parametrize("name", SAMPLE)
def test_every_gradient_that_is_stepped_through_is_the_loss_s(name):
    (system,) = runs.opened(runs.RUNS / name).values()
    found, loss = checked(runs.RUNS / name, *runs.shortest(system))
    check({"derivation": found.derivation.name, "loss": loss}, explored(name))


def test_the_page_of_a_run():
    (system,) = runs.opened(runs.RUNS / PAGE).values()
    page = build("rnn", model=runs.RUNS / PAGE, sentence=runs.shortest(system)[0])
    check(page["loss"], explored(PAGE)["loss"])


def test_every_case_has_a_run():
    made = {path.name for path in runs.RUNS.iterdir()}
    assert made == {*CASES, *(f"{name}.json" for name in CASES)}
