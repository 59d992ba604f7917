"""The translator against Algorithms 3 and 4 and their attentional form; batches, sentences."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from configurations import LUONG
from literal import (
    DTYPES,
    assert_close,
    assert_same_gradients,
    clipping,
    dense,
    draw_parameters,
    total,
)

from grads.derivations import attention, nmt
from grads.derivations.scores import Variant
from grads.derivations.units import UNITS
from lstm.stack import dropout_mask
from nmt.data.batches import make_batch
from nmt.models.translator import ModelConfig, Translator
from nmt.training.optimizers import gradient_scale

V_S, V_T, E, H = 7, 8, 3, 2
RAGGED = [([2, 4, 2, 5], [3, 2]), ([6, 3], [4, 4, 5, 2, 3]), ([3], []), ([5, 5, 2], [7])]
EQUAL = [([2, 4, 2], [3, 2]), ([6, 3, 3], [4, 4])]
SMALLEST = [([2], [])]
ATTENTION = {
    "no attention": {"attention": "none", "input_feeding": False},
    "dot": {"score": "dot", "input_feeding": False}, "general": {"input_feeding": False},
    "dot, feeding": {"score": "dot"}, "general, feeding": {},
}  # fmt: skip


def make(dtype=np.float64, scale=0.6, **options):
    """A translator and its parameters."""
    config = ModelConfig(hidden_size=H, embedding_size=E, **options)
    model = Translator(config, V_S, V_T)
    return model, draw_parameters(np.random.default_rng(5), model.weights(), dtype, scale)


def batch_of(pairs):
    return make_batch(pairs, range(len(pairs)), False)


def run(model, parameters, pairs):
    """Loss and dense gradients of one batch."""
    loss, cache = model.loss(parameters, batch_of(pairs))
    return loss, {name: dense(d) for name, d in model.backward(cache).items()}


def literal(config, parameters, pairs):
    """Loss and gradients by the derivation, sentence after sentence, summed."""
    losses, gradients = [], []
    for x, y in pairs:
        if config.attention == "none":
            loss, trace = nmt.forward(parameters, x, y)
            derived = nmt.backward(parameters, x, y, trace)
        else:
            loss, trace = attention.attentional_nmt_forward(
                parameters, x, y, variant=Variant(config.score))
            derived = attention.attentional_nmt_backward(parameters, x, y, trace)
        losses.append(loss)
        gradients.append(derived[0])
    return sum(losses), total(gradients)


# --- against the derivations ------------------------------------------------------------------


@pytest.mark.parametrize("attention, layers, biases, dtype", list(product(
    ATTENTION, (1, 2, 3), (False, True), DTYPES)))  # fmt: skip
def test_kernel_is_the_derivation(attention, layers, biases, dtype):
    """A ragged batch, repeated words, an empty target: the sum of its sentences, in nats."""
    model, parameters = make(dtype, layers=layers, biases=biases, output_bias=biases,
                             **ATTENTION[attention])
    loss, gradients = run(model, parameters, RAGGED)
    expected, derived = literal(model.config, parameters, RAGGED)
    assert_close(loss, expected)
    assert_same_gradients(gradients, derived)


@pytest.mark.parametrize("attention", ATTENTION)
def test_equal_lengths_and_the_smallest_batch(attention):
    model, parameters = make(**ATTENTION[attention])
    for pairs in (EQUAL, SMALLEST):
        loss, gradients = run(model, parameters, pairs)
        expected, derived = literal(model.config, parameters, pairs)
        if pairs is SMALLEST and "attention.W_a" in gradients:
            assert not gradients.pop("attention.W_a").any()
            assert not derived.pop("attention.W_a").any()
        assert_close(loss, expected)
        assert_same_gradients(gradients, derived)


@pytest.mark.parametrize("attention", ATTENTION)
def test_loss_of_weights_times_10000(attention):
    """Gates saturate and probabilities underflow; kernel and derivation stay finite, and equal."""
    model, parameters = make(scale=0.6e4, layers=2, **ATTENTION[attention])
    loss, _ = run(model, parameters, RAGGED)
    assert np.isfinite(loss)
    assert_close(loss, literal(model.config, parameters, RAGGED)[0])


# --- both clippings of 2.2.2 --------------------------------------------------------------------


@pytest.mark.parametrize("attention", ATTENTION)
def test_clipping_is_the_literal_loop(attention, monkeypatch):
    """Element by element, at each layer and time step of encoder and decoder, also in ragged
    batches."""
    limit = 0.01
    model, parameters = make(scale=1.0, clip_elements=limit, **ATTENTION[attention])
    loss, gradients = run(model, parameters, RAGGED)
    _, free = literal(model.config, parameters, RAGGED)
    lstm = UNITS["lstm"]
    monkeypatch.setitem(UNITS, "lstm", lstm._replace(backward=clipping(lstm.backward, limit)))
    expected, derived = literal(model.config, parameters, RAGGED)
    assert_close(loss, expected)
    assert_same_gradients(gradients, derived)
    for name in ("encoder.0.W", "decoder.1.W"):
        assert np.abs(free[name] - derived[name]).max() > 0.01


def test_both_clippings_together():
    """dh is clipped on the way back, then the normalised gradient is scaled to the norm tau."""
    model, parameters = make(scale=1.0, clip_elements=0.05)
    _, gradients = run(model, parameters, RAGGED)
    for tau, is_clipped in ((0.01, True), (1e3, False)):
        scale, norm = gradient_scale(gradients, len(RAGGED), tau)
        flat = np.concatenate([d.ravel() for d in gradients.values()]) / len(RAGGED)
        assert_close(norm, np.sqrt((flat**2).sum()))
        clipped = np.concatenate([(d * scale).ravel() for d in gradients.values()])
        assert_close(clipped, flat * tau / norm if is_clipped else flat)


# --- noise --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["general, feeding", "general", "no attention", "both ends"])
def test_noise_has_a_mask_for_each_layer_s_input_and_for_the_joined_vector(name):
    """In the order of the sites, all drawn from one generator, in the dtype asked for."""
    model, _ = make(layers=2, **LUONG[name] | {"dropout": 0.3})
    He = model.source.width
    S, T, B = 4, 6, len(RAGGED)
    joined = H if model.config.attention == "none" else He + H
    shapes = {"encoder.0": (S, B, E), "encoder.1": (S, B, He), "decoder.0": (T, B, E),
              "decoder.1": (T, B, H), "decoder.joined": (T, B, joined)}
    noise = model.noise(batch_of(RAGGED), np.random.default_rng(7), "float32")
    assert list(noise) == list(shapes)
    rng = np.random.default_rng(7)
    for site, shape in shapes.items():
        assert noise[site].dtype == np.float32
        np.testing.assert_array_equal(noise[site], dropout_mask(rng, shape, 0.3))
    assert make(**LUONG[name])[0].noise(batch_of(RAGGED), rng, "float32") is None


@pytest.mark.parametrize("attention", ATTENTION)
def test_dropout_where_the_author_drops(attention):
    """Erratum 29: dropout of every layer's input, including the fed vector, and none after the top
    layer."""
    options = ATTENTION[attention] | {"layers": 2, "dropout": 0.3, "dropout_sites": "author"}
    model, parameters = make(**options)
    batch, feeds = batch_of(RAGGED), model.config.input_feeding
    noise = model.noise(batch, np.random.default_rng(7), "float64")
    assert set(noise) == {"encoder.0", "encoder.1", "decoder.0", "decoder.1"} | (
        {"decoder.fed"} if feeds else set())
    if feeds:
        _, cache = model.loss(parameters, batch, noise)
        fed = slice(E, E + H)
        assert np.abs(model.backward(cache)["decoder.0.W"][:, fed]).max() > 0
        nothing = {**noise, "decoder.fed": np.zeros_like(noise["decoder.fed"])}
        _, cache = model.loss(parameters, batch, nothing)
        assert np.abs(model.backward(cache)["decoder.0.W"][:, fed]).max() == 0


@pytest.mark.parametrize("attention", ATTENTION)
@pytest.mark.parametrize("site, weight, width", [
    ("encoder.0", "encoder.0.W", E), ("encoder.1", "encoder.1.W", H),
    ("decoder.0", "decoder.0.W", E), ("decoder.1", "decoder.1.W", H),
    ("decoder.joined", None, None)])
def test_each_mask_acts_at_its_site(attention, site, weight, width):
    """Masks of ones do not change the loss. Zeros at a site make the gradient of its reader's
    columns zero, and no others."""
    model, parameters = make(dropout=0.5, **ATTENTION[attention])
    weight = weight or ("output.W_hy" if attention == "no attention" else "attention.W_c")
    batch = batch_of(RAGGED)
    ones = {name: np.ones_like(mask)
            for name, mask in model.noise(batch, np.random.default_rng(1), "float64").items()}
    loss, cache = model.loss(parameters, batch, ones)
    assert loss == model.loss(parameters, batch)[0]
    before = model.backward(cache)[weight]
    _, cache = model.loss(parameters, batch, {**ones, site: np.zeros_like(ones[site])})
    after = model.backward(cache)[weight]
    assert np.abs(before[:, :width]).max() > 0 == np.abs(after[:, :width]).max()
    if width is not None:
        assert np.abs(after[:, width:]).max() > 0
