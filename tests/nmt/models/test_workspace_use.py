"""Passes of one model reuse memory, but never memory in use."""

from __future__ import annotations

import numpy as np
import pytest
from literal import noisy_loss, piece_of

from backend.workspace import Workspace
from nmt.data.batches import make_batch
from nmt.models.language_model import LanguageModel, LanguageModelConfig
from nmt.models.rnnsearch import RNNSearch
from nmt.models.rnnsearch_config import RNNSearchConfig
from nmt.models.translator import ModelConfig, Translator

V, SIZE = 40, {"hidden_size": 32, "embedding_size": 24}  # large enough for the pool
ATTENTION = {
    "feeding": {}, "attention": {"input_feeding": False},
    "no attention": {"attention": "none", "input_feeding": False},
    "both ends, dropout": {"bidirectional": True, "bridge": True, "dropout": 0.2},
    "gru": {"unit": "gru", "input_feeding": False}, "rnn, feeding": {"unit": "rnn"},
    "lstm-norm, feeding": {"unit": "lstm-norm"},
    "rnnsearch": {}, "rnnencdec": {"context": "last"},
}  # fmt: skip


def batches(number=2):
    """Ragged batches of different shapes."""
    rng = np.random.default_rng(1)

    def words(longest):
        return rng.integers(2, V, rng.integers(longest // 2, longest)).tolist()

    pairs = [[(words(14 + 3 * i), words(11 + 4 * i)) for _ in range(16)] for i in range(number)]
    return [make_batch(batch, range(16), False) for batch in pairs]


def translator(attention):
    if attention.startswith("rnn"):
        config = RNNSearchConfig(**SIZE, layer_size=20, initialisation="uniform",
                                 **ATTENTION[attention])
        return RNNSearch(config, V, V)
    return Translator(ModelConfig(**SIZE, **ATTENTION[attention]), V, V)


def dense(gradients):
    return {name: d.dense() if hasattr(d, "dense") else d.copy() for name, d in gradients.items()}


def fresh(attention, parameters, batch):
    """Loss and gradients by a model that nobody used before."""
    model = translator(attention)
    loss, cache = noisy_loss(model, parameters, batch, 9)
    return loss, dense(model.backward(cache))


def assert_equal(gradients, expected):
    for name, array in expected.items():
        np.testing.assert_array_equal(gradients[name], array, err_msg=name)


@pytest.mark.parametrize("attention", ATTENTION)
def test_two_forwards_before_two_backwards(attention):
    """Results are bit-identical to those of new models, in either order of the backwards, and if a
    backward runs twice."""
    model = translator(attention)
    parameters = model.initial_parameters(np.random.default_rng(2), "float64")
    for batch in batches():  # leave free memory that could be used twice
        model.backward(model.loss(parameters, batch)[1])
    passes = [noisy_loss(model, parameters, b, 9) for b in batches()]
    expected = [fresh(attention, parameters, b) for b in batches()]
    for i in (1, 0, 1):
        assert passes[i][0] == expected[i][0]
        assert_equal(dense(model.backward(passes[i][1])), expected[i][1])


@pytest.mark.parametrize("attention", ATTENTION)
def test_two_models_in_turn(attention):
    """One batch in one model and two in the other, with separate parameters. Backwards run in any
    order, and all gradients are kept to the end."""
    models = [translator(attention) for _ in range(2)]
    parameters = [m.initial_parameters(np.random.default_rng(i)) for i, m in enumerate(models)]
    passes = [(0, 0), (1, 1), (1, 0)]  # (model, batch)
    for _ in range(2):  # leave free memory in both
        for m, b in passes:
            models[m].backward(models[m].loss(parameters[m], batches()[b])[1])
    expected = [fresh(attention, parameters[m], batches()[b])[1] for m, b in passes]
    for order in ((0, 1, 2), (2, 1, 0), (1, 2, 0)):
        caches = [noisy_loss(models[m], parameters[m], batches()[b], 9)[1] for m, b in passes]
        gradients = {i: models[passes[i][0]].backward(caches[i]) for i in order}
        for i, right in enumerate(expected):
            assert_equal(dense(gradients[i]), right)


@pytest.mark.parametrize("attention", ATTENTION)
def test_a_search_state_stays_while_the_model_goes_on(attention):
    model = translator(attention)
    parameters = model.initial_parameters(np.random.default_rng(2), "float64")
    first, second = batches()
    tokens = np.full(16, 1)
    state = model.encode(parameters, first.sources, 16)
    before, after, _ = model.step(parameters, state, tokens)
    model.backward(model.loss(parameters, second)[1])
    model.encode(parameters, second.sources, 16)
    np.testing.assert_array_equal(model.step(parameters, state, tokens)[0], before)
    again = translator(attention)
    state = again.encode(parameters, first.sources, 16)
    _, expected, _ = again.step(parameters, state, tokens)
    np.testing.assert_array_equal(model.step(parameters, after, tokens)[0],
                                  again.step(parameters, expected, tokens)[0])


@pytest.mark.parametrize("attention", ATTENTION)
def test_memory_stays_constant_over_steps(attention):
    model = translator(attention)
    parameters = model.initial_parameters(np.random.default_rng(2))
    sizes = []
    for _ in range(4):
        for batch in batches(3):
            model.backward(noisy_loss(model, parameters, batch, 9)[1])
        sizes.append(model.workspace.nbytes)
    assert sizes[0] > 0
    assert sizes[1] <= 1.05 * sizes[0]  # free memory fits the second pass in another order
    assert sizes[2:] == sizes[1:2] * 2


def test_two_language_models_and_two_pieces():
    """Interleaved passes of two models equal separate passes, and the pool does not grow."""
    rng, config = np.random.default_rng(3), LanguageModelConfig(**SIZE)
    text = rng.integers(0, V, (21, 16))
    first, second, alone = (LanguageModel(config, V) for _ in range(3))
    parameters = first.initial_parameters(rng, "float64")
    caches = [model.loss(parameters, piece_of(text))[1] for model in (first, second, first)]
    results = [dense(model.backward(cache))
             for model, cache in zip((second, first, second), reversed(caches), strict=True)]
    expected = dense(alone.backward(alone.loss(parameters, piece_of(text))[1]))
    for gradients in results:
        assert_equal(gradients, expected)
    del caches
    held, state = [], None
    for _ in range(5):
        loss, cache = first.loss(parameters, piece_of(text, state))
        state = cache.state
        first.backward(cache)
        del cache, loss
        held.append(first.workspace.nbytes)
    assert held == held[:1] * 5
    assert isinstance(first.workspace, Workspace) and first.workspace is not second.workspace
