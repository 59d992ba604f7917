"""The softmax over target words that reads h~_t.

    p(y_t) = softmax(W_hy h~_t + b)                                        (2.4-2.6, 4.6)

Options add terms to it: `nmt.models.heads.softmax_terms`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from backend import Array
from backend.workspace import Workspace
from lstm.parameters import Weight
from lstm.prediction import (
    OutputCache,
    output_backward,
    output_forward,
    output_step,
    output_weights,
)
from nmt.data.batches import Batch, Side
from nmt.models.contract import Gradients, Losses, Noise
from nmt.models.heads.head import Decoded, HeadCache, HeadState
from nmt.models.translator_config import ModelConfig


class SoftmaxCache(NamedTuple):
    losses: Losses
    output: OutputCache


class Softmax:
    """The head of Luong's translator."""

    reads = frozenset({"h_tilde"})
    mask_widths: Mapping[str, int] = {}

    def __init__(self, config: ModelConfig, target_size: int, workspace: Workspace) -> None:
        self.config, self.target_size, self.workspace = config, target_size, workspace

    def weights(self) -> dict[str, Weight]:
        """`output.W_hy` (V, H), with a bias `output.b` (V,)."""
        config = self.config
        return output_weights("output", config.hidden_size, self.target_size, config.output_bias,
                              config.scheme)

    def noise(self, batch: Batch, rng: np.random.Generator, dtype: DTypeLike) -> Noise:
        """None: it draws nothing."""
        return {}

    # --- training -------------------------------------------------------------------------------

    def forward(
        self, parameters: Mapping[str, Array], decoded: Decoded, batch: Batch, noise: Noise
    ) -> tuple[Array, HeadCache]:
        """J of Eqs. 2.51 and 2.52, the sum over all target words of -log p in nats, 0-d."""
        loss, output = output_forward("output", parameters, decoded.h_tilde, batch.target_out,
                                      batch.target.lengths, self.workspace)
        return loss, SoftmaxCache(Losses(loss), output)

    def backward(self, cache: Any) -> tuple[Decoded, Gradients]:
        """Algorithm 4, lines 1-3 and 5: the gradient of h~."""
        dh, gradients = output_backward(cache.output, self.workspace)
        return Decoded(dh), gradients

    # --- search ---------------------------------------------------------------------------------

    def start(
        self, parameters: Mapping[str, Array], sources: tuple[Side, ...], read: Decoded
    ) -> HeadState:
        """It keeps nothing."""
        return HeadState()

    def step(
        self, parameters: Mapping[str, Array], state: HeadState, decoded: Decoded,
        tokens: np.ndarray,
    ) -> tuple[Array, HeadState]:
        """Logits (N, V) from h~ (N, H)."""
        return output_step("output", parameters, decoded.h_tilde), state   # (2.4)

    def select(self, state: HeadState, rows: Array, sentences: Array) -> HeadState:
        """It keeps nothing."""
        return state
