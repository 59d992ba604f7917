"""What the time loops of all recurrent units share: order, padding, clipping, the GEMMs after."""

from __future__ import annotations

from typing import Any

from backend import Array, array_module
from backend.workspace import Workspace
from lstm.padding import Padding


def loop_order(steps: int, reverse: bool) -> list[tuple[int, int, int]]:
    """(t, slot of the state at t, slot of the state before it) for each turn of the time loop."""
    if reverse:
        return [(t, t, t + 1) for t in range(steps - 1, -1, -1)]
    return [(t, t + 1, t) for t in range(steps)]


def add_recurrent(z: Array, recurrent: Array, b: Array | None) -> None:
    """z += T_h h_{t-1} + b, where z already holds T_x x_t (Eq. 2.39)."""
    z += recurrent                                                         # (2.39)
    if b is not None:
        z += b


def carry_state(dead: Array, before: tuple[Array, ...], now: tuple[Array, ...]) -> None:
    """At a padded step the state passes through: overwrite `now` where `dead` (B, 1)."""
    xp = array_module(dead)
    for old, new in zip(before, now, strict=True):
        xp.copyto(new, old, where=dead)


def carry_gradient(
    padding: Padding, t: int, carried: tuple[Array, ...], now: tuple[Array, ...]
) -> None:
    """Backward of `carry_state`: where step t is padding the gradient passes through."""
    xp = array_module(padding.dead)
    for old, new in zip(carried, now, strict=True):
        xp.copyto(new, old, where=padding.dead[t])


def clip_elements(dh: Array, limit: float | None) -> None:
    """Element-wise clipping of dh to [-limit, limit], in place (section 2.2.2; Mikolov, 2012)."""
    if limit is not None:
        array_module(dh).clip(dh, -limit, limit, out=dh)                   # (2.2.2 element-wise)


def weight_gradient(dz: Array, x: Array, h_prev: Array) -> Array:
    """dT = [dT_x dT_h], the sums over time of Eqs. 2.49 and 2.50 (2.29 and 2.30 of the vanilla
    unit), one GEMM each.

    Arguments: dz (T*B, G), x (T*B, E), h_prev (T*B, H). Returns (G, E + H).
    """
    xp = array_module(dz)
    E, H = x.shape[1], h_prev.shape[1]
    dT: Any = xp.empty((dz.shape[1], E + H), dtype=dz.dtype)
    dT[:, E:] = dz.T @ h_prev                                              # (2.30, 2.50)
    dT[:, :E] = dz.T @ x                                                   # (2.29, 2.49)
    return dT


def input_gradient(dz: Array, T: Array, shape: tuple[int, ...], workspace: Workspace) -> Array:
    """dx_t = T_x' dz_t of all steps (Eqs. 2.27, 2.47): an array of x's `shape` (T, B, E)."""
    xp = array_module(dz)
    E = shape[-1]
    dx = workspace.empty(xp, shape, dz.dtype)
    xp.matmul(dz, T[:, :E], out=dx.reshape(-1, E))                         # (2.27, 2.47)
    return dx
