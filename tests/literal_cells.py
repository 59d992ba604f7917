"""One step of each recurrent cell by its derivation, with rows as arguments and results, for
`tests/lstm`."""

from __future__ import annotations

from literal import clipping

from grads.derivations.units import UNITS


def columns(state):
    """h (H, 1) and c of a state of arrays (1, H); c has no rows if the unit has no cell."""
    h, *c = (array.T for array in state)
    return h, *(c or [h[:0]])


def literal_step(unit, x, state, W, b):
    """The state after a step: x (1, E), state (1, H) each."""
    after = UNITS[unit].forward(*columns(state), x.T, W, b[:, None])
    return tuple(a.T for a in after[:len(state)])


def literal_step_grad(unit, d_state, x, state, W, b, clip=None):
    """d_state, dx, dW, db of a step, from d_state (1, H) each; dh is clipped first."""
    grad = UNITS[unit].backward if clip is None else clipping(UNITS[unit].backward, clip)
    *d, dx, dW, db = grad(*columns(d_state), *columns(state), x.T, W, b[:, None])
    return tuple(a.T for a in d[:len(state)]), dx.T, dW, db[:, 0]
