"""Trained models' own weights and a user's own sentence, of every architecture that is trained."""

import shutil

import numpy as np
import pytest
from explored import checked, fresh
from tiny_run import TEXT_RECIPE, nmt, write_corpus, write_recipe

from backend.errors import UserError
from grads.stepper.explorer import build, models
from grads.stepper.explorer.examples import open_example
from grads.stepper.explorer.models import open_model
from grads.stepper.explorer.settings import Settings
from grads.stepper.tracing.derivations import DERIVATIONS
from nmt.language_models import LanguageSystem
from nmt.recipe import LanguageModelRecipe, Recipe
from nmt.search.interface import SearchOptions
from nmt.system import System
from nmt.training import checkpoint
from nmt.training.run import BEST

BOTH = {"bidirectional": True, "bridge": True}
SEARCH = {"architecture": "rnnsearch", "layer_size": 2}
FUSED = {"architecture": "deep_fusion", "layer_size": 2, "lm_hidden_size": 3,
         "lm_embedding_size": 2}
FACTORS = {"factors": {"case": 1, "place": 1}}
HYBRID = {"architecture": "hybrid", "character_embedding_size": 2, "output_bias": True}
TRANSFORMER = {"architecture": "transformer", "hidden_size": 4, "inner_size": 5, "heads": 2,
               "encoder_layers": 1, "decoder_layers": 1}
KINDS = {  # model and data sections of translators, and the derivation, if one is the whole model
    "both ends": ({**BOTH, "layers": 2}, {}, None),
    "both ends, reversed, of gru": (
        {**BOTH, "unit": "gru", "attention": "local-p", "window": 1, "renormalise": True},
        {"reverse_source": True}, None),
    "bridge, by location": ({"bridge": True, "score": "location", "location_length": 2},
                            {"reverse_source": True}, None),
    "rnn, h fed": ({"unit": "rnn", "attention": "none", "layers": 2}, {}, None),
    "gru, nothing fed": ({"unit": "gru", "attention": "none", "input_feeding": False,
                          "biases": False}, {}, None),
    "concat": ({"score": "concat", "concat_identity": True}, {}, "attention"),
    "additive": ({"score": "additive", "input_feeding": False, "layers": 2}, {}, "attention"),
    "local-m, reversed": ({"attention": "local-m", "score": "dot", "window": 1},
                          {"reverse_source": True}, "attention"),
    "search": ({**SEARCH, "deep_state": "now"}, {"source_end": True}, "rnnsearch"),
    "search, of rnn": ({**SEARCH, "unit": "rnn", "layer": "tanh"}, {"reverse_source": True}, None),
    "separate path": (HYBRID, {"reverse_source": True}, "hybrid"),
    "same path": ({**HYBRID, "path": "same", "alpha": 0.5, "character_layers": 2}, {},
                  "hybrid-same"),
    "spelled only": ({**HYBRID, "source_characters": False, "score": "dot"}, {}, "hybrid"),
    "search, asked with the word": ({**SEARCH, "query": "state-word"}, {}, "rnnsearch"),
    "search, of rnn, asked with the word": (
        {**SEARCH, "query": "state-word", "unit": "rnn"}, {}, None),
    "factors, reversed": ({**FACTORS, "layers": 2}, {"reverse_source": True}, None),
    "factors, both ends": ({**FACTORS, **BOTH, "unit": "gru"}, {"source_end": True}, None),
    "factors, no attention": ({**FACTORS, "attention": "none", "input_feeding": False}, {}, None),
    "deep fusion": ({**FUSED, "lm_layers": 2, "deep_state": "now"}, {}, None),
    "deep fusion, of rnn": ({**FUSED, "unit": "rnn", "layer": "tanh", "lm_unit": "rnn",
                             "biases": False, "lm_biases": False}, {"reverse_source": True}, None),
    "deep fusion, last": ({**FUSED, "context": "last", "lm_unit": "gru"}, {}, None),
    "deep fusion, asked with the word": (
        {**FUSED, "query": "state-word", "lm_unit": "gru"}, {}, None),
    "lexical, reversed": ({"lexical": True, "output_bias": True}, {"reverse_source": True},
                          "lexical"),
    "lexical, local-m": ({"lexical": True, "attention": "local-m", "window": 1, "layers": 2,
                          "input_feeding": False}, {}, "lexical"),
    "PreNorm": (TRANSFORMER, {}, "transformer"),
    "PostNorm": ({**TRANSFORMER, "pre_norm": False, "norm": "scale", "heads": 1,
                  "output_bias": False}, {}, "transformer-postnorm"),
    "countdown": ({**TRANSFORMER, "target_positions": "countdown"}, {}, "countdown"),
    "countdown, PostNorm, reversed": (
        {**TRANSFORMER, "target_positions": "countdown", "pre_norm": False, "norm": "rms"},
        {"reverse_target": True}, "countdown"),
    "last": ({**SEARCH, "context": "last", "biases": False}, {}, None),
}
LANGUAGE_KINDS = {"gru": ({"unit": "gru", "layers": 1}, None), "rnn": ({"unit": "rnn"}, None),
                  "shallow": ({"unit": "rnn", "layers": 1}, "rnn")}


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """Run directories: `lm`, `deep` (two layers), `attention`, `reversed`, `bridge`."""
    directory = tmp_path_factory.mktemp("models")
    write_corpus(directory)
    for name, changes in {
        "attention": {"data": {}}, "reversed": {"data": {"reverse_source": True}},
        "bridge": {"model": BOTH},
    }.items():
        recipe = write_recipe(directory / "r.yaml", **{"train": {"epochs": 1}, **changes})
        assert nmt("train", recipe, "--output", directory / name) == 0
    for name, layers in (("lm", 1), ("deep", 2)):
        recipe = write_recipe(directory / "lm.yaml", TEXT_RECIPE, model={"layers": layers},
                              train={"epochs": 1})
        assert nmt("lm", "train", recipe, "--output", directory / name) == 0
    return directory


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_of_translator(name, tmp_path):
    model, data, derivation = KINDS[name]
    sizes = {} if "inner_size" in model else {"hidden_size": 2, "embedding_size": 3}
    sizes |= {} if "architecture" in model else {"layers": 1}
    recipe = {"data": {"corpus": "cldr", **data}, "model": {**sizes, **model}}
    system = fresh(tmp_path / "run", recipe, System, Recipe)
    x, y = ["one", "two", "nine"], ["three", "ten"] if system.spellings else ["three"]
    opened_model, loss = checked(tmp_path / "run", " ".join(x), " ".join(y))
    [batch] = system.batches([(x, y)], 1).in_order()
    words, characters, _ = system.model.loss(system.parameters, batch)[1].losses
    assert loss == pytest.approx(float(words + (characters or 0)), rel=1e-6)
    assert opened_model.unknown == ["nine", *y[1:]]
    assert opened_model.derivation.name == (derivation or "translator")
    if derivation:
        assert opened_model.derivation.forward is DERIVATIONS[derivation].forward


