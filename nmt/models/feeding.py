"""The decoder loop with feedback: what step t made joins the first layer's input at step t + 1.

Luong (2016), section 4.2.3, feeds the attentional vector h~_{t-1}; Bahdanau et al. (2015), A.2.2,
the context c_i that s_{i-1} finds. The loop knows neither: a `Feedback` does. What can leave the
loop does: the words' share of the first layer's products before it, all weight gradients after it.
A padded target step needs no mask: nothing follows it and its loss is not counted, so every
gradient through it is exactly zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from backend import Array, array_module
from backend.buffering import row_by_row
from backend.workspace import Workspace
from lstm.cells import CELLS, Cell, State
from lstm.parameters import Parameters
from lstm.recurrent import Steps, earlier, input_gradient, make_steps, transposed


class Feedback(Protocol):
    """What is fed: vectors fed_t (B, F) that step t reads beside its word, t from 0.

    It is made for one pass forward and its way back, and holds what the latter reads.
    """

    width: int  # F
    first: bool  # whether fed_0 is made, from the initial state; where not, it is zero

    def forward(self, t: int, h: Array, out: Array) -> None:
        """Write fed_t from h (B, H), the top state that step t starts from."""

    def backward(self, t: int, d_fed: Array) -> Array:
        """The gradient of that state (B, H), from fed_t's."""


class FeedingCache(NamedTuple):
    names: list[str]  # of the layers' parameters
    cell: Cell
    x: Array  # (T, B, E), the words' embeddings after dropout
    fed: Array  # (T + 1, B, F)
    inputs: list[Array]  # per layer above the first (T, B, H): the states below after dropout
    masks: Sequence[Array | None]
    steps: list[Steps]
    last: bool
    workspace: Workspace


@row_by_row
def feeding_forward(
    x: Array, initial: Sequence[State], feedback: Feedback, prefix: str, unit: str,
    parameters: Mapping[str, Array], masks: Sequence[Array | None], last: bool,
    workspace: Workspace,
) -> tuple[Array, Array, FeedingCache]:
    """All steps of a decoder that reads [x_t; fed_t].

    Arguments: x (T, B, E), after dropout; initial, a state per layer; feedback; prefix of the
    stack's parameters and unit of its cells; masks[l], dropout of layer l's input from below, for
    l > 0; last, whether fed_T, which no step reads, is made.
    Returns the top states (T + 1, B, H), the initial one first; fed (T + 1, B, F); and the cache.
    """
    cell, depth = CELLS[unit], len(initial)
    names = [f"{prefix}.{layer}" for layer in range(depth)]
    (T, B, E), F, H = x.shape, feedback.width, initial[0][0].shape[1]
    xp, W = array_module(x), [parameters[f"{name}.T"] for name in names]
    steps = [make_steps(cell, T, state, 0, workspace) for state in initial]
    fed = workspace.empty(xp, (T + 1, B, F), x.dtype)
    inputs = [_input(steps[layer - 1], masks[layer], workspace) for layer in range(1, depth)]
    W_fed = transposed(W[0][:, E : E + F], T, workspace)
    W_below = [transposed(one[:, :H], T, workspace) for one in W[1:]]
    W_h = [transposed(one[:, -H:], T, workspace) for one in W]
    share, scratch = (workspace.empty(xp, (B, n * H), x.dtype)
                      for n in (len(cell.gates), cell.scratch))
    xp.matmul(x.reshape(T * B, E), W[0][:, :E].T, out=steps[0].u.reshape(T * B, -1))
    top = steps[-1].states[0]
    if not feedback.first:
        fed[0] = 0.0
    for t in range(T):
        if t or feedback.first:
            feedback.forward(t, top[t], fed[t])
            xp.matmul(fed[t], W_fed, out=share)
            steps[0].u[t] += share
        for layer, name in enumerate(names):
            if layer:
                below = steps[layer - 1].states[0][t + 1]
                mask = masks[layer]
                if mask is not None:
                    xp.multiply(below, mask[t], out=inputs[layer - 1][t])
                    below = inputs[layer - 1][t]
                xp.matmul(below, W_below[layer - 1], out=steps[layer].u[t])
            cell.forward(steps[layer].at(t, t, t + 1), parameters.get(f"{name}.b"), W_h[layer],
                         None, scratch)
    if last:
        feedback.forward(T, top[T], fed[T])
    return top, fed, FeedingCache(
        names, cell, x, fed, inputs, masks, steps, last, workspace)


