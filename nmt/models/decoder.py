"""The decoder without input feeding: all steps run through the stack, then through attention.

Source: Luong (2016), Algorithm 3 lines 5-11 and Eqs. 4.5, 4.7. No step needs the attentional vector
of the previous step, so attention is one batched product over all target steps. A padded target
step needs no mask: no real step follows it and its loss is not counted, so every gradient through
it is exactly zero.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from attention.attention import attentional_backward, attentional_forward
from attention.memory import Memory
from attention.scores import Variant, score_weights
from backend import Array, array_module
from backend.workspace import Workspace
from lstm.cells import State
from lstm.embedding import (
    EmbeddingCache,
    embedding_backward,
    embedding_forward,
    embedding_weight,
)
from lstm.parameters import Parameters, Scheme, Weight, axis
from lstm.stack import Stack, StackCache, stack_backward, stack_forward, stack_weights
from nmt.models.contract import Noise
from nmt.models.heads.head import Decoded


def decoder_weights(
    prefix: str, stack: Stack, vocabulary_size: int, inputs: Mapping[str, int], scheme: Scheme
) -> dict[str, Weight]:
    """`{prefix}.W_e` (V, E) and the stack's `{prefix}.{l}.W`.

    Arguments: inputs, name -> width of each input of the first layer: the word `x`, of width E, and
    the input that is fed, if there is one.
    """
    return {f"{prefix}.W_e": embedding_weight(vocabulary_size, inputs["x"], scheme),
            **stack_weights(prefix, stack, inputs, scheme)}


def attention_weights(
    prefix: str, variant: Variant, hidden_size: int, source: Stack, scheme: Scheme
) -> dict[str, Weight]:
    """The weights of the score, and `{prefix}.W_c` (H, He + H) of the attentional vector."""
    H, He = hidden_size, source.width
    weights = score_weights(variant, prefix, H, He, scheme, bidirectional=source.bidirectional)
    axes = axis("unit", H), axis("column", {"c": He, "h": H})
    return {**weights, f"{prefix}.W_c": Weight(axes, scheme.matrix())}


class AttentionCache(NamedTuple):
    """The data of attention, for all steps."""

    memory: Memory
    W_c: Array  # (H, He + H)
    h: Array  # (B, T, H), the top states
    attended: Any  # the cache of the memory
    joined: Array  # (B, T, He + H), after dropout
    h_tilde: Array  # (B, T, H)


class DecoderCache(NamedTuple):
    prefix: str
    parameters: Mapping[str, Array]
    embedding: EmbeddingCache
    stack: StackCache
    mask: Array | None  # of the joined vector, (T, B, He + H)
    attention: AttentionCache | None


def decoder_forward(
    prefix: str, parameters: Mapping[str, Array], target_in: np.ndarray,
    initial: Sequence[State], memory: Memory | None, stack: Stack, noise: Noise,
    workspace: Workspace, reads: Collection[str],
) -> tuple[Decoded, DecoderCache]:
    """The input of the output layer, for all steps of a teacher-forced batch.

    Arguments: target_in (T, B) host ids; initial, a state per layer; memory of the source, None
    without attention; noise, which may have the dropout masks `{prefix}.{l}` of the layers' inputs
    and `{prefix}.joined` of [c_t; h_t]; reads, the fields of `Decoded` that the output head reads.
    Returns these fields, and the cache.
    """
    W_e = parameters[f"{prefix}.W_e"]
    xp, (x, embedding_cache) = array_module(W_e), embedding_forward(W_e, target_in)
    top, _, stack_cache = stack_forward(
        x, parameters, prefix, stack, [[state] for state in initial],
        masks=[noise.get(f"{prefix}.{layer}") for layer in range(stack.layers)],
        workspace=workspace,
    )
    mask = noise.get(f"{prefix}.joined")
    if memory is None:
        out = top if mask is None else top * mask
        return Decoded(out), DecoderCache(prefix, parameters, embedding_cache, stack_cache, mask,
                                          None)
    T, B, H = top.shape
    h = xp.ascontiguousarray(top.transpose(1, 0, 2))                       # (B, T, H)
    c, attended = memory.attend(h)                                         # (4.7)
    joined = xp.concatenate([c, h], axis=2)                                # (B, T, He + H)
    if mask is not None:
        joined *= mask.transpose(1, 0, 2)
    W_c = parameters[f"{memory.prefix}.W_c"]
    h_tilde = attentional_forward(joined.reshape(B * T, -1), W_c).reshape(B, T, H)  # (4.5)
    align = memory.alignment(attended) if "alignment" in reads else None
    return Decoded(h_tilde.transpose(1, 0, 2), joined.transpose(1, 0, 2), align), DecoderCache(
        prefix, parameters, embedding_cache, stack_cache, mask,
        AttentionCache(memory, W_c, h, attended, joined, h_tilde))


def decoder_backward(
    d: Decoded, cache: DecoderCache
) -> tuple[list[State], Array | None, Parameters]:
    """Attention backward for all steps at once, then Algorithm 4 through the stack.

    Arguments: d, the gradient of the result of `decoder_forward`. Returns the gradients of the
    initial states, of the encoder's states (S, B, He) (None without attention), and of the
    parameters.
    """
    gradients: Parameters = {}
    dstates, d_top = None, d.h_tilde
    if cache.attention is not None:
        d_top, dstates, gradients = _attention_backward(d, cache.attention, cache.mask)
    elif cache.mask is not None:
        d_top = d_top * cache.mask
    dx, d_initial, stack_gradients = stack_backward(d_top, None, cache.stack)
    gradients[f"{cache.prefix}.W_e"] = embedding_backward(dx, cache.embedding)
    return [states[0] for states in d_initial], dstates, gradients | stack_gradients


def _attention_backward(
    d: Decoded, cache: AttentionCache, mask: Array | None
) -> tuple[Array, Array, Parameters]:
    """dh (T, B, H) from dh~ (T, B, H), and gradients of the encoder's states and of the weights."""
    memory, W_c, h, attended, joined, h_tilde = cache
    xp, (B, T, H) = array_module(d.h_tilde), h.shape
    d_rows = xp.ascontiguousarray(d.h_tilde.transpose(1, 0, 2)).reshape(B * T, H)
    d_joined, da = attentional_backward(d_rows, h_tilde.reshape(B * T, H), W_c)
    dW_c = xp.matmul(da.T, joined.reshape(B * T, -1))                         # (2.12)
    d_joined = d_joined.reshape(B, T, -1)
    if d.joined is not None:
        d_joined += d.joined.transpose(1, 0, 2)
    if mask is not None:
        d_joined = d_joined * mask.transpose(1, 0, 2)
    dc, dh = d_joined[:, :, :-H], d_joined[:, :, -H:]
    sums = memory.accumulators()
    dh_attention, step = memory.attend_backward(dc, attended, sums, d.alignment)
    dstates, gradients = memory.gradients(dc, h, [attended], [step], sums)
    gradients[f"{memory.prefix}.W_c"] = dW_c
    return (dh + dh_attention).transpose(1, 0, 2), dstates, gradients
