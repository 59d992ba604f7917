"""The gated hidden unit of Bahdanau et al. (2015): one step, a whole sequence, and their backward.

Source: their A.1.1 and A.2.1, without the context (`nmt.models.rnnsearch` adds it):
s = (1 - z) o s_prev + z o s~, s~ = tanh(W x + U [r o s_prev]), r and z sigmoids of x and s_prev.
The reset gate weighs the state inside the product and z weighs the new state, both unlike
PyTorch's GRU (erratum 17), so a step needs two products, the second one of m = r o s_prev.

| here | Bahdanau et al. |
|---|---|
| `h_prev`, `h`, (B, H) | s_{i-1} (h_{i-1} in the encoder), s_i |
| `T`, (3H, E + H), row blocks `GATES`, columns x then h | [W_r U_r; W_z U_z; W U] |
| `u`, (B, 3H) | r, z and s~ side by side, once the pre-activations have been overwritten |
| `m`, (B, H) | r_i o s_{i-1} |

"We omit all bias terms", they write: biases are an option. The paper prints no backward; the rules
are the thesis's (Eqs. 2.11-2.18).
"""

from __future__ import annotations

from typing import NamedTuple

from backend import Array, array_module, matmul
from backend.buffering import row_by_row
from backend.fused import fusable
from backend.workspace import Workspace
from lstm.padding import Padding
from lstm.recurrence import (
    carry_gradient,
    carry_state,
    clip_elements,
    input_gradient,
    loop_order,
    transposed,
)

GATES = ("r", "z", "h~")  # the row blocks of T: the two gates of one product, then the proposal


# --- the cell: a step but for what x adds -------------------------------------------------------


def gru_cell_forward(
    u: Array, h_prev: Array, T_h: Array, m: Array, h: Array, scratch: Array
) -> None:
    """h_i from the input's share of the pre-activations and h_{i-1}, in place (A.2.1).

    Arguments: u (B, 3H) holds W x + b of the three blocks and is overwritten by r, z, h~; h_prev
    (B, H); T_h (3H, H), the columns of T that multiply the state; m and h (B, H) are written;
    scratch (B, 2H), where the gates are worked out, end to end. Order: r and z, m, h~, h.
    """
    xp = array_module(u)
    H = h_prev.shape[1]
    xp.matmul(h_prev, T_h[: 2 * H].T, out=scratch)
    gru_gates_forward(u, scratch, h_prev, m)
    xp.matmul(m, T_h[2 * H :].T, out=h)
    gru_state_forward(u, h_prev, h)


@fusable
def gru_gates_forward(u: Array, product: Array, h_prev: Array, m: Array) -> None:
    """r and z from their two shares of the pre-activation, u (B, 3H) and product (B, 2H); and m.

    product is overwritten: the gates are worked out there, end to end.
    """
    xp, H = array_module(u), h_prev.shape[1]
    gates = u[:, : 2 * H]
    product += gates
    product *= 0.5
    xp.tanh(product, out=product)        # sigm(a) = tanh(a / 2) / 2 + 1 / 2
    product *= 0.5
    xp.add(product, 0.5, out=gates)      # r_i, z_i  (Bahdanau A.2.1 reset; Bahdanau A.2.1 update)
    xp.multiply(u[:, :H], h_prev, out=m)                          # r_i o h_{i-1}


@fusable
def gru_state_forward(u: Array, h_prev: Array, h: Array) -> None:
    """h~ and h_i; h (B, H) holds U m and is overwritten by h_i."""
    xp, H = array_module(u), h_prev.shape[1]
    z, h_tilde = u[:, H : 2 * H], u[:, 2 * H :]
    h += h_tilde
    xp.tanh(h, out=h_tilde)              # h~_i                    (Bahdanau A.2.1 candidate)
    xp.subtract(h_tilde, h_prev, out=h)
    h *= z
    h += h_prev                          # (1 - z) h_{i-1} + z h~  (Bahdanau A.2.1 state)


def gru_cell_backward(
    dh: Array, u: Array, h_prev: Array, T_h: Array, dz: Array, scratch: Array
) -> None:
    """From dh_i to the pre-activations' gradient and dh_{i-1}, in place.

    Arguments: dh (B, H), the gradient of h_i, becomes that of h_{i-1}; dz (B, 3H) is written, the
    gradient at the pre-activations of `GATES`, from which all weights' follow; scratch (2, B, H).
    Order: dz = the slopes of r, z and h~, into which update gate, proposal and reset gate are
    multiplied one after the other; dh meanwhile collects its parts.
    """
    xp = array_module(u)
    H = dh.shape[1]
    one, dm = scratch[0], scratch[1]
    gru_state_backward(dh, u, h_prev, dz, one)
    xp.matmul(dz[:, 2 * H :], T_h[2 * H :], out=dm)  # U' da                        (2.13)
    gru_gates_backward(dm, dh, u, h_prev, dz, one)
    xp.matmul(dz[:, : 2 * H], T_h[: 2 * H], out=one)
    dh += one                            # U_r' da_r + U_z' da_z                    (2.13)


