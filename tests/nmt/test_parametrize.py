"""Parametrizations as a recipe asks for them: trained, resumed, searched, refused."""

from __future__ import annotations

import numpy as np
import pytest
from tiny_run import RECIPE, write_recipe

from backend.errors import UserError
from nmt.data.batches import make_sources
from nmt.models.hybrid_config import HybridConfig
from nmt.models.transformer import Transformer, TransformerConfig
from nmt.models.translator import ModelConfig
from nmt.recipe import Recipe
from nmt.recipe.file import load_recipe
from nmt.recipe.parametrize import ParametrizeConfig, parametrized
from nmt.system import System
from nmt.training import checkpoint
from nmt.training.progress import Observer
from nmt.training.run import LAST
from nmt.translator_training import train

WORDS = ["one", "two", "three"]


def recipe_of(directory, **parametrize):
    return load_recipe(Recipe, write_recipe(
        directory / "r.yaml", parametrize=parametrize, train={"checkpoint_every": 2},
        model={"hidden_size": 6, "embedding_size": 6}))


def test_what_is_stored_and_what_the_model_gets(corpus) -> None:
    tied = train(recipe_of(corpus, tied={"decoder.W_e": "output.W_hy"}), corpus / "tied",
                 Observer())
    assert tied.parameters["decoder.W_e"] is tied.parameters["output.W_hy"]
    saved = checkpoint.load(corpus / "tied" / LAST).select(checkpoint.PARAMETERS)
    assert "output.W_hy" in saved and "decoder.W_e" not in saved
    fixed = train(recipe_of(corpus, normalized={"output.W_hy": 2.5}), corpus / "fixed", Observer())
    lengths = np.linalg.norm(fixed.parameters["output.W_hy"], axis=1)
    np.testing.assert_allclose(lengths, 2.5, rtol=1e-6)
    assert np.abs(np.linalg.norm(fixed.stored["output.W_hy"], axis=1) - 2.5).min() > 0.1
    recipe = recipe_of(corpus, frozen=["encoder.*"])
    frozen = train(recipe, corpus / "frozen", Observer())
    fresh = System.create(recipe, frozen.vocabularies)
    for name, parameter in frozen.parameters.items():
        assert np.array_equal(parameter, fresh.parameters[name]) == name.startswith("encoder.")


@pytest.mark.parametrize("learned", [False, True])
@pytest.mark.parametrize("model", [{"output_norm": 3.0}, {
    "architecture": "transformer", "encoder_layers": 1, "decoder_layers": 1, "heads": 2,
    "inner_size": 5, "norm": "scale", "output_bias": False}])
def test_a_tied_table_is_the_normalized_one_and_logits_are_cosines(corpus, model, learned) -> None:
    """Fixnorm of section 3.2.3, and Nguyen Eq. 3.7 in a Transformer: s = r g cos, of each word."""
    sizes = {"hidden_size": 6} | ({} if "architecture" in model else {"embedding_size": 6})
    path = write_recipe(
        corpus / "f.yaml", {**RECIPE, "model": sizes | model},
        parametrize={"tied": {"decoder.W_e": "output.W_hy"}, "normalized": {"output.W_hy": 0.5},
                     "learned_radius": learned})
    system = train(load_recipe(Recipe, path), corpus / "run", Observer())
    table = system.parameters["output.W_hy"]
    assert system.parameters["decoder.W_e"] is table
    assert ("output.W_hy.radius" in system.stored) is learned
    radius = float(system.stored["output.W_hy.radius"][0]) if learned else 0.5
    assert (radius != 0.5) is learned
    np.testing.assert_allclose(np.linalg.norm(table, axis=1), radius, rtol=1e-5)
    g = float(system.parameters["decoder.norm.g"][0]) if "norm" in model else 3.0
    sources = make_sources([system.source_ids(WORDS)], False)
    state = system.model.encode(system.parameters, sources, 1)
    logits, _, _ = system.model.step(system.parameters, state, np.array([1]))
    scaled = np.linalg.lstsq(table.astype(float), logits[0].astype(float), rcond=None)[0]
    assert np.linalg.norm(scaled) == pytest.approx(g, rel=1e-4)  # of h, so that s = W h


