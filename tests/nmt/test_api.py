"""`import nmt`: the interface for programs."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tiny_run import nmt as run_nmt
from tiny_run import write_corpus, write_recipe

import nmt
from backend.errors import UserError
from nmt.recipe import Recipe
from nmt.recipe.file import load_recipe
from nmt.training.progress import Observer

TEXT = "one two three"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`attentive` and `plain`, trained for a second, and their recipes."""
    directory = tmp_path_factory.mktemp("api")
    write_corpus(directory)
    write_recipe(directory / "attentive.yaml", train={"epochs": 8})
    write_recipe(directory / "plain.yaml", model={"attention": "none", "input_feeding": False})
    for name in ("attentive", "plain"):
        nmt.train(directory / f"{name}.yaml", directory / name, observer=Observer())
    return directory


@pytest.fixture(scope="module")
def model(runs: Path) -> nmt.LoadedTranslator:
    return nmt.load(runs / "attentive")


def test_translates_as_the_command_does(
    runs: Path, model: nmt.LoadedTranslator, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (runs / "texts").write_text(f"{TEXT}\n\nfive\n", "utf-8")
    with open(runs / "texts", encoding="utf-8") as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        assert run_nmt("translate", "--model", runs / "attentive", "--beam", 3) == 0
    said = capsys.readouterr().out.split("\n")[:-1]
    assert model.translate([TEXT, "", "five"], beam=3) == said
    assert model.translate(TEXT, beam=3) == said[0] and model.translate("") == ""
    assert model.translate([]) == []


def test_nbest_scores_and_word_scores_agree(model: nmt.LoadedTranslator) -> None:
    translations = model.nbest(TEXT, 3, length_normalisation=0.0)
    assert len(translations) == 3 and translations[0].text == model.translate(TEXT, beam=3)
    scores = [translation.score for translation in translations]
    assert scores == sorted(scores, reverse=True)
    for translation in translations:
        if translation.finished and translation.text:
            assert model.score(TEXT, translation.text) == pytest.approx(
                translation.log_probability, rel=1e-4)
    words = model.word_scores(TEXT, "eins zwei")
    assert [word for word, _ in words] == ["eins", "zwei", "</s>"]
    assert sum(value for _, value in words) == pytest.approx(model.score(TEXT, "eins zwei"))


def test_attention_has_a_row_a_word(
    model: nmt.LoadedTranslator, tmp_path: Path
) -> None:
    seen = model.attention(TEXT, "eins zwei drei")
    assert seen.source == TEXT.split() and seen.target == ["eins", "zwei", "drei", "</s>"]
    assert seen.weights.shape == (4, 3)
    np.testing.assert_allclose(seen.weights.sum(axis=1), 1.0, rtol=1e-5)
    assert "zwei |" in str(seen) and "1 one  2 two  3 three" in str(seen)
    for ending, begins in (("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")):
        seen.save(tmp_path / f"map.{ending}")
        assert (tmp_path / f"map.{ending}").read_bytes().startswith(begins)
    translated = model.attention(TEXT)
    assert translated.target[:-1] == model.translate(TEXT).split()


def test_an_ensemble_and_the_last_checkpoint(runs: Path) -> None:
    both = nmt.load([runs / "attentive", runs / "plain"])
    last = nmt.load(str(runs / "attentive"), checkpoint="last")
    assert last.translate(TEXT)
    steps = [[value for _, value in loaded.word_scores("one", "eins")]
             for loaded in (both, *(nmt.load(runs / name) for name in ("attentive", "plain")))]
    np.testing.assert_allclose(steps[0], np.log(np.exp(steps[1:]).mean(axis=0)), rtol=1e-5)


def test_training_goes_on_and_takes_recipes(runs: Path, tmp_path: Path) -> None:
    seen: list[int] = []

    class Epochs(Observer):
        def on_epoch(self, epoch: int, *rest: object) -> None:
            seen.append(epoch)

    recipe = load_recipe(Recipe, runs / "plain.yaml")
    nmt.train(dataclasses.replace(recipe, train=dataclasses.replace(recipe.train, epochs=1)),
              tmp_path / "run", observer=Epochs())
    longer = nmt.train(None, tmp_path / "run", overrides={"train.epochs": 3}, resume=True,
                       observer=Epochs())
    assert seen == [1, 2, 3] and longer.recipe.train.epochs == 3
    changes = {"train.epochs": 1, "train.max_norm": None, "evaluate.bleu": False,
               "train.optimizer": "sgd", "parametrize.frozen": ["encoder.*"]}
    other = nmt.train(runs / "plain.yaml", tmp_path / "other", overrides=changes,
                      observer=Observer()).recipe
    assert (other.train.max_norm, other.train.optimizer) == (None, "sgd")
    assert other.evaluate.bleu is False
    assert list(other.parametrize.frozen) == ["encoder.*"]


def test_unknown_words(model: nmt.LoadedTranslator) -> None:
    assert model.unknown("one banana two cherry banana") == ["banana", "cherry"]


@pytest.mark.parametrize("call, said", [
    (lambda model, runs: nmt.load(runs), "expected the run directory of a"),
    (lambda model, runs: nmt.load([]), "directory: expected a run directory or several, got none"),
    (lambda model, runs: model.translate("one\ntwo"), "expected one sentence, got several lines"),
    (lambda model, runs: model.translate(TEXT, beam=0), "beam: expected an integer of at least 1"),
    (lambda model, runs: model.translate("one " * 1001), "sentence:1: expected at most 1000 words"),
    (lambda model, runs: model.translate("one " * 2_500_000),
     "text: expected at most 262,144 characters, got 10,000,000"),
    (lambda model, runs: model.score("", "eins"), "source: expected a sentence, got an empty one"),
    (lambda model, runs: nmt.load(runs / "plain").attention(TEXT), "expected a model with"),
    (lambda model, runs: nmt.train(None, runs / "new"), "recipe: expected one"),
    (lambda model, runs: nmt.train(runs / "plain.yaml", runs / "new", overrides={"train.x": 1}),
     "override 'train.x' is not known"),
])
def test_errors_are_one_line(model: nmt.LoadedTranslator, runs: Path, call: object,
                             said: str) -> None:
    with pytest.raises(UserError, match=r"^[^\n]*$") as caught:
        call(model, runs)  # type: ignore[operator]
    assert said in str(caught.value)


def test_what_is_not_text_is_a_type_error(model: nmt.LoadedTranslator) -> None:
    with pytest.raises(TypeError, match="expected str, got int"):
        model.score(1, "eins")  # type: ignore[arg-type]


def test_importing_the_package_imports_none_of_its_parts() -> None:
    code = ("import sys, nmt; assert not [m for m in sys.modules if m.startswith('nmt.')]; "
            "assert set(nmt.__all__) <= set(dir(nmt)); nmt.load; nmt.nothing")
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "AttributeError: module 'nmt' has no attribute 'nothing'" in run.stderr


def test_the_page_runs(runs: Path, tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "nmt.md").read_text("utf-8")
    (code,) = [block for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL)
               if block.startswith("import nmt")]
    for name, path in (("runs/own", runs / "attentive"), ("mine.yaml", runs / "plain.yaml"),
                       ("runs/mine", tmp_path / "mine")):
        assert name in code
        code = code.replace(name, str(path))
    exec(compile(code, "nmt.md", "exec"), {})
