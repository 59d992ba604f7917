"""PyTorch twins of the gradient catalogue: a third opinion, by automatic differentiation.

`outputs` and `gradients` recompute a case of the catalogue from its named inputs, with PyTorch's
own modules wherever they fit (`grads.oracle.units`, `grads.oracle.models`). This is the one place
outside tests and benchmarks where torch appears; it is imported when a twin is asked for and not
before, and where it is missing `available` says so.

Where PyTorch's recurrent units differ from ours, written down here and nowhere else:

| here | in PyTorch |
|---|---|
| LSTM gates i, f, o, h_hat (thesis, Eq. 2.35) | i, f, g, o, where g is h_hat |
| `T` (G, E + H) = [T_x T_h] | `weight_ih` (G, E) and `weight_hh` (G, H) |
| one bias `b`, or none | `bias_ih`; `bias_hh` stays zero |
| GRU of Bahdanau et al. (2015): s = (1 - z) o s_prev + z o s~ | h = (1 - z) o n + z o h_prev |
| s~ = tanh(W x + U (r o s_prev)) | n = tanh(W x + r o (U h_prev)) |

1 - sigm(a) = sigm(-a): the update gate's rows change sign, and then the two GRUs mix old and new
alike (`gru_weights`). The reset gate cannot be mapped: inside the product it weighs components of
the state, outside it rows of U. The units agree where U is diagonal and are otherwise different
functions (erratum 17), so a GRU's twin is `bahdanau_gru` and not `torch.nn.GRU`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from backend import Array
from grads.case import Case, Entry
from lstm.lstm import GATES

TORCH_GATES = ("i", "f", "h_hat", "o")  # the row blocks of nn.LSTM's weights
GATE_ORDERS = {"lstm": (GATES, TORCH_GATES), "rnn": (("h",), ("h",))}  # ours, PyTorch's
STATES = {"lstm": 2, "rnn": 1, "gru": 1}  # arrays in a state
TORCH_GRU = (("r", 1.0), ("z", -1.0), ("s~", 1.0))  # the row blocks of nn.GRU's weights, and signs


# --- the mapping --------------------------------------------------------------------------------


def reorder(rows: Array, before: Sequence[str], after: Sequence[str]) -> Array:
    """The blocks of `rows`, called `before` from the top, in the order `after`.

    Works on NumPy arrays and, differentiably, on torch tensors. Returns a copy.
    """
    size = len(rows) // len(before)
    return rows[[before.index(gate) * size + k for gate in after for k in range(size)]]


def to_torch(rows: Array, unit: str) -> Array:
    """Rows of `T` or `b` in PyTorch's gate order."""
    ours, theirs = GATE_ORDERS[unit]
    return reorder(rows, ours, theirs)


def from_torch(rows: Array, unit: str) -> Array:
    """Rows of PyTorch's weights, or of their gradients, in our gate order."""
    ours, theirs = GATE_ORDERS[unit]
    return reorder(rows, theirs, ours)


def recurrent_weights(unit: str, T: Any, b: Any | None, suffix: str = "") -> dict[str, Any]:
    """Our tensors `T` and `b` as nn.LSTM, nn.RNN and their cells name them.

    Arguments: suffix, what the module puts behind each name ("_l0", "_l0_reverse"; none in a
    cell). The result is for `torch.func.functional_call`; gradients flow back through it.
    """
    H, T = len(T) // len(GATE_ORDERS[unit][0]), to_torch(T, unit)
    weights = {"weight_ih": T[:, :-H], "weight_hh": T[:, -H:]}
    if b is not None:
        weights |= {"bias_ih": to_torch(b, unit), "bias_hh": b.new_zeros(b.shape)}
    return {f"{name}{suffix}": weight for name, weight in weights.items()}


def gru_weights(W: Mapping[str, Any], U: Mapping[str, Any]) -> dict[str, Any]:
    """Bahdanau's matrices as nn.GRUCell names them; its gate z is then 1 - z of the paper.

    Arguments: W (H, E) and U (H, H), tensors by gate: "r", "z" and "s~".
    """
    import torch

    return {name: torch.cat([sign * matrices[gate] for gate, sign in TORCH_GRU])
            for name, matrices in (("weight_ih", W), ("weight_hh", U))}


def bahdanau_gru(x: Any, s_prev: Any, W: Mapping[str, Any], U: Mapping[str, Any]) -> Any:
    """s_i (B, H) of Bahdanau et al. (2015), appendix A.2.2, from x (B, E) and s_prev (B, H)."""
    r, z = ((x @ W[gate].T + s_prev @ U[gate].T).sigmoid() for gate in ("r", "z"))
    s_tilde = (x @ W["s~"].T + (r * s_prev) @ U["s~"].T).tanh()
    return (1 - z) * s_prev + z * s_tilde


# --- the twins ----------------------------------------------------------------------------------


def available() -> bool:
    """Whether PyTorch is installed (extra `oracle`)."""
    return find_spec("torch") is not None


def outputs(entry: Entry, case: Case) -> dict[str, np.ndarray]:
    """The case's outputs by name, float64, recomputed by PyTorch from `case.inputs`.

    Raises ValueError where the entry's kind has no twin.
    """
    return {name: out.detach().numpy() for name, out in run(entry, leaves(case), case).items()}


def gradients(entry: Entry, case: Case, upstream: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """By input name, the gradient of the sum over outputs of upstream * output, float64.

    Arguments: upstream, arrays of the outputs' shapes; an output without one does not count.
    Raises ValueError for an upstream gradient of something that is no output, or of another shape,
    and where the entry's kind has no twin.
    """
    import torch

    if not upstream:
        raise ValueError("upstream: expected a gradient of at least one output, got none")
    inputs = leaves(case)
    outs = run(entry, inputs, case)
    total = sum(0.0 * leaf.sum() for leaf in inputs.values())  # so that none is without a gradient
    for name, given in upstream.items():
        d = torch.tensor(np.asarray(given), dtype=torch.float64)
        shape = tuple(outs[name].shape) if name in outs else "no such output"
        if tuple(d.shape) != shape:
            raise ValueError(f"upstream: {name!r}: expected {shape}, got {tuple(d.shape)}")
        total = total + (d * outs[name]).sum()
    found = torch.autograd.grad(total, list(inputs.values()))
    return {name: d.numpy() for name, d in zip(inputs, found, strict=True)}


def leaves(case: Case) -> dict[str, Any]:
    """The case's inputs as tensors that collect gradients."""
    import torch

    return {name: torch.tensor(np.asarray(value), dtype=torch.float64, requires_grad=True)
            for name, value in case.inputs.items()}


def run(entry: Entry, inputs: Mapping[str, Any], case: Case) -> dict[str, Any]:
    """The twin of one case: outputs by name, tensors that remember how they were made."""
    modules = [import_module(f"grads.oracle.{room}") for room in ("units", "models", "rnnsearch")]
    twins = {kind: twin for module in modules for kind, twin in module.TWINS.items()}
    if entry.kind not in twins:
        raise ValueError(f"entry: expected a kind with a PyTorch twin ({', '.join(twins)}), "
                         f"got {entry.kind!r}")
    return twins[entry.kind](inputs, case.facts, entry.options)
