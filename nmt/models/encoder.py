"""The encoder: embeddings and a recurrent stack over the source (Algorithm 3, lines 2-4, 7-9)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from backend import Array, array_module
from backend.rows import row_index
from backend.workspace import Workspace
from lstm.cells import State
from lstm.embedding import embedding_backward, embedding_forward, embedding_weight
from lstm.padding import Padding, make_padding
from lstm.parameters import Parameters, Weight
from lstm.stack import StackCache, stack_backward, stack_forward, stack_weights, zero_state
from nmt.models.config import ModelConfig
from nmt.models.contract import Noise
from nmt.text.batches import Side


class EncoderCache(NamedTuple):
    embedding: Any
    stack: StackCache


def encoder_weights(config: ModelConfig, vocabulary_size: int) -> dict[str, Weight]:
    """`encoder.W_e` (V, E) and the stack's `encoder.{l}[.{direction}].T`."""
    E, H = config.embedding_size, config.hidden_size
    return {
        "encoder.W_e": embedding_weight(vocabulary_size, E, config.scheme),
        **stack_weights("encoder", config.unit, config.layers, {"x": E}, H, config.scheme,
                        bidirectional=config.bidirectional, biases=config.biases),
    }


def encoder_forward(
    source: Side, parameters: Mapping[str, Array], config: ModelConfig, noise: Noise,
    workspace: Workspace,
) -> tuple[Array, Padding | None, list[list[State]], EncoderCache]:
    """States of all source words, and the last ones (Algorithm 3, lines 2-4 and 7-9).

    Arguments: noise, with the dropout masks `encoder.{l}` of the layers' inputs, or without.
    Returns the top states (S, B, He), the batch's padding, last[l][direction], the cache.
    """
    W_e = parameters["encoder.W_e"]
    S, B = source.ids.shape
    padding = make_padding(source.lengths, S)
    x, embedding_cache = embedding_forward(W_e, row_index(source.ids))         # (S, B, E)
    zero = zero_state(array_module(W_e), config.unit, B, config.hidden_size, W_e.dtype)
    directions = 2 if config.bidirectional else 1
    states, last, stack_cache = stack_forward(
        x, parameters, "encoder", config.unit, [[zero] * directions] * config.layers,
        padding=padding, workspace=workspace,
        masks=[noise.get(f"encoder.{layer}") for layer in range(config.layers)],
    )
    return states, padding, last, EncoderCache(embedding_cache, stack_cache)


def encoder_backward(
    dstates: Array | None, d_last: list[list[State]], cache: EncoderCache, clip: float | None
) -> Parameters:
    """Algorithm 4 from time m_x down to 1: "without any prediction losses"."""
    dx, _, gradients = stack_backward(dstates, d_last, cache.stack, clip=clip)
    return {"encoder.W_e": embedding_backward(dx, cache.embedding), **gradients}
