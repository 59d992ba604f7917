"""Upstream gradients that are nobody's input."""

from __future__ import annotations

import numpy as np
import pytest

from grads.check import check_gradients, check_pair


def square(x):
    return x**3, x


def input_for_upstream(d, x):
    """Takes x for dy: right where both are the same numbers."""
    return 3 * x**2 * x


@pytest.mark.parametrize("seed", [0, 1, 8])
@pytest.mark.parametrize("given", [False, True])
def test_an_input_from_the_same_seed_does_not_stand_for_the_upstream_gradient(seed, given):
    x = np.random.default_rng(seed).normal(size=(4, 3))
    how = {"rng": np.random.default_rng(seed)} if given else {}
    assert not check_pair(square, input_for_upstream, [x], **how).ok
    assert check_pair(square, lambda d, x: 3 * x**2 * d, [x], **how).ok


def normalize(x):
    """Rows of length 1."""
    r = np.sqrt((x * x).sum(axis=1, keepdims=True))
    return x / r, (x / r, r)


def normalize_backward(dy, cache):
    y, r = cache
    return (dy - y * (y * dy).sum(axis=1, keepdims=True)) / r


def test_a_right_unit_norm_layer_passes_at_seed_0():
    """Its gradient is zero along x, which an upstream gradient of x makes all of it."""
    x = np.random.default_rng(0).normal(size=(4, 3))
    assert check_pair(normalize, normalize_backward, [x]).ok
    assert check_pair(normalize, normalize_backward, [x], rng=np.random.default_rng(0)).ok


@pytest.mark.parametrize("factor", [1.0, -2.0])
def test_an_upstream_gradient_that_is_an_input_is_refused(factor):
    x = np.random.default_rng(3).normal(size=(4, 3))
    with pytest.raises(ValueError, match=r"upstream: expected other numbers than .*'x'"):
        check_pair(square, input_for_upstream, [x], upstream={"f": factor * x})
    ones = np.ones((4, 3))
    assert check_pair(square, lambda d, x: 3 * x**2 * d, [2 * ones], upstream={"f": ones}).ok
    assert check_gradients(np.sin, 1.0, np.cos(1.0)).ok


@pytest.mark.parametrize("upstream", [[1.0, 2.0], (1, 2), np.array([1.0, 2.0])])
def test_the_upstream_gradient_of_an_array_may_be_a_list(upstream):
    x = np.array([0.5, -1.5])
    assert check_gradients(np.sin, [x], [np.cos(x) * upstream], upstream=upstream).ok
    assert not check_gradients(np.sin, [x], [np.cos(x)], upstream=upstream).ok
    pair = check_gradients(lambda x: (np.sin(x[0]), x[1] ** 2), [x],
                           [np.array([np.cos(0.5), -3]) * upstream], upstream=list(upstream))
    assert pair.ok
    with pytest.raises(ValueError, match=r"upstream: expected arrays of the shapes .*\(2,\)"):
        check_gradients(np.sin, [x], [np.cos(x)], upstream=[1.0, 1.0, 1.0])
