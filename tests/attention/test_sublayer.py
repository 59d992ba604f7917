"""Feed-forward layer, positions, residual connection with its norm: derivation, complex step."""

from __future__ import annotations

import numpy as np
import pytest
from literal import DTYPES, assert_close, assert_same_gradients, draw

from attention.feed_forward import (
    feed_forward_backward,
    feed_forward_forward,
    feed_forward_weights,
)
from attention.norms import NORMS, norm_weights
from attention.positions import positions
from attention.sublayer import Placement, sublayer_backward, sublayer_forward
from grads.check import check_gradients
from grads.derivations.positions import position_encoding
from grads.derivations.transformer import PLACED, FeedForward, relu
from lstm.parameters import uniform

T, B, D, F = 3, 2, 4, 5


def make(norm, dtype=np.float64):
    """x, dy (T, B, d) and the weights of a feed-forward layer and of a norm."""
    rng = np.random.default_rng(3)
    weights = feed_forward_weights("f", D, F, uniform(0.1)) | norm_weights("n", norm, D)
    parameters = {name: draw(rng, weight.shape, dtype) for name, weight in weights.items()}
    return draw(rng, (T, B, D), dtype), draw(rng, (T, B, D), dtype), parameters


def literal(parameters):
    """The weights of the layer, and of the norm as columns."""
    w = [parameters[f"f.{name}"] for name in ("W_1", "b_1", "W_2", "b_2")]
    return (FeedForward(*(array.T if array.ndim == 2 else array[None] for array in w)),
            tuple(value[:, None] for name, value in parameters.items() if name.startswith("n.")))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("pre", [True, False], ids=["PreNorm", "PostNorm"])
@pytest.mark.parametrize("norm", NORMS)
def test_a_sublayer_is_the_derivation(norm, pre, dtype):
    x, dy, parameters = make(norm, dtype)
    y, cache = sublayer_forward("n", Placement(norm, pre), parameters, x,
                                lambda read: feed_forward_forward("f", parameters, read))
    dx, gradients = sublayer_backward(dy, cache, feed_forward_backward)
    w_F, w_N = literal(parameters)
    forward, grad = PLACED["pre" if pre else "post"]
    expected = dict.fromkeys(parameters, 0.0)
    for b in range(B):
        y_b, kept = forward("feed_forward", x[:, b], w_F, {}, norm, w_N)
        assert_close(y[:, b], y_b)
        d_sentence, reads, d_F, d_N = grad(
            "feed_forward", dy[:, b], x[:, b], w_F, {}, norm, w_N, kept)
        assert_close(dx[:, b], d_sentence)
        assert reads == {}
        layer_gradients = [d.T if k % 2 == 0 else d[0] for k, d in enumerate(d_F)]
        for name, d in zip(parameters, [*layer_gradients, *(d[:, 0] for d in d_N)], strict=True):
            expected[name] = expected[name] + d
    assert_same_gradients(gradients, expected)


@pytest.mark.parametrize("placed", PLACED)
def test_derivations(placed):
    x, dy, parameters = make("layer")
    w_F, w_N = literal(parameters)
    inputs = dict(zip(("x", *FeedForward._fields, "g", "b"), (x[:, 0], *w_F, *w_N), strict=True))
    forward, grad = PLACED[placed]

    def run(a):
        w = [a[name] for name in inputs]
        return forward("feed_forward", w[0], FeedForward(*w[1:5]), {}, "layer", tuple(w[5:]))

    dx, _, d_F, d_N = grad("feed_forward", dy[:, 0], x[:, 0], w_F, {}, "layer", w_N, run(inputs)[1])
    check_gradients(lambda a: (dy[:, 0] * run(a)[0]).sum(), inputs,
                    dict(zip(inputs, [dx, *d_F, *d_N], strict=True)),
                    vanish=False).raise_if_wrong()


def test_dropout_of_a_sublayer_and_within():
    """Masks of ones change nothing. Masks of zeros leave only the residual connection and its
    gradient."""
    x, dy, parameters = make("layer")
    placement, inner = Placement("layer", True), np.ones((T, B, F))

    def run(mask, within):
        y, cache = sublayer_forward(
            "n", placement, parameters, x,
            lambda read: feed_forward_forward("f", parameters, read, within), mask)
        return y, sublayer_backward(dy, cache, feed_forward_backward)[0]

    for ones, plain in zip(run(np.ones_like(x), inner), run(None, None), strict=True):
        np.testing.assert_array_equal(ones, plain)
    y, dx = run(np.zeros_like(x), inner)
    np.testing.assert_array_equal(y, x)
    np.testing.assert_array_equal(dx, dy)
    y, _ = run(None, 0.0 * inner)
    np.testing.assert_allclose(y, x + parameters["f.b_2"], rtol=1e-15)


def test_the_maximum_passes_values_above_zero():
    np.testing.assert_array_equal(relu(np.array([-1.0, 0.0, 2.0])), [0.0, 0.0, 2.0])


@pytest.mark.parametrize("width", [4, 5])
def test_positions_are_those_of_the_derivation(width):
    PE = position_encoding(7, width)
    np.testing.assert_allclose(positions(0, 7, width, "float64")[:, 0], PE, rtol=0, atol=1e-15)
    np.testing.assert_allclose(positions(3, 2, width, "float64")[:, 0], PE[3:5], rtol=0, atol=1e-15)
    assert positions(0, 2, width, "float32").dtype == np.float32
