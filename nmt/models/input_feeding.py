"""The decoder with input feeding: h~_{t-1} is an input of the first layer at step t.

Source: Luong (2016), section 4.2.3; Algorithm 4 with attention inside the loop.
`nmt.models.feeding` runs the loop and calls `feed_h_tilde` after each step; here are the arrays
around it. A decoder without attention is in `nmt.models.state_feeding`, one without feeding in
`nmt.models.decoder`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from attention.attention import (
    attentional_backward,
    attentional_forward,
    join,
    join_backward,
)
from attention.memory import Memory, over_time
from backend import Array, array_module
from backend.workspace import Workspace
from lstm.cells import State
from lstm.embedding import EmbeddingCache, embedding_backward, embedding_forward
from lstm.parameters import Parameters
from lstm.stack import Stack
from nmt.models.contract import Noise
from nmt.models.feeding import FeedingCache, feeding_backward, feeding_forward
from nmt.models.heads.head import Decoded


class Attention(NamedTuple):
    """Attention inside the loop."""

    memory: Memory
    W_c: Array  # (H, He + H)
    mask: Array | None  # (T, B, He + H), dropout of [c_t; h_t]
    joined: Array  # (T, B, He + H), [c_t; h_t], written step by step


class AttentionGradient(NamedTuple):
    """The arrays that the gradient of `Attention` reads and writes, step by step."""

    joined: Array | None  # (T, B, He + H), of [c_t; h_t] if not only h~_t reads it
    align: Array | None  # (B, T, S), of the alignment
    sums: Any  # the memory's accumulators
    da: Array  # (T, B, H), at the pre-activation of h~, written
    dc: Array  # (T, B, He), of the contexts, written


def feed_h_tilde(attention: Attention, t: int, h: Array, h_tilde: Array) -> tuple[Array, Any]:
    """fed_t = h~_t = tanh(W_c [c_t; h_t])."""
    memory, W_c, mask, joined = attention
    c, attended = memory.attend(h[:, None], t)
    join(c[:, 0], h, None if mask is None else mask[t - 1], joined[t - 1])
    attentional_forward(joined[t - 1], W_c, out=h_tilde)                   # (4.5)
    return h_tilde, attended


def feed_h_tilde_backward(
    attention: Attention, d: AttentionGradient, t: int, dh_tilde: Array, cache: tuple[Array, Any]
) -> tuple[Array, Any]:
    """dh_t (B, H) from dh~_t (B, H), and the memory's part of the step."""
    (memory, W_c, mask, _), (h_tilde, attended), dc = attention, cache, d.dc[t - 1]
    d_joined, _ = attentional_backward(dh_tilde, h_tilde, W_c, d.da[t - 1])
    if d.joined is not None:
        d_joined += d.joined[t - 1]
    join_backward(d_joined, None if mask is None else mask[t - 1], dc)
    d_align = None if d.align is None else d.align[:, t - 1 : t]
    dh_attention, d_attended = memory.attend_backward(dc[:, None], attended, d.sums, d_align)
    dh = d_joined[:, dc.shape[1] :]
    dh += dh_attention[:, 0]                                               # h_t is read twice
    return dh, d_attended


class InputFeedingCache(NamedTuple):
    prefix: str
    parameters: Mapping[str, Array]
    embedding: EmbeddingCache
    x_mask: Array | None  # (T, B, E)
    attention: Attention
    feeding: FeedingCache


def input_feeding_forward(
    prefix: str, parameters: Mapping[str, Array], target_in: np.ndarray,
    initial: Sequence[State], memory: Memory, stack: Stack, noise: Noise, workspace: Workspace,
    reads: Collection[str],
) -> tuple[Decoded, InputFeedingCache]:
    """The input of the output layer, for all steps of a teacher-forced batch: as
    `nmt.models.decoder.decoder_forward`, with input feeding.

    Arguments: target_in (T, B) host ids; initial, a state per layer; memory of the source; noise,
    which may have the dropout masks `{prefix}.{l}` of the layers' inputs, `{prefix}.joined` of
    [c_t; h_t] and `{prefix}.fed` of the fed vector; reads, the fields of `Decoded` that the head
    reads. Returns these fields, and the cache.
    """
    x, embedding = embedding_forward(parameters[f"{prefix}.W_e"], target_in)
    x_mask, *masks = (noise.get(f"{prefix}.{layer}") for layer in range(stack.layers))
    if x_mask is not None:
        x *= x_mask
    xp, (T, B, _), H = array_module(x), x.shape, stack.hidden_size
    fed = workspace.empty(xp, (T + 1, B, H), x.dtype)
    W_c, mask = parameters[f"{memory.prefix}.W_c"], noise.get(f"{prefix}.joined")
    joined = workspace.empty(xp, (T, B, W_c.shape[1]), x.dtype)
    attention = Attention(memory, W_c, mask, joined)
    _, feeding = feeding_forward(
        x, initial, partial(feed_h_tilde, attention), fed, prefix, stack, parameters,
        [noise.get(f"{prefix}.fed"), *masks], workspace)
    align = None
    if "alignment" in reads:
        align = over_time([memory.alignment(attended) for _, attended in feeding.feed_caches])
    return Decoded(fed[1:], joined, align), InputFeedingCache(
        prefix, parameters, embedding, x_mask, attention, feeding)


def input_feeding_backward(
    d: Decoded, cache: InputFeedingCache
) -> tuple[list[State], Array, Parameters]:
    """Algorithm 4 with attention and input feeding inside the loop.

    Arguments: d, the gradient of the result of `input_feeding_forward`. Returns the gradients of
    the initial states, of the encoder's states (S, B, He), and of the parameters.
    """
    prefix, parameters, embedding, x_mask, attention, feeding = cache
    memory, workspace, (T, B, H) = attention.memory, feeding.workspace, d.h_tilde.shape
    xp, dtype = array_module(d.h_tilde), d.h_tilde.dtype
    d_fed = workspace.empty(xp, (T + 1, B, H), dtype)
    d_fed[0] = 0.0
    d_fed[1:] = d.h_tilde
    He = attention.joined.shape[2] - H
    da, dc = workspace.empty(xp, (T, B, H), dtype), workspace.empty(xp, (T, B, He), dtype)
    sums = memory.accumulators()
    d_attention = AttentionGradient(d.joined, d.alignment, sums, da, dc)
    dx, d_initial, d_attended, gradients = feeding_backward(
        None, d_fed, partial(feed_h_tilde_backward, attention, d_attention), feeding, parameters)
    if x_mask is not None:
        dx *= x_mask
    gradients[f"{prefix}.W_e"] = embedding_backward(dx, embedding)
    dstates, of_scores = memory.gradients(
        dc.transpose(1, 0, 2), feeding.top[1:].transpose(1, 0, 2),
        [attended for _, attended in feeding.feed_caches], d_attended, sums)
    dW_c = workspace.product(da.reshape(T * B, H).T, attention.joined.reshape(T * B, -1))  # (2.12)
    return d_initial, dstates, gradients | of_scores | {f"{memory.prefix}.W_c": dW_c}
