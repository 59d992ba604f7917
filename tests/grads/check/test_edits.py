"""The change of the backward's text that makes a wrong gradient right."""

from __future__ import annotations

import numpy as np
import pytest

from grads.check import check_pair

RNG = np.random.default_rng(0)
X, W, B = RNG.normal(size=(4, 3)), RNG.normal(size=(3, 5)), RNG.normal(size=5)


NOISE, MIXED = RNG.normal(size=(4, 3)), RNG.normal(size=(3, 3))


def forward(x, W, b):
    h = np.tanh(x @ W + b)
    return np.exp(0.1 * h), (x, W, h)


def right(d, cache):
    x, W, h = cache
    dh = d * 0.1 * np.exp(0.1 * h)
    da = dh * (1 - h**2)
    return da @ W.T, x.T @ da, da.sum(axis=0)


def wrong_power(d, cache):
    x, W, h = cache
    dh = d * 0.1 * np.exp(0.1 * h)
    da = dh * (1 - h)
    return da @ W.T, x.T @ da, da.sum(axis=0)


def wrong_variable(d, cache):
    x, W, h = cache
    dh = d * 0.1 * np.exp(0.1 * h)
    da = dh * (1 - h**2)
    return da @ W.T, x.T @ dh, da.sum(axis=0)


@pytest.mark.parametrize("backward, change", [
    (wrong_power, "it is right with `"), (wrong_variable,
     "it is right with `return (da @ W.T, x.T @ da, da.sum(axis=0))` in place of `return (da @")])
def test_the_change_that_mends_it_is_said(backward, change):
    code = backward.__code__
    report = check_pair(forward, backward, [X, W, B])
    assert report.verdict == "wrong"
    assert backward.__code__ is code
    assert all(row.hints[0].startswith(change) for row in report.wrong), str(report)
    assert f"({backward.__name__})" in str(report)
    check_pair(forward, right, [X, W, B]).raise_if_wrong()


def test_what_no_change_mends_is_not_said_to_be():
    def backward(d, cache):
        dx, dW, db = right(d, cache)
        return (NOISE * dx) @ MIXED, dW, db

    assert "right with" not in str(check_pair(forward, backward, [X, W, B]))
