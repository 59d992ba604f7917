"""The long short-term memory: one step, a whole sequence, and Algorithm 2 backward through both.

Source: Luong (2016), Eqs. 2.35-2.50 and Algorithm 2. Where the letters differ from the page:

| here | thesis | why |
|---|---|---|
| rows `(B, H)`, `x @ T_x.T` | columns, `T_x x` | a batch, and one GEMM for all time steps |
| `T = [T_x T_h]`, (4H, E + H) | `T_lstm` | the same matrix |
| `dz` | `g'(T_lstm z_t) o du_t` | the gradient at the pre-activation, used four times |

g' is evaluated from the activation kept by the forward pass: u (1 - u) on the gates, 1 - u^2 on
h_hat (erratum 4). Biases are an option that the thesis does not have (erratum 5).
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
    carry_state,
    clip_elements,
    input_gradient,
    loop_order,
    transposed,
    weight_gradient,
)

GATES = ("i", "f", "o", "h_hat")  # the row blocks of T, in this order (Eq. 2.35)


# --- the cell: everything between two matrix products -------------------------------------------


@fusable
def lstm_cell_forward(z: Array, c_prev: Array, c: Array, tanh_c: Array, h: Array) -> None:
    """Gates, memory cell and hidden state from the pre-activation (Eqs. 2.35-2.38), in place.

    z (B, 4H) is overwritten by u = g(z); c, tanh_c, h (B, H) are written. One tanh serves all
    four gates, because sigm(z) = tanh(z / 2) / 2 + 1 / 2. Order: z, c, tanh_c, h.
    """
    xp = array_module(z)
    H = c.shape[1]
    gates, i, f, o, h_hat = z[:, : 3 * H], *_blocks(z)
    gates *= 0.5
    xp.tanh(z, out=z)
    gates *= 0.5
    gates += 0.5                         # u_t = g(T_lstm z_t)              (2.35, 2.38)
    xp.multiply(f, c_prev, out=c)
    xp.multiply(i, h_hat, out=h)
    c += h                               # c_t = f_t o c_{t-1} + i_t o h_hat (2.36)
    xp.tanh(c, out=tanh_c)
    xp.multiply(o, tanh_c, out=h)        # h_t = o_t o tanh(c_t)            (2.37)


@fusable
def lstm_cell_backward(
    dh: Array, dc: Array, u: Array, c_prev: Array, tanh_c: Array, dz: Array, scratch: Array
) -> None:
    """Algorithm 2, lines 7-13, and g' of Eqs. 2.47-2.50, in place.

    dh (B, H) is read; dc (B, H) holds the gradient sent back from c_{t+1} and becomes that of
    c_{t-1}; dz (B, 4H) is written: the gradient at the pre-activation, g' first, into which each
    block is multiplied. Two arrays of scratch (2, B, H) hold one block each, end to end. Order:
    dz = g', dc_t, do, df, di, dh_hat, dc_{t-1}.
    """
    xp = array_module(u)
    H = dh.shape[1]
    i, f, o, h_hat = _blocks(u)
    dz_i, dz_f, dz_o, dz_h_hat = _blocks(dz)
    d_tanh, du = scratch[0], scratch[1]
    xp.multiply(u, u, out=dz)
    xp.subtract(u[:, : 3 * H], dz[:, : 3 * H], out=dz[:, : 3 * H])
    xp.subtract(1.0, dz_h_hat, out=dz_h_hat)  # g': u - u^2, and 1 - u^2     (2.47-2.50)
    xp.multiply(o, dh, out=d_tanh)
    xp.multiply(tanh_c, tanh_c, out=du)
    du *= d_tanh
    dc += d_tanh
    dc -= du                             # dc_t += tanh'(c_t) o o_t o dh_t   (2.42)
    xp.multiply(tanh_c, dh, out=du)      # do_t = tanh(c_t) o dh_t           (2.41)
    dz_o *= du
    xp.multiply(c_prev, dc, out=du)      # df_t = c_{t-1} o dc_t             (2.43)
    dz_f *= du
    xp.multiply(h_hat, dc, out=du)       # di_t = h_hat_t o dc_t             (2.45)
    dz_i *= du
    xp.multiply(i, dc, out=du)           # dh_hat_t = i_t o dc_t             (2.46)
    dz_h_hat *= du
    dc *= f                              # dc_{t-1} = f_t o dc_t             (2.44)


def _blocks(gates: Array) -> tuple[Array, Array, Array, Array]:
    """The four (B, H) blocks i, f, o, h_hat of a (B, 4H) array, as views."""
    H = gates.shape[1] // 4
    return gates[:, :H], gates[:, H : 2 * H], gates[:, 2 * H : 3 * H], gates[:, 3 * H :]


# --- a turn of the time loop: everything between two matrix products, padding included ----------


@fusable
def lstm_turn_forward(
    z: Array, recurrent: Array, b: Array | None, before: tuple[Array, Array],
    now: tuple[Array, Array], tanh_c: Array, dead: Array | None = None,
) -> None:
    """The cell on z + recurrent + b; where `dead` (B, 1) the state before passes through.

    z (B, 4H) holds T_x x_t, recurrent (B, 4H) is T_h h_{t-1}; before is (h_{t-1}, c_{t-1}), now
    the place of (h_t, c_t).
    """
    add_recurrent(z, recurrent, b)
    lstm_cell_forward(z, before[1], now[1], tanh_c, now[0])
    if dead is not None:
        carry_state(dead, before, now)


@fusable
def lstm_turn_backward(
    dh: Array, dc: Array, d_out: Array | None, u: Array, c_prev: Array, tanh_c: Array, dz: Array,
    scratch: Array, clip: float | None = None, dead: Array | None = None,
    kept: Array | None = None,
) -> None:
    """The cell's backward on dh + d_out, clipped.

    Where `dead` (B, 1) is True nothing goes to dz, dc passes through, and dh + d_out is left in
    `kept` (B, H) for `carry_state` after the product; the other arguments are those of
    `lstm_cell_backward` and `lstm_backward`.
    """
    if d_out is not None:
        dh += d_out
    if dead is not None and kept is not None:
        kept[...], dc_kept = dh, dc.copy()
    clip_elements(dh, clip)
    lstm_cell_backward(dh, dc, u, c_prev, tanh_c, dz, scratch)
    if dead is not None and kept is not None:
        xp = array_module(dz)
        xp.copyto(dz, 0.0, where=dead)
        xp.copyto(dc, dc_kept, where=dead)


# --- one time step ------------------------------------------------------------------------------


class LSTMStepCache(NamedTuple):
    x: Array  # (B, E)
    h_prev: Array  # (B, H)
    c_prev: Array  # (B, H)
    u: Array  # (B, 4H)
    tanh_c: Array  # (B, H)
    T: Array  # (4H, E + H)


@row_by_row
def lstm_step_forward(
    x: Array, h_prev: Array, c_prev: Array, T: Array, b: Array | None = None
) -> tuple[tuple[Array, Array], LSTMStepCache]:
    """(h_t, c_t) = f(x_t, h_{t-1}, c_{t-1}), Eqs. 2.35-2.40.

    Arguments: x (B, E), h_prev and c_prev (B, H), T (4H, E + H), b (4H,) or None, one dtype.
    Returns (h, c), each (B, H), and what `lstm_step_backward` reads.
    """
    xp = array_module(x, h_prev, c_prev, T)
    z = matmul(xp.concatenate([x, h_prev], axis=1), T.T)  # (B, 4H)            (2.39)
    if b is not None:
        z += b
    c, tanh_c, h = (xp.empty_like(c_prev) for _ in range(3))
    lstm_cell_forward(z, c_prev, c, tanh_c, h)
    return (h, c), LSTMStepCache(x, h_prev, c_prev, z, tanh_c, T)


def lstm_step_backward(
    dh: Array, dc: Array, cache: LSTMStepCache
) -> tuple[Array, Array, Array, Array, Array]:
    """One turn of Algorithm 2's loop, with the dx_t and dh_{t-1} that it leaves out (erratum 2).

    Arguments: dh, dc (B, H), gradients of h_t and c_t. Returns dx (B, E), dh_prev, dc_prev
    (B, H), dT (4H, E + H), db (4H,).
    """
    x, h_prev, c_prev, u, tanh_c, T = cache
    xp = array_module(dh, dc, x)
    (B, E), H = x.shape, h_prev.shape[1]
    dz, scratch, dc_prev = xp.empty_like(u), xp.empty((2, B, H), dtype=u.dtype), dc.copy()
    lstm_cell_backward(dh, dc_prev, u, c_prev, tanh_c, dz, scratch)
    dT = weight_gradient(dz, x, h_prev)  # (4H, E + H)                        (2.49, 2.50)
    dh_prev = dz @ T[:, E:]              # dh_{t-1} = T_h' dz                 (2.48)
    dx = dz @ T[:, :E]                   # dx_t = T_x' dz                     (2.47)
    return dx, dh_prev, dc_prev, dT, dz.sum(axis=0)


# --- a sequence ---------------------------------------------------------------------------------


class LSTMCache(NamedTuple):
    x: Array  # (T, B, E)
    h: Array  # (T + 1, B, H), with the initial state at the end where the loop starts
    c: Array  # (T + 1, B, H), likewise
    u: Array  # (T, B, 4H)
    tanh_c: Array  # (T, B, H)
    T: Array  # (4H, E + H)
    padding: Padding | None
    reverse: bool
    workspace: Workspace


@row_by_row
def lstm_forward(
    x: Array, h0: Array, c0: Array, T: Array, b: Array | None = None, *,
    padding: Padding | None = None, reverse: bool = False, workspace: Workspace | None = None,
) -> tuple[Array, tuple[Array, Array], LSTMCache]:
    """The hidden states of a whole sequence, Eqs. 2.35-2.40 at every step.

    Arguments: x (T, B, E); h0, c0 (B, H); T (4H, E + H); b (4H,) or None; padding of a ragged
    batch (a padded step carries the state through); reverse runs from the last step to the
    first. Returns h (T, B, H), the last state (h, c), each (B, H), and the cache.
    The input's share of all steps is one GEMM before the loop.
    """
    xp = array_module(x, h0, c0, T)
    workspace = workspace or Workspace()
    (steps, B, E), H = x.shape, h0.shape[1]
    u = workspace.empty(xp, (steps, B, 4 * H), x.dtype)
    h, c = (workspace.empty(xp, (steps + 1, B, H), x.dtype) for _ in range(2))
    tanh_c = workspace.empty(xp, (steps, B, H), x.dtype)
    recurrent = workspace.empty(xp, (B, 4 * H), x.dtype)
    xp.matmul(x.reshape(steps * B, E), T[:, :E].T, out=u.reshape(steps * B, 4 * H))
    start = steps if reverse else 0
    h[start], c[start] = h0, c0
    T_h = transposed(T[:, E:], steps, workspace)                           # (H, 4H)
    for t, now, prev in loop_order(steps, reverse):
        xp.matmul(h[prev], T_h, out=recurrent)
        dead = padding.dead[t] if padding is not None and t >= padding.full else None
        lstm_turn_forward(u[t], recurrent, b, (h[prev], c[prev]), (h[now], c[now]), tanh_c[t], dead)
    end = 0 if reverse else steps
    out = h[:-1] if reverse else h[1:]
    return out, (h[end], c[end]), LSTMCache(x, h, c, u, tanh_c, T, padding, reverse, workspace)


@row_by_row
def lstm_backward(
    dh_out: Array | None, dh_last: Array | None, dc_last: Array | None, cache: LSTMCache, *,
    clip: float | None = None,
) -> tuple[Array, Array, Array, Array, Array]:
    """Algorithm 2 over a batch: backpropagation through time.

    Arguments: dh_out (T, B, H), gradient of the returned h; dh_last, dc_last (B, H), gradient of
    the returned last state (None stands for zero in each); clip is tau of the element-wise
    clipping of dh_t at every step (section 2.2.2). Returns dx (T, B, E), dh0, dc0 (B, H),
    dT (4H, E + H), db (4H,). Weight and input gradients are one GEMM each after the loop.
    """
    x, h, c, u, tanh_c, T, padding, reverse, workspace = cache
    xp = array_module(x)
    (steps, B, E), H = x.shape, h.shape[2]
    dz = workspace.empty(xp, (steps, B, 4 * H), x.dtype)
    scratch = workspace.empty(xp, (2, B, H), x.dtype)
    dh = xp.zeros((B, H), dtype=x.dtype) if dh_last is None else dh_last.copy()
    dc = xp.zeros((B, H), dtype=x.dtype) if dc_last is None else dc_last.copy()
    T_h = T[:, E:]                                                         # (4H, H)
    for t, _, prev in reversed(loop_order(steps, reverse)):
        dead = padding.dead[t] if padding is not None and t >= padding.full else None
        kept = None if dead is None else workspace.empty(xp, (B, H), x.dtype)
        d_out = None if dh_out is None else dh_out[t]
        lstm_turn_backward(
            dh, dc, d_out, u[t], c[prev], tanh_c[t], dz[t], scratch, clip, dead, kept
        )
        xp.matmul(dz[t], T_h, out=dh)                                      # (2.48)
        if kept is not None:
            carry_state(dead, (kept,), (dh,))
    dz_rows = dz.reshape(steps * B, 4 * H)
    h_prev = h[1:] if reverse else h[:-1]                                  # (T, B, H)
    dT = weight_gradient(dz_rows, x.reshape(steps * B, E), h_prev.reshape(steps * B, H),
                         workspace)
    dx = input_gradient(dz_rows, T, x.shape, workspace)                    # (2.47)
    return dx, dh, dc, dT, dz_rows.sum(axis=0)
