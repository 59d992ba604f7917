"""Recurrent layers by PyTorch's own kernels (oneDNN, cuDNN), which make references fast peers.

| here | in PyTorch |
|---|---|
| blocks of rows | those blocks in the order of `Kernels.order` |
| `.W` = [W_x W_h] | `weight_ih` and `weight_hh` |
| a bias `.b` | `bias_ih`; `bias_hh` is zero, except for the last blocks of `.b`, `Kernels.apart` |
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from grads.verification.reference.cells import CELLS
from grads.verification.reference.tokens import Parameters, State

KERNELS = {unit: cell.kernels for unit, cell in CELLS.items() if cell.kernels}


def fused(unit: str, parameters: Parameters) -> dict[str, Tensor]:
    """The parameters, with recurrent layers arranged for PyTorch's kernels.

    unit: a name in KERNELS. `.W` (blocks x H, width + H) and `.b` become `.weight_ih`,
    `.weight_hh`, `.bias_ih` and, where b has blocks apart, `.bias_hh`.
    """
    weights: dict[str, Tensor] = {}
    blocks, apart = len(KERNELS[unit].order), KERNELS[unit].apart
    for name, value in parameters.items():
        layer, _, kind = name.rpartition(".")
        if f"{layer}.W" not in parameters or layer.startswith("bridge"):
            weights[name] = value
        elif kind == "W":
            H = len(value) // blocks
            widths = [value.shape[1] - H, H]
            halves = zip(("ih", "hh"), reordered(unit, value).split(widths, dim=1), strict=True)
            weights |= {f"{layer}.weight_{name}": half.contiguous() for name, half in halves}
        else:
            H = len(value) // (blocks + apart)
            weights[f"{layer}.bias_ih"] = reordered(unit, value[: blocks * H])
            if apart:
                weights[f"{layer}.bias_hh"] = F.pad(value[blocks * H :], ((blocks - apart) * H, 0))
    return weights


def unfused(unit: str, parameters: Parameters) -> dict[str, Tensor]:
    """The inverse of `fused`, for its result or for gradients under the same names."""
    weights: dict[str, Tensor] = {}
    for name, value in parameters.items():
        layer, _, kind = name.rpartition(".")
        if kind == "weight_ih":
            W = torch.cat([value, parameters[f"{layer}.weight_hh"]], dim=1)
            weights[f"{layer}.W"] = reordered(unit, W)
        elif kind == "bias_ih":
            blocks, apart = len(KERNELS[unit].order), KERNELS[unit].apart
            weights[f"{layer}.b"] = reordered(unit, value)
            if apart:
                last = parameters[f"{layer}.bias_hh"].chunk(blocks)[-apart:]
                weights[f"{layer}.b"] = torch.cat([weights[f"{layer}.b"], *last])
        elif kind not in ("weight_hh", "bias_hh"):
            weights[name] = value
    return weights


def reordered(unit: str, rows: Tensor) -> Tensor:
    """The blocks of rows in the other order. Applied twice, it changes nothing."""
    order = KERNELS[unit].order
    blocks = rows.chunk(len(order))
    return torch.cat([blocks[place] for place in order])


def is_fused(parameters: Parameters, name: str) -> bool:
    """Whether a layer is arranged for PyTorch's kernels."""
    return f"{name}.weight_ih" in parameters


def fused_weights(config: Any, parameters: Parameters, name: str) -> list[Tensor]:
    """A layer's parameters for PyTorch's kernels: weights, and both biases.

    Raises ValueError for a configuration that clips gradients: the kernels do not clip.
    """
    if config.clip_elements is not None:
        raise ValueError("clip_elements: expected none of layers that PyTorch's kernels run, "
                         f"got {config.clip_elements}")
    b = parameters.get(f"{name}.bias_ih")
    biases = [] if b is None else [b, parameters.get(f"{name}.bias_hh", torch.zeros_like(b))]
    return [parameters[f"{name}.weight_ih"], parameters[f"{name}.weight_hh"], *biases]


def fused_layer(
    config: Any, x: Tensor, state: State, parameters: Parameters, names: list[str],
    lengths: Tensor | None,
) -> tuple[Tensor, State]:
    """A layer in the direction or both directions of `names`: (T, B, He), last states (B, He).

    On padding it returns zero. lengths: (B,), None if nothing is padded.
    """
    flat = [tensor for name in names for tensor in fused_weights(config, parameters, name)]
    first = tuple(tensor.expand(len(names), -1, -1) for tensor in state)
    # One layer, no dropout of its own, training.
    options = (len(flat) > 2 * len(names), 1, 0.0, True, len(names) > 1)
    run = KERNELS[config.unit].layer
    if lengths is None:
        h, *last = run(x, first if len(first) > 1 else first[0], flat, *options, False)
        return h, tuple(torch.cat(tensor.unbind(), dim=1) for tensor in last)
    packed = pack_padded_sequence(x, lengths, enforce_sorted=False)
    first = tuple(tensor[:, packed.sorted_indices] for tensor in first)
    data, *last = run(packed.data, packed.batch_sizes, first if len(first) > 1 else first[0], flat,
                      *options)
    h, _ = pad_packed_sequence(packed._replace(data=data), total_length=len(x))
    order = packed.unsorted_indices
    return h, tuple(torch.cat(tensor[:, order].unbind(), dim=1) for tensor in last)


def fused_cell(
    config: Any, parameters: Parameters, name: str
) -> Callable[[Tensor, State], State]:
    """A step of a layer, from the input x_t (B, width) and the previous state."""
    run, flat = KERNELS[config.unit].step, fused_weights(config, parameters, name)
    if CELLS[config.unit].states == 2:
        return lambda x, state: run(x, state, *flat)
    return lambda x, state: (run(x, state[0], *flat),)
