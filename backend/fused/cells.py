"""Fused kernels of the recurrent cells, `lstm.cells`, of `backend.pointwise` and of
`attention.attention`.

Each takes a launcher, then the arguments of the function of the same name.
"""

from __future__ import annotations

from typing import Any

from backend.fused.layout import Unfusable, blocks, mask, stride, vector
from backend.fused.source import Launcher, Source
from backend.switch import Array

Pair = tuple[Array, Array]
CELLS = Source("backend.fused", "kernels/cells.cu")


def lstm_forward(
    launch: Launcher, u: Array, a_h: Array, b: Array | None, c_prev: Array, now: Pair, tanh_c: Array
) -> None:
    """Everything in a step after the matrix product."""
    (h, c), char = now, u.dtype.char
    rows, H = c.shape
    launch(CELLS["lstm_forward"], char, blocks(rows * H), rows, H, u, stride(u, char),
           a_h, stride(a_h, char), vector(b, char), c_prev, stride(c_prev, char),
           c, stride(c, char), tanh_c, stride(tanh_c, char), h, stride(h, char))


def lstm_backward(
    launch: Launcher, dh: Array, dc: Array, d_out: Array | None, u: Array, c_prev: Array,
    tanh_c: Array, da: Array,
) -> None:
    """Everything in a step before the matrix product."""
    char = dh.dtype.char
    rows, H = dh.shape
    launch(CELLS["lstm_backward"], char, blocks(rows * H), rows, H, dh, stride(dh, char),
           *_optional(d_out, char), dc, stride(dc, char), u, stride(u, char),
           c_prev, stride(c_prev, char), tanh_c, stride(tanh_c, char), da, stride(da, char))


def add_recurrent(launch: Launcher, a: Array, a_h: Array | None, b: Array | None) -> None:
    """a += a_h + b in one pass."""
    if a_h is None and b is None:
        return
    char = a.dtype.char
    rows, columns = a.shape
    launch(CELLS["add_rows"], char, blocks(rows * columns), rows, columns, a, stride(a, char),
           *_optional(a_h, char), vector(b, char))


def copy_through(
    launch: Launcher, pad: Array, before: tuple[Array, ...], now: tuple[Array, ...]
) -> None:
    """All arrays of a state in one launch."""
    if not 1 <= len(now) <= 2:
        raise Unfusable
    char = now[0].dtype.char
    rows, H = now[0].shape
    pad, pad_stride = mask(pad)
    pairs = [(old, stride(old, char), new, stride(new, char))
             for old, new in zip(before, now, strict=True)]
    launch(CELLS["copy_through"], char, blocks(rows * H), rows, H, pad, pad_stride, *pairs[0],
           *(pairs[1] if len(pairs) == 2 else (0, 0, 0, 0)))


def tanh_slope(launch: Launcher, dy: Array, y: Array, da: Array) -> None:
    """(1 - y^2) dy in one pass."""
    char = y.dtype.char
    rows, H = y.shape
    launch(CELLS["tanh_backward"], char, blocks(rows * H), rows, H, dy, stride(dy, char),
           y, stride(y, char), da, stride(da, char))


def gru_gates_forward(launch: Launcher, u: Array, a_h: Array, h_prev: Array, m: Array) -> None:
    """Both gates, and m = r o h_prev."""
    char = u.dtype.char
    rows, H = m.shape
    launch(CELLS["gru_gates_forward"], char, blocks(rows * H), rows, H, u, stride(u, char),
           a_h, stride(a_h, char), h_prev, stride(h_prev, char), m, stride(m, char))


def gru_state_forward(launch: Launcher, u: Array, h_prev: Array, h: Array) -> None:
    """The candidate h~ and the new state."""
    char = u.dtype.char
    rows, H = h.shape
    launch(CELLS["gru_state_forward"], char, blocks(rows * H), rows, H, u, stride(u, char),
           h_prev, stride(h_prev, char), h, stride(h, char))


def gru_state_backward(launch: Launcher, dh: Array, u: Array, h_prev: Array, da: Array) -> None:
    """Backward of the candidate and of the update gate."""
    char = u.dtype.char
    rows, H = dh.shape
    launch(CELLS["gru_state_backward"], char, blocks(rows * H), rows, H, dh, stride(dh, char),
           u, stride(u, char), h_prev, stride(h_prev, char), da, stride(da, char))


def gru_gates_backward(
    launch: Launcher, dm: Array, dh: Array, u: Array, h_prev: Array, da: Array
) -> None:
    """Backward of the reset gate."""
    char = u.dtype.char
    rows, H = dh.shape
    launch(CELLS["gru_gates_backward"], char, blocks(rows * H), rows, H, dm, stride(dm, char),
           dh, stride(dh, char), u, stride(u, char), h_prev, stride(h_prev, char),
           da, stride(da, char))


def gru_after_forward(
    launch: Launcher, u: Array, a_h: Array, b: Array | None, h_prev: Array, h: Array, r: Array
) -> None:
    """A step of the unit whose reset gate stands after the product: everything after the product.
    """
    char = u.dtype.char
    rows, H = h.shape
    launch(CELLS["gru_after_forward"], char, blocks(rows * H), rows, H, u, stride(u, char),
           a_h, stride(a_h, char), vector(b, char), h_prev, stride(h_prev, char),
           h, stride(h, char), r, stride(r, char))


def gru_after_backward(
    launch: Launcher, dh: Array, u: Array, h_prev: Array, r: Array, da: Array, da_h: Array
) -> None:
    """The backward of this step, up to its product."""
    char = u.dtype.char
    rows, H = dh.shape
    launch(CELLS["gru_after_backward"], char, blocks(rows * H), rows, H, dh, stride(dh, char),
           u, stride(u, char), h_prev, stride(h_prev, char), r, stride(r, char),
           da, stride(da, char), da_h, stride(da_h, char))


def join(launch: Launcher, left: Array, right: Array, mask: Array | None, out: Array) -> None:
    """Two arrays side by side, with dropout."""
    char = out.dtype.char
    rows, columns = out.shape
    if left.shape[1] + right.shape[1] != columns:
        raise Unfusable
    launch(CELLS["join"], char, blocks(rows * columns), rows, left.shape[1], right.shape[1],
           left, stride(left, char), right, stride(right, char), *_optional(mask, char),
           out, stride(out, char))


def join_backward(launch: Launcher, d_out: Array, mask: Array | None, d_left: Array) -> None:
    """Dropout, and the copy of the first columns."""
    char = d_out.dtype.char
    (rows, columns), width = d_out.shape, d_left.shape[1]
    if width > columns:
        raise Unfusable
    launch(CELLS["join_backward"], char, blocks(rows * columns), rows, columns, width,
           d_out, stride(d_out, char), *_optional(mask, char), d_left, stride(d_left, char))


def _optional(array: Array | None, char: str) -> tuple[Any, int]:
    """A matrix and its row stride; (0, 0) for None."""
    return (0, 0) if array is None else (array, stride(array, char))
