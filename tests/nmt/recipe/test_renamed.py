"""An old name of a key still works in files, bases and overrides, with a message."""

import pytest

from backend.errors import UserError
from nmt.console import notes
from nmt.recipe import AnyRecipe
from nmt.recipe.file import load_recipe
from nmt.recipe.keys import keys_of
from nmt.recipe.renamed import RENAMED


@pytest.fixture(autouse=True)
def renamed(monkeypatch):
    for old, new in (("train.clip", "train.max_norm"), ("data.seed_of_noise", "train.seed"),
                     ("score.tokenize", "evaluate.bleu_tokenize")):
        monkeypatch.setitem(RENAMED, old, new)


def load(directory, text, *overrides):
    path = directory / "r.yaml"
    path.write_text(text)
    with notes.heard():
        return load_recipe(AnyRecipe, path, overrides)


@pytest.mark.parametrize("text, overrides, place", [
    ("data: {corpus: cldr}\ntrain:\n  clip: 2.0\n", (), "r.yaml:3"),
    ("data: {corpus: cldr}\n", ("--train.clip=2.0",), "override"),
    ("base: old.yaml\n", (), "old.yaml:2"),
])
def test_an_old_name_is_the_new_one(tmp_path, capsys, text, overrides, place):
    (tmp_path / "old.yaml").write_text("data: {corpus: cldr}\ntrain: {clip: 2.0}\n")
    assert load(tmp_path, text, *overrides).train.max_norm == 2.0
    said = capsys.readouterr().err
    assert said.endswith(f"{place}: train.clip is now train.max_norm; the old name will go\n")
    assert said.count("\n") == 1


def test_a_recipe_beats_the_old_name_in_its_base(tmp_path):
    (tmp_path / "old.yaml").write_text("data: {corpus: cldr}\ntrain: {clip: 2.0}\n")
    assert load(tmp_path, "base: old.yaml\ntrain: {max_norm: 3.0}\n").train.max_norm == 3.0
    assert load(tmp_path, "base: old.yaml\n", "--train.max_norm=4.0").train.max_norm == 4.0


def test_a_key_can_move_to_another_section(tmp_path):
    recipe = load(tmp_path, "data: {corpus: cldr, seed_of_noise: 7}\nscore: {tokenize: intl}\n")
    assert (recipe.train.seed, recipe.evaluate.bleu_tokenize) == (7, "intl")


def test_both_names_are_refused(tmp_path):
    with pytest.raises(UserError, match=r"r\.yaml:2: train\.clip: cannot be used with "
                                        r"train\.max_norm, its new name, got 2\.0"):
        load(tmp_path, "data: {corpus: cldr}\ntrain: {clip: 2.0, max_norm: 3.0}\n")


def test_new_names_are_known_and_old_ones_are_not(monkeypatch):
    monkeypatch.undo()  # the table as it is
    known = {key for model in ("luong", "hybrid", "rnnsearch", "transformer", "language_model")
             for key in keys_of(model)}
    assert set(RENAMED.values()) <= known and not RENAMED.keys() & known
