"""Recurrent networks: a step of each cell, a layer over time, a stack in one or both directions.

A layer is `{name}.W` = [W_x W_h], (blocks x H, width + H), and `{name}.b`: an LSTM's blocks of rows
are i, f, o, h_hat (Eq. 2.38), a GRU's are r, z, h~ (Bahdanau et al., A.1.1). The bias of a
`gru-after` has a fourth block, for the state's part of h~. PyTorch's own kernels run layers that
`reference.fused` has arranged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from grads.verification.reference.fused import fused_cell, fused_layer, is_fused
from grads.verification.reference.tokens import Masks, Parameters, State, drop, real

Matrices = tuple[Tensor, ...]  # the parts of W_h, one for each product
Step = Callable[[Tensor, State], State]  # from the input x_t (B, width)

# --- one step: a (B, blocks x H) is the input's share W_x x_t + b -------------------------------


def rnn(a: Tensor, state: State, W: Matrices) -> State:
    """h_t = tanh(W_xh x_t + W_hh h_{t-1})."""
    (h,), (W_h,) = state, W
    return (torch.tanh(torch.addmm(a, h, W_h.T)),)               # (2.3)


def lstm(a: Tensor, state: State, W: Matrices) -> State:
    """h_t and c_t, Eqs. 2.35-2.40."""
    (h, c), (W_h,) = state, W
    gates, h_hat = torch.addmm(a, h, W_h.T).split([3 * h.shape[1], h.shape[1]], dim=1)  # (2.39)
    i, f, o = torch.sigmoid(gates).chunk(3, dim=1)               # (2.35)
    c = f * c + i * torch.tanh(h_hat)                            # (2.36)
    return o * torch.tanh(c), c                                  # (2.37)


def gru(a: Tensor, state: State, W: Matrices) -> State:
    """s_i; the reset gate weighs s_{i-1} inside the product, z the proposed state (erratum 17)."""
    (s,), (U_gates, U) = state, W
    a_gates, a_tilde = a.split([len(U_gates), len(U)], dim=1)
    r, z = torch.sigmoid(torch.addmm(a_gates, s, U_gates.T)).chunk(2, dim=1)  # (Bahdanau A.1.1)
    s_tilde = torch.tanh(torch.addmm(a_tilde, r * s, U.T))       # (Bahdanau A.1.1)
    return (torch.lerp(s, s_tilde, z),)                          # (1 - z) o s + z o s~ (A.1.1)


def gru_after(a: Tensor, state: State, W: Matrices) -> State:
    """h_t = (1 - z) o n + z o h_{t-1}, n = tanh(a_n + r o (U h_{t-1} + b_m)); a ends in b_m."""
    (h,), (W_h,) = state, W
    H = h.shape[1]
    a_gates, a_n, b_m = a.split([2 * H, H, a.shape[1] - 3 * H], dim=1)
    gates, m = F.linear(h, W_h).split([2 * H, H], dim=1)
    r, z = torch.sigmoid(a_gates + gates).chunk(2, dim=1)
    n = torch.tanh(a_n + r * (m + b_m if b_m.shape[1] else m))
    return ((1 - z) * n + z * h,)


def lstm_norm(a: Tensor, state: State, W: Matrices) -> State:
    """h_t and c_t, Ba et al. (2016), Equations 20 to 22; a is W_x x_t, b, g_x - 1, g_h - 1,
    g_c - 1 and b_c side by side."""
    (h, c), (W_h,) = state, W
    H = h.shape[1]
    W_x_x, b, g_x, g_h, g_c, b_c = a.split([4 * H, 4 * H, 4 * H, 4 * H, H, H], dim=1)
    sums = ((1 + g_h) * F.layer_norm(F.linear(h, W_h), (4 * H,))
            + (1 + g_x) * F.layer_norm(W_x_x, (4 * H,)) + b)     # (Ba 20)
    gates, h_hat = sums.split([3 * H, H], dim=1)
    i, f, o = torch.sigmoid(gates).chunk(3, dim=1)
    c = f * c + i * torch.tanh(h_hat)                            # (Ba 21)
    return o * torch.tanh((1 + g_c) * F.layer_norm(c, (H,)) + b_c), c    # (Ba 22)


class Cell(NamedTuple):
    """A kind of recurrent unit."""

    step: Callable[[Tensor, State, Matrices], State]
    states: int  # number of arrays of its state
    blocks: tuple[int, ...]  # numbers of blocks of W_h's rows in each product with a state


CELLS = {"rnn": Cell(rnn, 1, (1,)), "lstm": Cell(lstm, 2, (4,)), "gru": Cell(gru, 1, (2, 1)),
         "gru-after": Cell(gru_after, 1, (3,)), "lstm-norm": Cell(lstm_norm, 2, (4,))}


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
    W_x, W_h = W[:, :-H], W[:, -H:].split([n * H for n in CELLS[config.unit].blocks])
    b = parameters.get(f"{name}.b")
    if config.unit == "lstm-norm":  # whose products are normalised before b is added
        b = W.new_zeros(14 * H) if b is None else b
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
