"""The tiny trained models of the package: they are what the pages say, and the pages show them."""

import hashlib
import shlex
import tomllib
from pathlib import Path

import numpy as np
import pytest
import yaml
from explored import STATUSES, data, element, values_of
from tiny_run import nmt

from backend.errors import UserError
from grads.cli import build_parser as grads_parser
from grads.cli import main as grads
from grads.stepper import trained
from grads.stepper.explorer.examples import open_example
from grads.stepper.explorer.settings import Settings
from grads.stepper.trained import __main__ as making
from grads.stepper.trained import phrases as made
from nmt.cli import build_parser as nmt_parser
from nmt.data.cldr import CldrOptions, generate
from nmt.evaluation.scores import perplexity
from nmt.language_models import LanguageSystem
from nmt.system import System

NAMES = ("attention", "lstm", "nmt", "rnn", "rnnsearch")
ROOT = Path(trained.__file__).parents[3]


@pytest.fixture(scope="module")
def dev():
    """Phrases that the models were not trained on."""
    return made.phrases()[: made.DEV]


@pytest.fixture(scope="module")
def page():
    """The data of the default page of attention."""
    return data("attention", None)


@pytest.mark.parametrize("name", NAMES)
def test_a_model_is_what_its_facts_say(name, dev):
    fact, directory = trained.facts()[name], trained.DIRECTORY / name
    content = (directory / "best.safetensors").read_bytes()
    assert (len(content), hashlib.sha256(content).hexdigest()) == (fact["bytes"], fact["sha256"])
    assert (fact["phrases"], fact["dev"]) == (made.SIZE - made.DEV, len(dev))
    if name in making.LANGUAGE:
        system = LanguageSystem.open(directory)
        actual = perplexity(*system.nats(system.ids([" ".join(y) for _, y in dev], "dev")))
    else:
        actual = System.open(directory).perplexity(dev)
    assert actual == pytest.approx(fact["perplexity"], rel=1e-4)


def test_all_of_them_are_small():
    assert set(trained.facts()) == set(NAMES)
    assert sum(fact["bytes"] for fact in trained.facts().values()) < 300_000


def test_the_package_holds_their_files():
    """Every file below `trained` that is no module is matched by a pattern of pyproject.toml."""
    patterns = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"][
        "package-data"]["grads.stepper.trained"]
    held = {path for pattern in patterns for path in trained.DIRECTORY.glob(pattern)}
    files = {path for path in trained.DIRECTORY.rglob("*")
             if path.is_file() and path.suffix not in (".py", ".pyc")}
    assert files and files <= held and len(files) == 1 + 4 * 3 + 3 * 2


def test_the_sentence_of_the_pages_was_not_trained_on(dev):
    assert trained.SENTENCE not in {" ".join(x) for x, _ in made.phrases()[made.DEV:]}


def test_the_default_page_shows_the_attention_of_a_trained_model(page):
    source, target = page["settings"]["sentence"], page["settings"]["target"]
    assert " ".join(source) == trained.SENTENCE and " ".join(target) == trained.TEXT
    weights = np.array([values_of(page, step["tensor"]).ravel() for step in page["attention"]])
    assert weights.shape == (len(target) + 1, len(source))
    np.testing.assert_allclose(weights.sum(axis=1), 1, rtol=1e-8)
    aligned = dict(zip(target, (source[s] for s in weights.argmax(axis=1)), strict=False))
    assert (aligned["or"], aligned["Monday"]) == ("oder", "Montag") and weights[4].max() > 0.9
    assert any(note.startswith(trained.note("attention")) for note in page["notes"])
    assert page["command"] == "grads explore attention -o attention.html"


def test_the_default_page_is_verified(page):
    errors = [check["error"] for check in page["verifications"] if check["error"] is not None]
    assert len(errors) > 400 and max(errors) < 1e-8
    assert {check["status"] for check in page["verifications"]} == {
        "verified", "same", "zero", "partial"}
    assert any("relative error of 1e-08" in note for note in page["notes"])


def test_unknown_words_and_a_seed_give_random_weights():
    example = open_example("lstm", Settings(sentence="8 good hours"))
    assert example.said[0] == ("Random weights: the tiny model that comes with the package does "
                               "not know good.")
    assert example.described()["seed"] == 1 and example.described()["hidden"] == 3
    example = open_example("lstm", Settings(seed=2))
    assert example.said == [] and example.described()["seed"] == 2
    with pytest.raises(UserError, match="sentence: expected at least one word"):
        open_example("attention", Settings(sentence=" "))


def test_make_demo_ends_with_the_page_of_its_own_model(tmp_path, monkeypatch, capsys):
    """Its last command, on a model of the demonstration's sizes that has seen 4,000 phrases once.

    The run directory is the one that `nmt demo` writes; the phrase is of words that it generates.
    """
    makefile = (ROOT / "Makefile").read_text("utf-8").replace("\\\n", " ")
    [line] = [line for line in makefile.splitlines() if "$(BIN)/grads explore" in line]
    arguments = shlex.split(line.partition("$(BIN)/grads")[2])
    options = grads_parser().parse_args(arguments)
    run = nmt_parser().parse_args(["demo"]).output
    assert (options.name, options.model, options.output) == (
        "attention", run, run / "attention.html")
    pairs = generate(CldrOptions(train=1000, dev=0, test=0)).train
    known = {word for source, _ in pairs for word in source}
    assert set(options.sentence.split()) <= known
    monkeypatch.chdir(tmp_path)
    assert nmt("demo", "--phrases", 4000, "--epochs", 1, "--data.dev_size", 20,
               "--data.test_size", 10) == 0
    grads(arguments)
    assert capsys.readouterr().out.endswith("attention.html: written\n")
    d = element(options.output.read_text("utf-8"), "data")
    statuses = {check["status"] for check in d["verifications"]}
    assert "verified" in statuses and statuses <= STATUSES


def test_the_command_trains_them(tmp_path, monkeypatch):
    """With a tenth of the phrases, for one epoch."""
    monkeypatch.setattr(made, "SIZE", 120)
    for module in (made, making):
        monkeypatch.setattr(module, "DEV", 20)
    monkeypatch.setattr(making, "SIZE", 120)
    for name in ("attention", "rnn"):
        recipe = yaml.safe_load((trained.DIRECTORY / name / "recipe.yaml").read_text("utf-8"))
        recipe["train"]["epochs"] = 1
        (tmp_path / "recipes" / name).mkdir(parents=True)
        (tmp_path / "recipes" / name / "recipe.yaml").write_text(yaml.safe_dump(recipe), "utf-8")
    monkeypatch.setattr(making, "DIRECTORY", tmp_path / "recipes")
    making.main(tmp_path / "out")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "attention", "rnn", "models.json"}
    assert System.open(tmp_path / "out" / "attention").parameters
    assert LanguageSystem.open(tmp_path / "out" / "rnn").parameters
