"""Helpers of the tests against the literal algorithms."""

from __future__ import annotations

import numpy as np
import pytest

from backend.rows import RowGradient
from nmt.data.batches import Batch, Side, make_batch
from nmt.models.translator_config import ModelConfig

DTYPES = [np.float64, np.complex128]
TOLERANCE = 1e-12  # of the largest entry: a few thousand roundings of 1.1e-16


def draw(rng, shape, dtype=np.float64, scale=0.6):
    """Normals; complex ones have an imaginary part a third as large."""
    real = rng.normal(scale=scale, size=shape)
    if np.dtype(dtype).kind != "c":
        return real.astype(dtype)
    return real + 1j / 3 * rng.normal(scale=scale, size=shape)


def noisy_loss(model, parameters, batch, seed=None):
    """The result of `model.loss` with dropout masks drawn from a seed; None: without dropout."""
    dtype = next(iter(parameters.values())).dtype
    noise = None if seed is None else model.noise(batch, np.random.default_rng(seed), dtype)
    return model.loss(parameters, batch, noise)


def piece_of(ids, state=None):
    """A piece of the streams ids (T + 1, B), which goes on at `state`."""
    steps, streams = len(ids) - 1, ids.shape[1]
    return Batch((), Side(ids, np.full(streams, steps)), np.arange(streams), state, state is None)


def draw_parameters(rng, weights, dtype=np.float64, scale=0.6):
    """An array for each weight."""
    return {name: draw(rng, weight.shape, dtype, scale) for name, weight in weights.items()}


def dense(gradient):
    """A gradient written out in full."""
    return gradient.dense() if isinstance(gradient, RowGradient) else gradient


def assert_close(actual, expected, tolerance=TOLERANCE):
    """Assert equality to machine precision, relative to the largest entry; None equals only
    None."""
    actual, expected = np.asarray(dense(actual)), np.asarray(dense(expected))
    assert actual.shape == expected.shape
    assert actual.dtype == expected.dtype
    assert np.abs(expected).max() > 0
    assert np.abs(actual - expected).max() <= tolerance * np.abs(expected).max()


def assert_same_gradients(actual, expected, tolerance=TOLERANCE):
    """The same names, and equal arrays."""
    assert set(actual) == set(expected)
    for name in expected:
        try:
            assert_close(actual[name], expected[name], tolerance)
        except AssertionError as error:
            raise AssertionError(f"d{name}: {error}") from error


def translator_config(sizes, **options):
    """The configuration of the kernels for a derivation's example of these sizes."""
    return ModelConfig(layers=sizes.layers, hidden_size=sizes.hidden, score=sizes.score,
                       embedding_size=sizes.embedding, attention=sizes.window, window=sizes.D,
                       biases=sizes.biases, input_feeding=sizes.input_feeding,
                       output_bias=sizes.biases, **options)


def assert_as_derived(model, parameters, pair, reverse, J, gradients):
    """A translator's loss and gradients of a pair (x, y), x in the order in which the derivation
    reads it, are the derivation's J and gradients."""
    x, y = pair
    written = x[::-1] if reverse else x  # a batch reverses its sources
    loss, cache = model.loss(parameters, make_batch([(written, y)], [0], reverse))
    assert float(loss) == pytest.approx(J, rel=1e-13)
    actual = model.backward(cache)
    assert actual.keys() == gradients.keys()
    for name in gradients:
        np.testing.assert_allclose(dense(actual[name]), gradients[name], rtol=1e-10, atol=1e-14,
                                   err_msg=name)


def total(gradients):
    """The sum of several mappings of gradients."""
    gradients = list(gradients)
    return {name: sum(dense(gradient[name]) for gradient in gradients) for name in gradients[0]}


def clipping(grad, limit):
    """A unit's literal backward whose dh is clipped first, element by element (2.2.2).

    For an LSTM, which returns five arrays, the returned dc_{t-1} is clipped too.
    """

    def clipped(dh, *others):
        gradients = grad(elements_clipped(dh, limit), *others)
        if len(gradients) < 5:
            return gradients
        dh_prev, dc_prev, *rest = gradients
        return dh_prev, elements_clipped(dc_prev, limit), *rest

    return clipped


def elements_clipped(column, limit):
    """A column whose entries are set to the limit, or to its negative, where they are beyond."""
    kept = column.copy()
    for i in range(len(kept)):
        if kept[i, 0] > limit:
            kept[i, 0] = limit
        elif kept[i, 0] < -limit:
            kept[i, 0] = -limit
    return kept
