"""Decoders whose unit reads a context at every step, beside the word: [E y_{i-1}; c_i].

Source: Bahdanau et al. (2015), A.2.2, where W E y + C c is the product of `decoder.0.T`, columns
word, context and state, (G, E + He + H), with the two side by side. Two of them: `searching`
looks for its context with the state before (RNNsearch); `fixed` reads the same one at every step
(RNNencdec: "if we fix c_i to ->h_Tx"; Nair and Shah, 2016). A padded target step needs no mask:
nothing follows it and its loss is not counted, so every gradient through it is exactly zero.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from attention.attend import Memory
from attention.look import (
    MemoryGradient,
    Pulled,
    Seen,
    look_backward,
    look_forward,
    look_memory_backward,
    make_sums,
)
from backend import Array, array_module, matmul
from backend.buffering import row_by_row
from backend.rows import row_index
from backend.workspace import Workspace
from lstm.embedding import embedding_backward, embedding_forward
from lstm.gru import gru_cell_backward, gru_cell_forward, gru_weight_gradient
from lstm.parameters import Parameters
from lstm.recurrence import clip_elements, transposed, weight_gradient
from lstm.rnn import rnn_cell_backward
from lstm.stack import UNITS

DECODER = "decoder.0"


class Turn(NamedTuple):
    """What is left of a step once word and context have had their share of the pre-activations.

    forward(u, s_prev, T_s, m, s, scratch) and backward(ds, u, s_prev, T_s, dz, scratch), as
    `gru_cell_forward` and `gru_cell_backward`; weights(dz, read, s_prev, m, workspace) is dT.
    """

    forward: Callable[..., None]
    backward: Callable[..., None]
    weights: Callable[[Array, Array, Array, Array, Workspace], Array]


def _rnn_turn_forward(
    u: Array, s_prev: Array, T_s: Array, m: Array, s: Array, scratch: Array
) -> None:
    """s = tanh(u + T_s s_prev), kept in u too."""
    xp = array_module(u)
    xp.matmul(s_prev, T_s.T, out=s)
    u += s
    xp.tanh(u, out=u)
    s[...] = u


def _rnn_turn_backward(
    ds: Array, u: Array, s_prev: Array, T_s: Array, dz: Array, scratch: Array
) -> None:
    rnn_cell_backward(ds, u, dz)
    array_module(u).matmul(dz, T_s, out=ds)


def _rnn_turn_weights(
    dz: Array, read: Array, s_prev: Array, m: Array, workspace: Workspace
) -> Array:
    return weight_gradient(dz, read, s_prev, workspace)


TURNS = {
    "gru": Turn(gru_cell_forward, gru_cell_backward, gru_weight_gradient),
    "rnn": Turn(_rnn_turn_forward, _rnn_turn_backward, _rnn_turn_weights),
}


class Run(NamedTuple):
    """What the output layer reads of a teacher-forced batch; its gradients have the same form."""

    s: Array  # (T + 1, B, H), s_0 first
    y: Array  # (T, B, E), the embedding of the word before
    c: Array  # (T, B, He)


class SearchingCache(NamedTuple):
    embedding: Any
    read: Array  # (T, B, E + He): [y; c]
    s: Array  # (T + 1, B, H)
    u: Array  # (T, B, G)
    m: Array  # (T, B, H), r_i o s_{i-1} of a gated unit
    seen: list[Seen]


@row_by_row
def searching_forward(
    target_in: np.ndarray, s_0: Array, memory: Memory, parameters: Mapping[str, Array], unit: str,
    workspace: Workspace,
) -> tuple[Run, SearchingCache]:
    """All steps of a decoder that scores the source with s_{i-1} and then turns (A.2.2).

    Arguments: target_in (T, B) host ids; s_0 (B, H); memory, whose keys U_a h_j were made once.
    """
    T, b = parameters[f"{DECODER}.T"], parameters.get(f"{DECODER}.b")
    xp = array_module(T)
    y, embedding_cache = embedding_forward(parameters["decoder.W_e"], row_index(target_in))
    (steps, B, E), (H, G), He = y.shape, (s_0.shape[1], T.shape[0]), memory.hbar.shape[2]
    turned_c, turned_s = (
        transposed(part, steps, workspace) for part in (T[:, E : E + He], T[:, E + He :])
    )
    read = workspace.empty(xp, (steps, B, E + He), y.dtype)
    s = workspace.empty(xp, (steps + 1, B, H), y.dtype)
    u, m = (workspace.empty(xp, (steps, B, n), y.dtype) for n in (G, H))
    share, scratch = (workspace.empty(xp, (B, n), y.dtype) for n in (G, 2 * H))
    xp.matmul(y.reshape(steps * B, E), T[:, :E].T, out=u.reshape(steps * B, G))
    read[:, :, :E], s[0], seen = y, s_0, []
    for i in range(steps):
        c, one = look_forward(s[i][:, None], memory, parameters, i + 1)    # with s_{i-1}
        read[i, :, E:] = c[:, 0]
        xp.matmul(c[:, 0], turned_c, out=share)
        u[i] += share
        if b is not None:
            u[i] += b
        TURNS[unit].forward(u[i], s[i], turned_s.T, m[i], s[i + 1], scratch)
        seen.append(one)
    cache = SearchingCache(embedding_cache, read, s, u, m, seen)
    return Run(s, read[:, :, :E], read[:, :, E:]), cache


@row_by_row
def searching_backward(
    d: Run, memory: Memory, cache: SearchingCache, parameters: Mapping[str, Array], unit: str,
    workspace: Workspace, clip: float | None = None,
) -> tuple[Array, MemoryGradient, Parameters]:
    """Backpropagation through time, the look inside the loop.

    Arguments: d, gradients of what `searching_forward` returned; that of c is added to. Returns
    ds_0 (B, H), the memory's gradient, the parameters' by name.
    """
    embedding_cache, read, s, u, m, seen = cache
    T = parameters[f"{DECODER}.T"]
    xp, (steps, B, E), (_, _, H), G = array_module(T), d.y.shape, s.shape, u.shape[2]
    T_c, T_s, dc = T[:, E:-H], T[:, -H:], d.c
    dz = workspace.empty(xp, u.shape, u.dtype)
    scratch = workspace.empty(xp, (2, B, H), u.dtype)
    ds, sums = d.s[steps].copy(), make_sums(memory, parameters)
    pulled: list[Pulled] = []
    for i in reversed(range(steps)):
        clip_elements(ds, clip)
        TURNS[unit].backward(ds, u[i], s[i], T_s, dz[i], scratch)
        dc[i] += matmul(dz[i], T_c)                        # c_i is read by the unit, and predicts
        ds_look, one = look_backward(dc[i][:, None], seen[i], memory, parameters, sums)
        ds += ds_look[:, 0]
        ds += d.s[i]                                       # s_{i-1} turns, looks, and predicts
        pulled.insert(0, one)
    d_memory, gradients = look_memory_backward(
        dc.transpose(1, 0, 2), s[:-1].transpose(1, 0, 2), seen, pulled, memory, parameters, sums
    )
    rows, s_prev = dz.reshape(steps * B, G), s[:-1].reshape(steps * B, H)
    gradients[f"{DECODER}.T"] = TURNS[unit].weights(
        rows, read.reshape(steps * B, -1), s_prev, m.reshape(steps * B, H), workspace
    )
    if f"{DECODER}.b" in parameters:
        gradients[f"{DECODER}.b"] = rows.sum(axis=0)
    dy = matmul(rows, T[:, :E]).reshape(steps, B, E) + d.y  # E y_{i-1} is read twice
    gradients["decoder.W_e"] = embedding_backward(dy, embedding_cache)
    return ds, d_memory, gradients


class FixedCache(NamedTuple):
    embedding: Any
    unit: Any


def fixed_forward(
    target_in: np.ndarray, s_0: Array, c: Array, parameters: Mapping[str, Array], unit: str,
    workspace: Workspace,
) -> tuple[Run, FixedCache]:
    """All steps of a decoder that reads c (B, He) at each of them."""
    y, embedding_cache = embedding_forward(parameters["decoder.W_e"], row_index(target_in))
    xp, (steps, B, E), He = array_module(y), y.shape, c.shape[1]
    read = workspace.empty(xp, (steps, B, E + He), y.dtype)
    read[:, :, :E], read[:, :, E:] = y, c
    _, _, unit_cache = UNITS[unit].forward(
        read, (s_0,), parameters[f"{DECODER}.T"], parameters.get(f"{DECODER}.b"),
        workspace=workspace,
    )
    run = Run(unit_cache.h, read[:, :, :E], read[:, :, E:])
    return run, FixedCache(embedding_cache, unit_cache)


def fixed_backward(
    d: Run, cache: FixedCache, parameters: Mapping[str, Array], unit: str,
    clip: float | None = None,
) -> tuple[Array, Array, Parameters]:
    """Returns ds_0 (B, H), dc (B, He) and the parameters' gradients by name."""
    E = d.y.shape[2]
    d_read, (ds_0,), dT, db = UNITS[unit].backward(d.s[1:], (None,), cache.unit, clip)
    gradients: Parameters = {f"{DECODER}.T": dT}
    if f"{DECODER}.b" in parameters:
        gradients[f"{DECODER}.b"] = db
    gradients["decoder.W_e"] = embedding_backward(d_read[:, :, :E] + d.y, cache.embedding)
    return ds_0 + d.s[0], (d_read[:, :, E:] + d.c).sum(axis=0), gradients


def contextual_step(
    y: Array, s: Array, c: Array, parameters: Mapping[str, Array], unit: str
) -> Array:
    """s_i (N, H) of one step for search, from rows y (N, E), s_{i-1} (N, H) and c_i (N, He)."""
    read: Sequence[Array] = (y, c)
    joined = array_module(y).concatenate(read, axis=1)     # (N, E + He)
    return UNITS[unit].step(
        joined, (s,), parameters[f"{DECODER}.T"], parameters.get(f"{DECODER}.b")
    )[0]
