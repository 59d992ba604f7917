"""A language model beside a translator: `nmt lm tune`, `nmt translate --lm`, and errors."""

from pathlib import Path

import numpy as np
import pytest
import yaml
from tiny_run import TEXT_RECIPE, captured, complaint, lines_of, nmt, printed, write_recipe

from nmt.language_models import LanguageSystem
from nmt.system import System


@pytest.fixture
def work(trained, capsys):
    """A directory with `same`, a language model of the translator's words."""
    write_recipe(Path("same.yaml").resolve(), TEXT_RECIPE, model={"layers": 1},
                 text={"vocabulary": "model/target.vocab"}, train={"epochs": 4})
    captured(capsys, "lm", "train", "same.yaml", "--output", "same")
    return trained


def test_a_weight_is_found_and_used(work, capsys) -> None:
    actual = lines_of(capsys, "lm", "tune", "dev.en", "dev.de", "--model", "model", "--lm", "same",
                      "--weights", "0", "0.2", "--beam", "2")
    assert [line.split(":")[0] for line in actual] == ["beta 0", "beta 0.2", "best"]
    scores = [float(line.split()[-1]) for line in actual[:2]]
    assert actual[2] == f"best: --lm-weight {['0', '0.2'][scores[1] > scores[0]]}"
    text = ("translate", "test.en", "--model", "model", "--beam", "3", "--nbest", "2")
    outputs = []
    for options in ((), ("--lm", "same", "--lm-weight", "0"), ("--lm", "same", "--lm-weight", "2"),
                    ("--lm", "same", "--lm-weight", "2", "--every-beam")):
        outputs.append(printed(capsys, *text, *options))
    assert outputs[0] == outputs[1] != outputs[2]
    assert Path("same/text.vocab").read_text() == Path("model/target.vocab").read_text()


def test_what_does_not_fit(work, capsys) -> None:
    text = ("translate", "test.en", "--model", "model")
    known = len(Path("model/target.vocab").read_text().splitlines())
    Path("words").write_text("<unk>\n</s>\nnull\neins\n")
    assert nmt("lm", "train", "same.yaml", "--text.vocabulary", "words", "--output", "other") == 0
    assert complaint(capsys, *text, "--lm", "other", "--lm-weight", "1") == (
        f"other: expected a language model of the translator's {known} target words "
        "(text.vocabulary), got one of 4 other words")
    assert complaint(capsys, *text, "--lm", "same") == (
        "--lm DIR and --lm-weight BETA: each needs the other")
    assert complaint(capsys, *text, "--lm", "same", "--lm-weight", "1", "--sample", "1") == (
        "--sample: cannot be used with --lm")
    assert "expected a language model, found a translator" in complaint(
        capsys, *text, "--lm", "model", "--lm-weight", "1")
    assert "vocabulary: expected none beside" in complaint(
        capsys, "lm", "train", "same.yaml", "--text.min_frequency", "2", "--output", "third")
    assert "none.vocab" in complaint(
        capsys, "lm", "train", "same.yaml", "--text.vocabulary", "none.vocab", "--output", "third")
    assert not Path("third").exists()


RNNSEARCH = {"architecture": "rnnsearch", "hidden_size": 6, "embedding_size": 4, "layer_size": 4}


def test_deep_fusion_trains_the_output_layer_alone(work, capsys) -> None:
    recipe = yaml.safe_load(Path("r.yaml").read_text())
    recipe |= {"model": RNNSEARCH, "train": recipe["train"] | {"epochs": 1}}
    Path("rs.yaml").write_text(yaml.safe_dump(recipe))
    assert nmt("train", "rs.yaml", "--output", "rs") == 0
    fuse = ("lm", "fuse", "--model", "rs", "--lm", "same", "--output", "deep")
    assert "cannot be changed: the model" in complaint(capsys, *fuse, "--model.hidden_size", "3")
    assert complaint(capsys, "lm", "fuse", "--model", "model", *fuse[4:]) == (
        "model: expected a run of the architecture rnnsearch for deep fusion, got luong")
    assert "got one of 9 other words" in complaint(
        capsys, *fuse[:4], "--lm", "lm", "--output", "deep") and not Path("deep").exists()
    assert nmt(*fuse, "--train.epochs", "1") == 0
    fused, before = System.open("deep"), System.open("rs")
    language = LanguageSystem.open("same")
    for name, array in fused.parameters.items():
        old = {"lm.W_e": "W_e"}.get(name, name.replace("lm.", "rnn."))
        was = language.parameters.get(old) if name[:3] == "lm." else before.parameters.get(name)
        assert (was is None and name in ("output.L_o", "output.v_g", "output.b_g")) or (
            np.array_equal(array, was) == (name[:7] != "output.")), name
    assert len(lines_of(capsys, "translate", "test.en", "--model", "deep", "--beam", "3")) == 6
