"""The gated hidden unit of Bahdanau et al. (2015), one time step.

Source: their A.1.1 and A.2.1: h = (1 - z) o h_prev + z o h~, h~ = tanh(W x + U [r o h_prev]), r and
z sigmoids of x and h_prev; x may be a word and a context side by side (A.2.2). The reset gate
multiplies the state inside the product and z weighs the new state, both unlike PyTorch's GRU
(erratum 17), so a step needs two products, the second one of m = r o h_prev. What is fed beside
h_prev is in both.

| here | Bahdanau et al. |
|---|---|
| `h_prev`, `h`, (B, H) | s_{i-1} (h_{i-1} in the encoder), s_i |
| `W`, (3H, E + H), row blocks `GATES`, columns x then h | [W_r U_r; W_z U_z; W U] |
| `u`, (B, 3H) | r, z and s~ side by side, once the pre-activations have been overwritten |
| `m`, (B, H) | r_i o s_{i-1} |
| `z` and `zm`, saved, (B, F + H) | [c_i; s_{i-1}], [c_i; r_i o s_{i-1}] (A.2.2); no c if F = 0 |

"We omit all bias terms", they write: biases are an option. The paper prints no backward; the rules
are the thesis's (Eqs. 2.11-2.18).
"""

from __future__ import annotations

from backend import Array, array_module, matmul
from backend.fused import cells as kernels
from backend.fused import fused
from backend.workspace import Workspace
from lstm.cells.cell import Cell, State, Step, add_share, clip_elements, copy_through

GATES = ("r", "z", "h~")  # the row blocks of W: the two gates of one product, then the candidate


def forward(
    step: Step, b: Array | None, W_z: Array, pad: Array | None, scratch: Array
) -> None:
    """h_i from W_x x_i and h_{i-1} (A.2.1); arguments as in `Cell`."""
    zm: Array = step.saved
    u, z, (h_prev,), (h,) = step.u, step.z, step.before, step.now
    H, F = h.shape[1], z.shape[1] - h.shape[1]
    add_share(u, None, b)
    matmul(z, W_z[:, : 2 * H], out=scratch)
    gru_gates_forward(u, scratch, h_prev, zm[:, F:])
    if F:
        zm[:, :F] = z[:, :F]
    matmul(zm, W_z[:, 2 * H :], out=h)
    gru_state_forward(u, h_prev, h)
    if pad is not None:
        copy_through(pad, step.before, step.now)


@fused(kernels.gru_gates_forward)
def gru_gates_forward(u: Array, share: Array, h_prev: Array, m: Array) -> None:
    """r and z from their two shares of the pre-activation, u (B, 3H) and share (B, 2H); and m.

    share is overwritten: the gates are computed there, in contiguous memory.
    """
    xp, H = array_module(u), h_prev.shape[1]
    gates = u[:, : 2 * H]
    share += gates
    share *= 0.5
    xp.tanh(share, out=share)            # sigm(a) = tanh(a / 2) / 2 + 1 / 2
    share *= 0.5
    # r, z = sigm(a)                          (Bahdanau A.2.1 reset; Bahdanau A.2.1 update)
    # or, of a word and a context,            (Bahdanau A.2.2 reset; Bahdanau A.2.2 update)
    xp.add(share, 0.5, out=gates)
    xp.multiply(u[:, :H], h_prev, out=m)  # m = r * h_prev


@fused(kernels.gru_state_forward)
def gru_state_forward(u: Array, h_prev: Array, h: Array) -> None:
    """h~ and h_i; h (B, H) holds U m, and C c_i where it is fed, and is overwritten by h_i."""
    xp, H = array_module(u), h_prev.shape[1]
    z, h_tilde = u[:, H : 2 * H], u[:, 2 * H :]
    h += h_tilde
    # h~_i                               (Bahdanau A.2.1 candidate; Bahdanau A.2.2 candidate)
    xp.tanh(h, out=h_tilde)
    xp.subtract(h_tilde, h_prev, out=h)
    h *= z
    # h = (1 - z) * h_prev + z * h~      (Bahdanau A.2.1 state; Bahdanau A.2.2 state)
    h += h_prev


