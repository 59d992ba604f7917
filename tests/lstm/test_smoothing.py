"""Label smoothing against its derivation, against PyTorch, and against the loss without
smoothing."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from literal import DTYPES, assert_close, draw

from backend.workspace import Workspace
from grads.check import check_pair
from grads.derivations.smoothing import predict_smoothed, predict_smoothed_grad
from lstm.prediction import (
    CHUNK,
    output_backward,
    output_forward,
    prediction_backward,
)
from lstm.smoothing import smoothed_prediction_forward

V, H, EPS = 9, 4, 0.1


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("bias", [False, True])
def test_the_kernel_is_the_derivation(dtype, bias):
    rng, N = np.random.default_rng(1), CHUNK + 3
    h, W_hy, targets = draw(rng, (N, H), dtype), draw(rng, (V, H), dtype), rng.integers(0, V, N)
    b = draw(rng, V, dtype) if bias else None
    loss, cache = smoothed_prediction_forward(h, targets, W_hy, b, smoothing=EPS)
    dh, dW_hy, db = prediction_backward(cache)
    column = 0.0 if b is None else b[:, None]
    predictions = [(int(y), row[:, None],
                    *predict_smoothed(int(y), row[:, None], W_hy, column, EPS))
                   for y, row in zip(targets, h, strict=True)]
    gradients = [predict_smoothed_grad(y, row, W_hy, column, EPS, p) for y, row, _, p,
                 _ in predictions]
    assert_close(loss, sum(prediction[2] for prediction in predictions))
    assert_close(cache.nll, sum(prediction[4] for prediction in predictions))
    assert_close(dh, np.hstack([d[0] for d in gradients]).T)
    assert_close(dW_hy, sum(d[1] for d in gradients))
    if bias:
        assert_close(db, sum(d[2] for d in gradients)[:, 0])


def test_the_derivation_is_its_loss_s_gradient():
    """By complex step, of one word."""
    rng = np.random.default_rng(2)
    inputs = {"h": draw(rng, (H, 1)), "W_hy": draw(rng, (V, H)), "b": draw(rng, (V, 1))}

    def forward(v):
        l, p, _ = predict_smoothed(3, v["h"], v["W_hy"], v["b"], EPS)
        return l, (p, v)

    def backward(d, cache):
        p, v = cache
        gradients = predict_smoothed_grad(3, v["h"], v["W_hy"], v["b"], EPS, p)
        return {name: d * gradient for name, gradient in zip(inputs, gradients, strict=True)}

    check_pair(forward, backward, inputs, method="complex").raise_if_wrong()


def test_pytorch_spreads_the_same_share():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(3)
    h, W_hy, b = draw(rng, (7, H)), draw(rng, (V, H)), draw(rng, V)
    targets = rng.integers(0, V, 7)
    s = torch.tensor(h @ W_hy.T + b, requires_grad=True)
    theirs = torch.nn.functional.cross_entropy(s, torch.tensor(targets), reduction="sum",
                                               label_smoothing=EPS)
    theirs.backward()
    loss, cache = smoothed_prediction_forward(h, targets, W_hy, b, smoothing=EPS)
    assert_close(loss, theirs.item())
    np.testing.assert_allclose(cache.ds, s.grad.numpy(), rtol=1e-12, atol=1e-15)


def test_a_padded_batch_by_complex_step_and_without_a_share():
    rng, lengths = np.random.default_rng(4), np.array([5, 2])
    inputs = {"h": draw(rng, (5, 2, H)), "out.W_hy": draw(rng, (V, H)), "out.b": draw(rng, V)}
    targets = rng.integers(0, V, (5, 2))

    def forward(v, smoothing=0.3):
        return output_forward("out", v, v["h"], targets, lengths, Workspace(),
                              predict=partial(smoothed_prediction_forward, smoothing=smoothing))

    def backward(d, cache):
        dh, gradients = output_backward(cache, Workspace())
        return {name: d * gradient for name, gradient in ({"h": dh} | gradients).items()}

    check_pair(forward, backward, inputs, method="complex", vanish=False).raise_if_wrong()
    plain, cache = output_forward("out", inputs, inputs["h"], targets, lengths, Workspace())
    assert plain is cache.prediction.nll
    assert_close(forward(inputs, 0.0)[0], plain)
    assert_close(forward(inputs)[1].prediction.nll, plain)
