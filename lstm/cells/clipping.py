"""Element-wise clipping of the gradients of a cell's state (Luong, 2016, section 2.2.2)."""

from __future__ import annotations

from backend import Array, array_module
from lstm.cells.cell import Cell, State, Step


def clipped(cell: Cell, limit: float) -> Cell:
    """The cell whose `backward` clips dh_t and, in an LSTM, the dc_{t-1} that it passes on (erratum
    13), to [-limit, limit]."""

    def backward(d_state: State, d_out: Array | None, step: Step, W_h: Array, da: Array) -> None:
        dh, *others = d_state
        if d_out is not None:
            dh += d_out
        clip_elements(dh, limit)
        cell.backward(d_state, None, step, W_h, da)
        for dc in others:
            clip_elements(dc, limit)

    return cell._replace(backward=backward)


def clip_elements(d: Array, limit: float) -> None:
    """Clip dh or dc in place (2.2.2; Mikolov, 2012)."""
    array_module(d).clip(d, -limit, limit, out=d)                          # (2.2.2 element-wise)
