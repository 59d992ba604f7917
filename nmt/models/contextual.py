"""Decoders whose cell reads the word and a context at every step: [E y_{i-1}; c_i].

Source: Bahdanau et al. (2015), A.2.2. W E y + C c is the product of `{prefix}.0.W`, which has the
columns word, context and state, (G, E + He + H), with word and context side by side. There are two
decoders. `searching` finds its context with the previous state (RNNsearch), by the loop of
`nmt.models.feeding`. `fixed` reads the same context at every step (RNNencdec: "if we fix c_i to
->h_Tx"; Nair and Shah, 2016).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from attention.memory import Memory
from backend import Array, array_module
from backend.workspace import Workspace
from lstm.cells import CELLS
from lstm.embedding import EmbeddingCache, embedding_backward, embedding_forward
from lstm.parameters import Parameters
from lstm.recurrent import RecurrentCache, recurrent_backward, recurrent_forward, recurrent_step
from lstm.stack import Stack
from nmt.models.feeding import FeedingCache, feeding_backward, feeding_forward
from nmt.models.heads.head import Decoded


def query(s: Array, y: Array | None) -> Array:
    """The query of the score: s_{i-1} (.., H), or [s_{i-1}; E y_{i-1}] (.., H + E)."""
    return s if y is None else array_module(s).concatenate([s, y], axis=-1)  # (Nair 7.2 score)


def feed_context(memory: Memory, y: Array | None, t: int, s: Array, c: Array) -> Any:
    """fed_t = c_{t+1} (B, He): the query is s_t (B, H), or with y (T, B, E) also E y_t."""
    asked = query(s, None if y is None else y[t])
    c_asked, attended = memory.attend(asked[:, None])
    c[...] = c_asked[:, 0]
    return attended


def feed_context_backward(
    memory: Memory, sums: Any, d_states: Array, t: int, dc: Array, attended: Any
) -> tuple[Array, tuple[Any, Array]]:
    """ds_t (B, H) from dc_{t+1} (B, He) and d_states (T + 1, B, H), the gradient of the states by
    other readers; the memory's part of the step; and the gradient of the word in the query."""
    H = d_states.shape[2]
    d_asked, d_attended = memory.attend_backward(dc[:, None], attended, sums)
    return d_asked[:, 0, :H] + d_states[t], (d_attended, d_asked[:, 0, H:])


class SearchingCache(NamedTuple):
    embedding: EmbeddingCache
    memory: Memory
    y: Array | None  # (T, B, E), the words, if the query has them
    feeding: FeedingCache


def searching_forward(
    prefix: str, parameters: Mapping[str, Array], target_in: np.ndarray, s_0: Array,
    memory: Memory, stack: Stack, asks_with_word: bool, workspace: Workspace,
) -> tuple[Decoded, SearchingCache]:
    """All steps of a decoder that scores the source with s_{i-1} and then reads [y; c] (A.2.2).

    With the vanilla unit it is the decoder of the slides (Sennrich decoder).

    Arguments: target_in (T, B) host ids; s_0 (B, H); memory, with the keys U_a h_j;
    asks_with_word, whether the query also has E y_{i-1} (Nair and Shah, 7.2).
    """
    words, embedding = embedding_forward(parameters[f"{prefix}.W_e"], target_in)
    xp, (T, B, _), y = array_module(words), words.shape, words if asks_with_word else None
    c = workspace.empty(xp, (T, B, memory.width), words.dtype)
    s, feeding = feeding_forward(
        words, [(s_0,)], partial(feed_context, memory, y), c, prefix, stack, parameters, [None],
        workspace)
    return Decoded(states=s, words=words, contexts=c), SearchingCache(embedding, memory, y, feeding)


def searching_backward(
    d: Decoded, cache: SearchingCache, parameters: Mapping[str, Array], prefix: str
) -> tuple[Array, Array, Parameters]:
    """Backpropagation through time, the attention inside the loop.

    Arguments: d, gradients of the results of `searching_forward`; the gradient of c is added to.
    Returns ds_0 (B, H), the gradient of the annotations (S, B, He), and those of the parameters by
    name.
    """
    (embedding, memory, y, feeding), xp = cache, array_module(d.states)
    sums, s = memory.accumulators(), feeding.steps[0].states[0][:-1]
    dc = xp.zeros_like(feeding.read[0]) if d.contexts is None else d.contexts
    dy, [(ds_0,)], d_calls, gradients = feeding_backward(
        d.states[-1], dc, partial(feed_context_backward, memory, sums, d.states), feeding,
        parameters)
    d_attended, dy_asked = zip(*d_calls, strict=True)
    dstates, of_score = memory.gradients(
        dc.transpose(1, 0, 2), query(s, y).transpose(1, 0, 2), feeding.feed_caches,
        d_attended, sums)
    if d.words is not None:
        dy += d.words                                          # E y_{i-1} is read by the head
    if y is not None:
        dy += xp.stack(dy_asked)                               # and by the score
    gradients[f"{prefix}.W_e"] = embedding_backward(dy, embedding)
    return ds_0, dstates, gradients | of_score


class FixedCache(NamedTuple):
    embedding: EmbeddingCache
    recurrent: RecurrentCache


def fixed_forward(
    prefix: str, parameters: Mapping[str, Array], target_in: np.ndarray, s_0: Array, c: Array,
    stack: Stack, workspace: Workspace,
) -> tuple[Decoded, FixedCache]:
    """All steps of a decoder that reads c (B, He) at each of them (Nair 6.2 step 4a)."""
    y, embedding_cache = embedding_forward(parameters[f"{prefix}.W_e"], target_in)
    xp, (T, B, E), He = array_module(y), y.shape, c.shape[1]
    read = workspace.empty(xp, (T, B, E + He), y.dtype)
    read[:, :, :E], read[:, :, E:] = y, c
    _, _, cache = recurrent_forward(
        stack.cell, read, (s_0,), parameters[f"{prefix}.0.W"],
        parameters.get(f"{prefix}.0.b"), workspace=workspace,
    )
    decoded = Decoded(states=cache.steps.states[0], words=read[:, :, :E], contexts=read[:, :, E:])
    return decoded, FixedCache(embedding_cache, cache)


def fixed_backward(
    d: Decoded, cache: FixedCache, parameters: Mapping[str, Array], prefix: str
) -> tuple[Array, Array, Parameters]:
    """Returns ds_0 (B, H), dc (B, He) and the parameters' gradients by name."""
    E = parameters[f"{prefix}.W_e"].shape[1]
    d_read, (ds_0,), dW, db = recurrent_backward(d.states[1:], None, cache.recurrent)
    if d.words is not None:
        d_read += array_module(d_read).concatenate([d.words, d.contexts], axis=2)
    gradients: Parameters = {f"{prefix}.0.W": dW}
    if f"{prefix}.0.b" in parameters:
        gradients[f"{prefix}.0.b"] = db
    gradients[f"{prefix}.W_e"] = embedding_backward(d_read[:, :, :E], cache.embedding)
    return ds_0 + d.states[0], d_read[:, :, E:].sum(axis=0), gradients


def contextual_step(
    prefix: str, parameters: Mapping[str, Array], y: Array, s: Array, c: Array, unit: str
) -> Array:
    """s_i (N, H) of one step for search, from rows y (N, E), s_{i-1} (N, H) and c_i (N, He)."""
    joined = array_module(y).concatenate([y, c], axis=1)   # (N, E + He)
    return recurrent_step(CELLS[unit], joined, (s,), parameters[f"{prefix}.0.W"],
                          parameters.get(f"{prefix}.0.b"))[0]
