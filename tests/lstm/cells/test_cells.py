"""The contract of `lstm.cells.cell.Cell` for every cell, and each cell against its derivation."""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np
import pytest
from literal import DTYPES, assert_close, draw
from literal_cells import literal_step, literal_step_grad

from grads.check import check_pair
from lstm.cells import CELLS, Step, clipped
from lstm.recurrent import copy_through, padded_backward

B, E, H = 4, 3, 2
PAD = np.array([[False], [True], [False], [True]])
UNITS = pytest.mark.parametrize("unit", CELLS)


class Inputs(NamedTuple):
    x: np.ndarray  # (B, E)
    state: tuple[np.ndarray, ...]
    W: np.ndarray  # (G, E + H)
    b: np.ndarray | None
    d_state: tuple[np.ndarray, ...]
    d_out: np.ndarray  # (B, H)


def make(unit, dtype=np.float64, seed=1):
    rng, cell = np.random.default_rng(seed), CELLS[unit]
    G = len(cell.gates) * H
    state, d_state = (tuple(draw(rng, (B, H), dtype) for _ in range(cell.states)) for _ in "fb")
    return Inputs(draw(rng, (B, E), dtype), state, draw(rng, (G, E + H), dtype),
                  draw(rng, G + len(cell.biases) * H, dtype), d_state, draw(rng, (B, H), dtype))


def garbage(*shape, dtype):
    """Uninitialised memory, as from a workspace: a cell that reads it before writing gets NaN."""
    return np.full(shape, np.nan, dtype)


def run(unit, a, pad=None):
    """A step forward as a layer runs it, in uninitialised memory."""
    cell, dtype = CELLS[unit], a.x.dtype
    now = tuple(garbage(B, H, dtype=dtype) for _ in a.state)
    saved = garbage(B, cell.saves * H, dtype=dtype)
    u = a.x @ a.W[:, :E].T
    step = Step(u, a.state, now, saved, garbage(*u.shape, dtype=dtype))
    cell.forward(step, a.b, a.W[:, E:].T)
    if pad is not None:
        copy_through(pad, step.before, step.now)
    return step


def vjp(unit, a, step, d_out, clip=None, pad=None):
    """A step backward as a layer runs it: the gradients of the previous state, and da. The argument
    d_state is not changed."""
    d_state, da = tuple(d.copy() for d in a.d_state), garbage(*step.u.shape, dtype=a.x.dtype)
    cell = CELLS[unit] if clip is None else clipped(CELLS[unit], clip)
    if pad is None:
        cell.backward(d_state, d_out, step, a.W[:, E:], da)
    else:
        padded_backward(cell, d_state, d_out, step, a.W[:, E:], da, pad)
    return d_state, da


def weights(unit, a, step, da):
    """dW and db."""
    if CELLS[unit].gradients is None:
        return da.T @ np.hstack([a.x, a.state[0]]), da.sum(axis=0)
    dW_h = garbage(len(a.W), H, dtype=a.x.dtype)
    db = CELLS[unit].gradients(da, a.state[0], step.saved, dW_h)
    return np.hstack([da.T @ a.x, dW_h]), db


def row(arrays, n):
    return tuple(array[n : n + 1] for array in arrays)


# --- against the derivation -----------------------------------------------------------------------


@pytest.mark.parametrize("unit, dtype", list(product(CELLS, DTYPES)))
def test_a_step_is_the_derivation(unit, dtype):
    a = make(unit, dtype)
    step = run(unit, a)
    for n in range(B):
        expected = literal_step(unit, a.x[n : n + 1], row(a.state, n), a.W, a.b)
        for actual, column in zip(step.now, expected, strict=True):
            assert_close(actual[n : n + 1], column)


@pytest.mark.parametrize("unit, dtype, clip", [
    *((unit, dtype, None) for unit in CELLS for dtype in DTYPES),
    *((unit, np.float64, 0.3) for unit in CELLS)])
def test_its_backward_is_the_derivation(unit, dtype, clip):
    """dh is clipped after everything was added to it, and the clipping acts."""
    a = make(unit, dtype)
    step = run(unit, a)
    d_state, da = vjp(unit, a, step, a.d_out, clip)
    dW, db = 0.0, 0.0
    for n in range(B):
        above = (row(a.d_state, n)[0] + a.d_out[n : n + 1], *row(a.d_state, n)[1:])
        expected, dx, dW_n, db_n = literal_step_grad(
            unit, above, a.x[n : n + 1], row(a.state, n), a.W, a.b, clip)
        for actual, column in zip(row(d_state, n), expected, strict=True):
            assert_close(actual, column)
        assert_close((da @ a.W[:, :E])[n : n + 1], dx)
        dW, db = dW + dW_n, db + db_n
    for actual, column in zip(weights(unit, a, step, da), (dW, db), strict=True):
        assert_close(actual, column)
    if clip is not None:
        assert np.abs(da - vjp(unit, a, step, a.d_out)[1]).max() > 0.01


# --- the contract ---------------------------------------------------------------------------------


@pytest.mark.parametrize("unit, pad", list(product(CELLS, [None, PAD])),
                         ids=lambda value: "padded" if value is PAD else None)
