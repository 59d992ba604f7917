"""The decoder loop with feeding: an output of step t is an input of the first layer at step t + 1.

Luong (2016), section 4.2.3, feeds the attentional vector h~_{t-1}, which is zero at first. Bahdanau
et al. (2015), A.2.2, feed the context c_i, found with s_{i-1}. A pair of functions, `feed` and
`feed_backward`, tells the loop what to feed. The functions for h~ and, without attention, for h_t
are here, those for the context in `nmt.models.contextual`. The words' share of the first layer's
pre-activations is computed before the loop, all weight gradients after it. A padded target step
needs no mask: no real step follows it and its loss is not counted, so every gradient through it is
exactly zero. F is the width of the fed vector: H for h~ and h_t, He for the context.

Read `input_feeding_forward` first: it makes the arrays, and `feeding_forward` runs the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
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
from backend.workspace import Workspace, transposed
from lstm.cells import CELLS, State
from lstm.embedding import EmbeddingCache, embedding_backward, embedding_forward
from lstm.parameters import Parameters
from lstm.recurrent import Steps, backward_with_limits, make_steps, parameter_gradients
from lstm.stack import Stack
from nmt.models.contract import Noise
from nmt.models.heads.head import Decoded

# feed(t, h, fed_t) writes fed_t (B, F), made of the top state h (B, H) after t steps, and returns
# its cache. feed_backward(t, d_fed_t, cache) returns dh (B, H), and the data from which the
# weights' gradients are computed after the loop.
Feed = Callable[[int, Array, Array], Any]
FeedBackward = Callable[[int, Array, Any], tuple[Array, Any]]


class FeedingCache(NamedTuple):
    names: list[str]  # prefixes of the layers' parameters
    stack: Stack
    x: Array  # (T, B, E), the words' embeddings after dropout
    read: list[Array]  # each layer's input in the loop: fed (T, B, F), the state below (T, B, H)
    masks: Sequence[Array | None]  # dropout of each of these inputs
    steps: list[Steps]  # of each layer
    top: Array  # (T + 1, B, H), the output of the top layer, the initial state first
    feed_caches: list[Any]  # the result of each call of `feed`
    workspace: Workspace


def feeding_forward(
    x: Array, initial: Sequence[State], feed: Feed, fed: Array, prefix: str, stack: Stack,
    parameters: Mapping[str, Array], masks: Sequence[Array | None], workspace: Workspace,
) -> tuple[Array, FeedingCache]:
    """All steps of a decoder that reads [x_t; fed_t].

    Arguments: x (T, B, E), after dropout; initial, a state per layer; feed; fed, which is written,
    (T, B, F) if fed_0 is made of the initial state, or (T + 1, B, F) if fed_0 is zero and the last
    step also makes fed_T; prefix of the stack's parameters; masks[l], dropout of layer l's input in
    the loop (of the fed vector for layer 0).
    Returns the top output (T + 1, B, H), the initial state first, and the cache.
    """
    cell, names = CELLS[stack.unit], [f"{prefix}.{layer}" for layer in range(stack.layers)]
    xp, (T, B, E), H = array_module(x), x.shape, initial[0][0].shape[1]
    steps = [make_steps(cell, T, state, workspace) for state in initial]
    out = [layer.states[0] for layer in steps]                             # (T + 1, B, H)
    if stack.residual:
        out[1:] = [workspace.empty(xp, h.shape, h.dtype) for h in out[1:]]
        out[-1][0] = initial[-1][0]
    outputs = [fed[:T], *(below[1:] for below in out[:-1])]
    read = [out if mask is None else workspace.empty(xp, out.shape, out.dtype)
            for out, mask in zip(outputs, masks, strict=True)]             # after dropout
    W = [transposed(parameters[f"{name}.W"][:, -out.shape[2] - H :], T, B, workspace)
         for name, out in zip(names, outputs, strict=True)]                # [W_fed W_h]'
    xp.matmul(x.reshape(T * B, E), parameters[f"{names[0]}.W"][:, :E].T,
              out=steps[0].u.reshape(T * B, -1))                           # W_x x_t, all t
    top, feed_caches = out[-1], []
    if len(fed) == T:
        feed_caches.append(feed(0, top[0], fed[0]))
    else:
        fed[0] = 0.0                                                       # (4.2.3 feeding)
    for t in range(T):
        for layer, name in enumerate(names):
            if (mask := masks[layer]) is not None:
                xp.multiply(outputs[layer][t], mask[t], out=read[layer][t])
            if layer:
                xp.matmul(read[layer][t], W[layer][:-H], out=steps[layer].u[t])
            else:
                steps[0].u[t] += xp.matmul(read[0][t], W[0][:-H])
            cell.forward(steps[layer].at(t), parameters.get(f"{name}.b"), W[layer][-H:])
            if stack.residual and layer:                                   # (Wu 6)
                xp.add(steps[layer].states[0][t + 1], outputs[layer][t], out=out[layer][t + 1])
        if t + 1 < len(fed):
            feed_caches.append(feed(t + 1, top[t + 1], fed[t + 1]))
    return top, FeedingCache(
        names, stack, x, read, masks, steps, top, feed_caches, workspace)


def feeding_backward(
    d_last: Array | None, d_fed: Array, feed_backward: FeedBackward, cache: FeedingCache,
    parameters: Mapping[str, Array],
) -> tuple[Array, list[State], list[Any], Parameters]:
    """Backpropagation through time, with `feed_backward` inside the loop.

    Arguments: d_last (B, H), gradient of the last top state if it is not fed, else None; d_fed, of
    the length of `fed`, the gradient of the fed vectors by readers outside of the loop, to which
    the gradient of the steps is added. Returns dx (T, B, E), the gradients of the initial states,
    the second results of `feed_backward`, and the gradients of the parameters by name.
    """
    names, stack, x, read, masks, steps, _, feed_caches, workspace = cache
    xp, (T, B, E), H, cell = array_module(x), x.shape, stack.hidden_size, CELLS[stack.unit]
    W = [parameters[f"{name}.W"] for name in names]
    first = len(d_fed) - T                                     # the first t of which fed_t was made
    da = [workspace.empty(xp, layer.u.shape, x.dtype) for layer in steps]
    d_states: list[State] = [tuple(xp.zeros_like(state[0]) for state in layer.states)
                             for layer in steps]
    dh, after_loop = d_last, []
    for t in reversed(range(T)):
        if t + 1 < len(d_fed):
            dh, of_call = feed_backward(t + 1, d_fed[t + 1], feed_caches[t + 1 - first])
            after_loop.append(of_call)
        for layer in reversed(range(len(steps))):
            d_out = dh
            of_step = d_states[layer], dh, steps[layer].at(t), W[layer][:, -H:], da[layer][t]
            if stack.clip is None:
                cell.backward(*of_step)
            else:
                backward_with_limits(cell, *of_step, stack.clip)
            dh = xp.matmul(da[layer][t], W[layer][:, (0 if layer else E) : -H])
            if (mask := masks[layer]) is not None:
                dh *= mask[t]
            if stack.residual and layer and d_out is not None:
                dh += d_out                                                # (Wu 6)
        d_fed[t] += dh
    if not first:
        dh, of_call = feed_backward(0, d_fed[0], feed_caches[0])
        after_loop.append(of_call)
        d_top = d_states[-1][0]
        d_top += dh
    dx = workspace.product(da[0].reshape(T * B, -1), W[0][:, :E]).reshape(x.shape)
    gradients: Parameters = {}
    for layer, name in enumerate(names):                                   # (2.49, 2.50)
        rows = da[layer].reshape(T * B, -1)
        inputs = [read[layer]] if layer else [x, read[0]]
        gradients[f"{name}.W"], db = parameter_gradients(
            cell, rows, [array.reshape(T * B, -1) for array in inputs], steps[layer], workspace)
        if f"{name}.b" in parameters:
            gradients[f"{name}.b"] = db
    return dx, d_states, after_loop[::-1], gradients


# --- Luong's input feeding ------------------------------------------------------------------------


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


def feed_state(t: int, h: Array, fed: Array) -> None:
    """fed_t = h_t: input feeding without attention."""
    fed[...] = h


def feed_state_backward(t: int, d_fed: Array, cache: None) -> tuple[Array, None]:
    """dh_t = the gradient of fed_t."""
    return d_fed, None


class InputFeedingCache(NamedTuple):
    prefix: str
    parameters: Mapping[str, Array]
    embedding: EmbeddingCache
    x_mask: Array | None  # (T, B, E)
    out_mask: Array | None  # (T, B, H), without attention
    attention: Attention | None
    feeding: FeedingCache


def input_feeding_forward(
    prefix: str, parameters: Mapping[str, Array], target_in: np.ndarray,
    initial: Sequence[State], memory: Memory | None, stack: Stack, noise: Noise,
    workspace: Workspace, reads: Collection[str],
) -> tuple[Decoded, InputFeedingCache]:
    """The input of the output layer, for all steps of a teacher-forced batch: as
    `nmt.models.decoder.decoder_forward`, with input feeding.

    Arguments: target_in (T, B) host ids; initial, a state per layer; memory of the source, None
    without attention; noise, which may have the dropout masks `{prefix}.{l}` of the layers' inputs,
    `{prefix}.joined` of [c_t; h_t] and `{prefix}.fed` of the fed vector; reads, the fields of
    `Decoded` that the head reads. Returns these fields, and the cache.
    """
    x, embedding = embedding_forward(parameters[f"{prefix}.W_e"], target_in)
    x_mask, *masks = (noise.get(f"{prefix}.{layer}") for layer in range(stack.layers))
    if x_mask is not None:
        x *= x_mask
    xp, (T, B, _), H = array_module(x), x.shape, stack.hidden_size
    fed, mask = workspace.empty(xp, (T + 1, B, H), x.dtype), noise.get(f"{prefix}.joined")
    attention: Attention | None = None
    feed: Feed = feed_state
    if memory is not None:
        joined = workspace.empty(xp, (T, B, memory.width + H), x.dtype)
        attention = Attention(memory, parameters[f"{memory.prefix}.W_c"], mask, joined)
        feed = partial(feed_h_tilde, attention)
    _, feeding = feeding_forward(
        x, initial, feed, fed, prefix, stack, parameters, [noise.get(f"{prefix}.fed"), *masks],
        workspace)
    if attention is None:
        out = fed[1:] if mask is None else fed[1:] * mask
        return Decoded(out), InputFeedingCache(
            prefix, parameters, embedding, x_mask, mask, None, feeding)
    align = None
    if "alignment" in reads:
        align = over_time([attention.memory.alignment(attended)
                           for _, attended in feeding.feed_caches])
    return Decoded(fed[1:], attention.joined, align), InputFeedingCache(
        prefix, parameters, embedding, x_mask, None, attention, feeding)


def input_feeding_backward(
    d: Decoded, cache: InputFeedingCache
) -> tuple[list[State], Any, Parameters]:
    """Algorithm 4 with attention and input feeding inside the loop.

    Arguments: d, the gradient of the result of `input_feeding_forward`. Returns the gradients of
    the initial states, of the encoder's states (S, B, He) (a tuple for several encoders, None
    without attention), and of the parameters.
    """
    prefix, parameters, embedding, x_mask, out_mask, attention, feeding = cache
    workspace, xp, (T, B, H) = feeding.workspace, array_module(d.h_tilde), d.h_tilde.shape
    dtype = d.h_tilde.dtype
    feed_backward: FeedBackward = feed_state_backward
    d_fed = workspace.empty(xp, (T + 1, B, H), dtype)
    d_fed[0] = 0.0
    d_fed[1:] = d.h_tilde if out_mask is None else d.h_tilde * out_mask
    if attention is not None:
        memory = attention.memory
        da, dc = (workspace.empty(xp, (T, B, width), dtype) for width in (H, memory.width))
        sums = memory.accumulators()
        feed_backward = partial(feed_h_tilde_backward, attention,
                                AttentionGradient(d.joined, d.alignment, sums, da, dc))
    dx, d_initial, d_attended, gradients = feeding_backward(
        None, d_fed, feed_backward, feeding, parameters)
    if x_mask is not None:
        dx *= x_mask
    gradients[f"{prefix}.W_e"], dstates = embedding_backward(dx, embedding), None
    if attention is not None:
        top = feeding.top[1:]
        dstates, of_scores = memory.gradients(
            dc.transpose(1, 0, 2), top.transpose(1, 0, 2),
            [attended for _, attended in feeding.feed_caches], d_attended, sums)
        gradients |= of_scores
        gradients[f"{memory.prefix}.W_c"] = workspace.product(
            da.reshape(T * B, H).T, attention.joined.reshape(T * B, -1))   # (2.12)
    return d_initial, dstates, gradients
