"""The vanilla recurrent unit: one step, a whole sequence, and Algorithm 1 backward through both.

Source: Luong (2016), Eqs. 2.3 and 2.24-2.30, Algorithm 1 (lines 5-8; the output lines 2-4 are in
`lstm.prediction`). sigma is tanh. Rows here are the thesis's columns; `T` is its T_rnn = [W_xh
W_hh], (H, E + H); `dz` is sigma'(T_rnn z_t) o dh_t. An optional bias is footnote 2's.
"""

from __future__ import annotations

from typing import NamedTuple

from backend import Array, array_module, matmul
from backend.buffering import row_by_row
from backend.fused import fusable
from backend.workspace import Workspace
from lstm.padding import Padding
from lstm.recurrence import (
    add_recurrent,
    carry_gradient,
    carry_state,
    clip_elements,
    input_gradient,
    loop_order,
    transposed,
    weight_gradient,
)


def rnn_cell_forward(z: Array, h: Array) -> None:
    """h_t = tanh(z), z (B, H) the pre-activation T_rnn z_t, written into h (Eq. 2.24)."""
    array_module(z).tanh(z, out=h)                 # h_t = sigma(T_rnn z_t)      (2.24)


@fusable
def rnn_cell_backward(dh: Array, h: Array, dz: Array) -> None:
    """dz = sigma'(T_rnn z_t) o dh_t with tanh' = 1 - h^2, written into dz (Eqs. 2.25-2.30)."""
    xp = array_module(h)
    xp.multiply(h, h, out=dz)
    xp.subtract(1.0, dz, out=dz)
    dz *= dh                                       # sigma'(T_rnn z_t) o dh_t    (2.25-2.30)


class RNNStepCache(NamedTuple):
    x: Array  # (B, E)
    h_prev: Array  # (B, H)
    h: Array  # (B, H)
    T: Array  # (H, E + H)


def rnn_step_forward(
    x: Array, h_prev: Array, T: Array, b: Array | None = None
) -> tuple[Array, RNNStepCache]:
    """h_t = tanh(W_xh x_t + W_hh h_{t-1} + b), Eqs. 2.3 and 2.24.

    Arguments: x (B, E), h_prev (B, H), T (H, E + H), b (H,) or None, one dtype. Returns h (B, H)
    and what `rnn_step_backward` reads.
    """
    xp = array_module(x, h_prev, T)
    z = matmul(xp.concatenate([x, h_prev], axis=1), T.T)  # (B, H)               (2.3)
    if b is not None:
        z += b
    rnn_cell_forward(z, z)
    return z, RNNStepCache(x, h_prev, z, T)


def rnn_step_backward(dh: Array, cache: RNNStepCache) -> tuple[Array, Array, Array, Array]:
    """Lines 5-8 of Algorithm 1. Returns dx (B, E), dh_prev (B, H), dT (H, E + H), db (H,)."""
    x, h_prev, h, T = cache
    xp = array_module(dh, x)
    E = x.shape[1]
    dz = xp.empty_like(h)
    rnn_cell_backward(dh, h, dz)
    dT = weight_gradient(dz, x, h_prev)            # (H, E + H)                  (2.29, 2.30)
    dh_prev = dz @ T[:, E:]                        # dh_{t-1} = W_hh' dz         (2.28)
    dx = dz @ T[:, :E]                             # dx_t = W_xh' dz             (2.27)
    return dx, dh_prev, dT, dz.sum(axis=0)


class RNNCache(NamedTuple):
    x: Array  # (T, B, E)
    h: Array  # (T + 1, B, H), with the initial state at the end where the loop starts
    T: Array  # (H, E + H)
    padding: Padding | None
    reverse: bool
    workspace: Workspace


@row_by_row
def rnn_forward(
    x: Array, h0: Array, T: Array, b: Array | None = None, *,
    padding: Padding | None = None, reverse: bool = False, workspace: Workspace | None = None,
) -> tuple[Array, Array, RNNCache]:
    """The hidden states of a whole sequence, Eq. 2.24 at every step.

    Arguments: x (T, B, E); h0 (B, H); T (H, E + H); b (H,) or None; padding of a ragged batch (a
    padded step carries the state through); reverse runs from the last step to the first.
    Returns h (T, B, H), the last state (B, H), and the cache.
    """
    xp = array_module(x, h0, T)
    workspace = workspace or Workspace()
    (steps, B, E), H = x.shape, h0.shape[1]
    z = workspace.empty(xp, (steps, B, H), x.dtype)
    h = workspace.empty(xp, (steps + 1, B, H), x.dtype)
    recurrent = workspace.empty(xp, (B, H), x.dtype)
    xp.matmul(x.reshape(steps * B, E), T[:, :E].T, out=z.reshape(steps * B, H))
    h[steps if reverse else 0] = h0
    T_h = transposed(T[:, E:], steps, workspace)                           # (H, H)
    for t, now, prev in loop_order(steps, reverse):
        xp.matmul(h[prev], T_h, out=recurrent)
        add_recurrent(z[t], recurrent, b)
        rnn_cell_forward(z[t], h[now])
        if padding is not None and t >= padding.full:
            carry_state(padding.dead[t], (h[prev],), (h[now],))
    out, last = (h[:-1], h[0]) if reverse else (h[1:], h[steps])
    return out, last, RNNCache(x, h, T, padding, reverse, workspace)


@row_by_row
def rnn_backward(
    dh_out: Array | None, dh_last: Array | None, cache: RNNCache, *, clip: float | None = None
) -> tuple[Array, Array, Array, Array]:
    """Algorithm 1 over a batch: backpropagation through time.

    Arguments: dh_out (T, B, H), gradient of the returned h; dh_last (B, H), of the last state
    (None stands for zero); clip is tau of the element-wise clipping of dh_t at every step.
    Returns dx (T, B, E), dh0 (B, H), dT (H, E + H), db (H,).
    """
    x, h, T, padding, reverse, workspace = cache
    xp = array_module(x)
    (steps, B, E), H = x.shape, h.shape[2]
    dz = workspace.empty(xp, (steps, B, H), x.dtype)
    dh = xp.zeros((B, H), dtype=x.dtype) if dh_last is None else dh_last.copy()
    T_h = T[:, E:]                                                         # (H, H)
    for t, now, _ in reversed(loop_order(steps, reverse)):
        if dh_out is not None:
            dh += dh_out[t]
        ragged = padding is not None and t >= padding.full
        carried = (dh.copy(),) if ragged else None
        clip_elements(dh, clip)
        rnn_cell_backward(dh, h[now], dz[t])
        if carried is not None and padding is not None:
            dz[t] *= padding.live[t]
        xp.matmul(dz[t], T_h, out=dh)                                      # (2.28)
        if carried is not None and padding is not None:
            carry_gradient(padding, t, carried, (dh,))
    dz_rows = dz.reshape(steps * B, H)
    h_prev = (h[1:] if reverse else h[:-1]).reshape(steps * B, H)
    dT = weight_gradient(dz_rows, x.reshape(steps * B, E), h_prev, workspace)
    dx = input_gradient(dz_rows, T, x.shape, workspace)                    # (2.27)
    return dx, dh, dT, dz_rows.sum(axis=0)