def test_gradients_of_every_output_alone_and_together(unit, pad):
    """By complex step: the arrays of the state, and h again as the layer's output."""
    cell, drawn = CELLS[unit], make(unit)
    names = [f"state {k}" for k in range(cell.states)]
    inputs = {"x": drawn.x, "W": drawn.W, "b": drawn.b} | dict(zip(names, drawn.state, strict=True))

    def forward(v):
        a = Inputs(v["x"], tuple(v[name] for name in names), v["W"], v["b"], (), v["x"])
        step = run(unit, a, pad)
        return {**dict(zip(names, step.now, strict=True)), "out": step.now[0].copy()}, (a, step)

    def backward(d, cache):
        a, step = cache
        a = a._replace(d_state=tuple(d[name] for name in names))
        d_state, da = vjp(unit, a, step, d["out"], None, pad)
        dW, db = weights(unit, a, step, da)
        return {"x": da @ a.W[:, :E], "W": dW, "b": db, **dict(zip(names, d_state, strict=True))}

    check_pair(forward, backward, inputs, method="complex", vanish=False).raise_if_wrong()


@UNITS
@pytest.mark.parametrize("clip", [None, 0.3])
def test_padding(unit, clip):
    """The previous state passes unchanged and unclipped, forward and backward; da is exactly 0.
    Other rows are as without padding."""
    a, real = make(unit), ~PAD[:, 0]
    step, alone = run(unit, a, PAD), run(unit, a)
    for before, now, by_itself in zip(a.state, step.now, alone.now, strict=True):
        np.testing.assert_array_equal(now, np.where(PAD, before, by_itself))
    d_state, da = vjp(unit, a, step, a.d_out, clip, PAD)
    own_state, own_da = vjp(unit, a, alone, a.d_out, clip)
    assert not da[~real].any()
    np.testing.assert_array_equal(da[real], own_da[real])
    above = (a.d_state[0] + a.d_out, *a.d_state[1:])
    for d, through, by_itself in zip(d_state, above, own_state, strict=True):
        np.testing.assert_allclose(d[real], by_itself[real], rtol=1e-15)
        np.testing.assert_array_equal(d[~real], through[~real])


@UNITS
def test_a_step_can_go_back_twice(unit):
    """Saved arrays do not change, nor do arguments, except for d_state."""
    a = make(unit)
    kept = [array.copy() for array in (a.x, *a.state, a.W, a.b, a.d_out)]
    step = run(unit, a, PAD)
    first, second = (vjp(unit, a, step, a.d_out, 0.3, PAD) for _ in range(2))
    for first_gradient, second_gradient in zip((*first[0], first[1]), (*second[0], second[1]),
                                               strict=True):
        np.testing.assert_array_equal(first_gradient, second_gradient)
    for array, before in zip((a.x, *a.state, a.W, a.b, a.d_out), kept, strict=True):
        np.testing.assert_array_equal(array, before)


@UNITS
def test_single_precision_stays_single(unit):
    """float32 is not widened, and the results differ only by rounding."""
    exact = make(unit)
    a = Inputs(*(tuple(array.astype("f4") for array in field) if isinstance(field, tuple)
                 else field.astype("f4") for field in exact))

    def everything(inputs):
        step = run(unit, inputs, PAD)
        d_state, da = vjp(unit, inputs, step, inputs.d_out, 0.3, PAD)
        return (*step.now, step.u, *d_state, da, *weights(unit, inputs, step, da))

    for actual, expected in zip(everything(a), everything(exact), strict=True):
        assert actual.dtype == np.float32
        assert_close(actual.astype("f8"), expected, 1e-6)


# --- the order of the blocks ----------------------------------------------------------------------


def scalar(unit, h_prev, W, b, c_prev=()):
    """One step of width 1 from x = 0."""
    state = tuple(np.full((1, 1), value) for value in (h_prev, *c_prev))
    now, saved = tuple(np.empty((1, 1)) for _ in state), np.empty((1, 1))
    u = np.zeros((1, len(W)))
    CELLS[unit].forward(Step(u, state, now, saved, np.empty_like(u)), np.array(b), W[:, 1:].T)
    return [array.item() for array in now]


def sigm(v):
    return 1 / (1 + np.exp(-v))


def test_lstm_gate_order():
    """Blocks of W and b are i, f, o, h_hat: a large bias opens exactly that gate."""
    assert CELLS["lstm"].gates == ("i", "f", "o", "h_hat")
    h, c = scalar("lstm", 0.0, np.zeros((4, 2)), [0.1, 0.2, 0.3, 0.4], (1.0,))
    np.testing.assert_allclose(c, sigm(0.2) + sigm(0.1) * np.tanh(0.4), rtol=1e-15)
    np.testing.assert_allclose(h, sigm(0.3) * np.tanh(c), rtol=1e-15)


def test_gru_gate_order():
    """Blocks of W and b are r, z, h~: z weighs the proposal (erratum 17)."""
    assert CELLS["gru"].gates == ("r", "z", "h~")
    W = np.zeros((3, 2))
    W[2, 1] = 1.0                                                          # U
    (h,) = scalar("gru", 0.7, W, [0.1, 0.2, 0.3])
    r, z = sigm(0.1), sigm(0.2)
    np.testing.assert_allclose(h, (1 - z) * 0.7 + z * np.tanh(r * 0.7 + 0.3), rtol=1e-15)


def test_gru_after_gate_order():
    """PyTorch's order r, z, n, and its z, which weighs the previous state; r multiplies U h +
    b_m."""
    assert CELLS["gru-after"].gates == ("r", "z", "h~")
    W = np.zeros((3, 2))
    W[2, 1] = 2.0                                                          # U
    (h,) = scalar("gru-after", 0.7, W, [0.1, 0.2, 0.3, 0.4])
    r, z = sigm(0.1), sigm(0.2)
    n = np.tanh(0.3 + r * (2.0 * 0.7 + 0.4))
    np.testing.assert_allclose(h, (1 - z) * n + z * 0.7, rtol=1e-15)
