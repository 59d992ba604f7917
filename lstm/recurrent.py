"""The loop over time: any cell over a whole sequence, forward and backward through time.

The input's share of all steps is one GEMM before the loop. The gradients of weights, biases and
inputs are one GEMM each after the loop. The loop itself has no calculus: that is in the cell. In a
batch, sequences of different lengths are padded at the end. At a padded step the state is copied
through, forward and backward. A cell knows no padding.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from backend import Array, array_module, to_device
from backend.fused import cells as kernels
from backend.fused import fused
from backend.workspace import Workspace, transposed
from lstm.cells import Cell, State, Step

# For each step of a padded batch, whether each sequence is padded, (B, 1) bool; None if none is.
Padding = Sequence[Array | None]


def make_padding(lengths: np.ndarray, steps: int) -> Padding | None:
    """Describe a batch padded to `steps`; None when no sequence is shorter.

    Arguments: lengths (B,) host integers, real steps of each sequence, from 0 to `steps`.
    Raises ValueError when a length is out of that range.
    """
    if lengths.size and (lengths.min() < 0 or lengths.max() > steps):
        raise ValueError(f"lengths: expected 0 to {steps}, got {lengths.min()} to {lengths.max()}")
    if lengths.size == 0 or lengths.min() == steps:
        return None
    mask = to_device((np.arange(steps)[:, None] >= lengths)[:, :, None])   # (T, B, 1)
    return [mask[t] if t >= lengths.min() else None for t in range(steps)]


class Steps(NamedTuple):
    """The arrays of all steps of a sequence."""

    u: Array  # (T, B, G): W_x x_t before step t, the gates after it
    states: State  # (T + 1, B, H) each, with the initial state at the start of the loop
    saved: Array  # (T, B, saves H), as in `Step`
    scratch: Array  # (B, G), of the step that runs
    reverse: bool  # whether the loop runs from the last step to the first

    def at(self, t: int) -> Step:
        """Step t."""
        before, now = (t + 1, t) if self.reverse else (t, t + 1)
        return Step(self.u[t], tuple([state[before] for state in self.states]),
                    tuple([state[now] for state in self.states]), self.saved[t], self.scratch)


def make_steps(
    cell: Cell, T: int, initial: State, workspace: Workspace, reverse: bool = False
) -> Steps:
    """Buffers for T steps that begin with the state `initial`, (B, H) each."""
    xp, (B, H), dtype = array_module(initial[0]), initial[0].shape, initial[0].dtype
    states = tuple(workspace.empty(xp, (T + 1, B, H), dtype) for _ in initial)
    for state, first in zip(states, initial, strict=True):
        state[T if reverse else 0] = first
    G = len(cell.gates) * H
    return Steps(workspace.empty(xp, (T, B, G), dtype), states,
                 workspace.empty(xp, (T, B, cell.saves * H), dtype),
                 workspace.empty(xp, (B, G), dtype), reverse)


class RecurrentCache(NamedTuple):
    cell: Cell
    x: Array  # (T, B, E)
    W: Array  # (G, E + H)
    steps: Steps
    padding: Padding
    workspace: Workspace


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
    T, B, E = x.shape
    padding = padding or [None] * T
    steps = make_steps(cell, T, state, workspace, reverse)
    xp.matmul(x.reshape(T * B, E), W[:, :E].T, out=steps.u.reshape(T * B, -1))  # W_x x_t, all t
    W_h = transposed(W[:, E:], T, B, workspace)                            # (H, G)
    for t in reversed(range(T)) if reverse else range(T):
        step = steps.at(t)
        cell.forward(step, b, W_h)
        if padding[t] is not None:
            copy_through(padding[t], step.before, step.now)
    h = steps.states[0]
    last = tuple(state[0 if reverse else T] for state in steps.states)
    return (h[:-1] if reverse else h[1:]), last, RecurrentCache(
        cell, x, W, steps, padding, workspace)


def recurrent_backward(
    dh_out: Array | None, d_last: State | None, cache: RecurrentCache
) -> tuple[Array, State, Array, Array]:
    """Backpropagation through time, from line 1 of Algorithms 1 and 2 on, over a batch.

    Arguments: dh_out (T, B, H), gradient of the returned h; d_last, gradient of the returned last
    state; None for either of them, or for an array of d_last, means zeros. Returns dx (T, B, E);
    d_state (B, H) each, gradient of the initial state; dW (G, E + H); db (G,).
    """
    cell, x, W, steps, padding, workspace = cache
    xp, (T, B, E) = array_module(x), x.shape
    da = workspace.empty(xp, steps.u.shape, x.dtype)
    d_last = d_last or (None,) * cell.states
    d_state = tuple(xp.zeros_like(state[0]) if d is None else d.copy()
                    for state, d in zip(steps.states, d_last, strict=True))
    for t in range(T) if steps.reverse else reversed(range(T)):
        step, d_out = steps.at(t), None if dh_out is None else dh_out[t]
        if padding[t] is None:
            cell.backward(d_state, d_out, step, W[:, E:], da[t])
        else:
            padded_backward(cell, d_state, d_out, step, W[:, E:], da[t], padding[t])
    rows = da.reshape(T * B, -1)
    dW, db = parameter_gradients(cell, rows, (x.reshape(T * B, E),), steps, workspace)
    dx = workspace.product(rows, W[:, :E]).reshape(x.shape)    # dx_t = W_x' da_t  (2.27, 2.47)
    return dx, d_state, dW, db


def padded_backward(
    cell: Cell, d_state: State, d_out: Array | None, step: Step, W_h: Array, da: Array, pad: Array
) -> None:
    """A cell's `backward` at a step that is padding for some sequences: d_state goes through it as
    it is, and da is zero. pad (B, 1): True for these sequences."""
    if d_out is not None:
        dh = d_state[0]
        dh += d_out
    through = tuple(d.copy() for d in d_state)
    for d in d_state:
        array_module(d).copyto(d, 0.0, where=pad)
    cell.backward(d_state, None, step, W_h, da)
    copy_through(pad, through, d_state)


@fused(kernels.copy_through)
def copy_through(pad: Array, before: State, now: State) -> None:
    """At a padded step, where `pad` (B, 1) is True, copy the state through: `now` = `before`."""
    xp = array_module(pad)
    for old, new in zip(before, now, strict=True):
        xp.copyto(new, old, where=pad)


def parameter_gradients(
    cell: Cell, da: Array, inputs: Sequence[Array], steps: Steps, workspace: Workspace
) -> tuple[Array, Array]:
    """dW (G, E + H) and db, sums over all steps (Algorithm 2, lines 14 and 15).

    Arguments: da (T B, G); inputs, the arrays (T B, ...) that the layer reads in addition to its
    state, in the order of their columns in W; steps, buffers of the forward pass.
    """
    xp, h = array_module(da), steps.states[0]
    h_prev = (h[1:] if steps.reverse else h[:-1]).reshape(len(da), -1)
    ends = list(accumulate(x.shape[1] for x in inputs))
    dW = workspace.empty(xp, (da.shape[1], ends[-1] + h.shape[2]), da.dtype)
    *dW_of_inputs, dW_h = xp.split(dW, ends, axis=1)
    for x, dW_x in zip(inputs, dW_of_inputs, strict=True):
        xp.matmul(da.T, x, out=dW_x)                           # dW_x = da' x      (2.29, 2.49)
    if cell.gradients is not None:
        return dW, cell.gradients(da, h_prev, steps.saved.reshape(len(da), -1), dW_h)
    xp.matmul(da.T, h_prev, out=dW_h)                          # dW_h = da' h_prev (2.30, 2.50)
    return dW, da.sum(axis=0)


def recurrent_step(cell: Cell, x: Array, state: State, W: Array, b: Array | None) -> State:
    """A single step, for search: x (N, E), state (N, H) each. Returns the new state."""
    xp, E = array_module(x, W), x.shape[1]
    now = tuple(xp.empty_like(before) for before in state)
    N, H = state[0].shape
    saved = xp.empty((N, cell.saves * H), dtype=x.dtype)
    a = xp.matmul(x, W[:, :E].T)
    cell.forward(Step(a, state, now, saved, xp.empty_like(a)), b, W[:, E:].T)
    return now
