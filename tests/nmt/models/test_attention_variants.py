"""The translator with every attention variant, against the derivation of each."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from literal import assert_close, assert_same_gradients, dense, draw_parameters, total

from grads.derivations.attention import attentional_nmt_backward, attentional_nmt_forward
from grads.derivations.scores import Variant
from nmt.data.batches import make_batch
from nmt.models.translator import CHOICES, ModelConfig, Translator

V, E, H = 8, 3, 2
RAGGED = [([2, 4, 2, 5, 7], [3, 2]), ([6, 3], [4, 4, 5, 2, 3]), ([3], []), ([5, 5, 2], [7])]
EQUAL = [([2, 4, 2], [3, 2]), ([6, 3, 3], [4, 4])]
SCORE: list[dict] = [{"score": score} for score in CHOICES]
SCORE.append({"score": "concat", "concat_identity": True})
LOCAL: list[dict] = [{"attention": "local-m"}, {"attention": "local-p"},
                     {"attention": "local-p", "renormalise": True}]
VARIANTS = [*({**score, "location_length": 3} for score in SCORE),
        *({**score, **local, "window": 1}
          for score, local in product(SCORE, LOCAL) if score["score"] != "location")]


def name_of(options):
    return "-".join(str(value) for value in options.values())


def make(reverse=False, **options):
    config = ModelConfig(hidden_size=H, embedding_size=E, **options)
    model = Translator(config, V, V, reverse)
    # A seed with enough digits, because a score's gradient is a small difference of large numbers.
    return model, draw_parameters(np.random.default_rng(9), model.weights(), scale=0.7)


def run(model, parameters, pairs, reverse):
    loss, cache = model.loss(parameters, make_batch(pairs, range(len(pairs)), reverse))
    return loss, {name: dense(d) for name, d in model.backward(cache).items()}


def literal(model, parameters, pairs, reverse):
    """Loss and gradients by the derivation, sentence after sentence."""
    made = model.variant
    variant = Variant(made.score, made.window, made.D, made.reverse, made.renormalise)
    losses, gradients = 0.0, []
    for x, y in pairs:
        words = x[::-1] if reverse else x
        loss, trace = attentional_nmt_forward(
            parameters, words, y, variant=variant)
        losses += loss
        gradients.append(attentional_nmt_backward(parameters, words, y, trace)[0])
    return losses, total(gradients)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("feeding, layers", [(True, 1), (False, 2)])
@pytest.mark.parametrize("options", VARIANTS, ids=name_of)
def test_the_translator_is_the_derivation(options, feeding, layers, reverse):
    """Ragged and equal batches; targets longer than their source, with windows at its end."""
    model, parameters = make(reverse, input_feeding=feeding, layers=layers, **options)
    for pairs in (RAGGED, EQUAL):
        loss, gradients = run(model, parameters, pairs, reverse)
        expected, derived = literal(model, parameters, pairs, reverse)
        assert_close(loss, expected)
        assert_same_gradients(gradients, derived)
