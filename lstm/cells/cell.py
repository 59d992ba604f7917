"""The interface of a recurrent cell: one time step, forward and backward, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
    saved: Array  # (B, saves H), written for the backward
    scratch: Array  # (B, G), whose values nobody reads after the step


class Operator(NamedTuple):
    """ONNX's operator that computes the same layer, and its blocks of rows."""

    name: str
    blocks: tuple[int, ...]  # for each of its blocks, the number of the block here
    signs: tuple[float, ...]  # of its blocks
    attributes: Mapping[str, int] = {}


class Cell(NamedTuple):
    """A recurrent cell. G = len(gates) H; W = [W_x W_h], (G, E + H), columns of the input and of
    the state.

    forward(step, b, W_h): W_h here is the transpose (H, G), a view or a copy; b (G,), followed by H
    for each of `biases`, or None.

    backward(d_state, d_out, step, W_h, da): d_state, (dh,) or (dh, dc), becomes the gradient of the
    previous state, in place; d_out (B, H) or None is added to dh; da (B, G), the gradient at the
    pre-activations, is written. Here W_h is (G, H).

    gradients(da, h_prev, saved, dW_h): from all steps stacked in rows, da (N, G), h_prev (N, H) and
    saved (N, saves H), writes dW_h (G, H), the columns of the state, and returns db. None: W_h
    multiplies h_prev, so that dW_h = da' h_prev, and db = the sum of da.
    """

    states: int  # arrays in a state: 2 (h, c) or 1 (h,)
    gates: tuple[str, ...]  # row blocks of W, in this order
    saves: int  # blocks of H columns that a step saves
    forward: Callable[[Step, Array | None, Array], None]
    backward: Callable[[State, Array | None, Step, Array, Array], None]
    gradients: Callable[[Array, Array, Array, Array], Array] | None = None
    biases: tuple[str, ...] = ()  # row blocks of b after those of the gates
    torch: tuple[int, ...] = ()  # as `Operator.blocks`, of PyTorch's module; none: it has no such
    onnx: Operator | None = None  # None: ONNX has no such layer
    normalised: bool = False  # whether norms stand between the products and the gates


@fused(kernels.add_recurrent)
def add_recurrent(a: Array, a_state: Array | None, b: Array | None) -> None:
    """a += a_state + b: the state's part of a pre-activation, and the bias. Either may be None
    (Eq. 2.39)."""
    if a_state is not None:
        a += a_state                                                       # (2.39)
    if b is not None:
        a += b


def sigm(a: Array) -> Array:
    """The sigmoid 1 / (1 + e^-a), computed as a tanh, which does not overflow."""
    return 0.5 * array_module(a).tanh(0.5 * a) + 0.5
