"""The layer-normalised LSTM: what a norm does to products, and PyTorch's autograd of the
formula as it is printed."""

from __future__ import annotations

import numpy as np
import pytest
from literal import draw

from grads.derivations.lstm_norm import UnitNorm, lstm_norm, lstm_norm_grad

E, H = 2, 3
SHAPES = {"x": (E, 1), "h_prev": (H, 1), "c_prev": (H, 1), "W_x": (4 * H, E), "W_h": (4 * H, H),
          "b": (4 * H, 1), "g_x": (4 * H, 1), "g_h": (4 * H, 1), "g_c": (H, 1), "b_c": (H, 1)}


def inputs():
    rng = np.random.default_rng(1)
    return {name: draw(rng, shape) for name, shape in SHAPES.items()}


def arguments(a):
    return a["x"], a["h_prev"], a["c_prev"], UnitNorm(**{n: a[n] for n in UnitNorm._fields})


def backward(d, a):
    dx, dh_prev, dc_prev, d_unit = lstm_norm_grad(d, *arguments(a))
    return {"x": dx, "h_prev": dh_prev, "c_prev": dc_prev, **d_unit._asdict()}


def test_a_scaled_product_changes_nothing():
    """Because of the norms, the sizes of W_x x and of W_h h do not affect the gates."""
    a = inputs()
    for name in ("W_x", "W_h"):
        scaled = a | {name: 1e4 * a[name]}
        larger = a | {name: 1e8 * a[name]}  # eps is negligible
        np.testing.assert_allclose(lstm_norm(*arguments(scaled)), lstm_norm(*arguments(larger)),
                                   rtol=1e-9)


def test_it_is_the_formula_of_the_paper_by_autograd():
    """Equations 20 to 22, with one bias for b, beta_1 and beta_2."""
    torch = pytest.importorskip("torch", reason="PyTorch (extra `oracle`) is not installed")
    a = inputs()
    t = {name: torch.tensor(value, requires_grad=True) for name, value in a.items()}

    def ln(v, alpha, beta=0.0):
        return alpha * (v - v.mean()) / torch.sqrt(v.var(unbiased=False) + 1e-5) + beta

    i, f, o, g = (ln(t["W_h"] @ t["h_prev"], t["g_h"]) + ln(t["W_x"] @ t["x"], t["g_x"])
                  + t["b"]).chunk(4)
    c = torch.sigmoid(f) * t["c_prev"] + torch.sigmoid(i) * torch.tanh(g)
    h = torch.sigmoid(o) * torch.tanh(ln(c, t["g_c"], t["b_c"]))
    state = torch.cat([h, c])
    upstream = draw(np.random.default_rng(2), (2 * H, 1))
    (torch.tensor(upstream) * state).sum().backward()
    np.testing.assert_allclose(lstm_norm(*arguments(a)), state.detach().numpy(), rtol=1e-13)
    for name, gradient in backward(upstream, a).items():
        np.testing.assert_allclose(gradient, t[name].grad.numpy(), rtol=1e-10, atol=1e-15,
                                   err_msg=name)
