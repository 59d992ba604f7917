"""One run in lanes against as many runs alone: what is refused, what it costs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from lane_runs import compare, in_lanes, named, versions

from grads.stepper.lanes import LaneArray, LanesError, making_lanes


def test_several_inputs_change_together():
    rng = np.random.default_rng(0)
    inputs = {"W": rng.normal(size=(4, 3)), "x": rng.normal(size=3), "b": rng.normal(size=4)}
    changed = {name: versions(rng, inputs[name], 0.1) for name in ("W", "b")}
    compare(lambda a: {"y": np.tanh(a["W"] @ a["x"] + a["b"])}, inputs, changed)


# --- refusals: never a wrong number -------------------------------------------------------------


def into_plain(a):
    y = np.zeros(3)
    y[0] = a["x"][0]
    return y


def added_to_plain(a):
    y = np.zeros(3)
    y += a["x"]
    return y


REFUSED = {
    "decision": lambda a: a["x"] if a["x"][0] > 0.01 else -a["x"],
    "float": lambda a: float(a["x"][0]),
    "int": lambda a: np.arange(9)[int(100 * a["x"][0])],
    "math": lambda a: math.exp(a["x"][0]),
    "asarray": lambda a: np.asarray(a["x"]) * 2,
    "list of lanes": lambda a: np.array([a["x"][0], a["x"][1]]),
    "sum of a list": lambda a: np.sum([a["x"][0], a["x"][1]]),
    "into a plain array": into_plain,
    "added to a plain array": added_to_plain,
    "out=plain": lambda a: np.sum(a["x"], out=np.zeros(())),
    "copyto plain": lambda a: np.copyto(np.zeros(3), a["x"]),
    "whole number": lambda a: (100 * a["x"]).real.astype(int)[0].item(),
    "ids": lambda a: np.arange(9.0)[(100 * a["x"]).real.astype(int)],
    "lane ids": lambda a: a["x"][(100 * a["x"]).real.astype(int) % 3],
    "mask": lambda a: a["x"][a["x"].real > 0.01],
    "its own error": lambda a: a["x"].reshape(7),
    "too many indices": lambda a: a["x"][0, 1],
    "not an axis": lambda a: a["x"].sum(axis=1),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    x = np.array([0.0, 0.01, -0.02])
    with pytest.raises(LanesError):
        in_lanes(named(REFUSED[name]), {"x": x}, {"x": np.stack([x, x + 0.02, x - 0.03])})


def test_a_plain_copy_of_what_all_lanes_share_cannot_be_written():
    def f(a):
        y = np.asarray(a["x"])
        y *= 2.0
        return a["x"] + a["b"]

    x = np.arange(3.0)
    with pytest.raises(LanesError, match="read-only"):
        in_lanes(named(f), {"x": x, "b": x}, {"b": np.stack([x, -x])})


def test_messages_say_what_lanes_cannot_do():
    x = np.arange(3.0)
    for name, message in (("decision", "different values"),
                          ("added to a plain array", "cannot receive lanes")):
        with pytest.raises(LanesError, match=message):
            in_lanes(named(REFUSED[name]), {"x": x}, {"x": np.stack([x + 1, -x])})


def test_what_a_method_has_written_into_one_lane_stays_in_that_lane():
    """What a view shows changes with the array, in every lane."""
    def f(a):
        y = a["x"].reshape(2, 3)
        row = y.swapaxes(0, 1)[1]
        row.fill(5.0)
        np.fill_diagonal(y, a["x"][0])
        return y * 1.0, np.sort(y), row * 2.0

    x = np.arange(6.0)
    compare(named(f), {"x": x}, {"x": np.stack([x, -x, x + 1])})


# --- arrays that a function makes ---------------------------------------------------------------


def make_arrays(x):
    y, z = np.zeros(3), np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    y[0], z[1] = x[1], x
    return np.array([y[0], 2.0, x[2]]) + z.sum(axis=0) + np.asarray(x) + np.ones_like(x) + np.eye(3)


@pytest.mark.parametrize("kind", [np.asarray, lambda a: a.astype(complex)])
def test_arrays_that_a_function_makes_hold_lanes(kind):
    values = kind(np.arange(6.0).reshape(3, 2))
    with making_lanes([make_arrays.__globals__], 2, kind):
        result = make_arrays(LaneArray(values.copy()))
    assert np is make_arrays.__globals__["np"] and result.dtype == values.dtype
    for p in range(2):
        np.testing.assert_array_equal(result.values[..., p], make_arrays(values[..., p].real))
