"""A run that starts from another run's parameters: what it takes, what stays fresh, and errors."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from tiny_run import Crash, CrashAt, complaint, nmt, printed, write_recipe

from backend.errors import UserError
from nmt.models.hybrid_config import HybridConfig
from nmt.recipe import Recipe
from nmt.recipe.file import load_recipe
from nmt.system import System
from nmt.training.log import read_log
from nmt.training.progress import Observer
from nmt.training.transfer import Parent, start_from
from nmt.translator_training import build_vocabularies, load_corpus, train

OTHER = {"zero": "zeron", "one": "onen", "two": "twon"}  # words of the child that others had
CHILD = {"train_source": "child.en", "train_target": "train.de", "dev_source": "dev.en"}


@pytest.fixture
def parent(corpus):
    """The corpus's directory, we are in it, with a parent in `parent` and the child's text."""
    text = (corpus / "train.en").read_text("utf-8")
    for word, other in OTHER.items():
        text = text.replace(word, other)
    (corpus / "child.en").write_text(text, "utf-8")
    write_recipe(corpus / "child.yaml", data=CHILD, train={"checkpoint_every": 2})
    assert nmt("train", corpus / "r.yaml", "--output", corpus / "parent") == 0
    return corpus


def child_of(directory, words="match", *overrides):
    """A fresh child, the child after the transfer, the parent, and the messages."""
    recipe = load_recipe(Recipe, directory / "child.yaml", overrides)
    origin = Parent(System.open(directory / "parent"), directory / "parent", 20, words)
    vocabularies = build_vocabularies(load_corpus(recipe.data), recipe, origin)
    fresh, child = (System.create(recipe, vocabularies) for _ in range(2))
    return fresh, *start_from(child, origin), origin


def test_rows_of_words_that_both_have_are_the_parents(parent) -> None:
    fresh, child, said, origin = child_of(parent)
    theirs, table = origin.system, child.parameters["encoder.W_e"]
    assert set(OTHER.values()) < set(child.source.words)
    for row, word in enumerate(child.source.words):
        known = word in theirs.source.words
        expected = theirs.parameters["encoder.W_e"][theirs.source.words.index(word)] if known \
            else fresh.parameters["encoder.W_e"][row]
        np.testing.assert_array_equal(table[row], expected, err_msg=word)
    for name in fresh.parameters.keys() - {"encoder.W_e"}:
        np.testing.assert_array_equal(child.parameters[name], theirs.parameters[name])
    assert said[0] == f"init: {parent / 'parent'}, after update 20: {len(child.model.weights())} " \
        "parameters"
    assert "init: encoder.W_e: 4 of 7 words have a row of the parent's (57.1 %)" in said
    assert "init: output.W_hy: 7 of 7 words have a row of the parent's (100.0 %)" in said


def test_random_rows_are_those_of_other_words_each_once(parent) -> None:
    """Zoph et al.: of the source's words alone."""
    _, child, said, origin = child_of(parent, "random")
    theirs = origin.system.parameters
    matches = [[row for row, other in enumerate(theirs["encoder.W_e"])
                if np.array_equal(vector, other)]
               for vector in child.parameters["encoder.W_e"]]
    assert matches[:2] == [[0], [1]] and sorted(matches) == [[row] for row in range(9)] != matches
    np.testing.assert_array_equal(child.parameters["decoder.W_e"], theirs["decoder.W_e"])
    assert any("encoder.W_e: 7 of 7" in line and "drawn at random" in line for line in said)
    again = child_of(parent, "random")[1]
    np.testing.assert_array_equal(again.parameters["encoder.W_e"], child.parameters["encoder.W_e"])


def test_the_same_vocabulary_goes_on_where_the_parent_stands(parent) -> None:
    """Training on another domain's text: words that the parent lacks are unknown."""
    _, child, _, origin = child_of(parent, "same")
    assert child.source.words == origin.system.source.words
    for name, array in child.parameters.items():
        np.testing.assert_array_equal(array, origin.system.parameters[name])


def test_a_frozen_child_resumes_exactly_without_its_parent(parent, capsys) -> None:
    words = ("child.yaml", "--init", parent / "parent", "--freeze", "decoder.W_e")
    shown = printed(capsys, "train", parent / words[0], *words[1:], "--output", parent / "whole")
    assert "encoder.W_e: 4 of 7 words have a row of the parent's" in shown
    facts = json.loads((parent / "whole" / "init.json").read_text())
    assert facts["parent"].endswith("parent/best.safetensors") and facts["step"] == 20
    assert facts["tables"]["encoder.W_e"] == {"words": 7, "taken": 4, "by": "match"}
    recipe = load_recipe(Recipe, parent / "whole" / "recipe.yaml")
    assert recipe.parametrize.frozen == ["decoder.W_e"]
    origin = Parent(System.open(parent / "parent"), parent / "parent")
    with pytest.raises(Crash):
        train(recipe, parent / "cut", CrashAt(13), parent=origin)
    table = origin.system.parameters["decoder.W_e"]
    shutil.rmtree(parent / "parent")
    resumed = train(recipe, parent / "cut", Observer(), resume=True)
    whole = System.open(parent / "whole")
    for name, array in whole.parameters.items():
        np.testing.assert_array_equal(array, resumed.parameters[name], err_msg=name)
    np.testing.assert_array_equal(whole.parameters["decoder.W_e"], table)
    assert (parent / "cut" / "init.json").is_file()
    notes = [record["text"] for record in read_log(parent / "cut" / "log.jsonl")
             if record["event"] == "note"]
    assert sum("init: " in text for text in notes) == 4  # the run and three tables


