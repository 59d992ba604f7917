"""Recurrent networks: a layer over time, a stack in one or both directions.

A layer is `{name}.W` = [W_x W_h], (blocks x H, width + H), and `{name}.b`, with the blocks of rows
of `reference.cells`. PyTorch's own kernels run layers that `reference.fused` has arranged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from grads.verification.reference.cells import CELLS, Matrices
from grads.verification.reference.fused import fused_cell, fused_layer, is_fused
from grads.verification.reference.tokens import Masks, Parameters, State, drop, real

Step = Callable[[Tensor, State], State]  # from the input x_t (B, width)


def zero_state(config: Any, x: Tensor) -> State:
    """The state before the first step of x (T, B, width)."""
    return tuple(x.new_zeros(x.shape[1], config.hidden_size)
                 for _ in range(CELLS[config.unit].states))


def step(config: Any, a: Tensor, state: State, W_h: Matrices) -> State:
    """The next state.

    With `clip_elements` the backward clips every element of dh_t, and of the dc_{t-1} passed to the
    step before (2.2.2).
    """
    limit = config.clip_elements
    if limit is None:
        return CELLS[config.unit].step(a, state, W_h)
    new = CELLS[config.unit].step(a, (state[0], *(clipped(c, limit) for c in state[1:])), W_h)
    return (clipped(new[0], limit), *new[1:])


def clipped(x: Tensor, limit: float) -> Tensor:
    """x itself, but its gradient is clipped to [-limit, limit]."""
    x = x.view_as(x)
    if x.requires_grad:
        x.register_hook(lambda d: d.clamp(-limit, limit))
    return x


# --- a layer over time --------------------------------------------------------------------------


class Weights(NamedTuple):
    """The weights of one layer and direction."""

    W_x: Tensor  # (blocks x H, width of the input), and a row of zeros for each further bias
    W_h: Matrices  # (blocks x H, H) in all
    b: Tensor | None  # a number for each row of W_x


def weights(config: Any, parameters: Parameters, name: str) -> Weights:
    """The layer's W = [W_x W_h] and b."""
    W, H = parameters[f"{name}.W"], config.hidden_size
    cell = CELLS[config.unit]
    W_x, W_h = W[:, :-H], W[:, -H:].split([n * H for n in cell.blocks])
    b = parameters.get(f"{name}.b")
    if cell.beside:  # the products are normalised before b is added
        b = W.new_zeros(cell.beside * H) if b is None else b
        return Weights(F.pad(W_x, (0, 0, 0, len(b))), W_h, F.pad(b, (len(W), 0)))
    if b is not None:
        W_x = F.pad(W_x, (0, 0, 0, len(b) - len(W)))  # no input where there is only a bias
    return Weights(W_x, W_h, b)


def layer(
    config: Any, x: Tensor, state: State, w: Weights, *, padding: Tensor | None = None,
    backward: bool = False,
) -> tuple[Tensor, State]:
    """h_1 .. h_T (T, B, H) of the input x (T, B, width), and the last state.

    padding: (T, B) bool; a padded step does not change the state. backward: from step T to step 1.
    """
    a = F.linear(x, w.W_x, w.b).unbind()
    h = [state[0]] * len(a)
    for t in reversed(range(len(a))) if backward else range(len(a)):
        new = step(config, a[t], state, w.W_h)
        state = new if padding is None else tuple(
            torch.where(padding[t, :, None], old, now) for old, now in zip(state, new, strict=True))
        h[t] = state[0]
    return torch.stack(h), state


def plain_layer(
    config: Any, x: Tensor, state: State, parameters: Parameters, names: list[str],
    lengths: Tensor | None,
) -> tuple[Tensor, State]:
    """A layer in the direction or both directions of `names`: (T, B, He), last states (B, He).

    On padding it returns the previous state. lengths: (B,), None if nothing is padded.
    """
    padding = None if lengths is None else ~real(lengths, len(x)).to(x.device)
    runs = [layer(config, x, state, weights(config, parameters, name), padding=padding,
                  backward=name.endswith(".backward")) for name in names]
    ends = zip(*(end for _, end in runs), strict=True)
    return torch.cat([h for h, _ in runs], dim=2), tuple(torch.cat(parts, dim=1) for parts in ends)


# --- layers above one another -------------------------------------------------------------------


def stack(
    config: Any, parameters: Parameters, prefix: str, layers: int, x: Tensor,
    first: list[State] | None = None, masks: Masks | None = None, *,
    lengths: Tensor | None = None, bidirectional: bool = False,
) -> tuple[Tensor, list[State]]:
    """The top layer's states (T, B, He), and each layer's last state; Algorithm 3 lines 8 and 9.

    config: its unit, hidden_size, clip_elements and, where it has it, residual are read. x: (T, B,
    E). first: a layer's states before the first step, None for zero. lengths: (B,), on the host, of
    sequences padded behind. Directions are joined, forward first, in what the next layer reads and
    in the last states.
    """
    if lengths is not None and (lengths == len(x)).all():
        lengths = None  # nothing is padded
    last, directions = [], (".forward", ".backward") if bidirectional else ("",)
    for l in range(layers):
        below, x = x, drop(x, masks or {}, f"{prefix}.{l}")
        names = [f"{prefix}.{l}{direction}" for direction in directions]
        state = first[l] if first else zero_state(config, x)
        if is_fused(parameters, names[0]):
            x, end = fused_layer(config, x, state, parameters, names, lengths)
        else:
            x, end = plain_layer(config, x, state, parameters, names, lengths)
        if l and getattr(config, "residual", False):
            x = x + below                                        # (Wu 6)
        last.append(end)
    return x, last


def cell(config: Any, parameters: Parameters, name: str) -> Step:
    """A step of a layer from x_t (B, width) and a state, for inputs not known beforehand."""
    if is_fused(parameters, name):
        return fused_cell(config, parameters, name)
    w = weights(config, parameters, name)
    return lambda x, state: step(config, F.linear(x, w.W_x, w.b), state, w.W_h)
