"""A key that another value makes unused is refused if it was given for this recipe."""

import pytest

from backend.errors import UserError
from nmt.recipe import AnyRecipe
from nmt.recipe.file import load_recipe
from nmt.recipe.keys import keys_of
from nmt.recipe.unused import RULES

CLDR = "data: {corpus: cldr}\n"
FILES = "data: {train_source: a.en, train_target: a.fr, dev_source: d.en, dev_target: d.fr}\n"
TEXT = "data: {corpus: copy, train_source: a.en, dev_source: d.en}\n"
STREAM = "text: {train: a, dev: b}\nmodel: {architecture: language_model}\n"


def load(directory, text, *overrides, **others):
    path = directory / "r.yaml"
    path.write_text(text)
    return load_recipe(AnyRecipe, path, overrides, **others)


@pytest.mark.parametrize(("text", "key", "value"), [
    (CLDR, "data.train_source", "a.en"), (CLDR, "data.tokenise", "none"),
    (CLDR, "data.max_length", "9"), (CLDR, "data.cut_long", "true"),
    (TEXT, "data.train_target", "a.fr"), (TEXT, "data.target_language", "de"),
    (TEXT, "data.dev_size", "9"), (FILES, "data.test_size", "9"), (FILES, "data.dev_size", "9"),
    (FILES, "data.seed", "9"),
    ("data: {corpus: reverse}\n", "data.transliterate", "true"),
    (FILES, "data.second_source_language", "de"), (FILES, "data.subwords.joint", "false"),
    (FILES, "data.max_characters", "9"), (FILES, "search.longest_word", "9"),
    (FILES, "train.plateau_factor", "0.5"), (FILES, "train.beta1", "0.5"),
    (FILES, "train.epsilon", "1.0e-6"),
    (FILES + "train: {schedule: constant}\n", "train.halve_after", "9"),
    (STREAM, "train.batch_size", "9"), (STREAM, "train.sorted_within", "9"),
    (STREAM, "train.shuffle", "once"), (FILES + "model: {architecture: rnnsearch, layer: none, "
                                        "deep_state: now}\n", "model.layer_size", "9"),
    (STREAM, "text.dev_share", "0.5"),
    (FILES, "model.window", "9"), (FILES, "model.location_length", "9"),
    (FILES + "model: {attention: none}\n", "model.score", "dot"),
    (FILES + "model: {initialisation: normal}\n", "model.scale", "0.3"),
    (FILES + "model: {unit: gru}\n", "model.forget_bias", "1.0"),
    (FILES + "model: {layers: 1}\n", "model.residual", "true"),
    (FILES + "model: {architecture: rnnsearch, context: last}\n", "model.query", "state-word"),
    (FILES + "model: {architecture: hybrid, target_characters: false}\n", "model.alpha", "2.0"),
])
def test_a_key_without_use_is_refused(tmp_path, text, key, value) -> None:
    with pytest.raises(UserError, match=rf"^override: {key}: expected none where .* is .*, which "
                                        "does not use it, got"):
        load(tmp_path, text, f"--{key}={value}")
    section, name = key.split(".", 1)
    if "." not in name:  # the same in the file, with what decides it
        (tmp_path / "base.yaml").write_text(text)
        with pytest.raises(UserError, match=rf"r\.yaml:2: {key}: expected none where"):
            load(tmp_path, f"base: base.yaml\n{section}: {{{name}: {value}}}\n")


def test_rules_name_keys() -> None:
    known = {key for model in ("luong", "hybrid", "rnnsearch", "language_model")
             for key in keys_of(model)}
    assert not {key for rule in RULES for key in (*rule.keys, *rule.by)} - known


@pytest.mark.parametrize(("text", "override"), [
    (CLDR, "data.train_size=9"), (CLDR, "data.test_size=9"), (TEXT, "data.train_size=9"),
    (FILES, "data.train_size=9"), (FILES, "data.test_size=500"),  # its default
    ("data: {train_source: a.en, train_target: a.fr}\n", "data.dev_size=9"),
    (FILES + "model: {attention: local-p}\n", "model.window=9"),
    (FILES + "model: {initialisation: xavier}\n", "model.scale=0.3"),  # of the embeddings
    (FILES + "model: {architecture: hybrid}\n", "search.longest_word=9"),
    (FILES, "train.halve_after=9"), (STREAM.replace(", dev: b", ""), "text.dev_share=0.5"),
])
def test_a_key_with_use_is_not(tmp_path, text, override) -> None:
    load(tmp_path, text, f"--{override}")


def test_what_a_base_gives_for_other_values_is_as_if_not_given(tmp_path) -> None:
    """So that the resolved recipe can be read again."""
    (tmp_path / "base.yaml").write_text(FILES + "train: {halve_after: 3, epochs: 2}\n")
    recipe = load(tmp_path, "base: base.yaml\ntrain: {schedule: constant}\n")
    assert (recipe.train.halve_after, recipe.train.epochs) == (8, 2)
    recipe = load(tmp_path, FILES + "train: {halve_after: 3}\n", "--train.schedule=constant")
    assert recipe.train.halve_after == 8


def test_a_run_s_recipe_keeps_what_has_no_use(tmp_path) -> None:
    """Older versions wrote it; an override of it is refused there too."""
    text = CLDR + "model: {window: 3}\n"
    assert load(tmp_path, text, of_run=True).model.window == 3
    with pytest.raises(UserError, match=r"^override: model\.window: expected none"):
        load(tmp_path, text, "--model.window=4", of_run=True)
