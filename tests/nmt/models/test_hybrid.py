"""The hybrid model compared with its translator. The catalogue checks its gradients."""

from dataclasses import replace

import numpy as np
import pytest

from nmt.data.batches import make_batch
from nmt.data.vocabulary import UNKNOWN
from nmt.models.contract import Losses, Tables
from nmt.models.hybrid import Hybrid
from nmt.models.hybrid_config import HybridConfig
from nmt.models.translator import ModelConfig, Translator

V, C = 7, 6
SIZES = {"layers": 1, "hidden_size": 4, "embedding_size": 3, "scale": 0.8}
TABLES = Tables((V,), V, False, C, C)
PAIRS = [([0, 5, 0], [0, 4, 0]), ([3, 0], [0]), ([2, 3], [6, 2])]
RARE = ([[(2, 3), (4,)], [(2, 3)], []], [[(3, 3), (2,)], [(5, 4, 3)], []])
CHARACTERS = {"character_embedding_size": 3}


def model_of(seed=0, tables=TABLES, **options):
    model = Hybrid(HybridConfig(**SIZES, **CHARACTERS, **options), tables)
    return model, model.initial_parameters(np.random.default_rng(seed), "float64")


def batch_of(*places):
    return make_batch(PAIRS, places or (0, 1, 2), False, RARE)


def dense(gradients):
    return {name: d.dense() if hasattr(d, "dense") else d for name, d in gradients.items()}


def passes(model, parameters, batch):
    loss, cache = model.loss(parameters, batch)
    return loss, cache, dense(model.backward(cache))


@pytest.mark.parametrize("path", ["same", "separate"])
def test_without_a_rare_word_it_is_the_translator(path):
    """The same loss and gradients; the character networks' are zeros."""
    model, parameters = model_of(path=path)
    batch = batch_of(2)
    loss, cache, gradients = passes(model, parameters, batch)
    words = Translator(ModelConfig(**SIZES), V, V)
    expected, _, theirs = passes(words, {name: parameters[name] for name in words.weights()}, batch)
    assert loss == expected and cache.losses == (expected, None, None)
    assert gradients.keys() == parameters.keys() == model.weights().keys()
    for name, gradient in gradients.items():
        np.testing.assert_array_equal(gradient, theirs.get(name, np.zeros_like(parameters[name])))


def test_the_loss_is_of_words_and_alpha_times_of_characters():
    """The boundary counts, and J_w is the loss of a model that does not spell."""
    reading, parameters = model_of(target_characters=False)
    J_w = reading.loss(parameters, batch_of())[0]
    for alpha in (1.0, 0.25):
        model, drawn = model_of(alpha=alpha)
        loss, cache = model.loss({**drawn, **parameters}, batch_of())
        assert cache.losses.words == J_w and cache.losses.characters > 0
        assert loss == J_w + alpha * cache.losses.characters
        assert cache.losses == Losses(J_w, cache.losses.characters)


def test_alpha_scales_what_reaches_the_words():
    """The gradient is linear in alpha, of the speller's weights and of all others."""
    gradients = {}
    for alpha in (0.5, 1.0, 2.0):
        model, parameters = model_of(alpha=alpha)
        gradients[alpha] = passes(model, parameters, batch_of())[2]
    for name in parameters:
        np.testing.assert_allclose(gradients[2.0][name] - gradients[1.0][name],
                                   2 * (gradients[1.0][name] - gradients[0.5][name]), atol=1e-13)
        assert np.abs(gradients[1.0][name]).max() > 0
        scaled = np.abs(gradients[2.0][name] - gradients[1.0][name]).max() > 1e-9
        assert scaled or name == "output.W_hy", name       # it reads h~, unlike J_c


@pytest.mark.parametrize("kept", [0.0, 1.0])
def test_the_separate_path_reads_after_dropout(kept):
    """Where all of [c_t; h_t] is dropped, the W' of Eq. 5.6 has no gradient (erratum 32)."""
    model, parameters = model_of(dropout=0.3)
    noise = model.noise(batch_of(), np.random.default_rng(0), "float64")
    noise = {**noise, "decoder.joined": np.full_like(noise["decoder.joined"], kept)}
    cache = model.loss(parameters, batch_of(), noise)[1]
    gradient = dense(model.backward(cache))["target_characters.W_c"]
    assert (np.abs(gradient).max() > 0) == (kept > 0)