@fusable
def gru_state_backward(dh: Array, u: Array, h_prev: Array, dz: Array, scratch: Array) -> None:
    """Up to the product U m: dz is written, but for r, of which there stands the slope yet.

    dh becomes (1 - z) o dh; scratch (B, H) is overwritten.
    """
    xp, H = array_module(u), dh.shape[1]
    z, h_tilde, da_z, da = u[:, H : 2 * H], u[:, 2 * H :], dz[:, H : 2 * H], dz[:, 2 * H :]
    gates, d_gates, one = u[:, : 2 * H], dz[:, : 2 * H], scratch
    xp.multiply(u, u, out=dz)
    xp.subtract(gates, d_gates, out=d_gates)                      # sigm' = gate - gate^2
    xp.subtract(1.0, da, out=da)                                  # tanh' = 1 - h~^2
    xp.subtract(h_tilde, h_prev, out=one)
    one *= dh                            # dz_i = (h~ - h_{i-1}) o dh               (2.17)
    da_z *= one                          # sigm' o dz_i                             (2.11)
    xp.multiply(z, dh, out=one)          # dh~ = z o dh                             (2.18)
    dh -= one                            # (1 - z) o dh                             (2.18)
    da *= one                            # tanh' o dh~                              (2.11)


@fusable
def gru_gates_backward(
    dm: Array, dh: Array, u: Array, h_prev: Array, dz: Array, scratch: Array
) -> None:
    """From dm (B, H), the gradient of r o h_{i-1}, which is overwritten: dz of r, and dh.

    scratch (B, H) is overwritten.
    """
    xp, H = array_module(u), dh.shape[1]
    xp.multiply(h_prev, dm, out=scratch)  # dr = h_{i-1} o dm                       (2.17)
    da_r = dz[:, :H]
    da_r *= scratch                      # sigm' o dr                               (2.11)
    dm *= u[:, :H]
    dh += dm                             # r o dm                                   (2.18)


def gru_weight_gradient(
    dz: Array, x: Array, h_prev: Array, m: Array, workspace: Workspace | None = None
) -> Array:
    """dT from the gradients at all pre-activations: U was multiplied by m, the rest as it stands.

    Arguments: dz (N, 3H), x (N, E), h_prev and m (N, H). Returns (3H, E + H).
    """
    xp = array_module(dz)
    E, H = x.shape[1], h_prev.shape[1]
    dT = (workspace or Workspace()).empty(xp, (3 * H, E + H), dz.dtype)
    of_gates, of_u = dz[:, : 2 * H].T, dz[:, 2 * H :].T
    xp.matmul(dz.T, x, out=dT[:, :E])                                      # (2.14)
    xp.matmul(of_gates, h_prev, out=dT[: 2 * H, E:])                       # (2.14) on U_r, U_z
    xp.matmul(of_u, m, out=dT[2 * H :, E:])                                # (2.14) on U
    return dT


# --- one time step ------------------------------------------------------------------------------


class GRUStepCache(NamedTuple):
    x: Array  # (B, E)
    h_prev: Array  # (B, H)
    u: Array  # (B, 3H)
    m: Array  # (B, H)
    T: Array  # (3H, E + H)


@row_by_row
def gru_step_forward(
    x: Array, h_prev: Array, T: Array, b: Array | None = None
) -> tuple[Array, GRUStepCache]:
    """h_i = (1 - z) o h_{i-1} + z o h~_i (Bahdanau A.2.1).

    Arguments: x (B, E), h_prev (B, H), T (3H, E + H), b (3H,) or None, one dtype. Returns h (B, H)
    and what `gru_step_backward` reads.
    """
    xp = array_module(x, h_prev, T)
    E = x.shape[1]
    u = matmul(x, T[:, :E].T)                                              # (B, 3H)
    if b is not None:
        u += b
    m, h = xp.empty_like(h_prev), xp.empty_like(h_prev)
    gru_cell_forward(u, h_prev, T[:, E:], m, h, xp.empty_like(u[:, : 2 * h.shape[1]]))
    return h, GRUStepCache(x, h_prev, u, m, T)