def backward(
    d_state: State, d_out: Array | None, step: Step, W_z: Array, clip: float | None,
    pad: Array | None, da: Array, scratch: Array,
) -> None:
    """From dh_i to da and dh_{i-1}; arguments as in `Cell`.

    Order: da is first g' of r, z and h~; the gradients of the update gate, the candidate and the
    reset gate are multiplied into it one after the other, while dh is accumulated.
    """
    xp, u, (h_prev,), (dz,) = array_module(step.u), step.u, step.before, d_state
    H, F = h_prev.shape[1], dz.shape[1] - h_prev.shape[1]
    dh, one, dzm, unclipped = dz[:, F:], scratch[0], scratch[1], scratch[2, :, F:]
    if d_out is not None:
        dh += d_out
    if pad is not None:
        unclipped[...] = dh
    clip_elements(dh, clip)
    gru_state_backward(dh, u, h_prev, da, one[:, F:])
    xp.matmul(da[:, 2 * H :], W_z[2 * H :], out=dzm)  # dm = U' da                  (2.13)
    gru_gates_backward(dzm[:, F:], dh, u, h_prev, da, one[:, F:])
    xp.matmul(da[:, : 2 * H], W_z[: 2 * H], out=one)
    if F:
        dz[:, :F] = dzm[:, :F]
    dz += one                            # U_r' da_r + U_z' da_z                    (2.13)
    if pad is not None:
        for d in (da, dz):
            xp.copyto(d, 0.0, where=pad)
        copy_through(pad, (unclipped,), (dh,))


@fused(kernels.gru_state_backward)
def gru_state_backward(dh: Array, u: Array, h_prev: Array, da: Array, scratch: Array) -> None:
    """Backward as far as the product U m: da of z and of h~. The block of r holds g' until dm is
    known.

    dh becomes (1 - z) o dh; scratch (B, H) is overwritten.
    """
    xp, H = array_module(u), dh.shape[1]
    z, h_tilde, da_z, da_h = u[:, H : 2 * H], u[:, 2 * H :], da[:, H : 2 * H], da[:, 2 * H :]
    gates, d_gates, one = u[:, : 2 * H], da[:, : 2 * H], scratch
    xp.multiply(u, u, out=da)
    xp.subtract(gates, d_gates, out=d_gates)                      # sigm' = u - u^2
    xp.subtract(1.0, da_h, out=da_h)                              # tanh' = 1 - h~^2
    xp.subtract(h_tilde, h_prev, out=one)
    one *= dh                            # dz = (h~ - h_prev) * dh                  (2.17)
    da_z *= one                          # da_z = sigm' * dz                        (2.11)
    xp.multiply(z, dh, out=one)          # dh~ = z * dh                             (2.18)
    dh -= one                            # (1 - z) * dh                             (2.18)
    da_h *= one                          # da_h = tanh' * dh~                       (2.11)


@fused(kernels.gru_gates_backward)
def gru_gates_backward(
    dm: Array, dh: Array, u: Array, h_prev: Array, da: Array, scratch: Array
) -> None:
    """From dm (B, H), the gradient of m = r o h_prev, which is overwritten: da of r, and dh.

    scratch (B, H) is overwritten.
    """
    xp, H = array_module(u), dh.shape[1]
    xp.multiply(h_prev, dm, out=scratch)  # dr = h_prev * dm                        (2.17)
    da_r = da[:, :H]
    da_r *= scratch                      # da_r = sigm' * dr                        (2.11)
    dm *= u[:, :H]
    dh += dm                             # r * dm                                   (2.18)


def weight_gradient(
    da: Array, x: Array | None, z: Array, zm: Array, workspace: Workspace
) -> Array:
    """dW of all steps: the candidate's block multiplies m, the gates' multiply h_prev."""
    xp, G, E = array_module(da), da.shape[1], 0 if x is None else x.shape[1]
    dW, H = workspace.empty(xp, (G, E + z.shape[1]), da.dtype), G // 3
    if x is not None:
        xp.matmul(da.T, x, out=dW[:, :E])                                  # (2.14)
    xp.matmul(da[:, : 2 * H].T, z, out=dW[: 2 * H, E:])                    # (2.14) on U_r, U_z
    xp.matmul(da[:, 2 * H :].T, zm, out=dW[2 * H :, E:])                   # (2.14) on U
    return dW


GRU = Cell(1, GATES, "z", 2, forward, backward, weight_gradient)
