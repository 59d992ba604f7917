"""The step benchmark compares before it times, in every variant, and can fail."""

from __future__ import annotations

import os
from argparse import Namespace

import numpy as np
import pytest

from backend.errors import UserError
from benchmarks import paired, step
from benchmarks.record import RESULTS
from benchmarks.timing import blas_kernels
from nmt.models.translator import Translator

pytest.importorskip("torch")
OPTIONS = step.parse(["--output", os.devnull, "--variants", "--hidden", "8", "--layers", "1",
                      "--batch", "2", "--source", "6", "--target", "4", "--vocabulary", "12",
                      "--window", "1"])


@pytest.mark.parametrize("name", step.variants(OPTIONS))
def test_both_steps_compute_the_same(name):
    found = step.compare(step.case_of(step.variants(OPTIONS)[name], OPTIONS), 1)
    assert found.keys() == {"loss", "gradients", "updates"}


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
        step.compare(step.case_of(config, OPTIONS), 1)


def test_a_row_is_kept_when_another_is_added(tmp_path):
    options, found = Namespace(**{**vars(OPTIONS), "output": tmp_path}), {"kernels": "native"}
    for name in ("RNNsearch", "no attention"):
        step.add_row(options, found, name, {"ratio": 0.5})
    text = (tmp_path / "variants-native.json").read_text(encoding="utf-8")
    assert text.index("no attention") < text.index("RNNsearch")  # the table's order
    other = step.parse(["--variants", "--hidden", "9", "--output", str(tmp_path)])
    step.add_row(other, found, "no attention", {"ratio": 0.5})
    assert "RNNsearch" not in (tmp_path / "variants-native.json").read_text(encoding="utf-8")


@pytest.mark.parametrize("options, kinds", [
    ([], {"step"}), (["--no-feeding", "--score", "dot"], {"step-global-dot-no-feeding"}),
    (["--variants", "RNN", "local-m dot"], {"variants"}),
])  # fmt: skip
def test_a_quick_run_writes_its_records_and_pictures(tmp_path, capsys, monkeypatch, options, kinds):
    monkeypatch.setattr(paired, "ITERATIONS", (2, 2))
    step.main(["--quick", "--output", str(tmp_path), *options])
    names = {f"{kind}-{blas_kernels()}.{end}" for kind in kinds for end in ("json", "png")}
    assert {path.name for path in tmp_path.iterdir()} == names
    printed = capsys.readouterr().out
    assert ("target tokens/s" in printed) == ("--variants" not in options)
    assert str(tmp_path) not in (tmp_path / f"{kinds.pop()}-{blas_kernels()}.json").read_text()


@pytest.mark.parametrize("option", [["--quick"], ["--hidden", "64"], ["--seed", "2"]])
def test_another_size_does_not_replace_the_record(option):
    with pytest.raises(UserError, match=rf"{option[0]}: expected --output DIR beside it"):
        step.parse(option)
    assert step.parse(["--no-feeding", "--score", "dot", "--seconds", "3"]).output == RESULTS


def test_words_that_no_variant_has():
    with pytest.raises(UserError, match=r"--variants: expected words of one of .*; got 'cosine'"):
        step.main(["--variants", "cosine"])
