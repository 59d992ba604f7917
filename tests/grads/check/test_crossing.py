"""Kinks that are hit exactly: right functions are not doubted for them, wrong ones are found."""

from __future__ import annotations

import numpy as np
import pytest

from grads.check import check_gradients, check_pair

EXTENTS = ({"sample": 6}, {"method": "ridders", "sample": 6}, {"together": True, "diagnosis": 0})


def rounded(rng):
    return np.round(rng.normal(size=(6, 7)))


def zeroed(rng):
    x = rng.normal(size=(6, 7))
    x[rng.random(x.shape) < 0.2] = 0.0
    return x


def clipped(rng):
    return np.clip(1.3 * rng.normal(size=(6, 7)), -1, 1)


def first_of_the_largest(d, x):
    dx = np.zeros_like(x)
    dx[np.arange(len(x)), x.argmax(1)] = d
    return dx


def first_median(d, x):
    dx = np.zeros_like(x)
    dx[np.arange(len(x)), np.argsort(x, axis=1, kind="stable")[:, 3]] = d
    return dx


RIGHT = {  # inputs, forward, backward
    "relu": (zeroed, lambda x: np.maximum(x, 0), lambda d, x: d * (x > 0)),
    "relu, open at zero": (zeroed, lambda x: x * (x > 0), lambda d, x: d * (x >= 0)),
    "absolute value": (zeroed, np.abs, lambda d, x: d * np.sign(x)),
    "leaky": (zeroed, lambda x: np.where(x > 0, x, 0.1 * x),
              lambda d, x: d * np.where(x > 0, 1, 0.1)),
    "clip": (clipped, lambda x: np.clip(x, -1, 1), lambda d, x: d * (np.abs(x) < 1)),
    "relu6 of integers": (rounded, lambda x: np.clip(6 * x, 0, 6),
                          lambda d, x: 6 * d * ((x > 0) & (x < 1))),
    "soft threshold of halves": (
        lambda rng: rounded(rng) / 2, lambda x: np.sign(x) * np.maximum(np.abs(x) - 0.5, 0),
        lambda d, x: d * (np.abs(x) > 0.5)),
    "largest, with ties": (rounded, lambda x: x.max(1), first_of_the_largest),
    "median, with ties": (rounded, lambda x: np.median(x, axis=1), first_median),
}


@pytest.mark.parametrize("extent", EXTENTS, ids=str)
@pytest.mark.parametrize("name", RIGHT)
def test_right_at_kinks_is_not_doubted(name, extent):
    make, forward, backward = RIGHT[name]
    rng = np.random.default_rng(0)
    report = check_pair(lambda x: (forward(x), x), backward, [make(rng)], rng=rng, **extent)
    assert report.ok, str(report)


def test_a_layer_of_integers_whose_units_are_at_their_kinks_by_several_inputs():
    def forward(x, W, b):
        z = x @ W + b
        return np.maximum(z, 0), (x, W, z)

    def backward(d, cache):
        x, W, z = cache
        dz = d * (z > 0)
        return dz @ W.T, x.T @ dz, dz.sum(axis=0)

    for seed in (0, 1):
        rng = np.random.default_rng(seed)
        inputs = [np.round(rng.normal(size=shape)) for shape in ((4, 3), (3, 5), (5,))]
        report = check_pair(forward, backward, inputs, rng=rng, sample=6)
        assert report.ok, str(report)


@pytest.mark.parametrize("extent", EXTENTS, ids=str)
@pytest.mark.parametrize("wrong", [
    lambda d, x: 1.01 * d * (x > 0), lambda d, x: -d * (x > 0), lambda d, x: d * (x > -0.1)])
def test_wrong_beside_kinks_is_wrong(wrong, extent):
    report = check_pair(lambda x: (np.maximum(x, 0), x), wrong,
                        [zeroed(np.random.default_rng(2))], **extent)
    assert report.verdict == "wrong", str(report)


def test_one_wrong_entry_among_many_at_kinks_is_named():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(20, 12))
    x[rng.random(x.shape) < 0.3] = 0.0
    right = 2.0 * (x > 0)
    assert check_gradients(lambda x: 2 * np.maximum(x, 0).sum(), [x], [right]).ok
    right[3, 2 + int(np.flatnonzero(x[3, 2:])[0])] += 0.1
    report = check_gradients(lambda x: 2 * np.maximum(x, 0).sum(), [x], [right], sample=10)
    assert report.verdict == "wrong" and "only one entry of those compared" in str(report)


@pytest.mark.parametrize(("factor", "verdict"), [(1.0, "ok"), (1.01, "wrong")])
def test_a_kink_that_only_several_tensors_cross_together(factor, verdict):
    """A row of zeros and zero biases before a ReLU: a wrong direction whose halves lead to no
    entry with a kink."""
    def forward(x, W, b):
        z = x @ W + b
        return np.maximum(z, 0), (x, W, z)

    def backward(d, cache):
        x, W, z = cache
        dz = d * (z > 0)
        return dz @ W.T, factor * x.T @ dz, dz.sum(axis=0)

    rng = np.random.default_rng(7)
    x = rng.normal(size=(4, 6))
    x[0] = 0
    inputs = [x, rng.normal(size=(6, 5)), np.zeros(5)]
    report = check_pair(forward, backward, inputs, sample=4, rng=np.random.default_rng(7))
    assert report.verdict == verdict
