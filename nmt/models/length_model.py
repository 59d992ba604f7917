"""Predicts the length of a target: a softmax over 0 .. L - 1 from the mean of the encoder's states.

Source: Nguyen (2019), 4.1.2: p_length(|y| | x) of Eq. 4.1. The proposal does not specify the
network. Here it is one layer that reads c, the mean of the states of the source's words.

| names | shape | what |
|---|---|---|
| `length.W` | (L, d) | a row for each length |
| `length.b` | (L,) | how frequent a length is |
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from backend import Array, array_module, to_device
from backend.rows import check_ids
from backend.workspace import Workspace
from lstm.parameters import Parameters, Scheme, Weight
from lstm.prediction import (
    PredictionCache,
    output_step,
    output_weights,
    prediction_backward,
    prediction_forward,
)

WEIGHTS, BIAS = "length.W", "length.b"


class LengthCache(NamedTuple):
    prediction: PredictionCache
    share: Array  # (S, B, 1), 1 / S_b for each word of a source, 0 on padding
    loss: Array  # 0-d, nats, the sum of -log p_length


def length_weights(width: int, lengths: int, scheme: Scheme) -> dict[str, Weight]:
    """`length.W` (L, d) and `length.b` (L,)."""
    return output_weights("length", width, lengths, True, scheme, "W", "length")


def length_forward(
    parameters: Mapping[str, Array], memory: Array, source: np.ndarray, target: np.ndarray,
    workspace: Workspace,
) -> tuple[Array, LengthCache]:
    """The sum over sentences of -log p_length(m | x), nats, 0-d; and the cache of the backward.

    Arguments: memory (S, B, d), the encoder's output; source (B,) and target (B,), the numbers of
    words of each source and target, on the host. Raises ValueError for a target without a row of
    `length.W`.
    """
    check_ids(target, parameters[WEIGHTS].shape[0], "target lengths")
    share = _share(memory, source)
    c = (share * memory).sum(axis=0)                                       # (B, d)
    loss, prediction = prediction_forward(                                 # (Nguyen 4.1.2 length)
        c, to_device(target), parameters[WEIGHTS], parameters[BIAS], workspace)
    return loss, LengthCache(prediction, share, loss)


def length_backward(cache: LengthCache, workspace: Workspace) -> tuple[Array, Parameters]:
    """The gradients of the encoder's output (S, B, d), and of the weights by full name."""
    dc, dW, db = prediction_backward(cache.prediction, workspace)
    assert db is not None
    return cache.share * dc, {WEIGHTS: dW, BIAS: db}


def length_logits(parameters: Mapping[str, Array], memory: Array, source: np.ndarray) -> Array:
    """The logits (B, L) of the target's length, for search; arguments as in `length_forward`."""
    return output_step("length", parameters, (_share(memory, source) * memory).sum(axis=0), "W")


def _share(memory: Array, source: np.ndarray) -> Array:
    """1 / S_b for each word of a source, 0 on padding: (S, B, 1)."""
    real = np.arange(len(memory))[:, None] < source
    share = (real / np.maximum(source, 1)).astype(memory.real.dtype)
    return array_module(memory).ascontiguousarray(to_device(share))[:, :, None]
