"""The recurrent cells: a step of each, and PyTorch's own kernels of those that it has.

A layer's blocks of rows: an LSTM's are i, f, o, h_hat (Eq. 2.38), a GRU's are r, z, h~ (Bahdanau et
al., A.1.1). The bias of the GRU that resets after the product has a fourth block, for the state's
part of h~; PyTorch's GRU is this one, and differs from Bahdanau's (erratum 17). The blocks of
PyTorch's LSTM are i, f, g, o, where g is h_hat.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from grads.verification.reference.tokens import State

Matrices = tuple[Tensor, ...]  # the parts of W_h, one for each product

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


class Kernels(NamedTuple):
    """PyTorch's kernels for a layer and for a step of one kind of unit."""

    layer: Callable[..., Any]
    step: Callable[..., Any]
    order: tuple[int, ...]  # the number here of each of its blocks of rows; its own inverse
    apart: int = 0  # last blocks of b that are its second bias, which is zero otherwise


class Cell(NamedTuple):
    """A kind of recurrent unit."""

    step: Callable[[Tensor, State, Matrices], State]
    states: int  # number of arrays of its state
    blocks: tuple[int, ...]  # numbers of blocks of W_h's rows in each product with a state
    beside: int = 0  # blocks of b, where b stands beside W_x x and is not added to it
    kernels: Kernels | None = None  # None: PyTorch has none


CELLS = {
    "rnn": Cell(rnn, 1, (1,), kernels=Kernels(torch.rnn_tanh, torch.rnn_tanh_cell, (0,))),
    "lstm": Cell(lstm, 2, (4,), kernels=Kernels(torch.lstm, torch.lstm_cell, (0, 1, 3, 2))),
    "gru": Cell(gru, 1, (2, 1)),
    "gru-after": Cell(gru_after, 1, (3,),
                      kernels=Kernels(torch.gru, torch.gru_cell, (0, 1, 2), apart=1)),
    "lstm-norm": Cell(lstm_norm, 2, (4,), beside=14),
}
