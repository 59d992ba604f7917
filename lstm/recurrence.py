"""What the time loops of all recurrent units share: order, padding, clipping, the GEMMs after."""

from __future__ import annotations

from backend import Array, array_module, on_host
from backend.fused import fusable
from backend.workspace import Workspace
from lstm.padding import Padding

ENOUGH = 16  # products with a matrix from which on its transposed copy is worth making: measured
ROWS = 64  # of the matrix, copied through a buffer that stays in the cache
PAD = 16  # elements more a row: where strides are powers of two, few cache lines serve all rows


def transposed(weights: Array, products: int, workspace: Workspace) -> Array:
    """weights' (n, G), of `weights` (G, n), as the second factor of so many `products`.

    A copy, where that pays: a BLAS on the host turns a transposed factor round at every product of
    a few rows, at a tenth of its time. Plain assignment would cost ten times this copy by blocks.
    """
    xp = array_module(weights)
    if not on_host(xp) or products < ENOUGH:
        return weights.T
    G, n = weights.shape
    copy = workspace.empty(xp, (n, G + PAD), weights.dtype)[:, :G]
    block = workspace.empty(xp, (ROWS, n + PAD), weights.dtype)[:, :n]
    for start in range(0, G, ROWS):
        rows = block[: min(ROWS, G - start)]
        rows[...] = weights[start : start + ROWS]
        copy[:, start : start + ROWS] = rows.T
    return copy


def loop_order(steps: int, reverse: bool) -> list[tuple[int, int, int]]:
    """(t, slot of the state at t, slot of the state before it) for each turn of the time loop."""
    if reverse:
        return [(t, t, t + 1) for t in range(steps - 1, -1, -1)]
    return [(t, t + 1, t) for t in range(steps)]


@fusable
def add_recurrent(z: Array, recurrent: Array | None, b: Array | None) -> None:
    """z += T_h h_{t-1} + b, where z already holds T_x x_t, or all but b (Eq. 2.39)."""
    if recurrent is not None:
        z += recurrent                                                     # (2.39)
    if b is not None:
        z += b


@fusable
def carry_state(dead: Array, before: tuple[Array, ...], now: tuple[Array, ...]) -> None:
    """At a padded step the state passes through: overwrite `now` where `dead` (B, 1)."""
    xp = array_module(dead)
    for old, new in zip(before, now, strict=True):
        xp.copyto(new, old, where=dead)


def carry_gradient(
    padding: Padding, t: int, carried: tuple[Array, ...], now: tuple[Array, ...]
) -> None:
    """Backward of `carry_state`: where step t is padding the gradient passes through."""
    carry_state(padding.dead[t], carried, now)


def clip_elements(dh: Array, limit: float | None) -> None:
    """Element-wise clipping of dh to [-limit, limit], in place (section 2.2.2; Mikolov, 2012)."""
    if limit is not None:
        array_module(dh).clip(dh, -limit, limit, out=dh)                   # (2.2.2 element-wise)


def weight_gradient(
    dz: Array, x: Array, h_prev: Array, workspace: Workspace | None = None
) -> Array:
    """dT = [dT_x dT_h], the sums over time of Eqs. 2.49 and 2.50 (2.29 and 2.30 of the vanilla
    unit), one GEMM each.

    Arguments: dz (T*B, G), x (T*B, E), h_prev (T*B, H). Returns (G, E + H).
    """
    xp = array_module(dz)
    E, H = x.shape[1], h_prev.shape[1]
    dT = (workspace or Workspace()).empty(xp, (dz.shape[1], E + H), dz.dtype)
    xp.matmul(dz.T, h_prev, out=dT[:, E:])                                 # (2.30, 2.50)
    xp.matmul(dz.T, x, out=dT[:, :E])                                      # (2.29, 2.49)
    return dT


def input_gradient(dz: Array, T: Array, shape: tuple[int, ...], workspace: Workspace) -> Array:
    """dx_t = T_x' dz_t of all steps (Eqs. 2.27, 2.47): an array of x's `shape` (T, B, E)."""
    xp = array_module(dz)
    E = shape[-1]
    dx = workspace.empty(xp, shape, dz.dtype)
    xp.matmul(dz, T[:, :E], out=dx.reshape(-1, E))                         # (2.27, 2.47)
    return dx
