"""A lexicon's bias: every gradient by complex step, and the kernels' are the same."""

from __future__ import annotations

import numpy as np
import pytest
from literal import assert_as_derived, translator_config

from grads.check import check_gradients
from grads.derivations.examples import Request, Sizes
from grads.derivations.lexicon import (
    EPSILON,
    lexicon_backward,
    lexicon_example,
    lexicon_forward,
)
from grads.derivations.scores import Variant
from nmt.data.lexicon import Lexicon
from nmt.models.translator import Translator

SIZES = Sizes(hidden=2, embedding=3)


def example(sizes=SIZES):
    request = Request("a b a ||| c d", sizes, np.random.default_rng(1))
    request_example = lexicon_example(request)
    return *request_example.arguments, request_example.named["lexicon"]


def test_gradients_of_a_reversed_source():
    """The rest of the variants are in the catalogue of derivations."""
    parameters, x, y, P = example()

    def loss(p):
        return lexicon_forward(p, x, y, lexicon=P, variant=Variant(reverse=True))

    gradients = lexicon_backward(parameters, x, y, loss(parameters)[1])
    report = check_gradients(lambda p: loss(p)[0], parameters, gradients, vanish=True)
    assert report.ok, str(report)


@pytest.mark.parametrize("sizes", [
    SIZES, Sizes(hidden=3, layers=1, biases=False, input_feeding=False),
    Sizes(layers=1, score="dot", window="local-m")], ids=str)


@pytest.mark.parametrize("reverse", [False, True])
def test_kernels(sizes, reverse):
    """The loss too: log epsilon, which the kernels leave out, is the same for all words."""
    parameters, x, y, P = example(sizes)
    config = translator_config(sizes, lexicon_epsilon=EPSILON)
    entries = {(f, e): P[e, f] for e, f in zip(*np.nonzero(P), strict=True)}
    model = Translator(config, P.shape[1], P.shape[0], reverse,
                       lexicon=Lexicon.of(entries, P.shape[1]))
    variant = sizes.variant._replace(reverse=reverse)
    J, trace = lexicon_forward(parameters, x, y, lexicon=P, variant=variant)
    gradients = lexicon_backward(parameters, x, y, trace)
    assert_as_derived(model, parameters, (x, y), reverse, J, gradients)
