"""The lexical module: every gradient by complex step, and the kernels' are the same."""

from __future__ import annotations

import numpy as np
import pytest
from literal import assert_as_derived, translator_config

from grads.check import check_gradients
from grads.derivations.examples import Request, Sizes, attention_example
from grads.derivations.lexical import lexical_backward, lexical_forward, lexical_shapes
from grads.derivations.scores import Variant
from nmt.models.translator import Translator

SIZES = Sizes(hidden=2, embedding=3)
REVERSED = Variant(reverse=True)


def example(sizes=SIZES):
    request = Request("a b a ||| c d", sizes, np.random.default_rng(1))
    return attention_example(lexical_shapes, request).arguments


def run(parameters, x, y, variant):
    J, trace = lexical_forward(parameters, x, y, variant=variant)
    return J, lexical_backward(parameters, x, y, trace)


def test_gradients_of_a_reversed_source():
    """The rest of the variants are in the catalogue of derivations."""
    parameters, x, y = example()
    gradients = run(parameters, x, y, REVERSED)[1]
    report = check_gradients(lambda p: lexical_forward(p, x, y, variant=REVERSED)[0],
                             parameters, gradients, vanish=True)
    assert report.ok, str(report)


@pytest.mark.parametrize("sizes", [
    SIZES, Sizes(hidden=3, layers=1, biases=False, input_feeding=False),
    Sizes(layers=1, score="dot", window="local-m")], ids=str)


@pytest.mark.parametrize("reverse", [False, True])
def test_kernels(sizes, reverse):
    parameters, x, y = example(sizes)
    config = translator_config(sizes, lexical=True)
    model = Translator(config, len(parameters["encoder.W_e"]), len(parameters["decoder.W_e"]),
                       reverse)
    assert parameters.keys() == model.weights().keys()
    J, gradients = run(parameters, x, y, sizes.variant._replace(reverse=reverse))
    assert_as_derived(model, parameters, (x, y), reverse, J, gradients)
