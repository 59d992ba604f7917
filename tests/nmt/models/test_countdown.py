"""Count-down positions with a length model: search steps, the derivation, and invalid arguments."""

from __future__ import annotations

import numpy as np
import pytest
from literal import assert_close, assert_same_gradients, draw_parameters, total

from attention.norms import NORMS
from attention.positions import countdown, positions, positions_at
from grads.derivations.countdown import countdown_backward, countdown_forward
from grads.derivations.positions import countdown_encoding
from grads.derivations.transformer import PLACED
from grads.derivations.transformer_model import Shape
from nmt.data.batches import make_batch
from nmt.models.contract import Tables, counts_down
from nmt.models.transformer import TransformerConfig, build
from nmt.search.force import force_decode

PAIRS = [([2, 3, 4, 5], [3, 2, 4]), ([5, 2], [4, 4, 2, 6, 6]), ([3, 3, 2], [2])]
EMPTY = [([2, 3], []), ([4], [])]


def make(**options):
    config = TransformerConfig(2, 2, 6, 7, 3, positions=8, target_positions="countdown", **options)
    model = build(config, Tables((7,), 7))
    return model, draw_parameters(np.random.default_rng(2), model.weights())


def batch_of(pairs=PAIRS):
    return make_batch(pairs, range(len(pairs)), False)


def test_my_name_is_toan_has_positions_4_3_2_1_0() -> None:
    """Nguyen, 4.1.2. Targets are side by side, padding has position 0, and the encodings are the
    derivation's."""
    places = countdown(np.array([5, 3, 0]), 5)
    assert places.T.tolist() == [[4, 3, 2, 1, 0], [2, 1, 0, 0, 0], [0] * 5]
    encodings = positions_at(places, 6, np.float64)
    np.testing.assert_allclose(encodings[:, 0], countdown_encoding(5, 6), rtol=1e-14)
    np.testing.assert_array_equal(encodings[::-1, 0], positions(0, 5, 6, np.float64)[:, 0])


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("placed", PLACED)
def test_the_model_is_the_derivation(norm, placed) -> None:
    """Its loss and every gradient are the sums of those of the single sentences."""
    model, parameters = make(norm=norm, pre_norm=placed == "pre")
    loss, cache = model.loss(parameters, batch_of())
    shape = Shape(3, norm, placed, down=True)
    traced = [(*pair, countdown_forward(parameters, *pair, shape=shape)) for pair in PAIRS]
    assert_close(loss, np.asarray(sum(J for *_, (J, _) in traced)))
    assert_same_gradients(model.backward(cache), total(
        countdown_backward(parameters, x, y, trace) for x, y, (_, trace) in traced), 1e-10)


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_the_parts_of_the_loss(smoothing) -> None:
    """The loss of lengths is part of the loss and of the words' loss, and is not smoothed."""
    model, parameters = make(label_smoothing=smoothing)
    loss, cache = model.loss(parameters, batch_of())
    plain, plain_cache = make()[0].loss(parameters, batch_of())
    words, characters, lengths = cache.losses
    assert characters is None and float(words) == pytest.approx(float(plain), rel=1e-14)
    assert lengths == plain_cache.losses.lengths > 0
    assert (words is loss) == (smoothing == 0.0)
    alone = [model.loss(parameters, batch_of([pair]))[1].losses.lengths for pair in PAIRS]
    assert float(lengths) == pytest.approx(sum(map(float, alone)), rel=1e-12)


@pytest.mark.parametrize("pairs", [PAIRS, EMPTY, [*PAIRS, *EMPTY]],
                         ids=["words", "empty", "some empty"])
def test_steps_have_the_loss_of_the_whole(pairs) -> None:
    """Word by word with cached keys and values, and with the length in place of the end marker."""
    model, parameters = make()
    forced = force_decode(model, parameters, batch_of(pairs))
    for pair, hypothesis in zip(pairs, forced, strict=True):
        loss, cache = model.loss(parameters, batch_of([pair]))
        assert hypothesis.log_probability == pytest.approx(-float(loss), rel=1e-12)
        assert hypothesis.steps[-1] == pytest.approx(-float(cache.losses.lengths), rel=1e-12)
        assert hypothesis.tokens == pair[1] and hypothesis.finished
        assert len(hypothesis.steps) == len(pair[1]) + 1
        if pair[1]:
            assert hypothesis.alignment.shape == (len(pair[1]), len(pair[0]))
            np.testing.assert_allclose(hypothesis.alignment.sum(axis=1), 1.0)


def test_the_decoder_knows_how_many_words_are_left() -> None:
    """The prediction after the same words depends on how many are to come, unless positions count
    forward."""
    model, parameters = make()
    h = [model.loss(parameters, batch_of([([2, 3], [3, 2, *rest])]))[1].output.prediction.h[:2]
         for rest in ([4], [4, 5])]
    assert np.abs(h[0] - h[1]).max() > 1e-3


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match="target_positions: expected one of forward, countdown, "
                                         "got 'backward'"):
        TransformerConfig(target_positions="backward")
    model, parameters = make()
    with pytest.raises(ValueError, match="target lengths: expected rows 0 to 7 of a table of 8"):
        model.loss(parameters, batch_of([([2], [3] * 8)]))
    assert counts_down(model) and counts_down(model.config)
    assert not counts_down(TransformerConfig())
