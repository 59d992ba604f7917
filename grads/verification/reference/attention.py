"""Attention (Luong, 2016, 4.2; Bahdanau et al., 2015, A.1.2): scores, windows, contexts.

All steps whose h_t are known are computed at once: h is (B, T, H), and T = 1 in a feeding loop.
Local attention scores every position, and gives no weight to positions outside its window.
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
    """The attention variant."""

    score: str  # a name in SCORES
    window: str = "global"  # global, local-m or local-p
    D: int = 0  # local: words on either side of p_t
    renormalise: bool = False  # local-p: a_t is divided by its sum (erratum 8)
    reverse_source: bool = False  # the encoder read the source in reverse (erratum 9)


class Memory(NamedTuple):
    """The source, ready to be attended to."""

    states: Tensor  # (B, S, He), hbar
    keys: Tensor  # (B, S, A), the score's share of hbar
    padding: Tensor | None  # (B, 1, S) bool; None if nothing is padded
    position: Tensor  # (B or 1, 1, S), s: the position of each word in written order, from 0
    lengths: Tensor  # (B, 1)


# --- scores -------------------------------------------------------------------------------------


class Score(NamedTuple):
    """A row of the table of scores. w: the score's weights, by name."""

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
    "location": Score(                                           # (4.8): W_a h_t, (B, T, L_max)
        lambda w, hbar, H: hbar,
        lambda w, h, keys: F.linear(h, w["W_a"])),
}

# --- windows ------------------------------------------------------------------------------------


def predicted_position(w: Parameters, h: Tensor, memory: Memory) -> Tensor:
    """p_t (B, T) = S sigm(v_p^T tanh(W_p h_t)), from 0."""
    return memory.lengths * torch.sigmoid(torch.tanh(F.linear(h, w["W_p"])) @ w["v_p"])  # (4.9)


def align(attention: Attention, w: Parameters, memory: Memory, h: Tensor, t: int = 1) -> Tensor:
    """a_t (B, T, S). h: (B, T, H). t: the number of h's first step, from 1; for local-m."""
    e = SCORES[attention.score].energy(w, h, memory.keys)
    if attention.score == "location":
        return top_part(torch.softmax(e, dim=2), memory)         # (4.8)
    if attention.window == "global":
        e = e if memory.padding is None else e.masked_fill(memory.padding, -inf)
        return torch.softmax(e, dim=2)                           # (4.7)
    if attention.window == "local-m":
        p = torch.arange(t - 1, t - 1 + h.shape[1], device=h.device)[None, :, None]  # t, from 0
    else:
        p = predicted_position(w, h, memory)[:, :, None]         # (4.9)
    centre = torch.minimum(p.detach().floor(), memory.lengths[:, :, None] - 1)
    inside = (memory.position - centre).abs() <= attention.D     # 2 D + 1 words (erratum 8)
    if memory.padding is not None:
        inside = inside & ~memory.padding
    a = torch.softmax(e.masked_fill(~inside, -inf), dim=2)       # (4.7)
    if attention.window == "local-p":
        a = a * torch.exp(-2 * ((memory.position - p) / attention.D) ** 2)  # (4.10), sigma = D / 2
    return a / a.sum(dim=2, keepdim=True) if attention.renormalise else a


def top_part(a: Tensor, memory: Memory) -> Tensor:
    """The weight of each state (B, T, S), by the place of its word among L_max (footnote 5)."""
    (B, T, L), S = a.shape, memory.states.shape[1]
    known = (memory.position < L) if memory.padding is None else (
        (memory.position < L) & ~memory.padding)
    place = memory.position.clamp(0, L - 1).expand(B, T, S)
    return torch.where(known, a.gather(2, place), 0.0)


# --- contexts -----------------------------------------------------------------------------------


def remember(
    attention: Attention, w: Parameters, hbar: Tensor, lengths: Tensor, H: int
) -> Memory:
    """The memory of source states hbar (S, B, He), padded after lengths (B,)."""
    states, j = hbar.transpose(0, 1).contiguous(), torch.arange(len(hbar))
    position = lengths[:, None] - 1 - j if attention.reverse_source else j[None]  # erratum 9
    padding = ~real(lengths, len(hbar)).T[:, None]
    return Memory(states, SCORES[attention.score].keys(w, states, H),
                  padding.to(hbar.device) if padding.any() else None,
                  position[:, None].to(hbar.device), lengths[:, None].to(hbar.device))


def context(attention: Attention, w: Parameters, memory: Memory, h: Tensor, t: int = 1) -> Tensor:
    """c_t (B, T, He), the average of hbar_s with weights a_t(s); arguments as of `align`."""
    return torch.bmm(align(attention, w, memory, h, t), memory.states)  # (4.2.1 context)
