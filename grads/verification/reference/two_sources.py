"""Zoph and Knight (2016): two encoders, combined the basic way, into Luong's decoder.

Parameters: those of `luong`, where `attention.W_c` is (H, 2 He + H), and also `second_encoder`,
`second_attention` and `combiner.{l}.W` (H, 2 He).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from grads.verification.reference.luong import Attend, attention, predict
from grads.verification.reference.recurrent import stack
from grads.verification.reference.tokens import (
    Parameters,
    State,
    read_masks,
    read_source,
    read_target,
)

SIDES = (("encoder", "attention"), ("second_encoder", "second_attention"))


def loss(
    config: Any, parameters: Parameters, batch: Any,
    noise: Mapping[str, Any] | None = None, *, reverse_source: bool = False,
) -> Tensor:
    """-log p(y | x^1, x^2), as `luong.loss`. The mask `decoder.joined` is (T, B, 2 He + H)."""
    W_e, last, attends = parameters["decoder.W_e"], [], []
    masks = read_masks(noise, W_e)
    for number, (encoder, name) in enumerate(SIDES):
        source = read_source(batch, W_e, number)
        x = F.embedding(source.ids, parameters[f"{encoder}.W_e"])
        hbar, ends = stack(config, parameters, encoder, config.layers, x, None, masks,
                           lengths=source.lengths, bidirectional=config.bidirectional)
        last.append(ends)
        attends.append(attention(config, parameters, hbar, source.lengths, reverse_source, name))
    first = [combine(parameters[f"combiner.{l}.W"], ends)
             for l, ends in enumerate(zip(*last, strict=True))]
    return predict(config, parameters, read_target(batch, W_e), first, masks, attend_both(attends))


def combine(W: Tensor, ends: Sequence[State]) -> State:
    """h = tanh(W [h^1; h^2]) and c = c^1 + c^2, the directions of c added too."""
    h = torch.tanh(torch.cat([end[0] for end in ends], dim=1) @ W.T)       # (Sennrich sources)
    cells = [sum(half for end in ends for half in end[k].split(h.shape[1], dim=1))
             for k in range(1, len(ends[0]))]
    return (h, *cells)


def attend_both(attends: Sequence[Attend | None]) -> Attend | None:
    """[c_t^1; c_t^2] of h_t."""
    both = [attend for attend in attends if attend is not None]
    return (lambda h, t: torch.cat([attend(h, t) for attend in both], dim=-1)) if both else None