def test_an_architecture_that_is_not_covered(tmp_path, monkeypatch):
    """A model of a class that nobody here knows is refused in a line."""
    recipe = {"data": {"corpus": "cldr"}, "model": {"hidden_size": 2, "embedding_size": 3}}
    fresh(tmp_path / "run", recipe, System, Recipe)
    monkeypatch.setattr(models, "name_of", lambda config: "another")
    with pytest.raises(UserError, match="run: expected a model of the architecture luong, "
                                        "rnnsearch, deep_fusion, hybrid, transformer or "
                                        "language_model, got another"):
        open_model(tmp_path / "run", "one", None, "best")


@pytest.mark.parametrize("name", LANGUAGE_KINDS)
def test_every_kind_of_language_model(name, tmp_path):
    model, derivation = LANGUAGE_KINDS[name]
    recipe = {"text": {"train": "none"},
              "model": {"architecture": "language_model", "layers": 2, "hidden_size": 2,
                        "embedding_size": 3, **model}}
    system = fresh(tmp_path / "run", recipe, LanguageSystem, LanguageModelRecipe)
    opened_model, loss = checked(tmp_path / "run", "one two nine", None)
    assert loss == pytest.approx(system.nats(system.ids(["one two nine"], ""))[0], rel=1e-6)
    assert opened_model.derivation.name == (derivation or "language-model")


def verified(checks):
    """Whether every gradient that is compared is right, and some are. Argument checks: pairs of a
    status and an error."""
    errors = [error for _, error in checks if error is not None]
    statuses = {status for status, _ in checks}
    return len(errors) > 50 and max(errors) < 1e-10 and not statuses & {"wrong", "unpaired"}


def opened(name, directory, **settings):
    """The example of a page."""
    return open_example(name, Settings(model=directory, **settings))


def loss_of(example):
    return float(example.run.loss(example.run.forward.result))


def test_language_model(directory):
    d = build("lstm", model=directory / "lm", sentence="eins zwei zehn")
    assert verified([(check["status"], check["error"]) for check in d["verifications"]])
    words = [(column["word"], column["next"]) for column in d["network"]["columns"]]
    assert words == [("</s>", "eins"), ("eins", "zwei"), ("zwei", "<unk>"), ("<unk>", "</s>")]
    assert "sentence: read as <unk>: zehn." in d["notes"]
    system = LanguageSystem.open(directory / "lm")
    nats, _ = system.nats(system.ids(["eins zwei zehn"], "text"))
    assert d["loss"] == pytest.approx(nats, rel=1e-5)
    assert d["settings"]["hidden"] == 8 and d["settings"]["seed"] is None
    assert d["settings"]["model"] == "lm" and str(directory) not in d["command"]


