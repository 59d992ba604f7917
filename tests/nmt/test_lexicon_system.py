"""A translator with a lexicon's bias: alignment, training, opening, resuming, errors."""

import numpy as np
import pytest
from tiny_run import RECIPE, TARGET, complaint, printed, write_recipe

from backend.errors import UserError
from nmt.recipe import Recipe
from nmt.recipe.file import load_recipe
from nmt.run_files import LEXICON
from nmt.system import System
from nmt.training.progress import Observer
from nmt.translator_training import train


def recipe(corpus, **sections):
    """A recipe with the bias, changed by section."""
    with_bias = {**RECIPE, "data": {**RECIPE["data"], "lexicon": "low.lex"},
                 "model": {**RECIPE["model"], "lexicon_epsilon": 0.01}}
    return load_recipe(Recipe, write_recipe(corpus / "r.yaml", with_bias, **sections))


@pytest.fixture
def corpus(corpus, capsys):
    """With the aligner's lexicon."""
    printed(capsys, "align", "train.en", "train.de", "--method", "model1", "--lexicon", "low.lex",
            "--least", "0.1")
    return corpus


def test_the_aligner_finds_the_translations(corpus):
    """Word for word: each word has its own, and probabilities are above P."""
    entries = [line.split("\t") for line in (corpus / "low.lex").read_text("utf-8").splitlines()]
    assert {f: e for f, e, p in entries if float(p) > 0.5} == dict(
        zip("zero one two three four five six".split(), TARGET, strict=True))
    assert all(float(p) >= 0.1 for _, _, p in entries)


def test_a_run_is_opened_without_the_data(corpus):
    system = train(recipe(corpus), corpus / "run", Observer())
    (corpus / "low.lex").unlink()
    opened = System.open(corpus / "run")
    pairs = [(["one", "two"], ["eins", "zwei"]), (["six"], ["sechs"])]
    assert opened.perplexity(pairs) == pytest.approx(system.perplexity(pairs), rel=1e-12)
    np.testing.assert_array_equal(opened.model.lexicon.p, system.model.lexicon.p)


def test_another_lexicon_is_refused(corpus):
    train(recipe(corpus), corpus / "run", Observer())
    path = corpus / "run" / LEXICON
    path.write_text("".join(path.read_text("utf-8").splitlines(keepends=True)[1:]), "utf-8")
    with pytest.raises(UserError, match=r"lexicon\.tsv: this is not the lexicon that the model in"):
        System.open(corpus / "run")


@pytest.mark.parametrize("sections", [{"data": {"lexicon": ""}},
                                      {"model": {"lexicon_epsilon": None}}])
def test_file_and_epsilon_come_together(corpus, sections):
    with pytest.raises(UserError, match=r"data\.lexicon: expected the name of a file if and "):
        recipe(corpus, **sections)


def test_commands_that_refuse_it(corpus, capsys):
    train(recipe(corpus), corpus / "run", Observer())
    (corpus / "d").write_text("one\teins\n", "utf-8")
    assert "--shortlist: expected a model without model.lexicon_epsilon" in complaint(
        capsys, "translate", "test.en", "--model", "run", "--shortlist", "d")
    assert "expected null, got a lexicon, whose bias this" in complaint(
        capsys, "logits", "steps", "test.en", "--model", "run", "--line", "1")
    assert "--lexicon: needs --method, got --model" in complaint(
        capsys, "align", "test.en", "test.de", "--model", "run", "--lexicon", "x")
    for p in ("-1", "1"):
        assert "--least: expected a number from 0 to below 1" in complaint(
            capsys, "align", "test.en", "test.de", "--method", "model1", "--lexicon", "x",
            "--least", p)
    assert "--least: needs --lexicon" in complaint(
        capsys, "align", "test.en", "test.de", "--method", "model1", "--least", "0.1")
    assert "--lexicon: needs --method model1 or hmm" in complaint(
        capsys, "align", "test.en", "test.de", "--method", "eflomal", "--lexicon", "x")
