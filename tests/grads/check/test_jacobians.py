"""The Jacobian: exact where the function is analytic, by differences elsewhere."""

from __future__ import annotations

import numpy as np
import pytest

from grads.check import jacobian

RNG = np.random.default_rng(3)
W, X, B = RNG.normal(size=(2, 3)), RNG.normal(size=3), RNG.normal(size=2)


def same(actual, expected):
    """Equal to the last digits."""
    assert actual.shape == expected.shape
    np.testing.assert_allclose(actual, expected, rtol=1e-14)


def test_one_input_and_one_output_give_an_array():
    same(jacobian(lambda x: np.sin(W @ x), X), np.cos(W @ X)[:, None] * W)
    same(jacobian(lambda x: W @ x.reshape(3, 1), X), W[:, None, :])  # its output is (2, 1)
    same(jacobian(lambda x: (x * x).sum(), X), 2 * X)


def test_several_are_found_by_their_names():
    jacobians = jacobian(lambda x, b: W @ x + b * b, [X, B])
    assert list(jacobians) == ["x", "b"]
    same(jacobians["x"], W)
    same(jacobians["b"], np.diag(2 * B))
    jacobians = jacobian(lambda p: {"y": p["x"] * 2, "s": p["b"].sum()}, {"x": X, "b": B})
    same(jacobians["y"]["x"], 2 * np.eye(3))
    same(jacobians["s"]["b"], np.ones(2))
    assert not jacobians["y"]["b"].any() and not jacobians["s"]["x"].any()


def refused(x):
    return np.array([float(v) ** 2 for v in x])


def not_analytic(x):
    y = np.ndarray.view(x, np.ndarray)
    return np.abs(y) * y


@pytest.mark.parametrize("f, slope", [(refused, 2 * X), (not_analytic, 2 * np.abs(X))])
def test_differences_where_the_complex_step_cannot_be_used(f, slope):
    np.testing.assert_allclose(jacobian(f, X), np.diag(slope), atol=1e-9)


def test_large_ones_and_invalid_inputs_are_refused():
    with pytest.raises(ValueError, match="expected at most 1,000,000 derivatives, got 1,002,001"):
        jacobian(np.tanh, np.zeros(1001))
    with pytest.raises(ValueError, match="inputs: expected finite values"):
        jacobian(np.tanh, np.array([np.nan]))
