"""The norms: against the derivation and PyTorch; short vectors, names."""

from __future__ import annotations

import numpy as np
import pytest
from literal import DTYPES, assert_close, draw

from attention.norms import EPS, NORMS, norm_backward, norm_forward, norm_weights
from grads.check import check_gradients
from grads.derivations import norms as literal
from grads.derivations.norms import (
    layer_norm_jacobian,
    rms_norm_jacobian,
    scale_norm_jacobian,
)
from lstm.parameters import initialise

SHAPE = (3, 2, 5)  # (T, B, d)
KINDS = pytest.mark.parametrize("kind", NORMS)


def make(kind, dtype=np.float64):
    """Vectors, weights and an upstream gradient."""
    rng = np.random.default_rng(2)
    weights = norm_weights("n", kind, SHAPE[-1])
    parameters = {name: draw(rng, weight.shape, dtype) + 1.0 for name, weight in weights.items()}
    return draw(rng, SHAPE, dtype), parameters, draw(rng, SHAPE, dtype)


def columns(parameters):
    return [value[:, None] for value in parameters.values()]


@pytest.mark.parametrize("dtype", DTYPES)
@KINDS
def test_kernels_are_the_derivation(kind, dtype):
    x, parameters, dy = make(kind, dtype)
    y, cache = norm_forward("n", kind, parameters, x)
    dx, gradients = norm_backward(dy, cache)
    forward, grad = literal.NORMS[kind]
    sums = [0.0] * len(parameters)
    for place in np.ndindex(SHAPE[:2]):
        column, w = x[place][:, None], columns(parameters)
        assert_close(y[place], forward(column, *w)[:, 0])
        d_column, *dw = grad(dy[place][:, None], column, *w)
        assert_close(dx[place], d_column[:, 0])
        sums = [before + gradient[:, 0] for before, gradient in zip(sums, dw, strict=True)]
    assert list(gradients) == list(parameters)
    for actual, expected in zip(gradients.values(), sums, strict=True):
        assert_close(actual, expected)


@KINDS
def test_derivations(kind):
    x, parameters, dy = make(kind)
    forward, grad = literal.NORMS[kind]
    arguments, d = [x[0, 0][:, None], *columns(parameters)], dy[0, 0][:, None]
    check_gradients(lambda *a: (d * forward(*a)).sum(), arguments, list(grad(d, *arguments)),
                    vanish=False).raise_if_wrong()


@pytest.mark.parametrize("forward, jacobian", [
    (lambda x: literal.layer_norm(x, 1.0, 0.0), layer_norm_jacobian),
    (lambda x: literal.scale_norm(x, 1.0), scale_norm_jacobian),
    (lambda x: literal.rms_norm(x, 1.0), rms_norm_jacobian),
])  # fmt: skip
def test_jacobians_are_those_of_complex_step(forward, jacobian):
    x, h = make("layer")[0][0, 0][:, None], 1e-30
    steps = [forward(x + 1j * h * np.eye(5)[:, [j]]).imag / h for j in range(5)]
    assert_close(jacobian(x), np.hstack(steps))


@pytest.mark.parametrize("length", [0.0, EPS / 2])
@pytest.mark.parametrize("kind", ["scale", "fixed-scale"])
def test_a_short_vector_is_divided_by_eps(kind, length):
    """There the norm is linear: y = g x / eps."""
    x, parameters, dy = make(kind)
    x[0, 0] = length / 5**0.5
    y, cache = norm_forward("n", kind, parameters, x)
    dx, _ = norm_backward(dy, cache)
    g = parameters.get("n.g", 5**0.5)
    np.testing.assert_allclose(y[0, 0], g * x[0, 0] / EPS, rtol=1e-14)
    np.testing.assert_allclose(dx[0, 0], g * dy[0, 0] / EPS, rtol=1e-14)
    if length:
        arguments = [x[0, 0][:, None], *columns(parameters)]
        forward, grad = literal.NORMS[kind]
        d = dy[0, 0][:, None]
        assert_close(dx[0, 0], grad(d, *arguments)[0][:, 0])
        check_gradients(lambda *a: (d * forward(*a)).sum(), arguments, list(grad(d, *arguments)),
                        method="complex").raise_if_wrong()


@KINDS
def test_arguments_are_not_changed(kind):
    x, parameters, dy = make(kind)
    before = [array.copy() for array in (x, dy, *parameters.values())]
    norm_backward(dy, norm_forward("n", kind, parameters, x)[1])
    for array, old in zip((x, dy, *parameters.values()), before, strict=True):
        np.testing.assert_array_equal(array, old)


@KINDS
def test_initial_weights_of_a_norm(kind):
    """Gain one and bias zero; ScaleNorm's g is sqrt(d): all vectors have mean square one."""
    parameters = initialise(norm_weights("n", kind, 64), np.random.default_rng(0), "float64")
    x = np.random.default_rng(1).normal(size=(3, 64))
    y, _ = norm_forward("n", kind, parameters, x)
    np.testing.assert_allclose((y * y).mean(axis=1), 1.0, rtol=1e-4)


def test_an_unknown_norm_is_named():
    with pytest.raises(ValueError, match=r"norm: expected one of layer, scale, .*, got 'batch'"):
        norm_weights("n", "batch", 4)


@pytest.mark.parametrize("kind", ["layer", "rms"])
def test_pytorch(kind):
    torch = pytest.importorskip("torch", reason="PyTorch, the oracle (extra `oracle`)")
    x, parameters, dy = make(kind)
    module = {"layer": torch.nn.LayerNorm, "rms": torch.nn.RMSNorm}[kind](5, eps=EPS).double()
    leaf = torch.tensor(x, requires_grad=True)
    names = dict(zip(("weight", "bias"), parameters, strict=False))
    module.load_state_dict({name: torch.tensor(parameters[of]) for name, of in names.items()})
    expected = module(leaf)
    expected.backward(torch.tensor(dy))
    y, cache = norm_forward("n", kind, parameters, x)
    dx, gradients = norm_backward(dy, cache)
    assert_close(y, expected.detach().numpy())
    assert_close(dx, leaf.grad.numpy())
    for name, of in names.items():
        assert_close(gradients[of], getattr(module, name).grad.numpy())
