"""The gated unit of Bahdanau et al.: scalar loops, PyTorch's GRU where they agree."""

from __future__ import annotations

from math import exp, tanh

import numpy as np
import pytest

from grads.derivations.gru import (
    ContextUnit,
    Unit,
    gru,
    gru_context,
    gru_context_grad,
    gru_grad,
)

E, H, HE = 3, 2, 4
GATES = ("W", "W_z", "W_r", "U", "U_z", "U_r")


def inputs_of(context, biases=True, seed=1):
    """x, the state before, c in a decoder, and the weights by name."""
    shapes = {"x": (E, 1), "h_prev": (H, 1)}
    shapes |= {name: (H, E if name.startswith("W") else H) for name in GATES}
    if context:
        shapes |= {"c": (HE, 1), "C": (H, HE), "C_z": (H, HE), "C_r": (H, HE)}
    if biases:
        shapes |= {"b": (H, 1), "b_z": (H, 1), "b_r": (H, 1)}
    rng = np.random.default_rng(seed)
    return {name: rng.normal(size=shape) for name, shape in shapes.items()}


def unit_of(kind, a):
    return kind(**{name: a[name] for name in kind._fields if name in a})


def forward(a):
    """The encoder's unit, or the decoder's where there is a context."""
    if "c" in a:
        return gru_context(a["x"], a["h_prev"], a["c"], unit_of(ContextUnit, a))
    return gru(a["x"], a["h_prev"], unit_of(Unit, a))


def backward(d, a):
    if "c" in a:
        dx, d_prev, dc, d_unit = gru_context_grad(
            d, a["x"], a["h_prev"], a["c"], unit_of(ContextUnit, a))
        gradients = {"x": dx, "h_prev": d_prev, "c": dc, **d_unit._asdict()}
    else:
        dx, d_prev, d_unit = gru_grad(d, a["x"], a["h_prev"], unit_of(Unit, a))
        gradients = {"x": dx, "h_prev": d_prev, **d_unit._asdict()}
    return {name: gradients[name] for name in a}


# --- values -------------------------------------------------------------------------------------


@pytest.mark.parametrize("context", [False, True])
def test_by_scalar_loops(context):
    """A.2.1 and A.2.2, number by number: the reset gate weighs the state inside the product."""
    a = inputs_of(context)
    x, before = a["x"][:, 0], a["h_prev"][:, 0]
    c = a["c"][:, 0] if context else []

    def row(name, i, vector):
        return sum(a[name][i, j] * vector[j] for j in range(len(vector)))

    def linear(gate, i, state):
        from_c = row(f"C{gate}", i, c) if context else 0.0
        return row(f"W{gate}", i, x) + row(f"U{gate}", i, state) + from_c + a[f"b{gate}"][i, 0]

    r = [1 / (1 + exp(-linear("_r", i, before))) for i in range(H)]
    z = [1 / (1 + exp(-linear("_z", i, before))) for i in range(H)]
    kept = [r[i] * before[i] for i in range(H)]
    expected = [(1 - z[i]) * before[i] + z[i] * tanh(linear("", i, kept)) for i in range(H)]
    np.testing.assert_allclose(forward(a)[:, 0], expected, rtol=1e-13)


def test_without_a_context_the_decoder_is_the_encoder():
    """Footnote 8: the same formula without the context and its terms."""
    a = inputs_of(True)
    still = {**a, "c": np.zeros((HE, 1))}
    without = {name: value for name, value in a.items() if not name.lower().startswith("c")}
    np.testing.assert_array_equal(forward(still), forward(without))
    assert np.abs(forward(a) - forward(without)).max() > 0.01


# --- PyTorch's GRU ------------------------------------------------------------------------------


def in_torch(a):
    """h by nn.GRUCell, and the gradients of `upstream * h`, from PyTorch and from the derivation.

    Its h is (1 - z) o n + z o h_prev with n = tanh(W x + r o (U h_prev)). Since 1 - sigm(a) is
    sigm(-a), z's rows change sign here; the reset gate, outside the product, cannot be mapped.
    """
    torch = pytest.importorskip("torch", reason="PyTorch (extra `oracle`) is not installed")
    leaves = {name: torch.tensor(value, requires_grad=True) for name, value in a.items()}
    weights = {theirs: torch.cat([leaves[f"{W}_r"], -leaves[f"{W}_z"], leaves[W]])
               for theirs, W in (("weight_ih", "W"), ("weight_hh", "U"))}
    cell = torch.nn.GRUCell(E, H, bias=False, dtype=torch.float64)
    h = torch.func.functional_call(cell, weights, (leaves["x"].T, leaves["h_prev"].T))
    upstream = np.array([[1.0], [-2.0]])
    (torch.tensor(upstream).T * h).sum().backward()
    gradients = {name: leaf.grad.numpy() for name, leaf in leaves.items()}
    return h.detach().numpy().T, gradients, backward(upstream, a)


def test_gru_cell_of_torch_where_U_is_diagonal():
    """Erratum 17: the reset gate commutes with a diagonal U only."""
    a = inputs_of(False, biases=False)
    assert np.abs(forward(a) - in_torch(a)[0]).max() > 1e-3
    a["U"] = np.diag(np.diag(a["U"]))
    h, theirs, ours = in_torch(a)
    np.testing.assert_allclose(forward(a), h, rtol=1e-13)
    on_diagonal = np.eye(H, dtype=bool)
    assert np.abs((ours["U"] - theirs["U"])[~on_diagonal]).max() > 1e-3  # otherwise they differ
    theirs["U"], ours["U"] = theirs["U"][on_diagonal], ours["U"][on_diagonal]
    for name, gradient in theirs.items():
        np.testing.assert_allclose(ours[name], gradient, rtol=1e-11, err_msg=name)