@pytest.mark.parametrize("scale, normalized", [(None, {}), (0.01, {"encoder.W_e": 1.0})])
def test_initial_values_of_one_table_for_both_sides(scale, normalized) -> None:
    """Nguyen 3.3.3.3: of variance 1/d without FixNorm, in [-0.01, 0.01] with it."""
    config = TransformerConfig(1, 1, hidden_size=8, inner_size=5, heads=2)
    tied = {"decoder.W_e": "encoder.W_e", "output.W_hy": "encoder.W_e"}
    trained = parametrized(Transformer(config, 5000, 4000), ParametrizeConfig(
        tied, normalized, normalized_scale=scale), shared_vocabulary=True)
    table = trained.initial_parameters(np.random.default_rng(1), "float64")["encoder.W_e"]
    expected = 8 ** -0.5 if scale is None else scale / 3**0.5
    assert table.std() == pytest.approx(expected, rel=0.01)
    assert (np.abs(table).max() <= 0.01) == (scale is not None)


def test_h_of_one_length_is_no_hybrid_model_s():
    with pytest.raises(ValueError, match="output_norm: expected null in a hybrid model"):
        HybridConfig(output_norm=1.0)
    with pytest.raises(ValueError, match="output_norm: expected a positive number, got 0"):
        ModelConfig(output_norm=0.0)


@pytest.mark.parametrize("parametrize, message", [
    ({"tied": {"decoder.W": "output.W_hy"}},
     r"parametrize\.tied: decoder\.W: expected a parameter of the model, one of encoder\.W_e, "),
    ({"tied": {"decoder.W_e": "decoder.0.W"}},
     r"parametrize\.tied: decoder\.W_e: expected decoder\.0\.W, which it is made from, to have sh"),
    ({"normalized": {"encoder.0.b": 1.0}},
     r"parametrize\.normalized: encoder\.0\.b: expected a matrix to normalise, got shape"),
    ({"frozen": ["encoder.9*"]},
     r"parametrize\.frozen: encoder\.9\*: expected a parameter of the model, got none; did you "),
    ({"tied": {"decoder.W_e": "output.W_hy"}, "frozen": ["decoder.*"]},
     r"parametrize\.frozen: decoder\.W_e: expected a parameter that is neither tied nor"),
    ({"frozen": ["*"]},
     r"parametrize\.frozen: expected patterns that leave a parameter to be trained, got \*$"),
    ({"frozen": ["encoder.*", "[!e]*"]},
     r"parametrize\.frozen: expected patterns that leave a parameter to be trained, got encoder"),
])
def test_what_the_model_does_not_have_is_refused(corpus, parametrize, message) -> None:
    with pytest.raises(UserError, match=message):
        train(recipe_of(corpus, **parametrize), corpus / "run", Observer())
    assert not (corpus / "run").exists()


@pytest.mark.parametrize("parametrize, message", [
    ({"normalized": {"output.W_hy": 0.0}}, r"r\.yaml:\d+: parametrize\.normalized: expected a pos"),
    ({"tied": {"output.W_hy": "x"}, "normalized": {"output.W_hy": 1.0}},
     r"r\.yaml:\d+: parametrize\.normalized: expected parameters that are not tied too, got outp"),
    ({"learned_radius": True}, r"r\.yaml:\d+: parametrize\.learned_radius: expected false where"),
    ({"normalized_scale": 0.01}, r"r\.yaml:\d+: parametrize\.normalized_scale: expected null wh"),
    ({"normalized": {"output.W_hy": 1.0}, "normalized_scale": -1.0},
     r"r\.yaml:\d+: parametrize\.normalized_scale: expected a positive number, got -1"),
    ({"tied": ["decoder.W_e"]}, r"r\.yaml:\d+: parametrize\.tied: expected dict\[str, str\]"),
])
def test_a_section_that_makes_no_sense_is_refused_with_its_line(
        corpus, parametrize, message) -> None:
    with pytest.raises(UserError, match=message):
        recipe_of(corpus, **parametrize)
