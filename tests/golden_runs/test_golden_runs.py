"""Run directories of earlier code are read, searched, differentiated, stepped through and resumed,
with the results that they had.

`make_golden_runs.py` made them. Words are exactly equal; float32 numbers agree to 1e-5, and float64
gradients to 1e-9 of the gradient.
"""

from __future__ import annotations

import json

import pytest
from explored import checked
from golden_runs import runs
from golden_runs.recipes import CASES
from golden_runs.runs import check, check_run

from grads.stepper.explorer import build

SAMPLE = (  # a run of each architecture, and of each derivation that shows models
    "luong-dot-global", "luong-no-attention", "luong-lexical-normalised", "luong-rnn", "rnnsearch",
    "deep-fusion", "hybrid-target", "hybrid-same", "transformer", "transformer-post",
    "transformer-countdown", "language", "language-lstm", "language-rnn")
PAGE = "language-rnn"  # whose page is the smallest


@pytest.fixture(autouse=True)
def _here(monkeypatch):
    """Paths in the recipes are relative to this directory."""
    monkeypatch.chdir(runs.HERE)


@pytest.mark.parametrize("name", CASES)
def test_a_run_gives_what_it_gave(name, tmp_path):
    stored = json.loads((runs.RUNS / f"{name}.json").read_text("utf-8"))
    outcome = runs.computed(name, tmp_path)
    check_run(outcome, stored)


def explored(name):
    """What is stored of the stepper on a run."""
    return json.loads((runs.RUNS / f"{name}.json").read_text("utf-8"))["explored"][""]


@pytest.mark.parametrize("name", SAMPLE)
def test_every_gradient_that_is_stepped_through_is_the_loss_s(name):
    (system,) = runs.opened(runs.RUNS / name).values()
    trained, loss = checked(runs.RUNS / name, *runs.shortest(system))
    check({"derivation": trained.derivation.name, "loss": loss}, explored(name))


def test_the_page_of_a_run():
    (system,) = runs.opened(runs.RUNS / PAGE).values()
    page = build("rnn", model=runs.RUNS / PAGE, sentence=runs.shortest(system)[0])
    check(page["loss"], explored(PAGE)["loss"])


def test_a_weight_that_is_read_in_another_order_is_told_apart():
    """Negative control: the query's columns in reverse order."""
    directory = runs.RUNS / "luong-general-global"
    stored = json.loads(directory.with_suffix(".json").read_text("utf-8"))
    systems = runs.opened(directory)
    runs.check(runs.results(systems), stored["results"])
    W_a = systems[""].parameters["attention.W_a"]
    W_a[...] = W_a[:, ::-1].copy()
    for outcome, known in ((runs.results(systems), stored["results"]),
                           (runs.gradients(systems), stored["gradients"])):
        with pytest.raises(AssertionError):
            runs.check(outcome, known)


def test_every_case_has_a_run():
    made = {path.name for path in runs.RUNS.iterdir()}
    assert made == {*CASES, *(f"{name}.json" for name in CASES)}
