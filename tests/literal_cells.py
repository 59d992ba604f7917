"""One step of each recurrent cell by its derivation, rows in and rows out, for `tests/lstm`."""

from __future__ import annotations

import numpy as np
from literal import clipping

from grads.derivations import gru, lstm, rnn
from lstm.cells.gru import GATES


def literal_gru(W, b):
    """Stacked weights as the derivation names them; blocks are in the order of `GATES`."""
    names = {"r": "_r", "z": "_z", "h~": ""}
    blocks = {name: {"W": block[:, :-H], "U": block[:, -H:], "b": bias} for H in [len(W) // 3]
              for name, block, bias in zip(GATES, np.split(W, 3), np.split(b, 3), strict=True)}
    return gru.Unit(**{f"{kind}{names[gate]}": matrix for gate, block in blocks.items()
                       for kind, matrix in block.items()})


def stacked(unit):
    """The reverse of `literal_gru`."""
    rows = [np.hstack([unit.W_r, unit.U_r]), np.hstack([unit.W_z, unit.U_z]),
            np.hstack([unit.W, unit.U])]
    return np.vstack(rows), np.vstack([unit.b_r, unit.b_z, unit.b])


def literal_gru_grad(dh, x, h_prev, W, b):
    """As `rnn_grad`: dh_prev, dx, dW, db."""
    dx, dh_prev, d_unit = gru.gru_grad(dh, x, h_prev, literal_gru(W, b))
    return dh_prev, dx, *stacked(d_unit)


GRADS = {"lstm": lstm.lstm_grad, "rnn": rnn.rnn_grad, "gru": literal_gru_grad}


def literal_step(unit, x, state, W, b):
    """The state after a step: x (1, E), state (1, H) each."""
    x, state, b = x.T, [a.T for a in state], b[:, None]
    if unit == "lstm":
        after = lstm.lstm(*state, x, W, b)
    elif unit == "gru":
        after = (gru.gru(x, *state, literal_gru(W, b)),)
    else:
        after = (rnn.rnn(x, *state, W, b),)
    return tuple(a.T for a in after)


def literal_step_grad(unit, d_state, x, state, W, b, clip=None):
    """d_state, dx, dW, db of a step, from d_state (1, H) each; dh is clipped first."""
    grad = GRADS[unit] if clip is None else clipping(GRADS[unit], clip)
    d, x, state, b = [a.T for a in d_state], x.T, [a.T for a in state], b[:, None]
    order = (*d, *state, x) if unit == "lstm" else (*d, x, *state)
    *d, dx, dW, db = grad(*order, W, b)
    return tuple(a.T for a in d), dx.T, dW, db[:, 0]
