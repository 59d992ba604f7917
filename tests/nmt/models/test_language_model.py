"""The language model against Algorithms 1 and 2, in float64 and complex128; its configuration."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from literal import (
    DTYPES,
    assert_close,
    assert_same_gradients,
    clipping,
    dense,
    draw,
    draw_parameters,
    piece_of,
    total,
)

from grads.derivations import lstm as literal_lstm
from grads.derivations import rnn as literal_rnn
from lstm.cells import CELLS
from lstm.stack import dropout_mask
from nmt.data.batches import make_batch
from nmt.models.language_model import LanguageModel, LanguageModelConfig

V, E, H, T, B = 7, 3, 2, 5, 3
LITERAL = {"lstm": literal_lstm, "rnn": literal_rnn}
NAMES = {"W_e": "W_e", "rnn.0.W": "T", "rnn.0.b": "b", "output.W_hy": "W_hy", "output.b": "b_hy"}


def make(dtype=np.float64, steps=T, batch=B, **options):
    """Model, parameters, and a piece of streams with repeated ids, which starts from random
    states."""
    config = LanguageModelConfig(hidden_size=H, embedding_size=E, **options)
    model, rng = LanguageModel(config, V), np.random.default_rng(4)
    parameters = draw_parameters(rng, model.weights(), dtype)
    ids = rng.integers(0, 5, (steps + 1, batch))
    state = [tuple(draw(rng, (batch, H), dtype) for _ in range(CELLS[config.unit].states))
             for _ in range(config.layers)]
    return model, parameters, piece_of(ids, state)


def literal(unit, parameters, piece):
    """Loss and gradients by the derivation, one stream after the other, summed."""
    printed = {NAMES[name]: value for name, value in parameters.items()}
    losses, gradients = [], []
    for b in piece.indices:
        x, y = piece.target_in[:, b].tolist(), piece.target_out[:, b].tolist()
        loss, trace = LITERAL[unit].forward(printed, x, y, *(s[b][:, None] for s in piece.state[0]))
        losses.append(loss)
        gradients.append(LITERAL[unit].backward(printed, x, y, trace)[0])
    back = {short: name for name, short in NAMES.items()}
    return sum(losses), {back[name]: d for name, d in total(gradients).items()}


@pytest.mark.parametrize("unit, biases, shape, dtype", list(product(
    LITERAL, (False, True), ((T, B), (T, 1), (1, B), (1, 1)), DTYPES)))  # fmt: skip
def test_kernel_is_the_derivation(unit, biases, shape, dtype):
    model, parameters, piece = make(dtype, *shape, unit=unit, layers=1, biases=biases,
                                    output_bias=biases)
    loss, cache = model.loss(parameters, piece)
    expected, gradients = literal(unit, parameters, piece)
    assert_close(loss, expected)
    assert_same_gradients(model.backward(cache), gradients)


@pytest.mark.parametrize("unit", LITERAL)
def test_clipping_is_the_literal_loop(unit, monkeypatch):
    model, parameters, piece = make(unit=unit, layers=1, clip_elements=0.2)
    loss, cache = model.loss(parameters, piece)
    _, free = literal(unit, parameters, piece)
    name = f"{unit}_grad"
    monkeypatch.setattr(LITERAL[unit], name, clipping(getattr(LITERAL[unit], name), 0.2))
    expected, gradients = literal(unit, parameters, piece)
    assert_close(loss, expected)
    assert_same_gradients(model.backward(cache), gradients)
    assert np.abs(free["rnn.0.W"] - gradients["rnn.0.W"]).max() > 1e-3


def part_of(piece, first, last, state):
    """Predictions first .. last - 1 of a piece."""
    return piece_of(piece.target.ids[first : last + 1], state)


@pytest.mark.parametrize("unit", CELLS)
def test_two_pieces_have_the_loss_of_the_whole(unit):
    """The next piece starts from the state in the cache."""
    model, parameters, piece = make(unit=unit)
    whole, at_end = model.loss(parameters, piece)
    first, cache = model.loss(parameters, part_of(piece, 0, 2, piece.state))
    second, cache = model.loss(parameters, part_of(piece, 2, T, cache.state))
    assert_close(first + second, whole)
    for ours, theirs in zip(cache.state, at_end.state, strict=True):
        for a, b in zip(ours, theirs, strict=True):
            assert_close(a, b)


@pytest.mark.parametrize("unit", CELLS)
def test_a_text_begins_with_states_of_zeros(unit):
    """A batch without a state. The state in the cache shares no memory with other arrays."""
    model, parameters, piece = make(unit=unit)
    zeros = [tuple(np.zeros_like(a) for a in layer) for layer in piece.state]
    loss, cache = model.loss(parameters, piece_of(piece.target.ids))
    expected, _ = model.loss(parameters, piece_of(piece.target.ids, zeros))
    assert loss == expected and model.loss(parameters, piece)[0] != expected
    assert all(a.base is None for layer in cache.state for a in layer)


@pytest.mark.parametrize("unit, residual", [*product(CELLS, (False,)), ("lstm", True)])
def test_step_is_the_loss(unit, residual):
    """The sum of log-softmax of stepped logits is minus the loss."""
    model, parameters, piece = make(unit=unit, residual=residual)
    loss, cache = model.loss(parameters, piece)
    log_p, states = 0.0, piece.state
    for t in range(T):
        logits, states, alignment = model.step(parameters, states, piece.target_in[t])
        assert alignment is None
        log_p += (logits - np.log(np.exp(logits).sum(axis=1, keepdims=True)))[
            np.arange(B), piece.target_out[t]].sum()  # fmt: skip
    assert_close(log_p, -loss)
    for ours, theirs in zip(states, cache.state, strict=True):
        for a, b in zip(ours, theirs, strict=True):
            assert_close(a, b)


@pytest.mark.parametrize("unit", CELLS)
def test_padded_texts_are_the_sum_of_each(unit):
    """Sentences of different lengths in a batch, from states of zeros: padding does not count.

    The first id of each is END, and padding is END.
    """
    model, parameters, _ = make(unit=unit)
    pairs = [([2], y) for y in ([3, 4, 2], [], [5, 5, 3, 4])]
    together = replace(make_batch(pairs, range(3), False), sources=())
    loss, cache = model.loss(parameters, together)
    alone = [model.loss(parameters, replace(make_batch(pairs, [b], False), sources=()))
             for b in range(3)]
    assert_close(loss, sum(text_loss for text_loss, _ in alone))
    assert_same_gradients(model.backward(cache), total(model.backward(c) for _, c in alone))


def test_the_loss_of_equal_words_is_their_number_times_log_v():
    """Eq. 2.8 with p uniform: a sum over words, in nats."""
    model, parameters, piece = make()
    parameters["output.W_hy"][...] = 0.0
    parameters["output.b"][...] = 3.0
    assert_close(model.loss(parameters, piece)[0], np.float64(T * B * np.log(V)))


# --- dropout --------------------------------------------------------------------------------------


def test_noise_has_a_mask_for_each_layer_s_input_and_for_the_output():
    """In the order of the sites, of one generator, in the dtype asked for."""
    model, _, piece = make(dropout=0.4, layers=3)
    noise = model.noise(piece, np.random.default_rng(7), "float32")
    widths = {"rnn.0": E, "rnn.1": H, "rnn.2": H, "output": H}
    assert list(noise) == list(widths)
    rng = np.random.default_rng(7)
    for site, width in widths.items():
        assert noise[site].dtype == np.float32
        np.testing.assert_array_equal(noise[site], dropout_mask(rng, (T, B, width), 0.4))


@pytest.mark.parametrize("site, parameter", [
    ("rnn.0", "W_e"), ("rnn.1", "rnn.0.W"), ("output", "rnn.1.W")])
def test_each_mask_acts_at_its_site(site, parameter):
    """Masks of ones do not change the loss; zeros at a site remove everything below it."""
    model, parameters, piece = make(dropout=0.5)
    noise = model.noise(piece, np.random.default_rng(7), "float64")
    ones = {name: np.ones_like(mask) for name, mask in noise.items()}
    assert model.loss(parameters, piece, ones)[0] == model.loss(parameters, piece)[0]
    _, cache = model.loss(parameters, piece, {**ones, site: np.zeros_like(noise[site])})
    gradients = {name: np.abs(dense(d)).max() for name, d in model.backward(cache).items()}
    assert gradients[parameter] == 0 < gradients["output.b"]


# --- search, the stand-in, configuration ----------------------------------------------------------


def test_the_states_that_texts_begin_with():
    for unit, count in (("lstm", 2), ("rnn", 1), ("gru", 1)):
        model, parameters, _ = make(np.float64, unit=unit)
        states = model.encode({k: v.astype("f4") for k, v in parameters.items()}, (), 4)
        assert [len(state) for state in states] == [count] * 2
        for array in (a for state in states for a in state):
            assert array.shape == (4, H) and array.dtype == np.float32 and not array.any()


@pytest.mark.parametrize("field, value", [
    ("unit", "gru2"), ("initialisation", "gauss"), ("layers", 0), ("hidden_size", 0),
    ("embedding_size", -1), ("dropout", 1.0), ("dropout", -0.1), ("clip_elements", 0.0),
    ("clip_elements", -1),
])  # fmt: skip
def test_configuration_errors_name_the_field(field, value):
    with pytest.raises(ValueError, match=rf"^{field}: expected .*got '?{value}"):
        LanguageModelConfig(**{field: value})
