"""Two sources: the kernel has the derivation's loss and gradients, sentence by sentence."""

from __future__ import annotations

import numpy as np
import pytest
from literal import assert_close, assert_same_gradients, dense, draw_parameters

from grads.derivations import two_sources
from grads.derivations.examples import Request, Sizes
from grads.derivations.scores import Variant
from nmt.data.batches import SourceIds, make_batch
from nmt.models.two_sources import TwoSources, TwoSourcesConfig

V_1, V_2, V_T = 7, 6, 8
PAIRS = [(SourceIds(([2, 4, 2, 5], [3, 5])), [3, 2]), (SourceIds(([6, 3], [2, 4, 4])), [4, 5, 2]),
         (SourceIds(([3], [5, 2, 3, 3, 4])), [])]


@pytest.mark.parametrize("options", [
    {}, {"input_feeding": False, "layers": 2}, {"biases": False, "score": "dot"},
    {"attention": "local-p", "window": 1, "layers": 2}, {"score": "additive"}], ids=str)


@pytest.mark.parametrize("reverse", [False, True])
def test_the_kernel_is_the_derivation(options, reverse):
    options = {"layers": 1, **options}
    config = TwoSourcesConfig(hidden_size=2, embedding_size=3, **options)
    model = TwoSources(config, (V_1, V_2), V_T, reverse)
    parameters = draw_parameters(np.random.default_rng(4), model.weights())
    loss, cache = model.loss(parameters, make_batch(PAIRS, range(3), reverse))
    variant = Variant(config.score, config.attention, 1, reverse)
    total, summed = 0.0, {name: np.zeros_like(W) for name, W in parameters.items()}
    for (first, second), y in PAIRS:
        x_1, x_2 = (ids[::-1] if reverse else ids for ids in (first, second))
        J, trace = two_sources.two_sources_forward(parameters, x_1, x_2, y, variant=variant)
        total += J
        for name, d in two_sources.two_sources_backward(parameters, x_1, x_2, y, trace).items():
            summed[name] += d
    assert_close(loss, total)
    gradients = {name: dense(d) for name, d in model.backward(cache).items()}
    assert_same_gradients(gradients, summed, 1e-12)


def test_the_example_is_a_sentence_in_two_languages():
    request = Request("a b ||| c ||| d e", Sizes(), np.random.default_rng(1))
    example = two_sources.two_sources_example(request)
    _, x_1, x_2, y = example.arguments
    assert (x_1, x_2, y) == ([2, 3], [2], [2, 3])
    assert list(example.words) == ["encoder.W_e", "second_encoder.W_e", "decoder.W_e"]
