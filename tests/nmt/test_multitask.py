"""Several tasks trained together: resumed exactly, a run directory each, shared vocabularies."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
from tiny_run import Crash, CrashAt, nmt, printed, write_corpus, write_recipe

from backend.errors import UserError
from nmt import multitask, translator_training
from nmt.multitask import TasksSystem
from nmt.recipe import Recipe
from nmt.recipe.file import as_text, load_recipe
from nmt.recipe.tasks import TasksRecipe
from nmt.run_directory import epochs_of
from nmt.search.interface import SearchOptions
from nmt.system import System
from nmt.training import checkpoint
from nmt.training.progress import Observer
from nmt.training.run import BEST, LAST

MIXED = """\
tasks:
  en-de: r.yaml
  de-en:
    base: r.yaml
    data: {train_source: train.de, train_target: train.en, dev_source: dev.de, dev_target: dev.en}
  copy:
    base: r.yaml
    data: {corpus: copy}
    model: {dropout: 0.3}
    train: {batch_size: 4}
ratios: {copy: 0.5}
share:
  encoder: [en-de, copy]
  decoder: [de-en, copy]
"""
WORDS = ["one", "two", "three"]
OVERRIDES = ["--train.checkpoint_every=3", "--evaluate.bleu=false"]


@pytest.fixture
def mixed(corpus):
    """The corpus, and the recipe of three tasks."""
    (corpus / "mixed.yaml").write_text(MIXED)
    return corpus


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The same in another directory, with a run in `run`, which tests leave as it is."""
    directory = tmp_path_factory.mktemp("mixed")
    write_corpus(directory)
    write_recipe(directory / "r.yaml")
    (directory / "mixed.yaml").write_text(MIXED)
    multitask.train(recipe_of(directory), directory / "run", Observer())
    return directory


def recipe_of(directory, *overrides, text=None):
    if text is not None:
        (directory / "mixed.yaml").write_text(text)
    return load_recipe(TasksRecipe, directory / "mixed.yaml", [*OVERRIDES, *overrides])


def bits(directory):
    """All arrays of all checkpoints, and the logs without times."""
    arrays = {(path.relative_to(directory), name): array
              for path in sorted(directory.glob("**/*.safetensors"))
              for name, array in checkpoint.load(path).arrays.items()}
    records = [json.loads(line) for line in (directory / "log.jsonl").read_text().splitlines()]
    told = [{key: value for key, value in record.items()
             if "second" not in key} for record in records]
    return arrays, told


@pytest.mark.parametrize("step, options", [(7, "private: 0.5\n"), (24, "")])
def test_a_run_resumes_exactly_bit_for_bit(mixed, step, options) -> None:
    recipe = recipe_of(mixed, text=MIXED + options)
    multitask.train(recipe, mixed / "whole", Observer())
    with pytest.raises(Crash):
        multitask.train(recipe, mixed / "cut", CrashAt(step + 3))
    assert (mixed / "cut" / LAST).exists()
    multitask.train(recipe, mixed / "cut", Observer(), resume=True)
    (expected, told), (cut, again) = bits(mixed / "whole"), bits(mixed / "cut")
    assert expected.keys() == cut.keys() and len({path for path, _ in expected}) == 8
    for name, array in expected.items():
        np.testing.assert_array_equal(cut[name], array, err_msg=str(name))
    assert told == again


def test_more_epochs_are_those_of_one_longer_run(mixed) -> None:
    multitask.train(recipe_of(mixed, "--train.epochs=3"), mixed / "whole", Observer())
    multitask.train(recipe_of(mixed), mixed / "run", Observer())
    assert nmt("train", "--resume", mixed / "run", "--train.epochs", "3") == 0
    for name, array in checkpoint.load(mixed / "whole" / LAST).arrays.items():
        np.testing.assert_array_equal(checkpoint.load(mixed / "run" / LAST).arrays[name], array)
    assert load_recipe(Recipe, mixed / "run" / "copy" / "recipe.yaml").train.epochs == 3