def test_the_source_s_unknown_word_is_read_no_more_and_the_target_s_is():
    """The row `<unk>` of the encoder's table does not affect the loss, and has no gradient."""
    model, parameters = model_of()
    loss, _, gradients = passes(model, parameters, batch_of())
    assert not gradients["encoder.W_e"][UNKNOWN].any() and gradients["decoder.W_e"][UNKNOWN].any()
    parameters["encoder.W_e"][UNKNOWN] += 1.0
    assert model.loss(parameters, batch_of())[0] == loss
    model, parameters = model_of(source_characters=False)
    assert passes(model, parameters, batch_of())[2]["encoder.W_e"][UNKNOWN].any()


def test_tokens_of_a_type_have_one_vector_and_their_gradients_are_summed():
    """The same word, spelled separately at each of its places, gives the same."""
    model, parameters = model_of()
    batch = batch_of()
    (group,) = batch.sources[0].characters
    columns = group._replace(ids=group.ids[:, group.words], lengths=group.lengths[group.words],
                             words=np.arange(len(group.words)))
    assert len(columns.lengths) == 3 > len(group.lengths)
    apart = replace(batch, sources=(replace(batch.sources[0], characters=(columns,)),))
    loss, _, gradients = passes(model, parameters, batch)
    other, _, theirs = passes(model, parameters, apart)
    assert other == pytest.approx(loss, rel=1e-14)
    for name, gradient in gradients.items():
        np.testing.assert_allclose(gradient, theirs[name], atol=1e-13, err_msg=name)


@pytest.mark.parametrize("options", [{}, {"path": "same", "input_feeding": False},
                                     {"character_layers": 2, "unit": "gru"}])
def test_groups_change_nothing_but_the_order_of_sums(options):
    model, parameters = model_of(**options)
    batch = batch_of()
    (group,) = batch.target.characters
    cut = [np.array([0, 2]), np.array([1])]
    parts = tuple(group._replace(ids=group.ids[: group.lengths[columns].max(), columns],
                                 lengths=group.lengths[columns], places=group.places[columns],
                                 words=np.arange(len(columns))) for columns in cut)
    apart = replace(batch, target=replace(batch.target, characters=parts))
    loss, _, gradients = passes(model, parameters, batch)
    other, _, theirs = passes(model, parameters, apart)
    assert other == pytest.approx(loss, rel=1e-14)
    for name, gradient in gradients.items():
        np.testing.assert_allclose(gradient, theirs[name], atol=1e-13, err_msg=name)


@pytest.mark.parametrize("path", ["same", "separate"])
@pytest.mark.parametrize("feeding", [True, False])
def test_search_spells_from_the_states_that_training_has(path, feeding):
    """J_c is -log of the probability of the targets' words, computed step by step."""
    model, parameters = model_of(path=path, input_feeding=feeding, character_layers=2)
    batch = batch_of()
    speller, state = model.spelling(parameters, batch)
    words = [word for sentence in RARE[1] for word in sentence]
    nats = 0.0
    for n, word in enumerate(words):
        word_state = speller.select(state, np.array([n]), np.array([n]))
        for read, next_one in zip((1, *word), (*word, 1), strict=True):
            logits, word_state, _ = speller.step(parameters, word_state, np.array([read]))
            nats += np.log(np.exp(logits[0]).sum()) - logits[0, next_one]
    assert nats == pytest.approx(float(model.loss(parameters, batch)[1].losses.characters))
    assert len(speller.encode(parameters, (), 5)[0][0]) == 5


def test_a_batch_that_lacks_the_characters_is_refused():
    model, parameters = model_of()
    with pytest.raises(ValueError, match="source: expected the characters of its 3 words <unk>, at "
                                         "their places, got 0"):
        model.loss(parameters, make_batch(PAIRS, (0, 1), False))
    with pytest.raises(ValueError, match="target: expected the characters of its 3 words"):
        model.loss(parameters, make_batch(PAIRS, (0, 1), False, (RARE[0], None)))


@pytest.mark.parametrize("options, message", [
    ({"path": "shared"}, "path: expected one of same, separate, got 'shared'"),
    ({"attention": "none"}, "path: expected 'same' where attention is 'none'"),
    ({"alpha": 0.0}, "alpha: expected a positive number, got 0.0"),
    ({"character_layers": 0}, "character_layers: expected at least 1, got 0"),
    ({"character_embedding_size": 0}, "character_embedding_size: expected at least 1, got 0"),
    ({"character_dropout": 1.0}, "character_dropout: expected 0 <= character_dropout < 1, got 1"),
    ({"source_characters": False, "target_characters": False}, "source_characters: expected true"),
    ({"character_sample": 1.5}, "character_sample: expected 0 <= character_sample <= 1, got 1.5"),
    ({"character_sample": 0.5, "target_characters": False}, "character_sample: expected 0 without"),
])  # fmt: skip
def test_a_configuration_that_makes_no_sense(options, message):
    with pytest.raises(ValueError, match=message):
        HybridConfig(**options)
