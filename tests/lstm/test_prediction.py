"""Softmax and cross-entropy, chunk by chunk, against the derivation row by row."""

from __future__ import annotations

import numpy as np
import pytest
from literal import DTYPES, assert_close, draw

from backend.workspace import Workspace
from grads.check import check_pair
from grads.derivations.rnn import predict, predict_grad
from lstm.prediction import (
    CHUNK,
    output_backward,
    output_forward,
    output_step,
    prediction_backward,
    prediction_forward,
)

V, H = 9, 4


@pytest.mark.parametrize("N", [1, CHUNK - 1, CHUNK, 2 * CHUNK + 3])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("bias", [False, True])
def test_prediction_is_the_derivation(N, dtype, bias):
    rng = np.random.default_rng(1)
    h, W_hy, targets = draw(rng, (N, H), dtype), draw(rng, (V, H), dtype), rng.integers(0, V, N)
    b = draw(rng, V, dtype) if bias else None
    loss, cache = prediction_forward(h, targets, W_hy, b)
    dh, dW_hy, db = prediction_backward(cache)
    rows = [(int(y), row[:, None]) for y, row in zip(targets, h, strict=True)]
    column = 0.0 if b is None else b[:, None]
    predictions = [(y, *predict(y, row, W_hy, column), row) for y, row in rows]
    gradients = [predict_grad(y, p, row, W_hy) for y, _, p, row in predictions]
    assert_close(loss, sum(l for _, l, _, _ in predictions))
    assert_close(dh, np.hstack([d[0] for d in gradients]).T)
    assert_close(dW_hy, sum(d[1] for d in gradients))
    assert (db is None) is (b is None)
    if db is not None:
        assert_close(db, sum(d[2] for d in gradients)[:, 0])


def test_huge_logits_neither_overflow_nor_lose_the_loss():
    """log p of the best word tends to zero, and that of another word to minus their difference."""
    h, W_hy = np.array([[1e3], [1e3]]), np.array([[1.0], [-1.0], [0.0]])
    with np.errstate(all="raise", under="ignore"):
        loss, cache = prediction_forward(h, np.array([0, 1]), W_hy)
        dh, _, _ = prediction_backward(cache)
    assert loss == 2e3
    np.testing.assert_array_equal(dh, [[0.0], [2.0]])


# --- of a padded batch ----------------------------------------------------------------------------


def output(rng, lengths, bias):
    """h (T, B, H), parameters, targets (T, B)."""
    shape, parameters = (max(lengths), len(lengths)), {"out.W_hy": draw(rng, (V, H))}
    return (draw(rng, (*shape, H)), parameters | ({"out.b": draw(rng, V)} if bias else {}),
            rng.integers(0, V, shape))


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("lengths", [(5, 2, 1), (5, 5, 5), (1,), (40, 3)])
def test_output_gradients(lengths, bias):
    """By complex step. The loss is that of real words only, and padding has a gradient of exactly
    zero."""
    h, parameters, targets = output(np.random.default_rng(8), lengths, bias)
    real = np.arange(len(h))[:, None] < np.array(lengths)

    def forward(v):
        loss, cache = output_forward("out", v, v["h"], targets, np.array(lengths), Workspace())
        return loss, cache

    def backward(d, cache):
        dh, gradients = output_backward(cache, Workspace())
        assert not dh[~real].any()
        return {name: d * gradient for name, gradient in ({"h": dh} | gradients).items()}

    inputs = {"h": h, **parameters}
    check_pair(forward, backward, inputs, method="complex", vanish=False).raise_if_wrong()
    alone = prediction_forward(h[real], targets[real], parameters["out.W_hy"],
                               parameters.get("out.b"))[0]
    assert_close(forward(inputs)[0], alone)


def test_output_of_a_step_are_the_logits():
    rng = np.random.default_rng(9)
    for bias in (False, True):
        h, parameters, _ = output(rng, (3,), bias)
        expected = h[0] @ parameters["out.W_hy"].T + parameters.get("out.b", 0.0)
        assert_close(output_step("out", parameters, h[0]), expected)


def test_a_target_that_is_no_word_is_named():
    h, parameters, targets = output(np.random.default_rng(10), (3, 2), True)
    targets[0, 1] = V
    with pytest.raises(ValueError, match=f"targets: expected rows 0 to {V - 1} of a table of {V}"):
        output_forward("out", parameters, h, targets, np.array((3, 2)), Workspace())
