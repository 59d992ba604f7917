"""The whole translator against the same model in eager PyTorch, in float64, on ragged batches."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from itertools import product

import numpy as np
import pytest
from torch_oracle import assert_close, backpropagate, draw, leaf, torch

from attention.attend import memory_forward
from backend.rows import RowGradient
from lstm.recurrent import make_padding
from nmt.models.translator import ModelConfig
from nmt.models.decoder import DecoderMasks, decoder_backward, decoder_forward
from nmt.models.feeding import feeding_backward, feeding_forward
from nmt.models.translator import Translator
from nmt.text.batches import make_batch

peer_torch = import_module("benchmarks.peer_torch")

SOURCE_SIZE, TARGET_SIZE = 11, 13
RAGGED = ((5, 3), (2, 6), (4, 0), (1, 4))  # words of source and target; one target is empty
SMALL = {"hidden_size": 4, "embedding_size": 3}


def configurations():
    """unit x layers x bidirectional x (attention, score, feeding) x dropout, where they combine."""
    looks = [("none", "general", False)]
    looks += [("global", score, feeding) for score in ("dot", "general") for feeding in (0, 1)]
    for unit, layers, both, look, dropout in product(
        ("lstm", "rnn"), (1, 2), (False, True), looks, (0.0, 0.3)
    ):
        attention, score, feeding = look
        if both and score == "dot":
            continue
        yield ModelConfig(
            unit=unit, layers=layers, bidirectional=both, bridge=both, attention=attention,
            score=score, input_feeding=bool(feeding), dropout=dropout, **SMALL,
        )  # fmt: skip
    yield ModelConfig(bridge=True, biases=False, **SMALL)
    yield ModelConfig(bridge=True, output_bias=True, layers=3, **SMALL)
    yield ModelConfig(biases=False, attention="none", input_feeding=False, **SMALL)


def describe(config):
    """The fields that differ from the defaults, as a test id."""
    plain = ModelConfig(**SMALL)
    fields = {name: value for name, value in vars(config).items() if vars(plain)[name] != value}
    return "-".join(f"{name}={value}" for name, value in fields.items()) or "default"


def random_parameters(model, rng):
    """Normals of deviation one half, so that no gate saturates; read-only."""
    return {name: draw(rng, *weight.shape, scale=0.5) for name, weight in model.weights().items()}


def random_batch(rng, lengths):
    """A batch of random words, ragged where `lengths` are."""
    words = [(rng.integers(2, SOURCE_SIZE, s), rng.integers(2, TARGET_SIZE, t)) for s, t in lengths]
    pairs = [(source.tolist(), target.tolist()) for source, target in words]
    return make_batch(pairs, range(len(pairs)), reverse_source=False)


def dense(gradient):
    """A gradient as a full array."""
    return gradient.dense() if isinstance(gradient, RowGradient) else gradient


def compare(config, lengths, zero=()):
    """Loss and every gradient, ours and PyTorch's; `zero` names gradients that must vanish."""
    rng = np.random.default_rng(13)
    model = Translator(config, SOURCE_SIZE, TARGET_SIZE)
    parameters, batch = random_parameters(model, rng), random_batch(rng, lengths)
    masks = model._masks(batch, np.random.default_rng(14), parameters)
    loss, cache = model.loss(parameters, batch, np.random.default_rng(14))
    gradients = model.backward(cache)
    peer = peer_torch.TorchTranslator(config, SOURCE_SIZE, TARGET_SIZE).load(parameters)
    theirs = peer(batch, masks)
    assert_close(loss, theirs)
    theirs.backward()
    expected = peer.dump(gradients=True)
    assert gradients.keys() == expected.keys() == parameters.keys()
    for name, gradient in gradients.items():
        if name in zero:
            assert not dense(gradient).any()
            assert not expected[name].any()
        else:
            assert_close(dense(gradient), torch.from_numpy(expected[name]))


@pytest.mark.parametrize("config", list(configurations()), ids=describe)
def test_translator(config):
    compare(config, RAGGED)


@pytest.mark.parametrize("config", list(configurations())[::7], ids=describe)
def test_equal_lengths(config):
    """No padding at all: the kernels and PyTorch both take their other path."""
    compare(config, ((4, 5), (4, 5), (4, 5)))


