"""The recurrent language model of Luong (2016), 2.2.

Parameters: `W_e` (V, E), a stack `rnn` (`recurrent`), `output.W_hy` (V, H) and `output.b` (V,).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from grads.verification.reference.recurrent import stack
from grads.verification.reference.tokens import (
    Parameters,
    drop,
    negative_log_likelihood,
    read_masks,
    read_state,
    read_target,
)


def loss(
    config: Any, parameters: Parameters, batch: Any, noise: Mapping[str, Any] | None = None
) -> Tensor:
    """-log p of a piece of B streams given earlier pieces, Eq. 2.8, in nats, summed over tokens.

    config: `LanguageModelConfig`. noise: dropout masks of the sites `rnn.{l}` (T, B, width of the
    layer's input) and `output` (T, B, H). Returns a scalar.
    """
    W_e = parameters["W_e"]
    target, masks = read_target(batch, W_e), read_masks(noise, W_e)
    x = F.embedding(target.inputs, W_e)                          # (T, B, E)
    h, _ = stack(config, parameters, "rnn", config.layers, x, read_state(batch, W_e), masks)
    return negative_log_likelihood(                              # (2.4), (2.5), (2.8)
        drop(h, masks, "output"), parameters["output.W_hy"], parameters.get("output.b"), target)