def test_each_task_leaves_an_ordinary_run_directory(finished) -> None:
    opened = TasksSystem.open(finished / "run")
    for name in ("en-de", "de-en", "copy"):
        directory = finished / "run" / name
        assert sorted(path.name for path in directory.iterdir()) == [
            BEST, LAST, "recipe.yaml", "source.vocab", "target.vocab"]
        assert epochs_of(directory / LAST) == 2 and "perplexity" in (
            checkpoint.load_metadata(directory / BEST)["scores"])
        alone = System.open(directory)
        for key, array in opened.task(name).parameters.items():
            np.testing.assert_array_equal(alone.parameters[key], array)
        ((translation,),) = alone.translate([WORDS], SearchOptions())
        ((expected,),) = opened.task(name).translate([WORDS], SearchOptions())
        assert (translation.words, translation.score) == (expected.words, expected.score)
    copy, first, second = (System.open(finished / "run" / name).parameters
                           for name in ("copy", "en-de", "de-en"))
    for name, array in copy.items():
        same = first if name.startswith("encoder.") else second
        other = second if same is first else first
        np.testing.assert_array_equal(array, same[name], err_msg=name)
        assert not np.array_equal(array, other[name])


def test_the_commands_know_nothing_of_tasks(mixed, capsys) -> None:
    told = printed(capsys, "train", mixed / "mixed.yaml", "--output", mixed / "run",
                   "--en-de.data.test_source", "test.en", "--en-de.data.test_target", "test.de")
    assert "copy (0.5x): 80 training pairs" in told and "en-de: test, best checkpoint: BLEU" in told
    run = mixed / "run" / "de-en"
    assert nmt("perplexity", mixed / "dev.de", mixed / "dev.en", "--model", run) == 0
    assert nmt("evaluate", mixed / "test.de", mixed / "test.en", "--model", run) == 0
    assert nmt("train", mixed / "mixed.yaml", "--output", mixed / "run") == 2
    assert "a training run is here already" in capsys.readouterr().err
    assert nmt("perplexity", mixed / "dev.de", mixed / "dev.en", "--model", mixed / "run") == 2
    assert (f"expected a translator, found a multi-task translator; its tasks are {mixed}/run/en-de"
            in capsys.readouterr().err)
    assert nmt("train", "--resume", run) == 2
    assert "expected the state of a training run, found parameters only" in capsys.readouterr().err


def test_one_task_alone_is_trained_as_without_a_mixture(mixed) -> None:
    multitask.train(recipe_of(mixed, text="tasks: {en-de: r.yaml}\nshare: []\n"), mixed / "one",
                    Observer())
    alone = translator_training.train(load_recipe(Recipe, mixed / "r.yaml", OVERRIDES),
                                      mixed / "alone", Observer())
    for name, array in System.open(mixed / "one" / "en-de").parameters.items():
        np.testing.assert_array_equal(array, alone.parameters[name])


def test_the_reference_s_best_epoch_is_that_of_all(finished) -> None:
    run = finished / "run"
    epochs = {epochs_of(path) for path in run.glob(f"**/{BEST}")}
    assert len(epochs) == 1
    for name, prefix in (("en-de", ""), ("copy", "copy/")):
        known = checkpoint.load_metadata(run / BEST)["scores"]
        scores = checkpoint.load_metadata(run / name / BEST)["scores"]
        assert scores == {"perplexity": known[f"{prefix}perplexity"]}


# --- vocabularies ---------------------------------------------------------------------------------


def words_of(directory, task, side):
    return System.open(directory / task).vocabularies[side].words


