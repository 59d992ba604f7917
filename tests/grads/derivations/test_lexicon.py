"""A lexicon's bias: every gradient by complex step, and the kernels' are the same."""

from __future__ import annotations

import numpy as np
import pytest
from literal import dense

from grads.check import check_gradients
from grads.derivations.examples import Request, Sizes
from grads.derivations.lexicon import (
    EPSILON,
    lexicon_backward,
    lexicon_example,
    lexicon_forward,
)
from grads.derivations.scores import Variant
from nmt.data.batches import make_batch
from nmt.data.lexicon import Lexicon
from nmt.models.translator import ModelConfig, Translator

SIZES = Sizes(hidden=2, embedding=3)


def example(sizes=SIZES):
    request = Request("a b a ||| c d", sizes, np.random.default_rng(1), None, {})
    made = lexicon_example(request)
    return *made.arguments, made.named["lexicon"]


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
    config = ModelConfig(lexicon_epsilon=EPSILON, layers=sizes.layers, hidden_size=sizes.hidden,
                         embedding_size=sizes.embedding, score=sizes.score,
                         attention=sizes.window, window=sizes.D, biases=sizes.biases,
                         input_feeding=sizes.input_feeding, output_bias=sizes.biases)
    entries = {(f, e): P[e, f] for e, f in zip(*np.nonzero(P), strict=True)}
    model = Translator(config, P.shape[1], P.shape[0], reverse,
                       lexicon=Lexicon.of(entries, P.shape[1]))
    variant = sizes.variant._replace(reverse=reverse)
    J, trace = lexicon_forward(parameters, x, y, lexicon=P, variant=variant)
    gradients = lexicon_backward(parameters, x, y, trace)
    written = x[::-1] if reverse else x  # a batch turns its sources round
    loss, cache = model.loss(parameters, make_batch([(written, y)], [0], reverse))
    assert float(loss) == pytest.approx(J, rel=1e-13)
    for name, found in model.backward(cache).items():
        np.testing.assert_allclose(dense(found), gradients[name], rtol=1e-10, atol=1e-14,
                                   err_msg=name)
