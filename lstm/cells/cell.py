"""The interface of a recurrent cell: one time step, forward and backward."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from backend import Array, array_module
from backend.fused import cells as kernels
from backend.fused import fused
from backend.workspace import Workspace

State = tuple[Array, ...]  # (h, c) of an LSTM, (h,) of the other cells; each (B, H)


class Step(NamedTuple):
    """The arrays of one time step: views of those of the whole sequence."""

    u: Array  # (B, G): the share of x_t in the pre-activation, overwritten by the gates
    z: Array  # (B, F + H): [fed_t; h_{t-1}], all that the step reads beside x_t
    before: State  # the state that the step starts from; its h_{t-1} are the last columns of z
    now: State  # the state that it ends in, written
    saved: Array | None  # what else the backward reads: see `Cell.saves`


class Cell(NamedTuple):
    """A recurrent cell. G = len(gates) H; W = [W_x W_z], (G, E + F + H): columns of the input, of
    what is fed beside it, mostly nothing (F = 0), and of the state.

    forward(step, b, W_z, pad, scratch): u holds W_x x_t. W_z is transposed, (F + H, G), or a copy
    of it; pad (B, 1) is True where the step is padding and the state is copied through, or None.
    Working memory: scratch (B, n H), n = `scratch`.

    backward(d_state, d_out, step, W_z, clip, pad, da, scratch): d_state is (dz,) or (dz, dc). dz
    (B, F + H), whose last columns hold dh_t, becomes the gradient of z, dc that of c_{t-1}, in
    place; d_out (B, H) or None is added to dh_t; clip is tau of the element-wise clipping (section
    2.2.2) of dh_t and, in an LSTM, of the dc_{t-1} passed on (erratum 13), or None; da (B, G), the
    gradient at the pre-activations, is written, zero on padding. Here W_z is (G, F + H); scratch
    (3, B, F + H).

    weight_gradient(da, x, z, saved, workspace): dW of all steps, stacked in rows: da (N, G), x
    (N, E) or None where z is all that the steps read, z and saved.
    """

    states: int  # arrays in a state: 2 (h, c) or 1 (h,)
    gates: tuple[str, ...]  # row blocks of W, in this order
    saves: str  # how wide `saved` is: "h", (B, H); "z", (B, F + H); "" where there is none
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
    da: Array, x: Array | None, z: Array, saved: Array | None, workspace: Workspace
) -> Array:
    """dW = da' [x z], the sums over time of Eqs. 2.49 and 2.50 (2.29 and 2.30 of the vanilla
    cell), Algorithm 2 lines 14 and 15, one GEMM for each factor: (G, E + F + H)."""
    xp, parts = array_module(da), (z,) if x is None else (x, z)
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
