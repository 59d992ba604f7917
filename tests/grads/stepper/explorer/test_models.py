"""Trained models' own weights and a user's own sentence, and models that are not covered."""

import shutil

import numpy as np
import pytest
from tiny_run import TEXT_RECIPE, nmt, write_corpus, write_recipe

from backend.errors import UserError
from grads.stepper.explorer import build
from nmt.language_models import LanguageSystem
from nmt.system import System
from nmt.training import checkpoint
from nmt.training.trainer import BEST

PLAIN = {"bidirectional": False, "bridge": False}


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """Run directories: `lm`, `deep` (two layers), `attention`, `reversed`, `unfed`, ..."""
    directory = tmp_path_factory.mktemp("models")
    write_corpus(directory)
    for name, changes in {
        "attention": {"data": {}}, "reversed": {"data": {"reverse_source": True}},
        "nmt": {"model": {"attention": "none", "input_feeding": False}},
        "bridge": {"model": {"bidirectional": True, "bridge": True}},
        "unfed": {"model": {"input_feeding": False, "score": "dot"}},
    }.items():
        recipe = write_recipe(directory / "r.yaml", **{"train": {"epochs": 1}, **changes})
        assert nmt("train", recipe, "--output", directory / name) == 0
    for name, layers in (("lm", 1), ("deep", 2)):
        recipe = write_recipe(directory / "lm.yaml", TEXT_RECIPE, model={"layers": layers},
                              train={"epochs": 1})
        assert nmt("lm", "train", recipe, "--output", directory / name) == 0
    return directory


def verified(d):
    """Whether every gradient that is compared is right, and some are."""
    errors = [one["error"] for one in d["verifications"] if one["error"] is not None]
    statuses = {verification["status"] for verification in d["verifications"]}
    return len(errors) > 50 and max(errors) < 1e-10 and not statuses & {"wrong", "unpaired"}


def test_language_model(directory):
    d = build("lstm", model=directory / "lm", sentence="eins zwei zehn")
    assert verified(d)
    words = [(column["word"], column["next"]) for column in d["network"]["columns"]]
    assert words == [("</s>", "eins"), ("eins", "zwei"), ("zwei", "<unk>"), ("<unk>", "</s>")]
    assert "sentence: read as <unk>: zehn." in d["notes"]
    system = LanguageSystem.open(directory / "lm")
    nats, _ = system.nats(system.ids(["eins zwei zehn"], "text"))
    assert d["loss"] == pytest.approx(nats, rel=1e-5)
    assert d["settings"]["hidden"] == 8 and d["settings"]["seed"] is None
    assert d["settings"]["model"] == "lm" and str(directory) not in d["command"]


@pytest.mark.parametrize(("name", "model"), [
    ("attention", "attention"), ("attention", "reversed"), ("attention", "unfed"), ("nmt", "nmt")])
def test_translator(directory, name, model):
    d = build(name, model=directory / model, sentence="one two nine", target="eins zwei")
    assert verified(d)
    system = System.open(directory / model)
    pair = ("one two nine".split(), "eins zwei".split())
    assert d["loss"] / 3 == pytest.approx(np.log(system.perplexity([pair])), rel=1e-4)
    source = [c["word"] for c in d["network"]["columns"] if c["side"] == "encoder"]
    assert source == (["<unk>", "two", "one"] if model == "reversed" else ["one", "two", "<unk>"])
    assert "sentence: read as <unk>: nine." in d["notes"]
    assert ("The encoder reads the sentence from its end." in d["notes"]) == (model == "reversed")


@pytest.mark.parametrize(("name", "model", "kind"), [
    ("lstm", "lm", LanguageSystem), ("attention", "attention", System)])
def test_the_last_checkpoint(directory, name, model, kind, tmp_path):
    shutil.copytree(directory / model, tmp_path / model)
    saved = checkpoint.load(tmp_path / model / BEST)
    checkpoint.save(tmp_path / model / BEST, {key: 0 * array for key, array in
                                              saved.arrays.items()}, saved.metadata)
    given = {"model": tmp_path / model, "sentence": "eins zwei"}
    best, last = build(name, **given), build(name, **given, checkpoint="last")
    assert build(name, **given, checkpoint="best")["loss"] == best["loss"] != last["loss"]
    assert last["loss"] == build(name, model=directory / model, sentence="eins zwei")["loss"]
    assert "--checkpoint last" in last["command"] and "--checkpoint" not in best["command"]


def test_a_checkpoint_needs_a_model():
    with pytest.raises(UserError, match="checkpoint: expected a model too"):
        build("lstm", checkpoint="last")


def test_without_a_target_the_model_translates(directory):
    d = build("attention", model=directory / "attention", sentence="one two")
    system = System.open(directory / "attention")
    from nmt.search.interface import SearchOptions
    expected = system.translate([["one", "two"]], SearchOptions())[0][0].words
    assert d["settings"]["target"] == expected
    assert "The target is the model's own greedy translation." in d["notes"]


@pytest.mark.parametrize(("name", "model", "settings", "message"), [
    ("attention", "bridge", {}, "does not cover this model: it has a bidirectional encoder"),
    ("lstm", "deep", {}, "does not cover this model: it has 2 layers"),
    ("rnn", "lm", {}, "does not cover this model: it has unit lstm"),
    ("nmt", "attention", {}, "does not cover this model: it has attention"),
    ("attention", "nmt", {}, "does not cover this model: it has no attention"),
    ("lstm", "nmt", {}, "lstm is a language model, and this is a translator"),
    ("attention", "lm", {}, "attention is a translator, and this is a language model"),
    ("lstm", "lm", {"sentence": " "}, "sentence: expected at least one word"),
    ("attention", "attention", {"target": ""}, "target: expected at least one word"),
    ("rnnsearch", "attention", {}, "model: rnnsearch has none"),
    ("nmt", "nothing", {}, "expected the run directory of a translator, found no such directory"),
])
def test_models_that_are_not_covered(directory, name, model, settings, message):
    with pytest.raises(UserError) as caught:
        build(name, model=directory / model, **settings)
    assert message in str(caught.value) and "\n" not in str(caught.value)
