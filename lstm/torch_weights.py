"""Converts weights of PyTorch's `nn.RNN`, `nn.LSTM` and `nn.GRU` to ours and back, without PyTorch.

`Cell.torch` says where PyTorch's blocks of rows stand here: i, f, g, o of `nn.LSTM`, where g is
h_hat, and r, z, n of `nn.GRU`, where n is h~. `nn.GRU` is the cell of `lstm.cells.gru_after`. The
`gru` of Bahdanau et al. is another function (erratum 17), which no module of PyTorch computes.

| ours | PyTorch's, of layer 0 |
|---|---|
| `{prefix}.0.W` = [W_x W_h], (G, E + H) | `weight_ih_l0` (G, E), `weight_hh_l0` (G, H) |
| `{prefix}.0.b` | `bias_ih_l0` + `bias_hh_l0` |
| `{prefix}.0.forward.W`, `{prefix}.0.backward.W` | `..._l0`, `..._l0_reverse` |

Matrices are only rearranged, so they come back equal to the bit. Two biases become their sum. On
the way back the second bias is zero. The last blocks of a GRU's two biases are not added, because r
multiplies one of them: the cell has it in `Cell.biases`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from backend.errors import check_among
from lstm.cells import CELLS
from lstm.parameters import Parameters

# Each order is its own inverse
ORDERS = {unit: cell.torch for unit, cell in CELLS.items() if cell.torch}


def from_torch(state: Mapping[str, np.ndarray], unit: str, prefix: str) -> Parameters:
    """The parameters of a module of PyTorch under the names of `lstm.stack`.

    Arguments: state, the module's weights by name, as in `state_dict()`; unit, a name in `ORDERS`,
    such as lstm for `nn.LSTM`; prefix of our names. The numbers of layers and directions, and
    whether there are biases, follow from the names.
    Raises ValueError for another unit, for a weight that is missing or that no such module has
    (those of `proj_size`), and for a shape that is not the unit's.
    """
    check_among("unit", unit, ORDERS)
    parameters: Parameters = {}
    unread = set(state)
    layers = sum(f"weight_ih_l{layer}" in state for layer in range(len(state)))
    for ours, theirs in _names(prefix, layers, "weight_ih_l0_reverse" in state):
        W_x, W_h = (_taken(state, f"weight_{kind}_{theirs}", unit, unread) for kind in ("ih", "hh"))
        if len(W_h) != len(ORDERS[unit]) * W_h.shape[1]:
            raise ValueError(f"state: weight_hh_{theirs}: expected {len(ORDERS[unit])} blocks of "
                             f"as many rows as columns for {unit}, got shape {W_h.shape}")
        parameters[f"{ours}.W"] = np.concatenate([W_x, W_h], axis=1)
        if "bias_ih_l0" in state:
            b_x, b_h = (_taken(state, f"bias_{kind}_{theirs}", unit, unread)
                        for kind in ("ih", "hh"))
            apart = len(CELLS[unit].biases) * W_h.shape[1]
            added = len(b_x) - apart
            parameters[f"{ours}.b"] = np.concatenate(
                [b_x[:added] + b_h[:added], b_x[added:], b_h[added:]])
    if unread or not parameters:
        raise ValueError("state: expected the weights of a module of PyTorch, weight_ih_l0, ..., "
                         f"got {min(unread, default='none')}")
    return parameters


def to_torch(parameters: Mapping[str, np.ndarray], unit: str, prefix: str) -> Parameters:
    """The reverse of `from_torch`: the stack `prefix` of some parameters, for `load_state_dict`.

    Raises ValueError for a unit that PyTorch does not have, and if there is no such stack.
    """
    check_among("unit", unit, ORDERS)
    state: Parameters = {}
    two_directions = f"{prefix}.0.forward.W" in parameters
    first = ".forward" if two_directions else ""
    layers = sum(f"{prefix}.{layer}{first}.W" in parameters for layer in range(len(parameters)))
    for ours, theirs in _names(prefix, layers, two_directions):
        W = _reordered(parameters[f"{ours}.W"], unit)
        H = len(W) // len(ORDERS[unit])
        state |= {f"weight_ih_{theirs}": W[:, :-H].copy(), f"weight_hh_{theirs}": W[:, -H:].copy()}
        if f"{ours}.b" in parameters:
            b = parameters[f"{ours}.b"]
            b_x, b_m = _reordered(b[: len(W)], unit), b[len(W) :]
            b_h = np.concatenate([np.zeros_like(b_x[: len(W) - len(b_m)]), b_m])
            state |= {f"bias_ih_{theirs}": b_x, f"bias_hh_{theirs}": b_h}
    if not state:
        raise ValueError(f"parameters: expected a stack {prefix}.0.W, ..., got "
                         f"{', '.join(sorted(parameters)) or 'none'}")
    return state


def _names(prefix: str, layers: int, bidirectional: bool) -> Iterator[tuple[str, str]]:
    """Our name of each layer and direction, and the ending of PyTorch's names of its weights."""
    ends = [(".forward", ""), (".backward", "_reverse")] if bidirectional else [("", "")]
    for layer in range(layers):
        for ours, theirs in ends:
            yield f"{prefix}.{layer}{ours}", f"l{layer}{theirs}"


def _taken(state: Mapping[str, np.ndarray], name: str, unit: str, unread: set[str]) -> np.ndarray:
    """A weight of PyTorch's with its blocks in our order. Its name is removed from `unread`."""
    if name not in state:
        raise ValueError(f"state: {name}: missing")
    unread.discard(name)
    return _reordered(state[name], unit)


def _reordered(rows: np.ndarray, unit: str) -> np.ndarray:
    """The blocks of a weight in the other order. Applied twice, it changes nothing."""
    blocks = np.array_split(rows, len(ORDERS[unit]))
    return np.concatenate([blocks[place] for place in ORDERS[unit]])
