"""Fused forms of the recurrent cells: `lstm.lstm`, `lstm.rnn`, `lstm.gru`, `lstm.recurrence`.

Each takes a launcher, then the arguments of the function of its name.
"""

from __future__ import annotations

from typing import Any

from backend.fused.layout import Unfusable, blocks, mask, stride, vector
from backend.switch import Array

Pair = tuple[Array, Array]


def lstm_turn_forward(
    launch: Any, z: Array, recurrent: Array | None, b: Array | None, before: Pair, now: Pair,
    tanh_c: Array, dead: Array | None = None,
) -> None:
    """All of a step between two products."""
    (h_prev, c_prev), (h, c), char = before, now, z.dtype.char
    rows, H = c.shape
    dead, dead_stride = mask(dead)
    launch("lstm_forward", char, blocks(rows * H), rows, H, z, stride(z, char),
           *_optional(recurrent, char), vector(b, char), h_prev, stride(h_prev, char),
           c_prev, stride(c_prev, char), c, stride(c, char), tanh_c, stride(tanh_c, char),
           h, stride(h, char), dead, dead_stride)


def lstm_cell_forward(
    launch: Any, z: Array, c_prev: Array, c: Array, tanh_c: Array, h: Array
) -> None:
    """The same without recurrent term, bias and padding: then h_prev is not read."""
    lstm_turn_forward(launch, z, None, None, (h, c_prev), (h, c), tanh_c)


def lstm_turn_backward(
    launch: Any, dh: Array, dc: Array, d_out: Array | None, u: Array, c_prev: Array,
    tanh_c: Array, dz: Array, scratch: Array, clip: float | None = None,
    dead: Array | None = None, kept: Array | None = None,
) -> None:
    """All of a step between two products, backward; nothing is written to `scratch`."""
    char = dh.dtype.char
    rows, H = dh.shape
    dead, dead_stride = mask(dead)
    launch("lstm_backward", char, blocks(rows * H), rows, H, dh, stride(dh, char),
           *_optional(d_out, char), dc, stride(dc, char), u, stride(u, char),
           c_prev, stride(c_prev, char), tanh_c, stride(tanh_c, char), dz, stride(dz, char),
           dead, dead_stride, *_optional(kept, char), float(clip or 0.0))


def lstm_cell_backward(
    launch: Any, dh: Array, dc: Array, u: Array, c_prev: Array, tanh_c: Array, dz: Array,
    scratch: Array,
) -> None:
    """The same without what surrounds the cell."""
    lstm_turn_backward(launch, dh, dc, None, u, c_prev, tanh_c, dz, scratch)


def add_recurrent(launch: Any, z: Array, recurrent: Array | None, b: Array | None) -> None:
    """Two additions in one."""
    if recurrent is None and b is None:
        return
    char = z.dtype.char
    rows, columns = z.shape
    launch("add_rows", char, blocks(rows * columns), rows, columns, z, stride(z, char),
           *_optional(recurrent, char), vector(b, char))


def carry_state(
    launch: Any, dead: Array, before: tuple[Array, ...], now: tuple[Array, ...]
) -> None:
    """All arrays of a state at once."""
    if not 1 <= len(now) <= 2:
        raise Unfusable
    char = now[0].dtype.char
    rows, H = now[0].shape
    dead, dead_stride = mask(dead)
    pairs = [(old, stride(old, char), new, stride(new, char))
             for old, new in zip(before, now, strict=True)]
    launch("carry", char, blocks(rows * H), rows, H, dead, dead_stride, *pairs[0],
           *(pairs[1] if len(pairs) == 2 else (0, 0, 0, 0)))


def tanh_slope(launch: Any, dy: Array, y: Array, dz: Array) -> None:
    """(1 - y^2) dy in one pass."""
    char = y.dtype.char
    rows, H = y.shape
    launch("tanh_backward", char, blocks(rows * H), rows, H, dy, stride(dy, char),
           y, stride(y, char), dz, stride(dz, char))


def rnn_cell_backward(launch: Any, dh: Array, h: Array, dz: Array) -> None:
    """The same kernel."""
    tanh_slope(launch, dh, h, dz)


def gru_gates_forward(launch: Any, u: Array, product: Array, h_prev: Array, m: Array) -> None:
    """Both gates, and the state weighed by one of them; nothing is written to `product`."""
    char = u.dtype.char
    rows, H = m.shape
    launch("gru_gates_forward", char, blocks(rows * H), rows, H, u, stride(u, char),
           product, stride(product, char), h_prev, stride(h_prev, char), m, stride(m, char))


def gru_state_forward(launch: Any, u: Array, h_prev: Array, h: Array) -> None:
    """The proposal and the new state."""
    char = u.dtype.char
    rows, H = h.shape
    launch("gru_state_forward", char, blocks(rows * H), rows, H, u, stride(u, char),
           h_prev, stride(h_prev, char), h, stride(h, char))


def gru_state_backward(
    launch: Any, dh: Array, u: Array, h_prev: Array, dz: Array, scratch: Array
) -> None:
    """Backward of the proposal and of the update gate; nothing is written to `scratch`."""
    char = u.dtype.char
    rows, H = dh.shape
    launch("gru_state_backward", char, blocks(rows * H), rows, H, dh, stride(dh, char),
           u, stride(u, char), h_prev, stride(h_prev, char), dz, stride(dz, char))


def gru_gates_backward(
    launch: Any, dm: Array, dh: Array, u: Array, h_prev: Array, dz: Array, scratch: Array
) -> None:
    """Backward of the reset gate; nothing is written to `dm` and `scratch`."""
    char = u.dtype.char
    rows, H = dh.shape
    launch("gru_gates_backward", char, blocks(rows * H), rows, H, dm, stride(dm, char),
           dh, stride(dh, char), u, stride(u, char), h_prev, stride(h_prev, char),
           dz, stride(dz, char))


def join(launch: Any, left: Array, right: Array, mask: Array | None, out: Array) -> None:
    """Two arrays side by side, with dropout."""
    char = out.dtype.char
    rows, columns = out.shape
    if left.shape[1] + right.shape[1] != columns:
        raise Unfusable
    launch("join", char, blocks(rows * columns), rows, left.shape[1], right.shape[1],
           left, stride(left, char), right, stride(right, char), *_optional(mask, char),
           out, stride(out, char))


def _optional(array: Array | None, char: str) -> tuple[Any, int]:
    """A matrix and its stride, or zeros for none."""
    return (0, 0) if array is None else (array, stride(array, char))


FORMS = {form.__name__: form for form in (
    lstm_turn_forward, lstm_cell_forward, lstm_turn_backward, lstm_cell_backward, add_recurrent,
    carry_state, tanh_slope, rnn_cell_backward, gru_gates_forward, gru_state_forward,
    gru_state_backward, gru_gates_backward, join,
)}  # fmt: skip
