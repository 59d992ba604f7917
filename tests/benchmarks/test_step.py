"""The step benchmark compares before it times, in every variant, and can fail."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest
from timed import parse, run

from backend.errors import UserError
from benchmarks import step, timing, training
from benchmarks.runner import RESULTS
from benchmarks.timing import blas_kernels
from nmt.models.translator import Translator

pytest.importorskip("torch")
OPTIONS = parse("variants", ["--output", os.devnull, "--hidden", "8", "--layers", "1",
                             "--batch", "2", "--source", "6", "--target", "4", "--vocabulary", "12",
                             "--window", "1"])


@pytest.mark.parametrize("name", step.variants(OPTIONS))
def test_both_steps_compute_the_same(name):
    differences = training.compare(step.workload(step.variants(OPTIONS)[name], OPTIONS), 1, None)
    assert differences.keys() == {"loss", "gradients", "updates"}


def test_every_variant_has_a_row():
    """No attention, and 16 variants with input feeding and without; RNNsearch, a Transformer."""
    names = list(step.variants(OPTIONS))
    assert len(names) == len(set(names)) == 1 + 2 * 16 + 2
    assert "local-p concat, no feeding" in names


def test_a_wrong_gradient_is_named(monkeypatch):
    """One entry of one tensor, off by a part in a million of the tensor."""
    right = Translator.backward

    def wrong(self, cache):
        gradients = right(self, cache)
        gradients["attention.W_a"][0, 0] += 1e-6 * np.linalg.norm(gradients["attention.W_a"])
        return gradients

    monkeypatch.setattr(Translator, "backward", wrong)
    config = step.variants(OPTIONS)["global general, feeding"]
    with pytest.raises(AssertionError, match=r"gradients: .* in attention\.W_a"):
        training.compare(step.workload(config, OPTIONS), 1, None)


def test_a_row_is_kept_when_another_is_added(tmp_path, capsys):
    def names(*arguments):
        _, record = run("variants", tmp_path, "--device", "cpu", *arguments)
        return [row["case"] for row in record["rows"]]

    assert names("--only", "RNNsearch") == ["RNNsearch"]
    assert names("--only", "no attention") == ["no attention", "RNNsearch"]  # the table's order
    capsys.readouterr()
    assert len(names("--only", "RNN", "no attention", "--resume")) == 2
    assert capsys.readouterr().out.count(": already in the record") == 2
    (path,) = tmp_path.glob("*.json")
    changed = path.read_text("utf-8").replace('"hidden": 8', '"hidden": 9')
    path.write_text(changed, "utf-8")
    assert names("--only", "no attention") == ["no attention"]


def test_what_a_budget_has_no_time_for_is_cut(tmp_path, capsys):
    _, record = run("crossover", tmp_path, "--device", "cpu", "--budget", "1e-9")
    assert not record["rows"] and len(record["cut"]) == 4
    assert "cut, 1e-09 s are over" in capsys.readouterr().out


@pytest.mark.parametrize("name, options, cases", [
    ("step", [], ["global general, feeding", "global general, no feeding"]),
    ("variants", ["--only", "RNN", "local-m dot"],
     ["local-m dot, feeding", "local-m dot, no feeding", "RNNsearch"]),
])  # fmt: skip
def test_a_quick_run_writes_its_records_and_pictures(tmp_path, capsys, monkeypatch, name, options,
                                                     cases):
    monkeypatch.setattr(timing, "ITERATIONS", (2, 2))
    path, record = run(name, tmp_path, "--device", "cpu", *options)
    assert [row["case"] for row in record["rows"]] == cases
    names = {f"{name}-{blas_kernels()}.{end}" for end in ("json", "png")}
    assert {path.name for path in tmp_path.iterdir()} == names
    assert "target tokens/s" in capsys.readouterr().out
    assert str(tmp_path) not in path.read_text("utf-8")


@pytest.mark.parametrize("option", [["--quick"], ["--hidden", "64"], ["--seed", "2"]])
def test_another_size_does_not_replace_the_record(option):
    with pytest.raises(UserError, match=rf"{option[0]}: needs --output DIR"):
        parse("variants", option)
    assert parse("variants", ["--only", "dot", "--seconds", "3"]).output == RESULTS


def test_words_that_no_variant_has(tmp_path):
    with pytest.raises(UserError, match=r"--only: expected words of one of .*; got 'cosine'"):
        run("variants", tmp_path, "--device", "cpu", "--only", "cosine")


def test_the_record_of_a_named_machine(tmp_path):
    run("variants", tmp_path, "--device", "cpu", "--only", "no attention", "--machine", "Xeon")
    names = [path.name for path in tmp_path.glob("*.json")]
    assert names == [f"variants-{blas_kernels()}-Xeon.json"]
    assert "Xeon" not in (tmp_path / names[0]).read_text().split('"rows"')[1]
    with pytest.raises(UserError, match="--machine: expected letters and digits, got 'a/b'"):
        run("variants", tmp_path, "--machine", "a/b")


def test_after_a_case_that_fails_the_others_are_run(tmp_path, monkeypatch):
    right = step.step_case

    def wrong(name, *arguments, **declared):
        def fail(_):
            raise AssertionError("not equal")

        case = right(name, *arguments, **declared)
        return case._replace(prepare=fail) if name == "RNNsearch" else case

    monkeypatch.setattr(step, "step_case", wrong)
    words = "--device", "cpu", "--only", "no attention", "RNNsearch", "Transformer"
    with pytest.raises(UserError, match="variants: 1 of 3 cases failed"):
        run("variants", tmp_path, "--go-on", *words)
    (path,) = tmp_path.glob("*.json")
    record = json.loads(path.read_text("utf-8"))
    assert [row["case"] for row in record["rows"]] == ["no attention", "Transformer"]
    assert record["failed"][0].endswith("AssertionError: not equal")
