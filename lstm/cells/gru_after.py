"""The gated recurrent unit whose reset gate stands after the product, one time step.

PyTorch, cuDNN, Keras (`reset_after=True`) and ONNX (`linear_before_reset=1`) call it GRU.

Source: the gates and the state are those of Cho et al. (2014), Equations 5 to 7. The candidate is
cuDNN's, not their Equation 8:

| | |
|---|---|
| Cho et al. 5 | r = sigm(W_r x + U_r h_prev + b_r) |
| Cho et al. 6 | z = sigm(W_z x + U_z h_prev + b_z) |
| Cho et al. 7 | h = z o h_prev + (1 - z) o h~ |
| Cho et al. 8 | h~ = tanh(W x + U [r o h_prev]): not here, but in `lstm.cells.gru` |
| cuDNN | h~ = tanh(W x + b + r o m), m = U h_prev + b_m |

Unlike in `lstm.cells.gru`, one product with the state serves all three blocks, and z weighs the old
state (erratum 17). The bias of m is multiplied by r, so it cannot be added to the candidate's bias:
b (4H,) has a fourth block. PyTorch has two biases of r and two of z. Here they are added up.

| here | is |
|---|---|
| `W`, (3H, E + H), row blocks `GATES`, columns x then h | [W_r U_r; W_z U_z; W U] |
| `b`, (4H,) | b_r, b_z, b, b_m |
| `u`, (B, 3H) | m, z and h~ side by side, once the pre-activations have been overwritten |
| `r`, saved, (B, H) | r, which the gradient of U reads: dU = (r o da)' h_prev |

The backward follows the thesis's rules (Eqs. 2.11-2.18).
"""

from __future__ import annotations

from backend import Array, array_module
from backend.fused import cells as kernels
from backend.fused import fused
from lstm.cells.cell import Cell, Operator, State, Step, sigm

GATES = ("r", "z", "h~")  # the row blocks of W, in PyTorch's order r, z, n
BIASES = ("m",)  # the further blocks of b


def forward(step: Step, b: Array | None, W_h: Array) -> None:
    """h_t from W_x x_t and h_{t-1}; arguments as in `Cell`. It saves r."""
    a_h = array_module(W_h).matmul(step.before[0], W_h, out=step.scratch)  # U_r h, U_z h, U h
    gru_after_forward(step.u, a_h, b, step.before[0], step.now[0], step.saved)


@fused(kernels.gru_after_forward)
def gru_after_forward(
    u: Array, a_h: Array, b: Array | None, h_prev: Array, h: Array, r: Array
) -> None:
    """u (B, 3H) holds W x, and a_h (B, 3H) the products with h_prev. r and h (B, H) are written; m,
    z and h~ overwrite u."""
    H = h.shape[1]
    m = a_h[:, 2 * H :]
    if b is not None:
        u += b[: 3 * H]
        m = m + b[3 * H :]                                                 # m = U h_prev + b_m
    r[...] = sigm(u[:, :H] + a_h[:, :H])                                   # (Cho 5)
    z = sigm(u[:, H : 2 * H] + a_h[:, H : 2 * H])                          # (Cho 6)
    h_tilde = array_module(u).tanh(u[:, 2 * H :] + r * m)                  # cuDNN's candidate
    h[...] = z * h_prev + (1.0 - z) * h_tilde                              # (Cho 7)
    u[...] = array_module(u).concatenate([m, z, h_tilde], axis=1)


def backward(d_state: State, d_out: Array | None, step: Step, W_h: Array, da: Array) -> None:
    """From dh_t to da and dh_{t-1}; arguments as in `Cell`.

    dh is first that of h_t, then accumulates that of h_{t-1}.
    """
    (dh,) = d_state
    if d_out is not None:
        dh += d_out
    gru_after_backward(dh, step.u, step.before[0], step.saved, da, step.scratch)
    # U_r' da_r + U_z' da_z + U' dm                                                     (2.13)
    dh += array_module(W_h).matmul(step.scratch, W_h)


@fused(kernels.gru_after_backward)
def gru_after_backward(
    dh: Array, u: Array, h_prev: Array, r: Array, da: Array, da_h: Array
) -> None:
    """Backward as far as the products. da (B, 3H), the gradient of W x, and da_h (B, 3H), that of
    the products with h_prev, are written. They differ in the last block. dh becomes z o dh."""
    H = dh.shape[1]
    m, z, h_tilde = u[:, :H], u[:, H : 2 * H], u[:, 2 * H :]
    dz = (h_prev - h_tilde) * dh                                  # (2.17)
    dh_tilde = (1.0 - z) * dh                                     # (2.18)
    da_tilde = (1.0 - h_tilde * h_tilde) * dh_tilde               # (2.11)
    da[:, :H] = r * (1.0 - r) * (m * da_tilde)                    # (2.11), dr = m * da_tilde (2.17)
    da[:, H : 2 * H] = z * (1.0 - z) * dz                         # (2.11)
    da[:, 2 * H :] = da_tilde
    da_h[:, : 2 * H] = da[:, : 2 * H]
    da_h[:, 2 * H :] = r * da_tilde                               # dm (2.18)
    dh *= z                                                       # (2.18)


def gradients(da: Array, h_prev: Array, r: Array, dW_h: Array) -> Array:
    """As `Cell.gradients`. The gates' blocks get da; the candidate's block and b_m get dm = r o
    da."""
    xp, H = array_module(da), h_prev.shape[1]
    dm = r * da[:, 2 * H :]
    xp.matmul(da[:, : 2 * H].T, h_prev, out=dW_h[: 2 * H])                 # (2.14) on U_r, U_z
    xp.matmul(dm.T, h_prev, out=dW_h[2 * H :])                             # (2.14) on U
    return xp.concatenate([da.sum(axis=0), dm.sum(axis=0)])


GRU_AFTER = Cell(1, GATES, 1, forward, backward, gradients, BIASES, torch=(0, 1, 2),
                 onnx=Operator("GRU", (1, 0, 2), (1.0, 1.0, 1.0), {"linear_before_reset": 1}))