@pytest.fixture
def pieces(parent):
    """The parent as one of pieces, learned from all four sides, one table; a child that has its
    codes."""
    pytest.importorskip("subword_nmt")
    shared = {"tied": {"decoder.W_e": "encoder.W_e"}}
    recipe = write_recipe(parent / "p.yaml", parametrize=shared, data={
        "shared_vocabulary": True, "subwords": {"merges": 12, "more_text": ["child.en"]}})
    write_recipe(parent / "child.yaml", parametrize=shared, data={
        **CHILD, "shared_vocabulary": True, "subwords": {"parent_codes": True}})
    assert nmt("train", recipe, "--output", parent / "pieces") == 0
    shutil.rmtree(parent / "parent")
    (parent / "pieces").rename(parent / "parent")
    return parent


def test_a_child_of_pieces_is_cut_as_its_parent(pieces, capsys) -> None:
    fresh, child, _, origin = child_of(pieces)
    assert child.source.codes == child.target.codes == origin.system.source.codes
    alone = load_recipe(Recipe, pieces / "p.yaml", ["--data.subwords.more_text=[]"])
    assert build_vocabularies(load_corpus(alone.data), alone)["source"].codes \
        != origin.system.source.codes  # the child's text counted
    known = set(origin.system.source.words) & set(child.source.words)
    assert len(known) > len(child.source.words) / 2
    for word in known - {"<unk>", "</s>"}:
        ours, theirs = child.source.words.index(word), origin.system.source.words.index(word)
        np.testing.assert_array_equal(child.stored["encoder.W_e"][ours],
                                      origin.system.stored["encoder.W_e"][theirs])
    assert set(child.stored) == set(fresh.stored)
    np.testing.assert_array_equal(child.parameters["decoder.W_e"],
                                  child.stored["encoder.W_e"][:len(child.target)])
    last = pieces / "parent" / "last.safetensors"  # of 10 updates an epoch
    assert "last.safetensors, after update 20: " in printed(
        capsys, "train", pieces / "child.yaml", "--init", last, "--output", pieces / "run",
        "--train.epochs", 1)
    assert "expected --init and a run of pieces, got no --init" in complaint(
        capsys, "train", pieces / "child.yaml", "--output", pieces / "none")


def test_invalid_options_are_refused(parent, capsys) -> None:
    recipe = parent / "child.yaml"

    def refused(*arguments) -> str:
        return complaint(capsys, "train", recipe, "--output", parent / "no", *arguments)

    assert refused("--init", parent / "none") == (
        f"{parent / 'none'}: expected the run directory of a translator, found no such directory")
    ours = "--init", parent / "parent"
    assert refused(*ours, "--model.hidden_size", 6) == (
        f"{parent / 'parent' / 'best.safetensors'}: encoder.0.W: expected shape (24, 14), which "
        "the recipe's model has, got (32, 16)")
    assert "parametrize.frozen: decoder.We: expected a parameter of the model, got none; did you " \
        "mean 'decoder.W_e'?" in refused(*ours, "--freeze", "decoder.We")
    assert refused("--freeze", "decoder.*") == "--freeze: needs --init"
    assert refused("--init-words", "random") == "--init-words: needs --init"
    assert "expected a run of the architecture rnnsearch to begin with, got luong" in refused(
        *ours, "--model.architecture", "rnnsearch")
    assert refused(*ours, "--data.subwords.parent_codes", "true").startswith(
        "data.subwords.parent_codes: expected --init and a run of pieces, got ")
    assert complaint(capsys, "train", "--resume", parent / "parent", "--init", parent / "parent") \
        == "--init: cannot be used with --resume: the run already has parameters"
    assert "--init-words same: expected data.subwords as in" in refused(
        *ours, "--init-words", "same", "--data.subwords.merges", 4)
    assert not (parent / "no").exists()


def test_a_hybrid_models_characters_are_matched_too(parent) -> None:
    """Each table by its own vocabulary."""
    model = HybridConfig(layers=1, hidden_size=8, embedding_size=8, source_characters=True,
                         target_characters=True)
    recipe = replace(load_recipe(Recipe, parent / "child.yaml"), model=model)
    vocabularies = build_vocabularies(load_corpus(recipe.data), recipe)
    other = {name: type(vocabulary)(vocabulary.words[:1:-1])
             for name, vocabulary in vocabularies.items()}
    first, second = System.create(recipe, vocabularies), System.create(recipe, other)
    child, _ = start_from(second, Parent(first, parent))
    for name, table in {"encoder.W_e": "source", "source_characters.W_e": "source_characters",
                        "target_characters.W_e": "target_characters"}.items():
        size = len(vocabularies[table])
        order = [0, 1, *range(size - 1, 1, -1)]
        np.testing.assert_array_equal(child.parameters[name], first.parameters[name][order])
    alone = replace(recipe, model=replace(model, target_characters=False))
    with pytest.raises(UserError, match="expected a parent with the vocabularies source, target, "
                                        "source_characters, got source, target, source_characters, "
                                        "target_characters"):
        Parent(first, parent, words="same").check(alone)
