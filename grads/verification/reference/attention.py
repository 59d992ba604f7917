"""Attention (Luong, 2016, 4.2; Bahdanau et al., 2015, A.1.2): scores, windows, contexts.

All steps whose h_t are known are computed at once: h is (B, T, H), T = 1 inside a feeding loop.
Local attention scores every position and gives those outside its window no weight.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from grads.verification.reference.tokens import Parameters, real


class Attention(NamedTuple):
    """How a_t is made."""

    score: str  # a name in SCORES
    window: str = "global"  # global, local-m or local-p
    D: int = 0  # local: words on either side of p_t
    renormalise: bool = False  # local-p: a_t is made to sum to one (erratum 8)
    reverse_source: bool = False  # the encoder read the source from its end (erratum 9)


class Memory(NamedTuple):
    """The source, ready to be attended to."""

    states: Tensor  # (B, S, He), hbar
    keys: Tensor  # (B, S, A), the score's share of hbar
    padding: Tensor | None  # (B, 1, S) bool; None where nothing is padded
    position: Tensor  # (B or 1, 1, S), s: which word of the sentence as it is written, from 1
    lengths: Tensor  # (B, 1)


# --- scores -------------------------------------------------------------------------------------


class Score(NamedTuple):
    """A row of the table. w: the score's weights, by name."""

    keys: Callable[[Parameters, Tensor, int], Tensor]  # w, hbar (B, S, He), H -> (B, S, A)
    energy: Callable[[Parameters, Tensor, Tensor], Tensor]  # w, h (B, T, H), keys -> (B, T, S)


def perceptron(v: Tensor, query: Tensor, keys: Tensor) -> Tensor:
    """v^T tanh(query_t + key_s), (B, T, S)."""
    return torch.tanh(query[:, :, None] + keys[:, None]) @ v


SCORES = {
    "dot": Score(                                                # h_t^T hbar_s
        lambda w, hbar, H: hbar,
        lambda w, h, keys: torch.bmm(h, keys.mT)),
    "scaled-dot": Score(                                         # h_t^T hbar_s / sqrt(H)
        lambda w, hbar, H: hbar,
        lambda w, h, keys: torch.bmm(h, keys.mT) / h.shape[2] ** 0.5),
    "general": Score(                                            # h_t^T W_a hbar_s
        lambda w, hbar, H: F.linear(hbar, w["W_a"]),
        lambda w, h, keys: torch.bmm(h, keys.mT)),
    "concat": Score(                                             # v_a^T tanh(W_a [h_t; hbar_s])
        lambda w, hbar, H: F.linear(hbar, w["W_a"][:, H:]),
        lambda w, h, keys: perceptron(w["v_a"], F.linear(h, w["W_a"][:, : h.shape[2]]), keys)),
    "concat-identity": Score(                                    # v_a^T tanh(W_a h_t + hbar_s)
        lambda w, hbar, H: hbar,                                 # (footnote 14)
        lambda w, h, keys: perceptron(w["v_a"], F.linear(h, w["W_a"]), keys)),
    "additive": Score(                                           # v_a^T tanh(W_a s_{i-1} + U_a h_j)
        lambda w, hbar, H: F.linear(hbar, w["U_a"]),
        lambda w, h, keys: perceptron(w["v_a"], F.linear(h, w["W_a"]), keys)),
    "location": Score(                                           # (4.8): W_a h_t, cut to S words
        lambda w, hbar, H: hbar,                                 # or none behind L_max (erratum 7)
        lambda w, h, keys: F.pad(F.linear(h, w["W_a"]), (0, keys.shape[1] - len(w["W_a"])),
                                 value=-inf)),
}

# --- windows ------------------------------------------------------------------------------------


def predicted_position(w: Parameters, h: Tensor, memory: Memory) -> Tensor:
    """p_t (B, T) = S sigm(v_p^T tanh(W_p h_t))."""
    return memory.lengths * torch.sigmoid(torch.tanh(F.linear(h, w["W_p"])) @ w["v_p"])  # (4.9)


def align(attention: Attention, w: Parameters, memory: Memory, h: Tensor, t: int = 1) -> Tensor:
    """a_t (B, T, S). h: (B, T, H). t: the number of h's first step, from 1; for local-m."""
    e = SCORES[attention.score].energy(w, h, memory.keys)
    if attention.window == "global":
        e = e if memory.padding is None else e.masked_fill(memory.padding, -inf)
        return torch.softmax(e, dim=2)                           # (4.7)
    if attention.window == "local-m":
        p = torch.arange(t, t + h.shape[1], device=h.device)[:, None]  # p_t = t (4.2.2 local-m)
    else:
        p = predicted_position(w, h, memory)[:, :, None]         # (4.9)
    distance = memory.position - p                               # s - p_t, (B, T, S)
    inside = distance.abs() <= attention.D                       # [p_t - D, p_t + D]
    if memory.padding is not None:
        inside = inside & ~memory.padding
    lowest = torch.finfo(e.dtype).min  # of a window without words softmax of -inf would be nan
    a = torch.softmax(e.masked_fill(~inside, lowest), dim=2) * inside  # (4.7)
    if attention.window == "local-p":
        a = a * torch.exp(-2 * (distance / attention.D) ** 2)    # (4.10), sigma = D / 2
    return a / a.sum(dim=2, keepdim=True) if attention.renormalise else a


# --- contexts -----------------------------------------------------------------------------------


def remember(
    attention: Attention, w: Parameters, hbar: Tensor, lengths: Tensor, H: int
) -> Memory:
    """The memory of source states hbar (S, B, He) behind which lengths (B,) leave padding."""
    states, j = hbar.transpose(0, 1).contiguous(), torch.arange(len(hbar))
    position = lengths[:, None] - j if attention.reverse_source else j[None] + 1  # erratum 9
    padding = ~real(lengths, len(hbar)).T[:, None]
    return Memory(states, SCORES[attention.score].keys(w, states, H),
                  padding.to(hbar.device) if padding.any() else None,
                  position[:, None].to(hbar.device), lengths[:, None].to(hbar.device))


def context(attention: Attention, w: Parameters, memory: Memory, h: Tensor, t: int = 1) -> Tensor:
    """c_t (B, T, He), the average of hbar_s with weights a_t(s); arguments as of `align`."""
    return torch.bmm(align(attention, w, memory, h, t), memory.states)  # (4.2.1 context)
