"""The token ids of a batch, its dropout masks, and the loss of predicted tokens.

This is the only module here that reads the fields of a batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

Parameters = Mapping[str, Tensor]
Masks = Mapping[str, Tensor]
State = tuple[Tensor, ...]  # of a recurrent layer: (h,), or an LSTM's (h, c); each (B, H)


BOUNDARY = 1  # "_" among characters: ends a word, and starts the spelling of one


class Source(NamedTuple):
    """A source side, padded after each sentence."""

    ids: Tensor  # (S, B)
    lengths: Tensor  # (B,), on the host
    factors: tuple[Tensor, ...] = ()  # each (S, B)


class Target(NamedTuple):
    """A target side, padded after each sentence."""

    inputs: Tensor  # (T, B) ids: y_{t-1}
    outputs: Tensor  # (T, B) ids: y_t
    lengths: Tensor  # (B,), on the host


class Spelled(NamedTuple):
    """The words behind <unk> on a side, of one group of lengths, and their positions."""

    characters: Target  # (L, N); the inputs begin with a boundary, the targets end with one
    places: Tensor  # (M,) t B + b
    words: Tensor  # (M,) index of the word at each position


def read_source(batch: Any, like: Tensor, number: int = 0) -> Source:
    """A source of the batch, by default the first, on the device of `like`."""
    side = batch.sources[number]
    return Source(torch.as_tensor(side.ids, device=like.device), torch.as_tensor(side.lengths),
                  tuple(torch.as_tensor(factor, device=like.device)
                        for factor in (() if side.factors is None else side.factors)))


def read_target(batch: Any, like: Tensor) -> Target:
    """The batch's target, on the device of `like`."""
    inputs, outputs = (torch.as_tensor(ids, device=like.device)
                       for ids in (batch.target_in, batch.target_out))
    return Target(inputs, outputs, torch.as_tensor(batch.target.lengths))


def read_spelled(side: Any, like: Tensor) -> list[Spelled]:
    """The characters of a side's words outside the vocabulary, group by group."""
    groups = []
    for group in side.characters:
        ids, places, words = (torch.as_tensor(array, device=like.device)
                              for array in (group.ids, group.places, group.words))
        inputs = torch.cat([torch.full_like(ids[:1], BOUNDARY), ids[:-1]])
        groups.append(Spelled(Target(inputs, ids, torch.as_tensor(group.lengths)), places, words))
    return groups


def read_state(batch: Any, like: Tensor) -> list[State] | None:
    """Each layer's state before a piece of a stream, in the dtype of `like`; None means zero."""
    return batch.state and [tuple(torch.as_tensor(tensor).to(like) for tensor in layer)
                            for layer in batch.state]


def read_masks(noise: Mapping[str, Any] | None, like: Tensor) -> Masks:
    """The inverted dropout masks that exist, by site, in the dtype of `like`."""
    return {site: torch.as_tensor(mask).to(like)
            for site, mask in (noise or {}).items() if mask is not None}


def drop(x: Tensor, masks: Masks, site: str) -> Tensor:
    """x times the site's mask, or x if the site has no mask."""
    return x * masks[site] if site in masks else x


def real(lengths: Tensor, steps: int) -> Tensor:
    """(steps, B) bool, on the host: False on padding."""
    return torch.arange(steps)[:, None] < lengths


def negative_log_likelihood(
    x: Tensor, W: Tensor, b: Tensor | None, target: Target, smoothing: float = 0.0,
    added: Tensor | None = None,
) -> Tensor:
    """-log p(y_t), p = softmax(W x_t + b), in nats, summed over all t that are not padding.

    x: (T, B, H). W: (V, H). b: (V,) or None. smoothing: share of label smoothing.
    added: (T, B, V), to the logits, or None. A scalar.
    """
    outputs, counts = target.outputs, real(target.lengths, len(x))
    if not counts.all():
        counts = counts.to(x.device)
        x, outputs = x[counts], outputs[counts]
        added = None if added is None else added[counts]
    s = F.linear(x.flatten(0, -2), W, b)                         # (2.4)
    s = s if added is None else s + added.reshape(s.shape)
    return F.cross_entropy(s, outputs.flatten(), reduction="sum",
                           label_smoothing=smoothing)            # (2.5), (2.8)


def sampled(b: Tensor | None, masks: Masks) -> Tensor | None:
    """The bias (V,) minus log Q of the sampled words, and minus infinity for others (Jean 12)."""
    if "output.sample" not in masks:
        return b
    return torch.log(masks["output.sample"]) + (0.0 if b is None else b)
