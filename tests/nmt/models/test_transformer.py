"""The Transformer: search steps against the loss, hypotheses that share a source, invalid
arguments."""

from __future__ import annotations

import numpy as np
import pytest
from literal import assert_close, assert_same_gradients, draw_parameters, total

from attention.norms import NORMS
from grads.derivations.transformer import PLACED
from grads.derivations.transformer_model import (
    Shape,
    transformer_backward,
    transformer_forward,
)
from nmt.data.batches import make_batch
from nmt.models.contract import Tables
from nmt.models.transformer import Transformer, TransformerConfig, build
from nmt.training.optimizers import Adam, gradient_scale

PAIRS = [([2, 3, 4, 5], [3, 2, 4]), ([5, 2], [4, 4, 2]), ([3, 3, 2], [2, 5, 3])]
VARIED = pytest.mark.parametrize("norm, pre_norm", [
    ("layer", True), ("layer", False), ("scale", True), ("rms", False), ("fixed-scale", True)])


def make(**options):
    config = TransformerConfig(2, 2, 6, 7, 3, **options)
    model = build(config, Tables((7,), 7))
    return model, draw_parameters(np.random.default_rng(2), model.weights())


def log_softmax(s):
    return s - s.max(axis=1, keepdims=True) - np.log(
        np.exp(s - s.max(axis=1, keepdims=True)).sum(axis=1, keepdims=True))


@VARIED
def test_steps_have_the_loss_of_the_whole(norm, pre_norm):
    """Word by word with cached keys and values, the loss is that of all steps at once."""
    model, parameters = make(norm=norm, pre_norm=pre_norm)
    batch = make_batch(PAIRS, range(3), False)
    state, total = model.encode(parameters, batch.sources, 3), 0.0
    for tokens, targets in zip(batch.target_in, batch.target_out, strict=True):
        logits, state, alignment = model.step(parameters, state, tokens)
        total -= log_softmax(logits)[np.arange(3), targets].sum()
        np.testing.assert_allclose(alignment.sum(axis=1), 1.0, rtol=1e-14)
        assert not alignment[1, 2:].any()  # the padding of the second sentence
    assert total == pytest.approx(float(model.loss(parameters, batch)[0]), rel=1e-13)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("placed", PLACED)
def test_the_model_is_the_derivation(norm, placed):
    """Its loss and every gradient are the sums of those of the single sentences."""
    model, parameters = make(norm=norm, pre_norm=placed == "pre")
    loss, cache = model.loss(parameters, make_batch(PAIRS, range(3), False))
    expected = [(*pair, transformer_forward(parameters, *pair, shape=Shape(3, norm, placed)))
                for pair in PAIRS]
    assert_close(loss, np.asarray(sum(J for *_, (J, _) in expected)))
    assert_same_gradients(model.backward(cache), total(
        transformer_backward(parameters, x, y, trace) for x, y, (_, trace) in expected), 1e-10)


@pytest.mark.parametrize("options", [{}, {"norm": "scale", "pre_norm": False,
                                          "label_smoothing": 0.1}], ids=["PreNorm", "PostNorm"])
def test_five_updates_are_those_of_pytorch(options):
    """They are those of torch.optim.Adam on the reference's loss, with each gradient's norm clipped
    to 1."""
    torch = pytest.importorskip("torch", reason="PyTorch, the oracle (extra `oracle`)")
    from grads.verification.reference import transformer

    model, parameters = make(**options)
    batch = make_batch(PAIRS, range(3), False)
    theirs = {name: torch.tensor(value, requires_grad=True) for name, value in parameters.items()}
    tokens, our_adam, adam = int(batch.target.lengths.sum()), Adam(0.01), torch.optim.Adam(
        theirs.values(), 0.01)
    for _ in range(5):
        loss, cache = model.loss(parameters, batch)
        gradients = model.backward(cache)
        our_adam.update(parameters, gradients, gradient_scale(gradients, tokens, 1.0)[0])
        adam.zero_grad()
        expected = transformer.loss(model.config, theirs, batch)
        (expected / tokens).backward()
        torch.nn.utils.clip_grad_norm_(theirs.values(), 1.0)
        adam.step()
        assert float(loss) == pytest.approx(expected.item(), rel=1e-6)
    for name, value in parameters.items():
        np.testing.assert_allclose(value, theirs[name].detach(), rtol=1e-5, atol=1e-6, err_msg=name)


