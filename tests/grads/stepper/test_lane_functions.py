"""Users' functions of plain NumPy: one run in lanes against as many alone."""

from __future__ import annotations

import numpy as np
import pytest
from lane_runs import STEPS, compare, in_lanes, named, one_entry_each, versions

from grads.check.continuation.array import continued
from grads.stepper.lanes import LaneArray

INPUTS = {"W": (4, 3), "V": (3, 4), "x": (3,), "b": (4,), "X": (2, 3, 4), "s": ()}


def in_place(a):
    y = np.zeros_like(a["X"])
    y[0] = a["V"]
    y[1, :, 1:] -= a["V"][:, :3]
    y[..., 0] *= 2.0
    view = y[1].T
    view += a["W"]
    y[:, [0, 0, 2], 1] = a["x"]
    y += 1.0
    return y


def scattered(a):
    y = np.zeros_like(a["W"])
    np.add.at(y, np.array([1, 1, 3]), a["V"][:, :3])
    np.add.at(y.T, (Ellipsis, np.array([0, 0])), a["x"][:, None])
    return y


def widened_late(a):
    y = a["b"] * 1.0
    head, tail, flipped = y[:2], y[2:], y[::-1]
    head *= 2.0
    flipped[1] = a["s"]
    return np.concatenate([tail, head, y])


def rewritten(a):
    a["W"][0] = a["x"]
    a["W"] *= 2.0
    return a["b"] @ a["W"]


def masked(a):
    y = a["X"].copy()
    y[y.real < 0] = 0.0
    return np.where(a["V"].real > 0, a["V"], 0.5) + np.maximum(y, 0.1)


