"""The vanilla recurrent cell, one time step: Eqs. 2.3 and 2.24-2.30, Algorithm 1 of Luong (2016).

sigma is tanh. Rows here are the thesis's columns; `W` is its T_rnn = [W_xh W_hh], (H, E + H); `da`
is sigma'(T_rnn z_t) o dh_t. An optional bias is footnote 2's. The output lines 2-4 of Algorithm 1
are in `lstm.prediction`.
"""

from __future__ import annotations

from backend import Array, array_module
from backend.pointwise import tanh_slope
from lstm.cells.cell import Cell, Operator, State, Step, add_recurrent


def forward(step: Step, b: Array | None, W_h: Array) -> None:
    """h_t = tanh(W_xh x_t + W_hh h_{t-1} + b) (Eqs. 2.3, 2.24); arguments as in `Cell`."""
    xp, (h_prev,), (h,) = array_module(W_h), step.before, step.now
    add_recurrent(step.u, xp.matmul(h_prev, W_h, out=step.scratch), b)             # (2.3)
    xp.tanh(step.u, out=h)                         # h_t = sigma(T_rnn z_t)      (2.24)


def backward(d_state: State, d_out: Array | None, step: Step, W_h: Array, da: Array) -> None:
    """Lines 5-8 of Algorithm 1; arguments as in `Cell`."""
    (dh,), (h,) = d_state, step.now
    if d_out is not None:
        dh += d_out
    tanh_slope(dh, h, da)                          # da = sigma'(a) o dh_t       (2.25-2.30)
    array_module(da).matmul(da, W_h, out=dh)       # dh_{t-1} = W_hh' da         (2.28)


RNN = Cell(1, ("",), 0, forward, backward, torch=(0,), onnx=Operator("RNN", (0,), (1.0,)))
