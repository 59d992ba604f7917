"""Token ids: what a batch holds, dropout masks beside it, and the loss of predicted tokens.

This is the one place that knows the fields of a batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

Parameters = Mapping[str, Tensor]
Masks = Mapping[str, Tensor]


class Pairs(NamedTuple):
    """Sentence pairs; padding behind each sentence."""

    source: Tensor  # (S, B) ids
    lengths: Tensor  # (B,) of the sources
    target_in: Tensor  # (T, B) ids
    target_out: Tensor  # (T, B) ids
    target_lengths: Tensor  # (B,)


class Stream(NamedTuple):
    """Consecutive pieces of text."""

    inputs: Tensor  # (T, B) ids
    targets: Tensor  # (T, B) ids
    state: list[tuple[Tensor, ...]] | None  # a layer's states (B, H) before the piece; None: zero


def read_pairs(batch: Any, like: Tensor) -> Pairs:
    """The batch of a translator on the device of `like`."""
    fields = (batch.source, batch.source_lengths, batch.target_in, batch.target_out,
              batch.target_lengths)
    return Pairs(*(torch.as_tensor(field, device=like.device) for field in fields))


def read_stream(batch: Any, like: Tensor) -> Stream:
    """The batch of a language model; its state in the dtype of `like`, without a gradient."""
    inputs, targets = (torch.as_tensor(ids, device=like.device)
                       for ids in (batch.inputs, batch.targets))
    state = batch.state and [tuple(torch.as_tensor(part).to(like) for part in layer)
                             for layer in batch.state]
    return Stream(inputs, targets, state)


def read_masks(noise: Mapping[str, Any] | None, like: Tensor) -> Masks:
    """Inverted dropout masks by site, those that there are, in the dtype of `like`."""
    return {site: torch.as_tensor(mask).to(like)
            for site, mask in (noise or {}).items() if mask is not None}


def drop(x: Tensor, masks: Masks, site: str) -> Tensor:
    """x times the site's mask, or x where the site has none."""
    return x * masks[site] if site in masks else x


def real(lengths: Tensor, steps: int) -> Tensor:
    """(steps, B) bool, False on padding."""
    return torch.arange(steps, device=lengths.device)[:, None] < lengths


def negative_log_likelihood(
    x: Tensor, W: Tensor, b: Tensor | None, targets: Tensor, counts: Tensor | None = None
) -> Tensor:
    """-log p(targets), Eqs. 2.4-2.8, in nats, summed; p = softmax(W x + b).

    x: (T, B, H). W: (V, H). b: (V,) or None. targets: (T, B) ids. counts: (T, B) bool, which of
    them count; None, all. Returns a scalar.
    """
    if counts is not None:
        x, targets = x[counts], targets[counts]
    s = F.linear(x.flatten(0, -2), W, b)                         # (2.4)
    return F.cross_entropy(s, targets.flatten(), reduction="sum")  # (2.5), (2.8)
