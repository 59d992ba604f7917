"""The attentional vector h~_t = tanh(W_c [c_t; h_t]) (Luong, 2016, Eq. 4.5)."""

from __future__ import annotations

from backend import Array, array_module, matmul
from backend.fused import cells as kernels
from backend.fused import fused
from lstm.cells.cell import tanh_slope


def attentional_forward(joined: Array, W_c: Array, out: Array | None = None) -> Array:
    """h~_t = tanh(W_c [c_t; h_t]) (4.5).

    Arguments: joined (N, He + H), [c_t; h_t] side by side; W_c (H, He + H); out (N, H), where to
    write, or None. Returns h~ (N, H).
    """
    xp = array_module(joined, W_c)
    z = matmul(joined, W_c.T)
    return xp.tanh(z, out=z if out is None else out)       # h~_t                    (4.5)


def attentional_backward(
    dh_tilde: Array, h_tilde: Array, W_c: Array, dz: Array | None = None
) -> tuple[Array, Array]:
    """Lemma 1 on Eq. 4.5.

    Arguments: dh_tilde, h_tilde (N, H); dz (N, H), where to write, or None. Returns djoined
    (N, He + H) and dz = (1 - h~^2) o dh~, from which dW_c = dz' [c; h] follows in one GEMM for
    all steps.
    """
    if dz is None:
        dz = array_module(dh_tilde, h_tilde, W_c).empty_like(dh_tilde)
    tanh_slope(dh_tilde, h_tilde, dz)
    return matmul(dz, W_c), dz                             # d[c_t; h_t] = W_c' dz   (2.11)


@fused(kernels.join)
def join(left: Array, right: Array, mask: Array | None, out: Array) -> None:
    """out (B, n + m) = [left; right], (B, n) and (B, m), times the dropout mask if there is one."""
    n = left.shape[1]
    out[:, :n], out[:, n:] = left, right
    if mask is not None:
        out *= mask
