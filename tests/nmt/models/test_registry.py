"""The registry: every architecture by its name, its tables, and the contract of models."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from literal import assert_same_gradients, dense, draw_parameters, noisy_loss, piece_of

from nmt.data.batches import SourceIds, make_batch
from nmt.models.contract import Tables
from nmt.models.deep_fusion_config import DeepFusionConfig
from nmt.models.features import Features, FeaturesConfig
from nmt.models.hybrid import Hybrid
from nmt.models.hybrid_config import HybridConfig
from nmt.models.language_model import LanguageModel, LanguageModelConfig
from nmt.models.registry import MODELS, architecture_of, make_model, name_of
from nmt.models.rnnsearch import RNNSearch
from nmt.models.rnnsearch_config import RNNSearchConfig
from nmt.models.transformer import Transformer, TransformerConfig
from nmt.models.translator import ModelConfig, Translator
from nmt.models.two_sources import TwoSources, TwoSourcesConfig

PAIRS = [([2, 4, 0, 5], [3, 2]), ([6, 3], [4, 4, 0, 2, 3]), ([3], [])]
TWO = [(SourceIds((x, [*x[::-1], 2])), y) for x, y in PAIRS]  # of two sources
RARE = ([[(2, 4)], [], []], [[], [(3,)], []])  # the words with id 0, by their characters
SIZES = {"hidden_size": 4, "embedding_size": 3}
CONFIGS: dict[str, Any] = {
    "luong": ModelConfig(**SIZES, dropout=0.3),
    "rnnsearch": RNNSearchConfig(**SIZES, layer_size=5),
    "hybrid": HybridConfig(**SIZES, dropout=0.3, character_embedding_size=2),
    "language_model": LanguageModelConfig(**SIZES, dropout=0.3),
    "transformer": TransformerConfig(1, 1, 4, 5, 2),
    "deep_fusion": DeepFusionConfig(**SIZES, layer_size=5, lm_hidden_size=3, lm_embedding_size=2),
    "two_sources": TwoSourcesConfig(**SIZES, dropout=0.3),
    "features": FeaturesConfig(**SIZES, dropout=0.3),
}
KINDS = {"luong": Translator, "rnnsearch": RNNSearch, "hybrid": Hybrid, "transformer": Transformer,
         "language_model": LanguageModel, "deep_fusion": RNNSearch,
         "two_sources": TwoSources, "features": Features}


def make(name):
    """A model over 7 and 8 words, its parameters, a batch."""
    sources = MODELS[name].sources
    model = make_model(CONFIGS[name], Tables((7,) * sources, 8, True, 6, 5))
    batch = piece_of(np.array([[1, 2, 3]] * 4))
    if sources:
        batch = make_batch(TWO if sources == 2 else PAIRS, range(3), True, RARE)
    return model, draw_parameters(np.random.default_rng(1), model.weights()), batch


def test_every_architecture_is_tested_here():
    assert MODELS.keys() == CONFIGS.keys()


@pytest.mark.parametrize("name", MODELS)
def test_a_configuration_names_its_architecture(name):
    config = CONFIGS[name]
    assert name_of(config) == name and architecture_of(config) is MODELS[name]
    model = make_model(config, Tables((7,) * max(1, MODELS[name].sources), 8, False, 6, 5))
    assert type(model) is KINDS[name] and model.config is config


@pytest.mark.parametrize("config", [None, "luong", Tables((2,), 3)])
def test_what_is_no_configuration_is_refused(config):
    names = ", ".join(architecture.config.__name__ for architecture in MODELS.values())
    with pytest.raises(TypeError, match="config: expected one of ModelConfig, RNNSearchConfig, "):
        make_model(config, Tables((7,), 8))
    with pytest.raises(TypeError, match=f"{names}, got {type(config).__name__}"):
        make_model(config, Tables((7,), 8))


@pytest.mark.parametrize("name", MODELS)
def test_tables_are_as_large_as_the_vocabularies(name):
    """Axes of the encoder count the source's 7 words, all others the target's 8."""
    model, _, _ = make(name)
    sizes = {weight: axis.size for weight, declared in model.weights().items()
             for axis in declared.axes if axis.name in ("word", "feature")}
    assert len(sizes) >= 2 + MODELS[name].sources
    for weight, size in sizes.items():
        assert size == (7 if "encoder." in weight else 8), weight


def test_only_a_reversed_source_turns_the_windows():
    for reverse in (False, True):
        assert make_model(ModelConfig(), Tables((7,), 8, reverse)).variant.reverse is reverse
    assert Tables((7,), 8).reverse_source is False


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_gradients_have_the_names_shapes_and_dtype_of_the_weights(name, dtype):
    model, _, batch = make(name)
    parameters = model.initial_parameters(np.random.default_rng(1), dtype)
    loss, cache = noisy_loss(model, parameters, batch, 3)
    gradients = {key: dense(d) for key, d in model.backward(cache).items()}
    assert loss.shape == () and loss.dtype == dtype and loss > 0
    assert list(parameters) == list(model.weights()) and gradients.keys() == parameters.keys()
    for weight, declared in model.weights().items():
        assert gradients[weight].shape == parameters[weight].shape == declared.shape
        assert gradients[weight].dtype == parameters[weight].dtype == dtype


@pytest.mark.parametrize("name", MODELS)
def test_nothing_is_kept_between_passes(name):
    """The same noise gives the same numbers, whatever was computed in between; None means no
    dropout."""
    model, parameters, batch = make(name)
    loss, cache = noisy_loss(model, parameters, batch, 3)
    between, other = noisy_loss(model, parameters, batch, 4)
    model.backward(other)
    gradients = {key: dense(d).copy() for key, d in model.backward(cache).items()}
    again, cache = noisy_loss(model, parameters, batch, 3)
    assert loss == again
    assert_same_gradients(model.backward(cache), gradients, 0.0)
    noise = model.noise(batch, np.random.default_rng(3), "float64")
    assert (noise is None) == (getattr(model.config, "dropout", 0.0) == 0.0)
    assert (between == loss) == (noise is None)


@pytest.mark.parametrize("name", MODELS)
def test_a_state_is_encoded_stepped_and_selected(name):
    """Steps give logits of the target's words; rows that are selected twice have the same
    logits."""
    model, parameters, batch = make(name)
    state = model.encode(parameters, batch.sources, 3)
    logits, after, _ = model.step(parameters, state, np.array([1, 1, 1]))
    assert logits.shape == (3, 8)
    wide = model.select(after, np.array([0, 0, 2, 2]), np.array([0, 2]))
    again, _, _ = model.step(parameters, wide, np.array([5, 5, 3, 3]))
    np.testing.assert_allclose(again[[0, 2]], again[[1, 3]], rtol=1e-14)
    expected, _, _ = model.step(parameters, after, np.array([5, 4, 3]))
    np.testing.assert_allclose(again[[0, 2]], expected[[0, 2]], rtol=1e-12)
