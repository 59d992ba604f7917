"""The gated unit whose reset gate stands after the product is PyTorch's GRUCell."""

from __future__ import annotations

import numpy as np
import pytest
from literal import draw

from grads.derivations.gru import unit_shapes
from grads.derivations.gru_after import UnitAfter, gru_after, gru_after_grad

E, H = 3, 2


def inputs_of(biases=True):
    shapes = unit_shapes(H, E, 0, False)
    if biases:
        shapes |= dict.fromkeys(("b", "b_z", "b_r", "b_m"), (H, 1))
    rng = np.random.default_rng(1)
    return {name: draw(rng, shape)
            for name, shape in {"x": (E, 1), "h_prev": (H, 1), **shapes}.items()}


def unit_of(a):
    return UnitAfter(**{name: value for name, value in a.items() if name not in ("x", "h_prev")})


def forward(a):
    return gru_after(a["x"], a["h_prev"], unit_of(a))


def backward(d, a):
    dx, dh_prev, d_unit = gru_after_grad(d, a["x"], a["h_prev"], unit_of(a))
    return {"x": dx, "h_prev": dh_prev,
            **{name: d for name, d in d_unit._asdict().items() if name in a}}


def test_it_is_the_gru_cell_of_torch():
    """State and all gradients; the biases of r, and of z, get the same gradient on both sides."""
    torch = pytest.importorskip("torch", reason="PyTorch (extra `oracle`) is not installed")
    a = inputs_of()
    leaves = {name: torch.tensor(value, requires_grad=True) for name, value in a.items()}
    weights = {theirs: torch.cat([leaves[f"{kind}_r"], leaves[f"{kind}_z"], leaves[kind]])
               for theirs, kind in (("weight_ih", "W"), ("weight_hh", "U"))}
    zero = torch.zeros(H, dtype=torch.float64)
    weights["bias_ih"] = torch.cat([leaves[name][:, 0] for name in ("b_r", "b_z", "b")])
    weights["bias_hh"] = torch.cat([zero, zero, leaves["b_m"][:, 0]])
    cell = torch.nn.GRUCell(E, H, dtype=torch.float64)
    h = torch.func.functional_call(cell, weights, (leaves["x"].T, leaves["h_prev"].T))
    upstream = np.array([[1.0], [-2.0]])
    (torch.tensor(upstream).T * h).sum().backward()
    np.testing.assert_allclose(forward(a), h.detach().numpy().T, rtol=1e-14)
    for name, gradient in backward(upstream, a).items():
        np.testing.assert_allclose(gradient, leaves[name].grad.numpy(), rtol=1e-12, err_msg=name)