@pytest.mark.parametrize(("name", "model"), [
    ("attention", "attention"), ("attention", "reversed"), ("attention", "bridge")])
def test_translator(directory, name, model):
    d = build(name, model=directory / model, sentence="one two nine", target="eins zwei")
    assert verified([(check["status"], check["error"]) for check in d["verifications"]])
    system = System.open(directory / model)
    pair = ("one two nine".split(), "eins zwei".split())
    assert d["loss"] / 3 == pytest.approx(np.log(system.perplexity([pair])), rel=1e-4)
    source = [c["word"] for c in d["network"]["columns"] if c["side"] == "encoder"]
    assert source == (["<unk>", "two", "one"] if model == "reversed" else ["one", "two", "<unk>"])
    assert "sentence: read as <unk>: nine." in d["notes"]
    assert ("The encoder reads the sentence from its end." in d["notes"]) == (model == "reversed")
    assert d["settings"]["sentence"] == source[:: -1 if model == "reversed" else 1]
    assert d["settings"]["model"] == model


@pytest.fixture
def weakened(directory, tmp_path):
    """Run directories whose best parameters are zeros, and their last ones are not."""
    for name in ("lm", "attention"):
        shutil.copytree(directory / name, tmp_path / name)
        saved = checkpoint.load(tmp_path / name / BEST)
        zeros = {key: 0 * array for key, array in saved.arrays.items()}
        checkpoint.save(tmp_path / name / BEST, zeros, saved.metadata)
    return tmp_path


@pytest.mark.parametrize("name", ["lm", "attention"])
def test_either_checkpoint_is_opened(directory, weakened, name):
    def loss(path, which):
        run = open_model(path, "eins zwei", None, which).derivation.run()
        return float(run.loss(run.forward.result))

    best, last = (loss(weakened / name, which) for which in ("best", "last"))
    assert last == loss(directory / name, "best") != best


def test_the_last_checkpoint(directory, weakened):
    best, last, asked = (opened("lstm", weakened / "lm", sentence="eins zwei", checkpoint=which)
                         for which in (None, "last", "best"))
    assert loss_of(asked) == loss_of(best) != loss_of(last)
    assert loss_of(last) == loss_of(opened("lstm", directory / "lm", sentence="eins zwei"))
    assert "--checkpoint last" in last.command() and "--checkpoint" not in best.command()


def test_a_checkpoint_needs_a_model():
    with pytest.raises(UserError, match="checkpoint: it needs a trained model"):
        build("lstm", checkpoint="last")


def test_without_a_target_the_model_translates(directory):
    example = opened("attention", directory / "attention", sentence="one two")
    system = System.open(directory / "attention")
    expected = system.translate([["one", "two"]], SearchOptions())[0][0].words
    assert example.described()["target"] == expected
    assert "The target is the model's own greedy translation." in example.said


@pytest.mark.parametrize(("name", "model", "title"), [
    ("lstm", "deep", "Language model: 2 layers of lstm"),
    ("nmt", "bridge", "Encoder-decoder: 1 layer of lstm, bidirectional encoder, bridge, "
                      "attention (general, global), input feeding"),
    ("attention", "lm", "LSTM language model, Algorithm 2")])
def test_the_model_decides_what_is_shown(directory, name, model, title):
    example = opened(name, directory / model, sentence="eins")
    said = ("No derivation is this whole model: it is put together from the derivations' parts."
            if model != "lm" else f"The model decides what is shown: {title}.")
    assert example.run.title == title and said in example.said
    assert example.command().startswith(f"grads explore {name} ")
    assert verified([(check.status, check.error) for check in example.verifications()])


@pytest.mark.parametrize(("name", "model", "settings", "message"), [
    ("attention", "lm", {"target": "x"}, "lm is a language model, which has none"),
    ("lstm", "lm", {"sentence": " "}, "sentence: expected at least one word"),
    ("attention", "attention", {"target": ""}, "target: expected at least one word"),
    ("gru", "attention", {}, "model: gru has none"),
    ("nmt", "nothing", {}, "expected the run directory of a translator, found no such directory"),
])
def test_what_cannot_be_opened(directory, name, model, settings, message):
    with pytest.raises(UserError) as caught:
        build(name, model=directory / model, **settings)
    assert message in str(caught.value) and "\n" not in str(caught.value)
