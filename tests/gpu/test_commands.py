"""The commands with `--backend cupy`: training, resume, search, evaluation, language models."""

from __future__ import annotations

import io
import json
import sys

import numpy as np
import pytest
from tiny_run import TEXT_RECIPE, nmt, write_corpus, write_recipe

from grads.cli import main as grads_main
from nmt.training import checkpoint
from nmt.training.run import LAST, LOG


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """A corpus, and a model trained on it by NumPy."""
    made = tmp_path_factory.mktemp("gpu")
    write_corpus(made, pairs=200)
    recipe = write_recipe(made / "r.yaml", model={"dropout": 0.0},
                          train={"epochs": 8, "learning_rate": 0.05})
    assert nmt("train", recipe, "--output", made / "model") == 0
    return made


def assert_close(path, other):
    ours, theirs = (checkpoint.load(path).select(checkpoint.PARAMETERS) for path in (path, other))
    for name, array in ours.items():
        np.testing.assert_allclose(array, theirs[name], atol=2e-2, err_msg=name)


@pytest.mark.parametrize("options", [[], ["--no-fusing"]])
def test_train_and_resume(directory, tmp_path, options):
    recipe = write_recipe(directory / "short.yaml")
    command = ["--backend", "cupy", *options]
    assert nmt(*command, "train", recipe, "--output", tmp_path / "out", "--train.epochs", 1) == 0
    assert nmt(*command, "train", "--resume", tmp_path / "out", "--train.epochs", 2) == 0
    assert nmt("train", recipe, "--output", tmp_path / "numpy") == 0
    assert_close(tmp_path / "out" / LAST, tmp_path / "numpy" / LAST)
    records = [json.loads(line) for line in (tmp_path / "out" / LOG).read_text().splitlines()]
    assert all(r["pool_total_bytes"] > 0 for r in records if r["event"] == "update")


@pytest.mark.parametrize("precision", ["tf32", "float16"])
def test_train_in_a_lower_precision(directory, tmp_path, precision, capsys):
    recipe = write_recipe(directory / "short.yaml")
    assert nmt("--backend", "cupy", "--gemm", precision, "train", recipe, "--output",
               tmp_path / "out") == 0
    assert f"matrix products in {precision}: against float32" in capsys.readouterr().out


@pytest.mark.parametrize("beam", [1, 4])
def test_translate(directory, monkeypatch, capsys, beam):
    lines = (directory / "test.en").read_bytes()
    outputs = []
    for where in ("numpy", "cupy"):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines)))
        capsys.readouterr()
        assert nmt("--backend", where, "translate", "--model", directory / "model", "--beam",
                   beam) == 0
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1]


def test_evaluate_align_and_perplexity(directory, capsys):
    pair = [directory / "test.en", directory / "test.de", "--model", directory / "model"]
    outputs = []
    for where in ("numpy", "cupy"):
        capsys.readouterr()
        for command in ("perplexity", "align", "evaluate"):
            assert nmt("--backend", where, command, *pair) == 0
        shown = capsys.readouterr().out.splitlines()
        outputs.append([line for line in shown if "a second" not in line])
    assert outputs[0] == outputs[1]


def test_language_model(directory, tmp_path, capsys):
    recipe = write_recipe(directory / "lm.yaml", TEXT_RECIPE)
    assert nmt("--backend", "cupy", "lm", "train", recipe, "--output", tmp_path / "lm") == 0
    assert nmt("--backend", "cupy", "lm", "sample", "--model", tmp_path / "lm", "--length", 9) == 0
    assert nmt("--backend", "cupy", "lm", "perplexity", directory / "train.de", "--model",
               tmp_path / "lm") == 0
    assert "perplexity" in capsys.readouterr().out


def test_checks(capsys, fusing):
    """`grads check` with its kernels on the GPU: the fused backward against complex step."""
    options = [] if fusing else ["--no-fusing"]
    grads_main(["--backend", "cupy", *options, "check", "luong: as usual; ragged",
                "rnnsearch: as usual; smallest", "--sample", "16"])
    assert "ok" in capsys.readouterr().out
