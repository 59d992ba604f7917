"""Backward passes written for PyTorch and JAX: right ones pass, wrong ones are diagnosed."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from grads.check.frameworks import check_jax, check_torch

rng = np.random.default_rng(4)
X, W, B = rng.normal(size=(4, 3)), rng.normal(size=(2, 3)), rng.normal(size=2)


def status_of(report):
    """The status of each tensor."""
    return {row.name: row.status for row in report.rows if row.upstream == "all"}


def function(mean=False):
    """A torch.autograd.Function of two outputs, and one with a mean for a sum."""
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)  # faster than several on small arrays

    class Layer(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, weight, bias):
            h = torch.tanh(x @ weight.T + bias)
            ctx.save_for_backward(x, weight, h)
            return h, h.sum()

        @staticmethod
        def backward(ctx, dh, dsum):
            x, weight, h = ctx.saved_tensors
            dz = (1 - h * h) * (dh + dsum)
            return dz @ weight, dz.T @ x, dz.mean(0) if mean else dz.sum(0)

    return torch, Layer.apply


def test_a_function_of_pytorch():
    torch, right = function()
    report = check_torch(right, torch.tensor(X), torch.tensor(W, requires_grad=True), B)
    report.raise_if_wrong()
    assert status_of(report) == dict.fromkeys(("x", "weight", "bias"), "ok")
    assert report.title == "Layer" and "complex" in report.rows[0].errors
    wrong = check_torch(function(mean=True)[1], X, W, B)
    assert status_of(wrong) == {"x": "ok", "weight": "ok", "bias": "wrong"}
    assert "it is off by the constant factor 0.25" in str(wrong)
    assert "in place of `dz.mean(0)` in line" in str(wrong)


def test_a_module_of_pytorch_is_left_as_it_is():
    torch, wrong = function(mean=True)

    class Module(torch.nn.Module):
        def __init__(self, f):
            super().__init__()
            self.f, self.table = f, torch.nn.Embedding(5, 3)
            self.norm, self.linear = torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 2)

        def forward(self, ids, scale):
            x = self.norm(self.table(ids)) * scale
            return self.f(x, self.linear.weight, self.linear.bias)[0]

    def plain(x, weight, bias):
        return torch.tanh(x @ weight.T + bias), None

    torch.manual_seed(0)
    names = {"table.weight", "norm.weight", "norm.bias", "linear.weight", "linear.bias", "scale"}
    ids, scale = torch.tensor([1, 4, 1, 0]), torch.tensor(1.5)
    module = Module(plain)
    before = {name: value.clone() for name, value in module.state_dict().items()}
    report = check_torch(module, ids, scale)
    report.raise_if_wrong()
    assert status_of(report).keys() == names
    assert all(torch.equal(module.state_dict()[name], value) for name, value in before.items())
    assert [row.name for row in check_torch(Module(wrong), ids, scale).wrong] == ["linear.bias"]


def test_a_function_of_jax_with_a_custom_vjp():
    jax = pytest.importorskip("jax")

    def with_backward(factor):
        @jax.custom_vjp
        def f(p, x):
            return jax.numpy.tanh(x @ p["W"].T + p["b"]), x.sum()

        def backward(saved, d):
            p, x = saved
            dz = d[0] * (1 - jax.numpy.tanh(x @ p["W"].T + p["b"]) ** 2)
            return {"W": dz.T @ x, "b": factor * dz.sum(0)}, dz @ p["W"] + d[1]

        f.defvjp(lambda p, x: (f(p, x), (p, x)), backward)
        return f

    report = check_jax(with_backward(1), {"W": W, "b": B}, X)
    report.raise_if_wrong()
    assert status_of(report) == dict.fromkeys(("p.W", "p.b", "x"), "ok")
    report = check_jax(with_backward(-1), {"W": W, "b": B}, X)
    assert {row.name for row in report.wrong} == {"p.b"} and "reversed sign" in str(report)


def test_no_framework_is_imported_until_it_is_needed():
    code = ("import sys, grads.check.frameworks, grads.check.layers, grads.check.losses\n"
            "assert not {'torch', 'jax'} & set(sys.modules)")
    subprocess.run([sys.executable, "-c", code], check=True)
