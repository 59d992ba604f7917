"""The decoder with input feeding: h~_{t-1} joins the input of step t (Luong, 2016, section 4.2.3).

Each step needs the attentional vector of the one before, so attention runs inside the loop. What
can leave the loop does: the embeddings' share of the first layer's products before it, and all
weight gradients and the memory's gradient after it. Nothing is concatenated on the way: what a
product reads side by side ([h~_{t-1}; h_{t-1}] of the first layer, [x_t; h_{t-1}] of those above,
[c_t; h_t] of the attentional vector) are slices of one buffer that earlier steps wrote into.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from attention.attend import Memory, attentional_backward, attentional_forward
from attention.look import (
    MemoryGradient,
    Pulled,
    Seen,
    Sums,
    look_backward,
    look_forward,
    look_memory_backward,
    make_sums,
)
from backend import Array, array_module
from backend.buffering import row_by_row
from backend.fused import fusable
from backend.rows import row_index
from backend.workspace import Workspace
from lstm.embedding import embedding_backward, embedding_forward
from lstm.parameters import Parameters
from lstm.recurrence import (
    add_recurrent,
    clip_elements,
    input_gradient,
    transposed,
    weight_gradient,
)
from lstm.stack import UNITS, State, Unit
from nmt.models.config import ModelConfig
from nmt.models.contract import Noise


class Layer(NamedTuple):
    """Buffers and weights of one layer. W is the width of what it reads at every step."""

    rows: Array  # (T + 1, B, W): [h~_{t-1}; h_{t-1}] in the first layer, [x_t; h_{t-1}] above
    u: Array  # (T, B, G)
    c: Array  # (T + 1, B, H), c_0 first
    tanh_c: Array  # (T, B, H)
    weight: Array  # (G, W), the columns of T that multiply `rows`
    bias: Array | None
    mask: Array | None  # dropout of x_t, (T, B, H); the first layer's is applied beforehand


class FeedingCache(NamedTuple):
    embedding: Any
    x: Array  # (T, B, E), embeddings after dropout
    x_mask: Array | None
    layers: list[Layer]
    h: Array  # (T, B, H), the top states
    seen: list[Seen]  # a step's each
    joined: Array  # (T, B, He + H): [c_t; h_t] after dropout
    joined_mask: Array | None


@row_by_row
def feeding_forward(
    target_in: np.ndarray, initial: Sequence[State], memory: Memory,
    parameters: Mapping[str, Array], config: ModelConfig, noise: Noise,
    workspace: Workspace,
) -> tuple[Array, FeedingCache]:
    """As `nmt.models.decoder.decoder_forward`, with input feeding: h~ (T, B, H) and the cache."""
    W_e, W_c = parameters["decoder.W_e"], parameters["attention.W_c"]
    xp, unit = array_module(W_e), UNITS[config.unit]
    (T, B), He = target_in.shape, memory.hbar.shape[2]
    E, H = config.embedding_size, config.hidden_size
    x, embedding_cache = embedding_forward(W_e, row_index(target_in))      # (T, B, E)
    x_mask, joined_mask = noise.get("decoder.0"), noise.get("joined")
    if x_mask is not None:
        x *= x_mask
    layers = _make_layers(initial, T, parameters, config, noise, workspace)
    first = layers[0]
    xp.matmul(x.reshape(T * B, E), parameters["decoder.0.T"][:, :E].T,
              out=first.u.reshape(T * B, -1))
    first.rows[0, :, :H] = 0.0                                             # h~_0 (4.2.3 feeding)
    h, joined = (workspace.empty(xp, (T, B, n), x.dtype) for n in (H, He + H))
    recurrent = workspace.empty(xp, (B, unit.blocks * H), x.dtype)
    turned = [transposed(layer.weight, T, workspace) for layer in layers]  # (W, G)
    seen: list[Seen] = []
    for t in range(T):
        for depth, layer in enumerate(layers):
            above = layers[depth + 1] if depth + 1 < len(layers) else None
            _layer_forward(t, layer, turned[depth], above, h[t], unit,
                           recurrent if depth == 0 else None)
        c, seen_t = look_forward(h[t][:, None, :], memory, parameters, t + 1)
        seen.append(seen_t)
        join(c[:, 0], h[t], None if joined_mask is None else joined_mask[t], joined[t])
        attentional_forward(joined[t], W_c, out=first.rows[t + 1, :, :H])  # h~_t (4.5)
    cache = FeedingCache(
        embedding_cache, x, x_mask, layers, h, seen, joined, joined_mask
    )
    return first.rows[1:, :, :H], cache


@fusable
def join(left: Array, right: Array, mask: Array | None, out: Array) -> None:
    """out (B, n + m) = [left; right], (B, n) and (B, m), times the dropout mask if there is one."""
    n = left.shape[1]
    out[:, :n], out[:, n:] = left, right
    if mask is not None:
        out *= mask


def _make_layers(
    initial: Sequence[State], T: int, parameters: Mapping[str, Array], config: ModelConfig,
    noise: Noise, workspace: Workspace,
) -> list[Layer]:
    """Buffers of all layers, with the initial states in their places."""
    xp = array_module(parameters["decoder.0.T"])
    G, H = UNITS[config.unit].blocks * config.hidden_size, config.hidden_size
    layers = []
    for depth, state in enumerate(initial):
        weights = parameters[f"decoder.{depth}.T"]
        if depth == 0:
            weights = weights[:, config.embedding_size :]
        B, W = state[0].shape[0], weights.shape[1]
        rows = workspace.empty(xp, (T + 1, B, W), weights.dtype)
        c = workspace.empty(xp, (T + 1, B, H), weights.dtype)
        rows[0, :, -H:] = state[0]
        if len(state) == 2:
            c[0] = state[1]
        u = workspace.empty(xp, (T, B, G), weights.dtype)
        tanh_c = workspace.empty(xp, (T, B, H), weights.dtype)
        mask = noise.get(f"decoder.{depth}") if depth else None
        layers.append(
            Layer(rows, u, c, tanh_c, weights, parameters.get(f"decoder.{depth}.b"), mask)
        )
    return layers


def _layer_forward(
    t: int, layer: Layer, turned: Array, above: Layer | None, h_top: Array, unit: Unit,
    recurrent: Array | None,
) -> None:
    """One layer's step: its h_t goes to its own next step and to whoever reads it above.

    turned is the transpose of the layer's weight; recurrent (B, G), of the first layer only, whose
    u holds T_x x_t already.
    """
    xp = array_module(layer.u)
    H = h_top.shape[1]
    u = layer.u[t]
    if recurrent is not None:
        xp.matmul(layer.rows[t], turned, out=recurrent)
    else:
        xp.matmul(layer.rows[t], turned, out=u)
    add_recurrent(u, recurrent, layer.bias)
    h = layer.rows[t + 1, :, -H:]
    unit.cell_forward(u, layer.c[t], layer.c[t + 1], layer.tanh_c[t], h)
    if above is None:
        h_top[...] = h
    elif above.mask is None:
        above.rows[t, :, :H] = h
    else:
        xp.multiply(h, above.mask[t], out=above.rows[t, :, :H])


class StepGradients(NamedTuple):
    """What the backward loop keeps for the products after it."""

    dz: list[Array]  # per layer (T, B, G), at the pre-activations
    dz_tilde: Array  # (T, B, H), at the pre-activation of h~
    dc: Array  # (T, B, He), at the contexts
    pulled: list[Pulled]  # a step's each
    sums: Sums | None


@row_by_row
def feeding_backward(
    d_out: Array, memory: Memory, cache: FeedingCache, parameters: Mapping[str, Array],
    config: ModelConfig, workspace: Workspace,
) -> tuple[list[State], MemoryGradient, Parameters]:
    """Algorithm 4 with attention and input feeding inside the loop.

    Arguments: d_out (T, B, H), gradient of the returned h~. Returns the gradient of the initial
    states, of the memory, and of the parameters.
    """
    x, layers = cache.x, cache.layers
    (T, B, E), unit = x.shape, UNITS[config.unit]
    steps, d_initial = _backward_loop(d_out, memory, cache, parameters, config, workspace)
    gradients: Parameters = {}
    for depth, (layer, dz) in enumerate(zip(layers, steps.dz, strict=True)):
        dz_rows = dz.reshape(T * B, -1)
        rows = layer.rows[:T].reshape(T * B, -1)
        gradients[f"decoder.{depth}.T"] = (                                # (2.49, 2.50)
            weight_gradient(dz_rows, x.reshape(T * B, E), rows, workspace) if depth == 0
            else workspace.product(dz_rows.T, rows)
        )
        if layer.bias is not None:
            gradients[f"decoder.{depth}.b"] = dz_rows.sum(axis=0)
    gradients["attention.W_c"] = workspace.product(
        steps.dz_tilde.reshape(T * B, -1).T, cache.joined.reshape(T * B, -1)
    )                                                                      # (2.12)
    dx = input_gradient(
        steps.dz[0].reshape(T * B, -1), parameters["decoder.0.T"], x.shape, workspace
    )                                                                      # (2.47)
    if cache.x_mask is not None:
        dx *= cache.x_mask
    gradients["decoder.W_e"] = embedding_backward(dx, cache.embedding)
    dc, h = steps.dc.transpose(1, 0, 2), cache.h.transpose(1, 0, 2)
    d_memory, more = look_memory_backward(
        dc, h, cache.seen, steps.pulled, memory, parameters, steps.sums
    )
    return [state[: unit.states] for state in d_initial], d_memory, gradients | more


def _backward_loop(
    d_out: Array, memory: Memory, cache: FeedingCache, parameters: Mapping[str, Array],
    config: ModelConfig, workspace: Workspace,
) -> tuple[StepGradients, list[State]]:
    """From the last step to the first: h~, attention, then the layers from the top down."""
    xp, unit = array_module(d_out), UNITS[config.unit]
    layers = cache.layers
    (T, B, _), He, H = cache.x.shape, memory.hbar.shape[2], config.hidden_size
    W_c, dtype = parameters["attention.W_c"], d_out.dtype
    dz = [workspace.empty(xp, layer.u.shape, dtype) for layer in layers]
    dz_tilde, dc = (workspace.empty(xp, (T, B, n), dtype) for n in (H, He))
    pulled: list[Pulled] = []
    sums = make_sums(memory, parameters)
    scratch = workspace.empty(xp, (2, B, H), dtype)
    d_rows = [xp.zeros(layer.rows.shape[1:], dtype=dtype) for layer in layers]
    d_cells = [xp.zeros((B, H), dtype=dtype) for _ in layers]
    for t in reversed(range(T)):
        dh_tilde = d_out[t] + d_rows[0][:, :H]                 # (4.2.3 feeding), and predicted
        h_tilde = layers[0].rows[t + 1, :, :H]
        d_joined, _ = attentional_backward(dh_tilde, h_tilde, W_c, dz_tilde[t])
        if cache.joined_mask is not None:
            d_joined *= cache.joined_mask[t]
        dc[t] = d_joined[:, :He]
        dh_attention, pulled_t = look_backward(dc[t][:, None, :], cache.seen[t], memory,
                                               parameters, sums)
        pulled.append(pulled_t)
        dh_above = d_joined[:, He:]
        dh_above += dh_attention[:, 0]
        for depth in reversed(range(len(layers))):
            layer = layers[depth]
            dh = d_rows[depth][:, -H:] + dh_above              # recurrent + vertical
            clip_elements(dh, config.clip_dh)
            unit.cell_backward(dh, d_cells[depth], layer.u[t], layer.c[t], layer.tanh_c[t],
                               dz[depth][t], scratch)
            xp.matmul(dz[depth][t], layer.weight, out=d_rows[depth])       # (2.47, 2.48)
            dh_above = d_rows[depth][:, :H]
            if layer.mask is not None:
                dh_above = dh_above * layer.mask[t]
    d_initial = [(rows[:, -H:], cell) for rows, cell in zip(d_rows, d_cells, strict=True)]
    return StepGradients(dz, dz_tilde, dc, pulled[::-1], sums), d_initial
