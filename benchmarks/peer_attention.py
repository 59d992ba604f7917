"""Attention in every way in eager PyTorch, over whole sentences, with masks where a window ends.

Written from the equations (Luong, 2016, section 4.2) as a PyTorch user would write it: `bmm`,
`linear`, `softmax`, and automatic differentiation. A window is a mask, and not gathered.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from attention.way import Way

Weights = Mapping[str, Any]  # tensors by the last part of our names


class Memory(NamedTuple):
    """What the decoder looks at."""

    hbar: Tensor  # (B, S, He)
    keys: Tensor  # (B, S, A)
    dead: Tensor | None  # (B, 1, S), true on padding
    lengths: Tensor | None = None  # (B,), for local attention


def make_keys(way: Way, w: Weights, hbar: Tensor) -> Tensor:
    """The source states' side of a score (B, S, A)."""
    if way.score == "general":
        return functional.linear(hbar, w["W_a"])
    if way.score == "concat":
        return functional.linear(hbar, w["W_a"][:, -hbar.shape[2] :])
    return functional.linear(hbar, w["U_a"]) if way.score == "additive" else hbar


def attend(h: Tensor, memory: Memory) -> Tensor:
    """Context vectors (B, Q, He) of target states h (B, Q, H), by products (Eq. 4.7)."""
    scores = torch.bmm(h, memory.keys.transpose(1, 2))  # (B, Q, S)
    if memory.dead is not None:
        scores = scores.masked_fill(memory.dead, float("-inf"))
    return torch.bmm(scores.softmax(dim=2), memory.hbar)


def look(way: Way, w: Weights, h: Tensor, memory: Memory, t: int) -> Tensor:
    """Context vectors (B, Q, He) of target states h (B, Q, H), the first of them that of time t."""
    if way.score in ("dot", "general") and not way.local:
        return attend(h, memory)
    e = compare(way, w, h, memory.keys)  # (B, Q, S), or less for the location
    S = memory.hbar.shape[1]
    inside = torch.ones(len(h), 1, S, dtype=torch.bool, device=h.device)
    if memory.dead is not None:
        inside = ~memory.dead
    hbar, inside = memory.hbar[:, : e.shape[2]], inside[:, :, : e.shape[2]]
    if not way.local:
        return torch.bmm(e.masked_fill(~inside, float("-inf")).softmax(dim=2), hbar)
    assert memory.lengths is not None
    lengths = memory.lengths[:, None].to(h.dtype)
    s = torch.arange(1, S + 1, dtype=h.dtype, device=h.device)[None]
    s = (lengths + 1 - s if way.reverse else s)[:, None]  # (B or 1, 1, S): erratum 9
    p = torch.arange(t, t + h.shape[1], dtype=h.dtype, device=h.device)[None]
    if way.window == "local-p":
        p = lengths * (functional.linear(h, w["W_p"]).tanh() @ w["v_p"]).sigmoid()  # (4.9)
    away = s - p[..., None]
    inside = inside & (away.abs() <= way.D)
    nothing = ~inside.any(dim=2, keepdim=True)
    a = e.masked_fill(~(inside | nothing), float("-inf")).softmax(dim=2) * inside
    if way.window == "local-p":
        a = a * (-(away**2) / (2 * (way.D / 2) ** 2)).exp()  # (4.10)
        a = a / a.sum(dim=2, keepdim=True) if way.renormalise else a
    return torch.bmm(a, hbar)


def compare(way: Way, w: Weights, h: Tensor, keys: Tensor) -> Tensor:
    """Scores of target states h (B, Q, H) and keys (B, S, A): (B, Q, S), or the first L_max."""
    if way.score in ("dot", "general"):
        return torch.bmm(h, keys.transpose(1, 2))
    if way.score == "location":
        return functional.linear(h, w["W_a"][: keys.shape[1]])
    W = w["W_a"][:, : h.shape[2]]
    return (functional.linear(h, W)[:, :, None] + keys[:, None]).tanh() @ w["v_a"]