@pytest.mark.parametrize("choice", ["joint", "first"])
def test_a_shared_side_has_one_vocabulary(mixed, choice) -> None:
    (mixed / "more.en").write_text("one two\none ten\nsix\n")
    text = MIXED.replace("corpus: copy", "corpus: copy, train_source: more.en")
    multitask.train(recipe_of(mixed, text=text + f"vocabularies: {choice}\n"), mixed / "run",
                    Observer())
    shared = words_of(mixed / "run", "en-de", "source")
    assert shared == words_of(mixed / "run", "copy", "source")
    assert ("ten" in shared) == (choice == "joint")
    written = words_of(mixed / "run", "de-en", "target")
    assert written == words_of(mixed / "run", "copy", "target")
    assert words_of(mixed / "run", "de-en", "source") == words_of(mixed / "run", "en-de", "target")


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize("text, message", [
    (MIXED.replace("model: {dropout: 0.3}", "model: {hidden_size: 9}"),
     r"share\.encoder: expected the same parameters in en-de and copy, got encoder\.0\.W of shape"),
    (MIXED.replace("corpus: copy", "corpus: copy, max_vocabulary: 9"),
     r"share\.encoder: expected one data\.max_vocabulary, got null in en-de and 9 in copy"),
    (MIXED.replace("corpus: copy", "corpus: copy, train_source: none.en"),
     r"tasks\.copy: .*none\.en: cannot be read"),
    (MIXED.replace("corpus: copy", "corpus: copy, train_source: empty.en"),
     r"tasks\.copy: .*empty\.en: expected at least one pair to train on, got none"),
])
def test_what_cannot_be_trained_together_is_named_before_anything_is_written(
        mixed, text, message) -> None:
    (mixed / "empty.en").write_text("\n")
    with pytest.raises(UserError, match=message):
        multitask.train(recipe_of(mixed, text=text), mixed / "run", Observer())
    assert not (mixed / "run").exists()


def test_a_new_run_that_fails_leaves_nothing_behind(mixed) -> None:
    with pytest.raises(Crash):
        multitask.train(recipe_of(mixed, "--train.checkpoint_every=0"), mixed / "run", CrashAt(2))
    assert not (mixed / "run").exists()


@pytest.mark.parametrize("override, message", [
    ("--ratios.copy=0.25", r"ratios\.copy: was 0\.5, now 0\.25"),
    ("--copy.model.hidden_size=9", r"tasks\.copy\.model\.hidden_size: was 8, now 9")])
def test_a_resumed_run_has_the_same_mixture(finished, override, message) -> None:
    with pytest.raises(UserError, match=rf"cannot resume with other options: {message}"):
        multitask.train(recipe_of(finished, override), finished / "run", Observer(), resume=True)


def test_a_resumed_run_has_the_same_data(mixed) -> None:
    multitask.train(recipe_of(mixed), mixed / "run", Observer())
    (mixed / "train.de").write_text((mixed / "train.de").read_text().replace("zwei", "drei"))
    with pytest.raises(UserError, match="vocabularies or data have changed"):
        multitask.train(recipe_of(mixed, "--train.epochs=3"), mixed / "run", Observer(),
                        resume=True)


def test_the_resolved_recipe_is_read_as_it_is(mixed, tmp_path) -> None:
    recipe = recipe_of(mixed)
    (tmp_path / "again.yaml").write_text(as_text(recipe))
    assert load_recipe(TasksRecipe, tmp_path / "again.yaml") == recipe


def test_a_resume_completes_what_a_stopped_save_left_out(mixed, capsys) -> None:
    """Tasks' files that are missing, older or damaged are written again; others are not changed."""
    multitask.train(recipe_of(mixed, "--train.keep=2"), mixed / "run", Observer())
    run = mixed / "run"
    files = {path: path.read_bytes() for path in run.glob("*/*.safetensors")}
    assert len(files) == 12  # of three tasks last, best and two epochs
    (run / "de-en" / LAST).unlink()
    (run / "copy" / BEST).unlink()
    (run / "en-de" / "epoch-1.safetensors").write_bytes(b"damaged")
    shutil.copy(run / "copy" / "epoch-1.safetensors", run / "copy" / "epoch-2.safetensors")
    assert nmt("train", "--resume", run) == 0
    assert "nothing is left to train after epoch 2 of 2" in capsys.readouterr().out
    assert {path: path.read_bytes() for path in run.glob("*/*.safetensors")} == files
    before = {path: path.stat().st_mtime_ns for path in files}
    assert nmt("train", "--resume", run) == 0
    assert {path: path.stat().st_mtime_ns for path in files} == before
