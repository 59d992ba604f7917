"""The encoder: embeddings and a recurrent stack over the source (Algorithm 3, lines 2-4, 7-9)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from backend import Array, array_module
from backend.rows import row_index
from backend.workspace import Workspace
from lstm.embedding import embedding_backward, embedding_forward
from lstm.padding import Padding, make_padding
from lstm.parameters import Parameters, Weight
from lstm.stack import StackCache, State, stack_backward, stack_forward, stack_weights, zero_state
from nmt.models.config import ModelConfig


class EncoderCache(NamedTuple):
    embedding: Any
    stack: StackCache


def encoder_weights(config: ModelConfig, vocabulary_size: int) -> dict[str, Weight]:
    """`encoder.W_e` (V, E) and the stack's `encoder.{l}[.{direction}].T`."""
    E, H = config.embedding_size, config.hidden_size
    return {
        "encoder.W_e": Weight((vocabulary_size, E), embedding=True),
        **stack_weights("encoder", config.unit, config.layers, E, H,
                        bidirectional=config.bidirectional, biases=config.biases),
    }


def encoder_forward(
    source: np.ndarray, lengths: np.ndarray, parameters: Mapping[str, Array], config: ModelConfig,
    masks: Sequence[Array | None] | None, workspace: Workspace,
) -> tuple[Array, Padding | None, list[list[State]], EncoderCache]:
    """States of all source words, and the last ones (Algorithm 3, lines 2-4 and 7-9).

    Arguments: source (S, B) host ids; lengths (B,) host; masks, one dropout mask per layer.
    Returns the top states (S, B, He), the batch's padding, last[l][direction], the cache.
    """
    W_e = parameters["encoder.W_e"]
    S, B = source.shape
    padding = make_padding(lengths, S)
    x, embedding_cache = embedding_forward(W_e, row_index(source))         # (S, B, E)
    zero = zero_state(array_module(W_e), config.unit, B, config.hidden_size, W_e.dtype)
    directions = 2 if config.bidirectional else 1
    states, last, stack_cache = stack_forward(
        x, parameters, "encoder", config.unit, [[zero] * directions] * config.layers,
        padding=padding, masks=masks, workspace=workspace,
    )
    return states, padding, last, EncoderCache(embedding_cache, stack_cache)


def encoder_backward(
    dstates: Array | None, d_last: list[list[State]], cache: EncoderCache, clip: float | None
) -> Parameters:
    """Algorithm 4 from time m_x down to 1: "without any prediction losses"."""
    dx, _, gradients = stack_backward(dstates, d_last, cache.stack, clip=clip)
    return {"encoder.W_e": embedding_backward(dx, cache.embedding), **gradients}
