"""A decoder that starts from features: errors, the derivation, and the order of features."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from literal import assert_close, assert_same_gradients, dense, draw_parameters

from backend.errors import UserError
from grads.derivations.features import features_backward, features_forward
from nmt.data.batches import make_batch
from nmt.models.features import Features, FeaturesConfig
from nmt.system import System

PAIRS = [([2, 4, 2, 5], [3, 2]), ([6, 3], [4, 5, 2]), ([3], [])]


@pytest.mark.parametrize("options, message", [
    ({"attention": "global"}, "attention: expected 'none' with features as the source, got "),
    ({"bridge": True}, "bridge: expected false with features as the source, got True"),
    ({"bidirectional": True}, "bidirectional: expected false with features"),
    ({"factors": {"case": 1}}, "factors: expected none with features"),
])
def test_what_features_do_not_have_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        FeaturesConfig(**options)


@pytest.mark.parametrize("layers, fed", [(1, False), (2, True)])
def test_the_kernel_is_the_derivation(layers, fed):
    model = Features(FeaturesConfig(hidden_size=2, embedding_size=3, layers=layers,
                                    input_feeding=fed), 7, 8)
    parameters = draw_parameters(np.random.default_rng(4), model.weights())
    loss, cache = model.loss(parameters, make_batch(PAIRS, range(3), False))
    total, summed = 0.0, {name: np.zeros_like(W) for name, W in parameters.items()}
    for x, y in PAIRS:
        J, trace = features_forward(parameters, x, y)
        total += J
        for name, d in features_backward(parameters, x, y, trace).items():
            summed[name] += d
    assert_close(loss, total)
    gradients = {name: dense(d) for name, d in model.backward(cache).items()}
    assert_same_gradients(gradients, summed, 1e-12)


def test_features_have_no_order_but_a_number():
    """The order of features does not change the loss; a feature that occurs twice counts twice."""
    model = Features(FeaturesConfig(hidden_size=2, embedding_size=3, layers=1), 7, 8)
    parameters = draw_parameters(np.random.default_rng(4), model.weights())

    def loss(features):
        return float(model.loss(parameters, make_batch([(features, [3, 2])], [0], False))[0])

    assert loss([2, 4, 5]) == pytest.approx(loss([5, 2, 4]), rel=1e-12)
    assert abs(loss([2, 4]) - loss([2, 2, 4])) > 1e-3


def test_features_have_no_word_vectors():
    system = SimpleNamespace(model=Features(FeaturesConfig(), 7, 8), parameters={})
    with pytest.raises(UserError, match=r"--model: expected a translator with .*, got Features"):
        System.word_vectors(system, ["days"])
