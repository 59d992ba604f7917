"""The gated hidden unit of Bahdanau et al. (2015), one time step.

Source: their A.1.1 and A.2.1: h = (1 - z) o h_prev + z o h~, h~ = tanh(W x + U [r o h_prev]), r and
z sigmoids of x and h_prev; x may be a word and a context side by side (A.2.2). Unlike in PyTorch's
GRU, the reset gate multiplies the state inside the product, and z weighs the new state (erratum
17). Therefore a step needs two products, the second with m = r o h_prev.

| here | Bahdanau et al. |
|---|---|
| `h_prev`, `h`, (B, H) | s_{i-1} (h_{i-1} in the encoder), s_i |
| `W`, (3H, E + H), row blocks `GATES`, columns x then h | [W_r U_r; W_z U_z; W U] |
| `u`, (B, 3H) | r, z and s~ side by side, once the pre-activations have been overwritten |
| `m`, saved, (B, H) | r_i o s_{i-1} |

"We omit all bias terms", the authors write, so biases are an option. The paper prints no backward.
The rules are the thesis's (Eqs. 2.11-2.18).
"""

from __future__ import annotations

from backend import Array, array_module
from backend.fused import cells as kernels
from backend.fused import fused
from lstm.cells.cell import Cell, Operator, State, Step, add_recurrent, sigm

GATES = ("r", "z", "h~")  # the row blocks of W: the two gates of one product, then the candidate


def forward(step: Step, b: Array | None, W_h: Array) -> None:
    """h_i from W_x x_i and h_{i-1} (A.2.1); arguments as in `Cell`. It saves m."""
    u, (h_prev,), (h,), m = step.u, step.before, step.now, step.saved
    xp, H = array_module(W_h), h.shape[1]
    add_recurrent(u, None, b)
    a_h = xp.matmul(h_prev, W_h[:, : 2 * H], out=step.scratch[:, : 2 * H])  # U_r h, U_z h
    gru_gates_forward(u, a_h, h_prev, m)
    xp.matmul(m, W_h[:, 2 * H :], out=h)                                   # U m
    gru_state_forward(u, h_prev, h)


@fused(kernels.gru_gates_forward)
def gru_gates_forward(u: Array, a_h: Array, h_prev: Array, m: Array) -> None:
    """r and z from u (B, 3H), W x, which they overwrite, and a_h (B, 2H), U h_prev; and m."""
    H = h_prev.shape[1]
    # r, z = sigm(a)                          (Bahdanau A.2.1 reset; Bahdanau A.2.1 update)
    # or, of a word and a context,            (Bahdanau A.2.2 reset; Bahdanau A.2.2 update)
    u[:, : 2 * H] = sigm(u[:, : 2 * H] + a_h)
    m[...] = u[:, :H] * h_prev


@fused(kernels.gru_state_forward)
def gru_state_forward(u: Array, h_prev: Array, h: Array) -> None:
    """h~ and h_i; h (B, H) holds U m and is overwritten by h_i."""
    H = h_prev.shape[1]
    z, a_h_tilde = u[:, H : 2 * H], u[:, 2 * H :]
    # h~_i                               (Bahdanau A.2.1 candidate; Bahdanau A.2.2 candidate)
    h_tilde = array_module(u).tanh(a_h_tilde + h)
    # h = (1 - z) * h_prev + z * h~      (Bahdanau A.2.1 state; Bahdanau A.2.2 state)
    h[...] = (1.0 - z) * h_prev + z * h_tilde
    u[:, 2 * H :] = h_tilde


def backward(d_state: State, d_out: Array | None, step: Step, W_h: Array, da: Array) -> None:
    """From dh_i to da and dh_{i-1}; arguments as in `Cell`.

    dh is first that of h_i, then accumulates that of h_{i-1}.
    """
    xp, u, (h_prev,), (dh,) = array_module(step.u), step.u, step.before, d_state
    H, scratch = h_prev.shape[1], step.scratch.reshape(3, *dh.shape)
    if d_out is not None:
        dh += d_out
    gru_state_backward(dh, u, h_prev, da)
    dm = xp.matmul(da[:, 2 * H :], W_h[2 * H :], out=scratch[0])      # U' da_h          (2.13)
    gru_gates_backward(dm, dh, u, h_prev, da)
    # U_r' da_r + U_z' da_z                                                             (2.13)
    dh += xp.matmul(da[:, : 2 * H], W_h[: 2 * H], out=scratch[0])


@fused(kernels.gru_state_backward)
def gru_state_backward(dh: Array, u: Array, h_prev: Array, da: Array) -> None:
    """Backward as far as the product U m: da of z and of h~; dh becomes (1 - z) o dh. The block of
    r holds sigm' until dm is known."""
    H = dh.shape[1]
    r, z, h_tilde = u[:, :H], u[:, H : 2 * H], u[:, 2 * H :]
    dz = (h_tilde - h_prev) * dh                                  # (2.17)
    dh_tilde = z * dh                                             # (2.18)
    da[:, :H] = r * (1.0 - r)
    da[:, H : 2 * H] = z * (1.0 - z) * dz                         # (2.11)
    da[:, 2 * H :] = (1.0 - h_tilde * h_tilde) * dh_tilde         # (2.11)
    dh *= 1.0 - z                                                 # (2.18)


@fused(kernels.gru_gates_backward)
def gru_gates_backward(dm: Array, dh: Array, u: Array, h_prev: Array, da: Array) -> None:
    """From dm (B, H), the gradient of m = r o h_prev: da of r, and dh."""
    H = dh.shape[1]
    da[:, :H] *= h_prev * dm             # da_r = sigm' * dr, dr = h_prev * dm      (2.11, 2.17)
    dh += u[:, :H] * dm                  # r * dm                                   (2.18)


def gradients(da: Array, h_prev: Array, m: Array, dW_h: Array) -> Array:
    """As `Cell.gradients`. The candidate's block multiplies m, the gates' multiply h_prev."""
    xp, H = array_module(da), h_prev.shape[1]
    xp.matmul(da[:, : 2 * H].T, h_prev, out=dW_h[: 2 * H])                 # (2.14) on U_r, U_z
    xp.matmul(da[:, 2 * H :].T, m, out=dW_h[2 * H :])                      # (2.14) on U
    return da.sum(axis=0)


# ONNX's z weighs the old state, as 1 - z does here; sigm(-a) = 1 - sigm(a)
GRU = Cell(1, GATES, 1, forward, backward, gradients,
           onnx=Operator("GRU", (1, 0, 2), (-1.0, 1.0, 1.0)))
