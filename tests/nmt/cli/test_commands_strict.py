"""The commands with `--backend cupy` on the strict stand-in for CuPy, without a GPU."""

from __future__ import annotations

import io
import re
import sys

import numpy as np
import pytest
from strict.module import strict
from tiny_run import TEXT_RECIPE, lines_of, nmt, write_recipe

import backend.device
from backend import gemm
from nmt.training import checkpoint
from nmt.training.run import BEST, LAST


@pytest.fixture(autouse=True)
def _strict_cupy(monkeypatch):
    monkeypatch.setattr(backend.device, "load", {"numpy": np, "cupy": strict}.__getitem__)


def on_stand_in(*arguments):
    """Run a command with `--backend cupy`, which must move arrays to the device."""
    strict.counts.reset()
    assert nmt("--backend", "cupy", *arguments) == 0
    assert strict.counts.to_device > 0


def assert_parameters_close(first, other):
    ours, theirs = (checkpoint.load(path).select(checkpoint.PARAMETERS) for path in (first, other))
    assert ours.keys() == theirs.keys()
    for name, array in ours.items():
        np.testing.assert_allclose(array, theirs[name], atol=1e-4)


def test_train_and_resume(corpus) -> None:
    recipe = corpus / "r.yaml"
    on_stand_in("train", recipe, "--output", corpus / "out", "--train.epochs", 1)
    on_stand_in("train", "--resume", corpus / "out", "--train.epochs", 2)
    assert nmt("train", recipe, "--output", corpus / "numpy") == 0
    assert_parameters_close(corpus / "out" / LAST, corpus / "numpy" / LAST)


def test_several_tasks(corpus) -> None:
    recipe = corpus / "mixed.yaml"
    recipe.write_text("tasks: {en-de: r.yaml, copy: {base: r.yaml, data: {corpus: copy}}}\n"
                      "ratios: {copy: 0.5}\nshare: [encoder]\n")
    on_stand_in("train", recipe, "--output", corpus / "out", "--train.epochs", 1)
    on_stand_in("train", "--resume", corpus / "out", "--train.epochs", 2)
    assert nmt("train", recipe, "--output", corpus / "numpy") == 0
    for file in (LAST, f"copy/{BEST}", f"en-de/{LAST}"):
        assert_parameters_close(corpus / "out" / file, corpus / "numpy" / file)


def test_translate(trained, monkeypatch, capsys, tmp_path) -> None:
    command = ["translate", "--model", trained / "model", "--nbest", 2, "--alignments",
               tmp_path / "links"]
    outputs = []
    for where in ("numpy", "cupy"):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"one two\n\nsix\n")))
        lines = lines_of(capsys, "--backend", where, *command)
        outputs.append([line.split(" ||| ")[:2] for line in lines])
        outputs.append((tmp_path / "links").read_text())
    assert outputs[:2] == outputs[2:]


def test_other_commands(trained, monkeypatch, capsys, tmp_path) -> None:
    """Attention maps, dictionaries, perplexity, sampling, and an ensemble with both averages."""
    pair, model = [trained / "test.en", trained / "test.de"], ["--model", trained / "model"]
    two = [*model, trained / "model"]
    outputs = []
    for where in ("numpy", "cupy"):
        capsys.readouterr()
        for command in (["attention", pair[0], *model], ["perplexity", *pair, *model],
                        ["dictionary", *pair, tmp_path / "d", *model, "--min-count", 1],
                        ["evaluate", *pair, *two, "--ensemble", "logs"],
                        ["translate", *two], ["translate", *model, "--sample", 0.5]):
            strict.counts.reset()
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"one two\n\nsix\n")))
            assert nmt("--backend", where, *command) == 0
            assert (strict.counts.to_device > 0) == (where == "cupy")
        shown = capsys.readouterr().out
        outputs.append([line for line in shown.splitlines() if "a second" not in line])
        outputs.append((tmp_path / "d").read_text())
    assert outputs[:2] == outputs[2:]


@pytest.mark.parametrize("precision", ["float32", "tf32", "float16"])
def test_products_in_less_than_float32_say_what_they_cost(
    trained, monkeypatch, capsys, precision
) -> None:
    pair, model = [trained / "test.en", trained / "test.de"], ["--model", trained / "model"]
    said = (rf"matrix products in {precision}: against float32, log p of the first batch is off by "
            r"(\S+)\n")
    for command in (["translate", *model], ["translate", *model, model[1]],
                    ["evaluate", *pair, *model]):
        capsys.readouterr()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\none two\nsix\n")))
        with gemm.using("float32"):
            on_stand_in("--gemm", precision, *command)
        costs = re.findall(said, capsys.readouterr().err)
        assert len(costs) == (precision != "float32") and all(0 < float(c) < 0.1 for c in costs)


def test_align_and_evaluate(trained, capsys, tmp_path) -> None:
    pair = [trained / "test.en", trained / "test.de", "--model", trained / "model"]
    gold = tmp_path / "gold"
    lines = (trained / "test.en").read_text().splitlines()
    gold.write_text("".join("0-0\n" for _ in lines))
    outputs = []
    for where in ("numpy", "cupy"):
        strict.counts.reset()
        capsys.readouterr()
        assert nmt("--backend", where, "align", *pair) == 0
        assert nmt("--backend", where, "evaluate", *pair, "--gold", gold, "--replace-unk",
                   "--without-unk") == 0
        shown = capsys.readouterr().out
        outputs.append([line for line in shown.splitlines() if "a second" not in line])
        assert (strict.counts.to_device > 0) == (where == "cupy")
    assert outputs[0] == outputs[1]


def test_language_model(corpus, capsys) -> None:
    recipe = write_recipe(corpus / "lm.yaml", TEXT_RECIPE)
    on_stand_in("lm", "train", recipe, "--output", corpus / "lm")
    assert nmt("lm", "train", recipe, "--output", corpus / "numpy") == 0
    assert_parameters_close(corpus / "lm" / BEST, corpus / "numpy" / BEST)
    on_stand_in("lm", "sample", "--model", corpus / "lm", "--length", 5)
    on_stand_in("lm", "perplexity", corpus / "train.de", "--model", corpus / "lm")
    assert "perplexity" in capsys.readouterr().out
