"""`nmt back-translate`, and training on its output and on text without sources."""

from pathlib import Path

import numpy as np
import pytest
from tiny_run import complaint, lines_of, nmt, write_corpus, write_recipe

from nmt.data.annotation import NULL
from nmt.data.corpus import read_lines
from nmt.recipe.file import load_recipe
from nmt.recipe.tasks import TasksRecipe
from nmt.system import System
from nmt.training import checkpoint

TEXT = "one two\n\n  three   four \nnew zero\n"
BACK = ("back-translate", "text", "--model", "model", "--source", "s", "--target", "t")


@pytest.fixture
def work(trained):
    Path("text").write_text(TEXT)
    return trained


@pytest.mark.parametrize("how", [(), ("--beam", "1"), ("--sample", "0.5", "--seed", "2")])
def test_a_pair_for_each_line(work, capsys, how) -> None:
    assert nmt(*BACK, *how) == 0
    written, text = read_lines("s"), read_lines("t")
    assert text == ["one two", "three four", "new zero"] and len(written) == 3
    assert not any("<unk>" in line for line in written)
    assert "3 pairs of 4 lines; left out: 1, empty or with" in capsys.readouterr().err
    if how == ("--beam", "1"):
        lines = lines_of(capsys, "translate", "t", "--model", "model", "--beam", "1")
        assert lines[:2] == written[:2]
    if "--sample" in how:
        assert nmt(*BACK, *how, "--target", "t2") == 0 and read_lines("s") == written


def test_both_files_or_none(work, capsys, monkeypatch) -> None:
    assert "-source, got s" in complaint(capsys, *BACK, "--target", "s")
    assert "cannot be used with --beam" in complaint(capsys, *BACK, "--sample", "1", "--beam", "2")
    assert "none/t: expected a file in a directory" in complaint(
        capsys, *BACK, "--target", "none/t")
    Path("empty").write_text("\n\n")
    assert complaint(capsys, "back-translate", "empty", *BACK[2:]) == (
        "empty: expected sentences, found none that have a translation")

    def fails(path, lines):
        if path == Path("t"):
            raise KeyboardInterrupt
        path.write_text("".join(lines))

    monkeypatch.setattr("nmt.cli.back_translating.write_lines", fails)
    assert nmt(*BACK) != 0
    assert not Path("s").exists() and not Path("t").exists()


def test_text_without_sources_leaves_the_encoder_alone(tmp_path, monkeypatch) -> None:
    """Only the decoder learns from it; the encoder is trained by the pairs alone."""
    monkeypatch.chdir(tmp_path)
    write_corpus(tmp_path)
    write_recipe(tmp_path / "pairs.yaml", train={"epochs": 1}, model={"dropout": 0.0})
    Path("both.yaml").write_text(
        "tasks:\n  dummy:\n    base: pairs.yaml\n    data: {corpus: dummy, train_source: train.de, "
        "dev_source: dev.de, source_language: de}\n"
        "    parametrize: {frozen: [encoder.*, attention.*]}\n  pairs: pairs.yaml\n"
        "ratios: {pairs: 1.0e-9}\nshare: [encoder, decoder]\n")  # no update of the pairs' is drawn
    recipe = load_recipe(TasksRecipe, "both.yaml")
    assert isinstance(recipe, TasksRecipe)
    assert nmt("train", "both.yaml", "--output", "run") == 0
    system = System.open("run/pairs")
    assert NULL in system.source.words and system.target_ids([NULL]) == [0]
    fresh = System.create(recipe.tasks["dummy"], system.vocabularies)
    start, now = fresh.parameters, checkpoint.load(
        Path("run/dummy/last.safetensors")).select(checkpoint.PARAMETERS)
    moved = {name for name in start if not np.array_equal(start[name], now[name])}
    assert moved and not [name for name in moved if name.startswith(("encoder", "attention"))]
    assert moved == {name for name in start if name.startswith(("decoder", "output"))}