@pytest.mark.parametrize("feeding, unit", list(product((False, True), ("lstm", "rnn"))))
def test_one_sentence_one_word(feeding, unit):
    """B = S = T = 1: a softmax over one word is constant, so its scores get no gradient."""
    config = ModelConfig(unit=unit, input_feeding=feeding, **SMALL)
    compare(config, ((1, 0),), zero={"attention.W_a"})


def test_dropout_masks_matter():
    """The frozen masks reach the loss: without them it is another one."""
    rng = np.random.default_rng(13)
    config = ModelConfig(dropout=0.3, **SMALL)
    model = Translator(config, SOURCE_SIZE, TARGET_SIZE)
    parameters, batch = random_parameters(model, rng), random_batch(rng, RAGGED)
    dropped, _ = model.loss(parameters, batch, np.random.default_rng(14))
    kept, _ = model.loss(parameters, batch)
    plain, _ = Translator(replace(config, dropout=0.0), SOURCE_SIZE, TARGET_SIZE).loss(
        parameters, batch, np.random.default_rng(14)
    )
    assert abs(float(dropped) - float(kept)) > 0.01
    assert float(kept) == float(plain)


def run_decoder(model, parameters, batch, initial, memory, masks, upstream):
    """Our decoder, with or without input feeding: its output, and what its backward returns."""
    how, workspace = (parameters, model.config), model.workspace
    forward = feeding_forward if model.config.input_feeding else decoder_forward
    out, cache = forward(batch.target_in, initial, memory, *how, masks, workspace)
    if model.config.input_feeding:
        return out, feeding_backward(upstream, memory, cache, *how, workspace)
    return out, decoder_backward(upstream, memory, cache, *how)


@pytest.mark.parametrize(
    "unit, feeding, dropout", list(product(("lstm", "rnn"), (False, True), (False, True)))
)
def test_decoder(unit, feeding, dropout):
    """A random gradient at every output of the decoder: initial states, memory, parameters."""
    rng = np.random.default_rng(15)
    config = ModelConfig(unit=unit, input_feeding=feeding, **SMALL)
    model = Translator(config, SOURCE_SIZE, TARGET_SIZE)
    parameters, batch = random_parameters(model, rng), random_batch(rng, RAGGED)
    (T, B), (S, _) = batch.target_in.shape, batch.sources[0].ids.shape
    H, E, n = config.hidden_size, config.embedding_size, peer_torch.STATES[unit]
    masks = DecoderMasks([None, None], None)
    if dropout:
        drawn = [(rng.random((T, B, width)) < 0.7) / 0.7 for width in (E, H, 2 * H)]
        masks = DecoderMasks(drawn[:2], drawn[2])
    initial = [tuple(draw(rng, B, H) for _ in range(n)) for _ in range(config.layers)]
    states, upstream = draw(rng, S, B, H), draw(rng, T, B, H)

    padding = make_padding(batch.sources[0].lengths, S)
    memory = memory_forward(states, padding, config.way(), parameters, "attention")
    out, (d_initial, d_memory, gradients) = run_decoder(
        model, parameters, batch, initial, memory, masks, upstream
    )
    peer = peer_torch.TorchTranslator(config, SOURCE_SIZE, TARGET_SIZE).load(parameters)
    hbar, keys = leaf(memory.hbar), leaf(memory.keys)
    dead = torch.arange(S) >= torch.tensor(batch.sources[0].lengths)[:, None]
    leaves = [tuple(map(leaf, state)) for state in initial]
    decode = peer._decode_feeding if feeding else peer._decode
    theirs = decode(
        peer.target_embedding(torch.tensor(batch.target_in)),
        list(leaves),
        peer_torch.Memory(hbar, keys, dead[:, None]),
        *masks,
    )
    assert_close(out, theirs)
    backpropagate([theirs], [upstream])
    assert_close(d_memory.dhbar, hbar)
    assert_close(d_memory.dkeys, keys)
    for ours, other in zip(d_initial, leaves, strict=True):
        for a, b in zip(ours, other, strict=True):
            assert_close(a, b)
    untouched = [p for p in peer.parameters() if p.requires_grad and p.grad is None]
    for parameter in untouched:  # the encoder's and the output layer's
        parameter.grad = torch.zeros_like(parameter)
    expected = peer.dump(gradients=True)
    assert {name for name in expected if expected[name].any()} == set(gradients)
    for name, ours in gradients.items():
        assert_close(dense(ours), torch.from_numpy(expected[name]))
