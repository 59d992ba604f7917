"""The interface of a recurrent cell: one time step, forward and backward."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from backend import Array, array_module
from backend.fused import cells as kernels
from backend.fused import fused
from backend.workspace import Workspace

State = tuple[Array, ...]  # (h, c) of an LSTM, (h,) of the other cells; each (B, H)


class Step(NamedTuple):
    """The arrays of one time step: views of those of the whole sequence."""

    u: Array  # (B, G): the inputs' share of the pre-activation, overwritten by the gates
    before: State  # the state that the step starts from
    now: State  # the state that it ends in, written
    saved: Array | None  # (B, H): what else the backward reads


class Cell(NamedTuple):
    """A recurrent cell. G = len(gates) H; W = [W_x W_h], (G, E + H): columns of the input, then
    state.

    forward(step, b, W_h, pad, scratch): u holds W_x x_t. W_h is transposed, (H, G), or a copy of
    it; pad (B, 1) is True where the step is padding and the state is copied through, or None.
    Working memory: scratch (B, n H), n = `scratch`.

    backward(d_state, d_out, step, W_h, clip, pad, da, scratch): d_state, the gradient of `now`,
    becomes that of `before`, in place; d_out (B, H) or None is added to dh; clip is tau of the
    element-wise clipping (section 2.2.2) of dh_t and, in an LSTM, of the dc_{t-1} passed on
    (erratum 13), or None; da (B, G), the gradient at the pre-activations, is written, zero on
    padding. Here W_h is (G, H); scratch (3, B, H).

    weight_gradient(da, inputs, h_prev, saved, workspace): dW of all steps, stacked in rows: da
    (N, G), inputs (N, E_k) side by side, h_prev and saved (N, H).
    """

    states: int  # arrays in a state: 2 (h, c) or 1 (h,)
    gates: tuple[str, ...]  # row blocks of W, in this order
    saves: bool  # whether steps have `saved`
    scratch: int  # scratch blocks (B, H) of a forward step
    forward: Callable[..., None]
    backward: Callable[..., None]
    weight_gradient: Callable[..., Array]


@fused(kernels.add_share)
def add_share(u: Array, share: Array | None, b: Array | None) -> None:
    """u += share + b, either of which may be missing: shares of a pre-activation (Eq. 2.39)."""
    if share is not None:
        u += share                                                         # (2.39)
    if b is not None:
        u += b


@fused(kernels.copy_through)
def copy_through(pad: Array, before: State, now: State) -> None:
    """At a padded step, where `pad` (B, 1), the state is copied through: `now` = `before`."""
    xp = array_module(pad)
    for old, new in zip(before, now, strict=True):
        xp.copyto(new, old, where=pad)


def clip_elements(d: Array, limit: float | None) -> None:
    """Element-wise clipping of dh or dc to [-limit, limit], in place (2.2.2; Mikolov, 2012)."""
    if limit is not None:
        array_module(d).clip(d, -limit, limit, out=d)                      # (2.2.2 element-wise)


def weight_gradient(
    da: Array, inputs: Sequence[Array], h_prev: Array, saved: Array | None, workspace: Workspace
) -> Array:
    """dW = da' [x h_prev], the sums over time of Eqs. 2.49 and 2.50 (2.29 and 2.30 of the vanilla
    cell), Algorithm 2 lines 14 and 15, one GEMM for each factor: (G, E + H)."""
    xp, parts = array_module(da), (*inputs, h_prev)
    dW = workspace.empty(xp, (da.shape[1], sum(part.shape[1] for part in parts)), da.dtype)
    start = 0
    for part in parts:
        end = start + part.shape[1]
        xp.matmul(da.T, part, out=dW[:, start:end])              # (2.29, 2.30, 2.49, 2.50)
        start = end
    return dW


@fused(kernels.tanh_slope)
def tanh_slope(dy: Array, y: Array, dz: Array) -> None:
    """dz = (1 - y^2) o dy for y = tanh(z), all (N, H), written into dz."""
    xp = array_module(dy, y, dz)
    xp.multiply(y, y, out=dz)
    xp.subtract(1.0, dz, out=dz)
    dz *= dy                             # dz = (1 - y * y) * dy