FUNCTIONS = {
    "affine": lambda a: np.tanh(a["W"] @ a["x"] + a["b"]),
    "left": lambda a: a["x"] @ a["V"] + a["b"] @ a["W"] @ a["x"],
    "stacked": lambda a: (a["X"] @ a["W"], a["X"].swapaxes(1, 2) @ a["x"], a["W"] @ a["X"],
                          a["X"].transpose(0, 2, 1) @ a["X"]),
    "own product": lambda a: (a["V"] @ a["W"], a["W"] @ a["V"], a["V"].T @ a["V"]),
    "repeated": lambda a: np.broadcast_to(a["W"][1], (2, 3)) @ a["V"]
    + a["W"][:2] @ np.broadcast_to(a["V"][:, :1], (3, 4)),
    "columns": lambda a: (a["X"] @ a["W"][::-1, 1:], a["b"] @ a["W"][:, ::2], a["X"] @ a["V"].T,
                          a["x"] @ a["V"][:, 1:3]),
    "dot": lambda a: (np.dot(a["W"], a["V"]), np.outer(a["x"], a["b"]), np.inner(a["x"], a["x"]),
                      a["W"].dot(a["x"]), np.dot(a["s"], a["x"])),
    "einsum": lambda a: (np.einsum("ij,jk->ik", a["W"], a["V"]), np.einsum("ii", a["W"][:3]),
                         np.einsum("...ij,j", a["X"], a["b"]), np.einsum("bij,ji->b", a["X"],
                                                                          a["W"])),
    "reductions": lambda a: (a["X"].sum(), a["X"].sum(axis=-1), a["X"].mean(axis=(0, 2)),
                             np.prod(a["V"], axis=0), a["X"].real.max(axis=1, keepdims=True),
                             np.min(a["x"].real), np.add.reduce(a["X"]), a["V"].var(axis=0),
                             np.add.reduce(a["X"], axis=-1), np.cumsum(a["X"], axis=-1),
                             np.cumsum(a["V"]), np.add.accumulate(a["V"], axis=1),
                             np.add.reduceat(a["W"], [0, 2]), np.sum(a["s"])),
    "masked sum": lambda a: np.sum(a["V"], axis=0, where=np.arange(4) < 2),
    "lane-masked": lambda a: (
        np.sum(a["V"], axis=1, where=a["V"].real > 0),
        np.add.reduce(a["V"], axis=1, where=a["V"].real > 0),
        np.add(1.0, 2.0, out=np.zeros_like(a["V"].real), where=a["V"].real > 0.4)),
    "shapes": lambda a: (a["X"].reshape(-1, 4), np.ravel(a["V"]), a["X"].T, a["s"][None],
                         np.moveaxis(a["X"], 0, 2), np.expand_dims(a["x"], -1),
                         np.squeeze(a["x"][None]), a["V"][:, None, ::-1], a["V"].flatten(),
                         np.flip(a["V"], 1), np.roll(a["X"], 1, axis=-1), np.roll(a["V"], 5),
                         np.repeat(a["V"], 2, axis=0), a["X"][:, np.array([0, 2, 2])],
                         a["X"][np.array([0, 1]), :, np.array([3, 0])], a["X"][..., 1],
                         np.transpose(a["X"], (2, 0, 1)), np.split(a["b"], 2)[1]),
    "joined": lambda a: (np.concatenate([a["V"], a["W"].T], axis=-1), np.stack([a["x"]] * 2, -1),
                         np.hstack([a["x"], a["b"]]), np.vstack([a["b"], a["V"]]),
                         np.concatenate([a["x"], np.ones(2)])),
    "rows": lambda a: (np.take(a["W"], np.array([[3, 0], [3, 3]]), axis=0), a["W"][[1, 1]],
                       np.take(a["X"], 1, axis=-1), np.take_along_axis(
                           a["V"], np.argsort(a["V"].real, axis=1), 1)),
    "ordered": lambda a: (np.sort(a["V"].real, axis=0), np.argmax(a["X"].real, axis=1),
                          np.argmax(a["V"].real), np.clip(a["V"].real, -0.2, 0.3)),
    "scalars": lambda a: (2.0 / (1.0 + a["s"] ** 2) - np.float64(3) * a["x"], 2 ** a["x"],
                          -a["s"], abs(a["x"].real), np.exp(a["V"]), np.sqrt(a["x"] ** 2 + 1.0)),
    "plain operands": lambda a: (np.arange(4.0) * a["V"], a["V"] + np.ones((2, 1, 1)),
                                 np.ones((2, 3)) @ a["V"], np.ones(3) - a["x"], [1, 2, 3] * a["x"]),
    "loops": lambda a: (sum(row.sum() for row in a["W"]), len(a["x"]) * a["s"]),
    "out": lambda a: np.multiply(a["V"], a["x"][:, None], out=np.empty_like(a["V"])),
    "where out": lambda a: np.add(a["V"], 1.0, out=np.zeros_like(a["V"]), where=a["V"].real > 0),
    "nothing": lambda a: (np.ones(3), 2.0, a["X"][:0].sum(axis=0), a["X"][:0].reshape(-1, 4)),
    "a decision all lanes share": lambda a: a["x"] * (1.0 if (a["x"].real ** 2).sum() > 0 else 2.0),
    "in place": in_place, "scattered": scattered, "widened late": widened_late, "masked": masked,
    "rewritten": rewritten,
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", STEPS)
@pytest.mark.parametrize("single", [False, True], ids=["directions", "entries"])
def test_a_users_function(name, dtype, single):
    rng = np.random.default_rng(4)
    inputs = {k: rng.normal(size=shape).astype(dtype) for k, shape in INPUTS.items()}
    before = {k: v.copy() for k, v in inputs.items()}
    for k, value in inputs.items():
        changed = one_entry_each(value, STEPS[dtype]) if single else (
            versions(rng, value, STEPS[dtype]))
        compare(named(FUNCTIONS[name]), inputs, {k: changed})
    assert all(np.array_equal(inputs[k], before[k]) for k in inputs)


@pytest.mark.parametrize("function", [np.tanh, np.exp])
@pytest.mark.parametrize("imaginary", [1e-30, 1e-12, 1e-3, 1.0])
def test_complex_functions_far_from_zero_and_at_large_steps(function, imaginary):
    x = np.array([0.0, 1e-20, -1e-8, 0.3, -2.0, 17.0, -40.0, 270.0, -290.0] * 20)
    z = x + 1j * imaginary * np.linspace(-1, 1, x.size)
    outputs = in_lanes(lambda a: {"y": function(a["z"])}, {"z": z}, {"z": np.stack([z, z * 1.01])})
    expected = function(np.stack([z, z * 1.01]))
    np.testing.assert_allclose(outputs["y"].real, expected.real, rtol=1e-13)
    np.testing.assert_allclose(outputs["y"].imag, expected.imag, rtol=1e-13, atol=1e-250)


@pytest.mark.parametrize("strange", [712.0, 800.0, -800.0, np.nan, np.inf, -np.inf])
def test_overflow_and_nan_are_those_of_numpy(strange):
    x = np.array([1.0, -1.0, strange, 0.0] * 20) + 0j
    changed = {"x": x + 1e-30j * np.array([[1.0], [-2.0], [0.0]])}
    with np.errstate(all="ignore"):
        compare(named(lambda a: (np.tanh(a["x"]), np.exp(a["x"]))), {"x": x}, changed)


def test_a_view_of_continued_lanes_stays_in_lanes():
    """As np.stack makes one of a user's complex run: it must not fall back to a run a lane."""
    lanes = LaneArray(continued(np.arange(6.0).reshape(3, 2) + 1e-30j))
    view = np.expand_dims(lanes, 0)
    assert view.shape == (1, 3) and np.shares_memory(np.asarray(view.values),
                                                     np.asarray(lanes.values))
