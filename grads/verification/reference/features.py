"""A decoder that starts from features, [h_0; c_0] = tanh(W v), and is Luong's.

Parameters: those of `luong`'s decoder, and `encoder.{l}.W_e` (V, n H) for states of n arrays.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from grads.verification.reference.luong import predict
from grads.verification.reference.tokens import Parameters, read_masks, read_source, read_target


def loss(
    config: Any, parameters: Parameters, batch: Any, noise: Mapping[str, Any] | None = None
) -> Tensor:
    """-log p(y | v), as `luong.loss`."""
    like = parameters["decoder.W_e"]
    source = read_source(batch, like)
    first = []
    for l in range(config.layers):
        W = parameters[f"encoder.{l}.W_e"]
        v = sum(F.one_hot(ids, len(W)).to(W) * (s < source.lengths.to(W.device))[:, None]
                for s, ids in enumerate(source.ids))             # (B, V), how often each occurs
        first.append(torch.tanh(v @ W).split(config.hidden_size, dim=1))
    return predict(config, parameters, read_target(batch, like), first, read_masks(noise, like),
                   None)
