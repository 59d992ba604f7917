"""The language model against Algorithms 1 and 2, in float64 and complex128; its configuration."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from literal import (
    DTYPES,
    assert_close,
    assert_same_gradients,
    clipping,
    draw,
    draw_parameters,
    total,
)
from strict.module import strict, to_numpy, to_strict

import backend
from grads.derivations import lstm as literal_lstm
from grads.derivations import rnn as literal_rnn
from nmt.models.language_model import LanguageModel, LanguageModelConfig

V, E, H, T, B = 7, 3, 2, 5, 3
LITERAL = {"lstm": literal_lstm, "rnn": literal_rnn}
NAMES = {"W_e": "W_e", "rnn.0.T": "T", "rnn.0.b": "b", "output.W_hy": "W_hy", "output.b": "b_hy"}


def make(dtype=np.float64, steps=T, batch=B, **options):
    """Model, parameters, inputs and targets (ids repeat), and states from a piece before."""
    config = LanguageModelConfig(hidden_size=H, embedding_size=E, **options)
    model, rng = LanguageModel(config, V), np.random.default_rng(4)
    parameters = draw_parameters(rng, model.weights(), dtype)
    inputs, targets = (rng.integers(0, 5, (steps, batch)) for _ in range(2))
    states = [tuple(draw(rng, (batch, H), dtype) for _ in range(2 if config.unit == "lstm" else 1))
              for _ in range(config.layers)]
    return model, parameters, inputs, targets, states


def literal(unit, parameters, inputs, targets, states):
    """Loss and gradients by the derivation, one stream after the other, summed."""
    own = {NAMES[name]: value for name, value in parameters.items()}
    losses, gradients = [], []
    for b in range(inputs.shape[1]):
        x, y = inputs[:, b].tolist(), targets[:, b].tolist()
        loss, trace = LITERAL[unit].forward(own, x, y, *(s[b][:, None] for s in states[0]))
        losses.append(loss)
        gradients.append(LITERAL[unit].backward(own, x, y, trace)[0])
    back = {short: name for name, short in NAMES.items()}
    return sum(losses), {back[name]: d for name, d in total(gradients).items()}


@pytest.mark.parametrize("unit, biases, shape, dtype", list(product(
    LITERAL, (False, True), ((T, B), (T, 1), (1, B), (1, 1)), DTYPES)))  # fmt: skip
def test_kernel_is_the_derivation(unit, biases, shape, dtype):
    model, *arguments = make(dtype, *shape, unit=unit, layers=1, biases=biases, output_bias=biases)
    loss, cache = model.loss(*arguments)
    expected, gradients = literal(unit, *arguments)
    assert_close(loss, expected)
    assert_same_gradients(model.backward(cache), gradients)


@pytest.mark.parametrize("unit", LITERAL)
def test_clipping_is_the_literal_loop(unit, monkeypatch):
    model, *arguments = make(unit=unit, layers=1, clip_dh=0.2)
    loss, cache = model.loss(*arguments)
    _, free = literal(unit, *arguments)
    name = f"{unit}_grad"
    monkeypatch.setattr(LITERAL[unit], name, clipping(getattr(LITERAL[unit], name), 0.2))
    expected, gradients = literal(unit, *arguments)
    assert_close(loss, expected)
    assert_same_gradients(model.backward(cache), gradients)
    assert np.abs(free["rnn.0.T"] - gradients["rnn.0.T"]).max() > 1e-3


@pytest.mark.parametrize("unit", LITERAL)
def test_two_pieces_have_the_loss_of_the_whole(unit):
    """The last states of a piece are where the next one starts."""
    model, parameters, inputs, targets, states = make(unit=unit)
    whole, _ = model.loss(parameters, inputs, targets, states)
    first, cache = model.loss(parameters, inputs[:2], targets[:2], states)
    second, _ = model.loss(parameters, inputs[2:], targets[2:], cache.last)
    assert_close(first + second, whole)


@pytest.mark.parametrize("unit", LITERAL)
def test_step_is_the_loss(unit):
    """The sum of log-softmax of stepped logits is minus the loss."""
    model, parameters, inputs, targets, states = make(unit=unit)
    loss, cache = model.loss(parameters, inputs, targets, states)
    log_p = 0.0
    for t in range(T):
        logits, states = model.step(parameters, states, inputs[t])
        log_p += (logits - np.log(np.exp(logits).sum(axis=1, keepdims=True)))[
            np.arange(B), targets[t]].sum()  # fmt: skip
    assert_close(log_p, -loss)
    for ours, theirs in zip(states, cache.last, strict=True):
        for a, b in zip(ours, theirs, strict=True):
            assert_close(a, b)


def test_the_loss_of_equal_words_is_their_number_times_log_v():
    """Eq. 2.8 with p uniform: a sum over words, in nats."""
    model, parameters, inputs, targets, states = make()
    parameters["output.W_hy"][...] = 0.0
    parameters["output.b"][...] = 3.0
    assert_close(model.loss(parameters, inputs, targets, states)[0], np.float64(T * B * np.log(V)))


def test_dropout_is_drawn_from_the_generator():
    model, parameters, inputs, targets, states = make(dropout=0.5)

    def loss(seed):
        rng = None if seed is None else np.random.default_rng(seed)
        return float(model.loss(parameters, inputs, targets, states, rng)[0])

    plain, *rest = make(dropout=0.0)
    assert loss(None) == loss(None) == float(plain.loss(*rest, np.random.default_rng(1))[0])
    assert loss(1) == loss(1)
    assert len({loss(None), loss(1), loss(2)}) == 3


def test_zero_states():
    for unit, count in (("lstm", 2), ("rnn", 1)):
        model, parameters, *_ = make(np.float64, unit=unit)
        states = model.zero_states({k: v.astype("f4") for k, v in parameters.items()}, 4)
        assert [len(state) for state in states] == [count] * 2
        for array in (a for state in states for a in state):
            assert array.shape == (4, H) and array.dtype == np.float32 and not array.any()


@pytest.mark.parametrize("unit", LITERAL)
def test_on_the_stand_in(unit):
    """Loss, backward and step: the same numbers, nothing fetched."""
    model, parameters, inputs, targets, states = make(unit=unit, dropout=0.3)
    loss, cache = model.loss(parameters, inputs, targets, states, np.random.default_rng(1))
    gradients = model.backward(cache)
    logits, _ = model.step(parameters, states, inputs[0])
    d_parameters, d_states = to_strict(parameters), to_strict(states)
    with backend.using(strict):
        d_loss, cache = model.loss(
            d_parameters, inputs, targets, d_states, np.random.default_rng(1))
        found = model.backward(cache)
        d_logits, _ = model.step(d_parameters, d_states, inputs[0])
    assert (strict.counts.to_host, strict.counts.syncs) == (0, 0)
    assert_close(to_numpy(d_loss), loss)
    assert_close(to_numpy(d_logits), logits)
    assert_same_gradients(to_numpy(found), gradients)


@pytest.mark.parametrize("field, value", [
    ("unit", "gru2"), ("initialisation", "normal"), ("layers", 0), ("hidden_size", 0),
    ("embedding_size", -1), ("dropout", 1.0), ("dropout", -0.1), ("clip_dh", 0.0), ("clip_dh", -1),
])  # fmt: skip
def test_configuration_errors_name_the_field(field, value):
    with pytest.raises(ValueError, match=rf"^{field}: expected .*got '?{value}"):
        LanguageModelConfig(**{field: value})