def _input(below: Steps, mask: Array | None, workspace: Workspace) -> Array:
    """Where a layer's input from below stands: the states themselves, or room for the masked."""
    h = below.states[0][1:]
    return h if mask is None else workspace.empty(array_module(h), h.shape, h.dtype)


@row_by_row
def feeding_backward(
    d_top: Array | None, d_fed: Array, feedback: Feedback, cache: FeedingCache,
    parameters: Mapping[str, Array], *, clip: float | None = None,
) -> tuple[Array, list[State], Parameters]:
    """Backpropagation through time, the feedback inside the loop.

    Arguments: d_top (T + 1, B, H) or None, gradient of the top states; d_fed (T + 1, B, F), or
    (T, B, F) without `last`, of what was fed, to which is added what the steps send back (its first
    is not read where fed_0 is zero); clip as in `lstm.recurrent.recurrent_backward`. Returns dx
    (T, B, E), the gradients of the initial states, and those of the parameters by name.
    """
    names, cell, x, fed, _, masks, steps, last, workspace = cache
    xp, (T, B, E), F, H = array_module(x), x.shape, fed.shape[2], steps[0].states[0].shape[2]
    W = [parameters[f"{name}.T"] for name in names]
    da = [workspace.empty(xp, one.u.shape, x.dtype) for one in steps]
    scratch = workspace.empty(xp, (3, B, H), x.dtype)
    share = workspace.empty(xp, (B, F), x.dtype)
    d_below = workspace.empty(xp, (B, H), x.dtype)
    d_states: list[State] = [tuple(xp.zeros((B, H), dtype=x.dtype) for _ in one.states)
                             for one in steps]
    dh = _added(feedback.backward(T, d_fed[T]) if last else None, d_top, T)
    for t in reversed(range(T)):
        for layer in reversed(range(len(steps))):
            cell.backward(d_states[layer], dh, steps[layer].at(t, t, t + 1), W[layer][:, -H:], clip,
                          None, da[layer][t], scratch)
            if layer:
                xp.matmul(da[layer][t], W[layer][:, :H], out=d_below)      # (2.47)
                mask = masks[layer]
                if mask is not None:
                    d_below *= mask[t]
                dh = d_below
        dh = None
        if t or feedback.first:
            xp.matmul(da[0][t], W[0][:, E : E + F], out=share)             # (2.47)
            d_fed[t] += share
            dh = feedback.backward(t, d_fed[t])
        dh = _added(dh, d_top, t)
    if dh is not None:
        array_module(dh).add(d_states[-1][0], dh, out=d_states[-1][0])
    dx = input_gradient(da[0].reshape(T * B, -1), W[0][:, :E], x.shape, workspace)
    return dx, d_states, _weight_gradients(da, cache, parameters)


def _added(dh: Array | None, d_top: Array | None, t: int) -> Array | None:
    """The gradient of the top state that step t starts from, of what there is."""
    if d_top is None:
        return dh
    return d_top[t] if dh is None else dh + d_top[t]


def _weight_gradients(
    da: Sequence[Array], cache: FeedingCache, parameters: Mapping[str, Array]
) -> Parameters:
    """Gradients of W and b of all layers, by name (Eqs. 2.49, 2.50)."""
    gradients: Parameters = {}
    for layer, (name, steps) in enumerate(zip(cache.names, cache.steps, strict=True)):
        read = [cache.inputs[layer - 1]] if layer else [cache.x, cache.fed[:-1]]
        rows = da[layer].reshape(-1, da[layer].shape[2])
        gradients[f"{name}.T"] = cache.cell.weight_gradient(
            rows, [one.reshape(len(rows), -1) for one in read], *earlier(steps), cache.workspace)
        if f"{name}.b" in parameters:
            gradients[f"{name}.b"] = rows.sum(axis=0)
    return gradients