def gru_step_backward(dh: Array, cache: GRUStepCache) -> tuple[Array, Array, Array, Array]:
    """Returns dx (B, E), dh_prev (B, H), dT (3H, E + H), db (3H,) from dh (B, H)."""
    x, h_prev, u, m, T = cache
    xp = array_module(dh, x)
    (B, E), H = x.shape, h_prev.shape[1]
    dz, scratch = xp.empty_like(u), xp.empty((2, B, H), dtype=u.dtype)
    dh_prev = dh.copy()
    gru_cell_backward(dh_prev, u, h_prev, T[:, E:], dz, scratch)
    return dz @ T[:, :E], dh_prev, gru_weight_gradient(dz, x, h_prev, m), dz.sum(axis=0)


# --- a sequence ---------------------------------------------------------------------------------


class GRUCache(NamedTuple):
    x: Array  # (T, B, E)
    h: Array  # (T + 1, B, H), with the initial state at the end where the loop starts
    u: Array  # (T, B, 3H)
    m: Array  # (T, B, H)
    T: Array  # (3H, E + H)
    padding: Padding | None
    reverse: bool
    workspace: Workspace


@row_by_row
def gru_forward(
    x: Array, h0: Array, T: Array, b: Array | None = None, *,
    padding: Padding | None = None, reverse: bool = False, workspace: Workspace | None = None,
) -> tuple[Array, Array, GRUCache]:
    """The hidden states of a whole sequence (Bahdanau A.2.1).

    Arguments: x (T, B, E); h0 (B, H); T (3H, E + H); b (3H,) or None; padding of a ragged batch (a
    padded step carries the state through); reverse runs from the last step to the first.
    Returns h (T, B, H), the last state (B, H), and the cache. The input's share of all steps is
    one GEMM before the loop.
    """
    xp = array_module(x, h0, T)
    workspace = workspace or Workspace()
    (steps, B, E), H = x.shape, h0.shape[1]
    u = workspace.empty(xp, (steps, B, 3 * H), x.dtype)
    h = workspace.empty(xp, (steps + 1, B, H), x.dtype)
    m = workspace.empty(xp, (steps, B, H), x.dtype)
    scratch = workspace.empty(xp, (B, 2 * H), x.dtype)
    xp.matmul(x.reshape(steps * B, E), T[:, :E].T, out=u.reshape(steps * B, 3 * H))
    h[steps if reverse else 0] = h0
    T_h = transposed(T[:, E:], steps, workspace).T                         # (3H, H)
    for t, now, prev in loop_order(steps, reverse):
        if b is not None:
            u[t] += b
        gru_cell_forward(u[t], h[prev], T_h, m[t], h[now], scratch)
        if padding is not None and t >= padding.full:
            carry_state(padding.dead[t], (h[prev],), (h[now],))
    out, last = (h[:-1], h[0]) if reverse else (h[1:], h[steps])
    return out, last, GRUCache(x, h, u, m, T, padding, reverse, workspace)


@row_by_row
def gru_backward(
    dh_out: Array | None, dh_last: Array | None, cache: GRUCache, *, clip: float | None = None
) -> tuple[Array, Array, Array, Array]:
    """Backpropagation through time.

    Arguments: dh_out (T, B, H), gradient of the returned h; dh_last (B, H), of the last state
    (None stands for zero); clip is tau of the element-wise clipping of dh_t at every step.
    Returns dx (T, B, E), dh0 (B, H), dT (3H, E + H), db (3H,). Weight and input gradients are one
    GEMM a block after the loop.
    """
    x, h, u, m, T, padding, reverse, workspace = cache
    xp = array_module(x)
    (steps, B, E), H = x.shape, h.shape[2]
    dz = workspace.empty(xp, (steps, B, 3 * H), x.dtype)
    scratch = workspace.empty(xp, (2, B, H), x.dtype)
    dh = xp.zeros((B, H), dtype=x.dtype) if dh_last is None else dh_last.copy()
    for t, _, prev in reversed(loop_order(steps, reverse)):
        if dh_out is not None:
            dh += dh_out[t]
        carried = dh.copy() if padding is not None and t >= padding.full else None
        clip_elements(dh, clip)
        gru_cell_backward(dh, u[t], h[prev], T[:, E:], dz[t], scratch)
        if carried is not None and padding is not None:
            dz[t] *= padding.live[t]
            carry_gradient(padding, t, (carried,), (dh,))
    dz_rows, h_prev = dz.reshape(steps * B, 3 * H), h[1:] if reverse else h[:-1]
    dT = gru_weight_gradient(dz_rows, x.reshape(steps * B, E), h_prev.reshape(steps * B, H),
                             m.reshape(steps * B, H), workspace)
    return input_gradient(dz_rows, T, x.shape, workspace), dh, dT, dz_rows.sum(axis=0)
