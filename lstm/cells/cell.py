"""The interface of a recurrent cell: one time step, forward and backward, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from backend import Array, array_module
from backend.fused import cells as kernels
from backend.fused import fused

State = tuple[Array, ...]  # (h, c) of an LSTM, (h,) of the other cells; each (B, H)


class Step(NamedTuple):
    """The arrays of one time step: views of those of the whole sequence."""

    u: Array  # (B, G): W_x x_t, the input's part of the pre-activation; overwritten by the gates
    before: State  # the state before the step
    now: State  # the state after the step, written
    saved: Array | None  # (B, saves H), written for the backward, if the cell `saves`
    scratch: Array  # (B, G), whose values nobody reads after the step


def bias_gradient(da: Array, saved: Array | None) -> Array:
    """db = the sum of da over all steps, da (N, G)."""
    return da.sum(axis=0)


class Cell(NamedTuple):
    """A recurrent cell. G = len(gates) H; W = [W_x W_h], (G, E + H), columns of the input and of
    the state.

    forward(step, b, W_h, pad): W_h here is the transpose (H, G), a view or a copy; b (G,), followed
    by H for each of `biases`, or None; pad (B, 1) is True for sequences of which the step is
    padding and whose state is copied through, or None.

    backward(d_state, d_out, step, W_h, clip, pad, da): d_state, (dh,) or (dh, dc), becomes the
    gradient of the previous state, in place; d_out (B, H) or None is added to dh; clip is tau of
    the element-wise clipping (section 2.2.2) of dh_t and, in an LSTM, of the dc_{t-1} passed on
    (erratum 13), or None; da (B, G), the gradient at the pre-activations, is written, zero on
    padding. Here W_h is (G, H).

    weight_gradient(da, h_prev, saved, dW_h): writes dW_h (G, H), the columns of the state, from all
    steps stacked in rows: da (N, G), h_prev (N, H), saved (N, saves H) or None.

    bias_gradient(da, saved): returns db of all steps.
    """

    states: int  # arrays in a state: 2 (h, c) or 1 (h,)
    gates: tuple[str, ...]  # row blocks of W, in this order
    saves: int  # blocks of H columns that a step saves
    forward: Callable[[Step, Array | None, Array, Array | None], None]
    backward: Callable[
        [State, Array | None, Step, Array, float | None, Array | None, Array], None]
    weight_gradient: Callable[[Array, Array, Array | None, Array], None]
    bias_gradient: Callable[[Array, Array | None], Array] = bias_gradient
    biases: tuple[str, ...] = ()  # row blocks of b after those of the gates


@fused(kernels.add_recurrent)
def add_recurrent(a: Array, a_state: Array | None, b: Array | None) -> None:
    """a += a_state + b: the state's part of a pre-activation, and the bias. Either may be None
    (Eq. 2.39)."""
    if a_state is not None:
        a += a_state                                                       # (2.39)
    if b is not None:
        a += b


@fused(kernels.copy_through)
def copy_through(pad: Array, before: State, now: State) -> None:
    """At a padded step, where `pad` (B, 1) is True, copy the state through: `now` = `before`."""
    xp = array_module(pad)
    for old, new in zip(before, now, strict=True):
        xp.copyto(new, old, where=pad)


def sigm(a: Array) -> Array:
    """The sigmoid 1 / (1 + e^-a), computed as a tanh, which does not overflow."""
    return 0.5 * array_module(a).tanh(0.5 * a) + 0.5


def clipped(d: Array, limit: float | None) -> Array:
    """As `clip_elements`, in a new array."""
    return d if limit is None else array_module(d).clip(d, -limit, limit)


def clip_elements(d: Array, limit: float | None) -> None:
    """Element-wise clipping of dh or dc to [-limit, limit], in place (2.2.2; Mikolov, 2012)."""
    if limit is not None:
        array_module(d).clip(d, -limit, limit, out=d)                      # (2.2.2 element-wise)


def weight_gradient(da: Array, h_prev: Array, saved: Array | None, dW_h: Array) -> None:
    """dW_h = da' h_prev of all steps, the sum over time of Algorithm 2, line 15 (Eq. 2.50; 2.30 of
    the vanilla cell)."""
    array_module(da).matmul(da.T, h_prev, out=dW_h)                        # (2.30, 2.50)