def test_hypotheses_are_what_they_would_be_alone():
    """Two hypotheses of each sentence, reordered, and with a sentence dropped."""
    model, parameters = make()
    sources = make_batch(PAIRS, range(3), False).sources
    state = model.encode(parameters, sources, 3)
    _, state, _ = model.step(parameters, state, np.array([1, 1, 1]))
    state = model.select(state, np.array([0, 0, 2, 2]), np.array([0, 2]))
    _, state, _ = model.step(parameters, state, np.array([2, 3, 4, 5]))
    state = model.select(state, np.array([1, 0, 2, 3]), np.array([0, 1]))
    logits, _, alignment = model.step(parameters, state, np.array([4, 4, 5, 5]))
    words = [(0, (1, 3, 4)), (0, (1, 2, 4)), (2, (1, 4, 5)), (2, (1, 5, 5))]
    for row, (sentence, tokens) in enumerate(words):
        source = make_batch(PAIRS, [sentence], False).sources
        alone = model.encode(parameters, source, 1)
        for token in tokens:
            expected, alone, a = model.step(parameters, alone, np.array([token]))
        np.testing.assert_allclose(logits[row], expected[0], rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(alignment[row, : a.shape[1]], a[0], rtol=1e-12, atol=1e-14)


def test_float32_stays_float32_in_search():
    model, parameters = make()
    single = {name: value.astype("float32") for name, value in parameters.items()}
    state = model.encode(single, make_batch(PAIRS, range(3), False).sources, 3)
    logits, state, alignment = model.step(single, state, np.array([1, 1, 1]))
    assert {logits.dtype, alignment.dtype, state.past[0][0].dtype} == {np.dtype("float32")}


def test_the_future_is_not_seen():
    """The loss of a target's first words does not change with those that follow."""
    model, parameters = make()
    long = make_batch([([2, 3], [3, 2, 4, 5, 5])], [0], False)
    other = make_batch([([2, 3], [3, 2, 4, 2, 3])], [0], False)
    h = [model.loss(parameters, batch)[1].output.prediction.h for batch in (long, other)]
    np.testing.assert_array_equal(h[0][:4], h[1][:4])
    assert np.abs(h[0][4:] - h[1][4:]).max() > 1e-3


@pytest.mark.parametrize("options, message", [
    ({"heads": 4}, "heads: expected a divisor of hidden_size 6, got 4"),
    ({"norm": "batch"}, "norm: expected one of layer, scale, fixed-scale, rms, got 'batch'"),
    ({"dropout": 1.0}, "dropout: expected 0 <= dropout < 1, got 1.0"),
    ({"inner_size": 0}, "inner_size: expected at least 1, got 0"),
    ({"initialisation": "he"}, "initialisation: expected one of uniform, .*, got 'he'"),
])
def test_configuration_errors_name_the_field(options, message):
    with pytest.raises(ValueError, match=message):
        TransformerConfig(**{"hidden_size": 6, "heads": 3} | options)


def test_a_fresh_model_predicts_words_about_equally():
    """PreNorm and SmallInit: the loss of a word begins near log V."""
    model = Transformer(TransformerConfig(2, 2, 64, 128, 4), 50, 50)
    batch = make_batch([(list(range(2, 20)), list(range(20, 40)))], [0], False)
    loss, _ = model.loss(model.initial_parameters(np.random.default_rng(1)), batch)
    assert abs(float(loss) / 21 - np.log(50)) < 1.5
