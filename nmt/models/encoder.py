"""The encoder: embeddings and a recurrent stack over the source (Algorithm 3, lines 2-4, 7-9).

A word outside the vocabulary may get its vector from its characters (`nmt.models.spelling`), and
words may have factors (`nmt.models.factors`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from backend import Array, array_module
from backend.workspace import Workspace
from lstm.cells import State
from lstm.embedding import (
    EmbeddingCache,
    embedding_backward,
    embedding_forward,
    embedding_weight,
)
from lstm.parameters import Parameters, Scheme, Weight
from lstm.recurrent import make_padding
from lstm.stack import Stack, StackCache, stack_backward, stack_forward, stack_weights, zero_state
from nmt.data.batches import Side
from nmt.models.contract import Noise
from nmt.models.factors import FactorCaches, factor_weights, factors_backward, factors_forward
from nmt.models.spelling import Composed, composed_backward, composed_forward


class EncoderCache(NamedTuple):
    prefix: str
    embedding: EmbeddingCache
    factors: FactorCaches
    composed: list[Composed]  # of the vectors made of characters, by group
    stack: StackCache

    @property
    def x(self) -> Array:
        """The first layer's input (S, B, E): the words' vectors after dropout."""
        return self.stack.layers[0][0][1].x


def encoder_weights(
    prefix: str, stack: Stack, vocabulary_size: int, embedding_size: int, scheme: Scheme,
    factors: Mapping[str, tuple[int, int]] | None = None,
) -> dict[str, Weight]:
    """`{prefix}.W_e` (V, E) and the stack's `{prefix}.{l}[.{direction}].W`.

    factors: name -> (number of values, width), as in `factor_weights`. With factors, W_e is (V, E
    minus all widths).
    """
    factors = factors or {}
    width_of_words = embedding_size - sum(width for _, width in factors.values())
    return {f"{prefix}.W_e": embedding_weight(vocabulary_size, width_of_words, scheme),
            **factor_weights(prefix, factors, scheme),
            **stack_weights(prefix, stack, {"x": embedding_size}, scheme)}


def encoder_forward(
    prefix: str, parameters: Mapping[str, Array], source: Side, stack: Stack, noise: Noise,
    workspace: Workspace, characters: tuple[str, Stack] | None = None,
    factors: Sequence[str] = (),
) -> tuple[Array, list[list[State]], EncoderCache]:
    """States of all source words, and the last states (Algorithm 3, lines 2-4 and 7-9).

    Arguments: noise, which may have the dropout masks `{prefix}.{l}` of the layers' inputs;
    characters, prefix and stack of the network that makes the vectors of `source.characters`;
    factors, the names of `source.factors`.
    Returns the top states (S, B, He), last[l][direction], the cache.
    """
    W_e, (S, B) = parameters[f"{prefix}.W_e"], source.ids.shape
    x, embedding = embedding_forward(W_e, source.ids)
    composed: list[Composed] = []
    of_factors: FactorCaches = []
    if characters is not None:
        composed = composed_forward(*characters, parameters, x, source.characters, noise, workspace)
    if factors or source.factors is not None:
        x, of_factors = factors_forward(prefix, parameters, x, factors, source.factors)
    zero = zero_state(array_module(W_e), stack.unit, B, stack.hidden_size, W_e.dtype)
    states, last, stack_cache = stack_forward(
        x, parameters, prefix, stack, [[zero] * (1 + stack.bidirectional)] * stack.layers,
        padding=make_padding(source.lengths, S), workspace=workspace,
        masks=[noise.get(f"{prefix}.{layer}") for layer in range(stack.layers)],
    )
    return states, last, EncoderCache(prefix, embedding, of_factors, composed, stack_cache)


def encoder_backward(
    dstates: Array | None, d_last: list[list[State]], cache: EncoderCache,
    d_source: Array | None = None,
) -> Parameters:
    """The parameters' gradients: Algorithm 4 from time m_x down to 1, "without any prediction
    losses".

    Arguments: gradients dstates (S, B, He) of the top states, d_last of the last states, and
    d_source (S, B, E) of the embeddings after dropout, if the output head reads them, too.
    """
    prefix, embedding, factors, composed, stack = cache
    dx, _, gradients = stack_backward(dstates, d_last, stack)
    if d_source is not None:
        mask = stack.masks[0]
        dx += d_source if mask is None else d_source * mask
    if composed:
        gradients |= composed_backward(dx, composed)
    if factors:
        dx, of_tables = factors_backward(dx, factors)
        gradients |= of_tables
    return {f"{prefix}.W_e": embedding_backward(dx, embedding), **gradients}
