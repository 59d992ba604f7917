"""The one loop over time: any cell over a whole sequence, forward and backward through time.

The input's share of all steps is one GEMM before the loop; weight, bias and input gradients are one
GEMM each after it. The loop holds no calculus: that is the cell's. Sequences of different lengths
share a batch, padded at the end: at a padded step the state is copied through.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from backend import Array, array_module, matmul, on_host, to_device
from backend.buffering import row_by_row
from backend.products import BLOCK, PAD, copy_transpose, is_by_columns, is_faster
from backend.workspace import Workspace
from lstm.cells import Cell, State, Step

ENOUGH = 16  # products with a matrix from which on a transposed copy of it pays: measured


class Padding(NamedTuple):
    """Which steps of a padded batch (T, B) are padding."""

    full: int  # number of leading steps at which no sequence is padded
    mask: Array  # (T, B, 1) bool, True on padding
    lengths: Array  # (B,) int64, on the device
    on_host: np.ndarray  # (B,) the same, on the host

    def at(self, t: int) -> Array | None:
        """The mask (B, 1) of step t; None where nothing is padded."""
        return self.mask[t] if t >= self.full else None


def make_padding(lengths: np.ndarray, steps: int) -> Padding | None:
    """Describe a batch padded to `steps`; None when no sequence is shorter.

    Arguments: lengths (B,) host integers, real steps of each sequence, from 0 to `steps`.
    Raises ValueError when a length is out of that range.
    """
    if lengths.size and (lengths.min() < 0 or lengths.max() > steps):
        raise ValueError(f"lengths: expected 0 to {steps}, got {lengths.min()} to {lengths.max()}")
    if lengths.size == 0 or lengths.min() == steps:
        return None
    mask = (np.arange(steps)[:, None] >= lengths[None, :])[:, :, None]  # (T, B, 1)
    return Padding(int(lengths.min()), to_device(mask), to_device(lengths), lengths)


class Steps(NamedTuple):
    """The arrays of all steps of a sequence."""

    u: Array  # (T, B, G)
    z: Array  # (T + 1, B, F + H), whose last columns are the states h
    states: tuple[Array, ...]  # (T + 1, B, H) each, the initial state where the loop starts
    saved: Array | None  # (T, B, H) or (T, B, F + H)

    def at(self, t: int, before: int, now: int) -> Step:
        """Step t, whose states are at the positions `before` and `now`."""
        return Step(self.u[t], self.z[before], tuple(one[before] for one in self.states),
                    tuple(one[now] for one in self.states),
                    None if self.saved is None else self.saved[t])


def make_steps(
    cell: Cell, T: int, state: State, start: int, workspace: Workspace, F: int = 0
) -> Steps:
    """Buffers for T steps; `state` (B, H) is written to position `start`, where the loop starts.

    F: the width of what each step is fed beside its input.
    """
    xp, (B, H), dtype = array_module(state[0]), state[0].shape, state[0].dtype
    u = workspace.empty(xp, (T, B, len(cell.gates) * H), dtype)
    z = workspace.empty(xp, (T + 1, B, F + H), dtype)
    states = (z[:, :, F:], *(workspace.empty(xp, (T + 1, B, H), dtype) for _ in state[1:]))
    saved = (workspace.empty(xp, (T, B, F + H if cell.saves == "z" else H), dtype) if cell.saves
             else None)
    for one, initial in zip(states, state, strict=True):
        one[start] = initial
    return Steps(u, z, states, saved)


def loop_order(T: int, reverse: bool) -> list[tuple[int, int, int]]:
    """(t, position of the state before it, position of the state at t) for each step of the
    loop."""
    if reverse:
        return [(t, t + 1, t) for t in range(T - 1, -1, -1)]
    return [(t, t, t + 1) for t in range(T)]


class RecurrentCache(NamedTuple):
    cell: Cell
    x: Array  # (T, B, E)
    W: Array  # (G, E + H)
    steps: Steps
    padding: Padding | None
    reverse: bool
    workspace: Workspace


@row_by_row
def recurrent_forward(
    cell: Cell, x: Array, state: State, W: Array, b: Array | None = None, *,
    padding: Padding | None = None, reverse: bool = False, workspace: Workspace | None = None,
) -> tuple[Array, State, RecurrentCache]:
    """The hidden states of a whole sequence: Eqs. 2.2, 2.24, 2.35-2.40, (Bahdanau A.1.1 unit).

    Arguments: x (T, B, E); state, the initial one, (B, H) each; W (G, E + H); b (G,) or None;
    padding of a ragged batch; reverse: run from the last step to the first. One dtype for all.
    Returns h (T, B, H), the last state, and the cache.
    """
    xp, workspace = array_module(x, state[0], W), workspace or Workspace()
    (T, B, E), H = x.shape, state[0].shape[1]
    steps = make_steps(cell, T, state, T if reverse else 0, workspace)
    xp.matmul(x.reshape(T * B, E), W[:, :E].T, out=steps.u.reshape(T * B, -1))  # W_x x_t, all t
    W_z = transposed(W[:, E:], T, B, workspace)                            # (H, G)
    scratch = workspace.empty(xp, (B, cell.scratch * H), x.dtype)
    for t, before, now in loop_order(T, reverse):
        pad = None if padding is None else padding.at(t)
        cell.forward(steps.at(t, before, now), b, W_z, pad, scratch)
    h = steps.states[0]
    last = tuple(one[0 if reverse else T] for one in steps.states)
    return (h[:-1] if reverse else h[1:]), last, RecurrentCache(
        cell, x, W, steps, padding, reverse, workspace)


@row_by_row
def recurrent_backward(
    dh_out: Array | None, d_last: State | None, cache: RecurrentCache, *,
    clip: float | None = None,
) -> tuple[Array, State, Array, Array]:
    """Backpropagation through time, from line 1 of Algorithms 1 and 2 on, over a batch.

    Arguments: dh_out (T, B, H), gradient of the returned h; d_last, of the returned last state
    (None stands for zero, also in parts); clip is tau of the element-wise clipping of dh_t at every
    step (section 2.2.2). Returns dx (T, B, E), d_state (B, H) each, dW (G, E + H), db (G,).
    """
    cell, x, W, steps, padding, reverse, workspace = cache
    xp, (T, B, E), H = array_module(x), x.shape, steps.states[0].shape[2]
    da = workspace.empty(xp, steps.u.shape, x.dtype)
    scratch = workspace.empty(xp, (3, B, H), x.dtype)
    d_state = zeros_or_copies(d_last, cell, xp, (B, H), x.dtype)
    for t, before, now in reversed(loop_order(T, reverse)):
        pad = None if padding is None else padding.at(t)
        d_out = None if dh_out is None else dh_out[t]
        cell.backward(d_state, d_out, steps.at(t, before, now), W[:, E:], clip, pad, da[t], scratch)
    rows = da.reshape(T * B, -1)
    dW = cell.weight_gradient(rows, x.reshape(T * B, E), *earlier(steps, reverse), workspace)
    return input_gradient(rows, W[:, :E], x.shape, workspace), d_state, dW, rows.sum(axis=0)


def earlier(steps: Steps, reverse: bool = False) -> tuple[Array, Array | None]:
    """z and what the cell saved, of all steps in rows."""
    z, saved = steps.z, steps.saved
    rows = (z[1:] if reverse else z[:-1]).reshape(-1, z.shape[2])
    return rows, None if saved is None else saved.reshape(-1, saved.shape[2])


def zeros_or_copies(
    d_last: State | None, cell: Cell, xp: Any, shape: tuple[int, ...], dtype: Any
) -> State:
    """Writable gradients of a state: copies of those given, zeros where there are none."""
    given = (None,) * cell.states if d_last is None else d_last
    return tuple(xp.zeros(shape, dtype=dtype) if d is None else d.copy() for d in given)


def input_gradient(
    da: Array, W_x: Array, shape: tuple[int, ...], workspace: Workspace
) -> Array:
    """dx_t = W_x' da_t of all steps (Eqs. 2.27, 2.47): an array of x's `shape` (T, B, E)."""
    xp = array_module(da)
    dx = workspace.empty(xp, shape, da.dtype)
    xp.matmul(da, W_x, out=dx.reshape(-1, shape[-1]))                      # (2.27, 2.47)
    return dx


@row_by_row
def recurrent_step(cell: Cell, x: Array, state: State, W: Array, b: Array | None) -> State:
    """One step alone, for search: x (N, E), state (N, H) each. Returns the new state."""
    xp, E, (N, H) = array_module(x, W), x.shape[1], state[0].shape
    now = tuple(xp.empty_like(one) for one in state)
    saved = xp.empty_like(state[0]) if cell.saves else None
    scratch = xp.empty((N, cell.scratch * H), dtype=x.dtype)
    step = Step(matmul(x, W[:, :E].T), state[0], state, now, saved)
    cell.forward(step, b, W[:, E:].T, None, scratch)
    return now


def transposed(weights: Array, products: int, rows: int, workspace: Workspace) -> Array:
    """The transpose (n, G) of `weights` (G, n), as the second factor of so many products of `rows`.

    A copy where that pays, else a view: a BLAS on the host repacks a transposed factor every time,
    at a tenth of the product's time; those of one row, or of a few (`backend.products`), read it as
    it is.
    """
    xp = array_module(weights)
    if (not on_host(xp) or products < ENOUGH or rows == 1 or is_faster(rows, weights)
            or is_by_columns(weights)):
        return weights.T
    G, n = weights.shape
    copy = workspace.empty(xp, (n, G + PAD), weights.dtype)[:, :G]
    copy_transpose(weights, copy, workspace.empty(xp, (BLOCK, n + PAD), weights.dtype)[:, :n])
    return copy
