"""One run in lanes against as many runs alone: what is refused, what it costs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from lane_runs import P, compare, in_lanes, named, versions

from grads.stepper.lanes import LaneArray, LanesError


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


def real_only(a):
    y = np.zeros_like(a["x"], dtype=float)
    y[...] = a["x"]
    return y


REFUSED = {
    "decision": lambda a: a["x"] if a["x"][0] > 0.01 else -a["x"],
    "float": lambda a: float(a["x"][0]),
    "int": lambda a: np.arange(9)[int(100 * a["x"][0])],
    "item": lambda a: a["x"].sum().item(),
    "math": lambda a: math.exp(a["x"][0]),
    "asarray": lambda a: np.asarray(a["x"]) * 2,
    "list of lanes": lambda a: np.array([a["x"][0], a["x"][1]]),
    "sum of a list": lambda a: np.sum([a["x"][0], a["x"][1]]),
    "into a plain array": into_plain,
    "added to a plain array": added_to_plain,
    "out=plain": lambda a: np.sum(a["x"], out=np.zeros(())),
    "copyto plain": lambda a: np.copyto(np.zeros(3), a["x"]),
    "ids": lambda a: np.arange(9.0)[(100 * a["x"]).real.astype(int)],
    "lane ids": lambda a: a["x"][(100 * a["x"]).real.astype(int) % 3],
    "mask": lambda a: a["x"][a["x"].real > 0.01],
    "unknown function": lambda a: np.fft.fft(a["x"]),
    "unknown method": lambda a: a["x"].byteswap(),
    "where of one": lambda a: np.where(a["x"].real > 0.01),
    "its own error": lambda a: a["x"].reshape(7),
    "too many indices": lambda a: a["x"][0, 1],
    "not an axis": lambda a: a["x"].sum(axis=1),
    "pickled": lambda a: __import__("pickle").dumps(a["x"]),
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


def test_a_dropped_imaginary_part_is_refused():
    x = np.array([0.0, 1.0]) + 0j
    with pytest.raises(LanesError, match="complex"):
        in_lanes(named(real_only), {"x": x}, {"x": np.stack([x + 1e-30j, x])})
    with pytest.raises(LanesError, match="complex"):
        in_lanes(named(lambda a: a["x"].astype(float)), {"x": x}, {"x": np.stack([x + 1e-30j])})


def test_messages_name_what_was_asked():
    x = np.arange(3.0)
    changed = {"x": np.stack([x, -x])}
    with pytest.raises(LanesError, match=r"np\.fft is not known in lanes"):
        in_lanes(named(REFUSED["unknown function"]), {"x": x}, changed)
    with pytest.raises(LanesError, match="zeros_like"):
        in_lanes(named(added_to_plain), {"x": x}, changed)
    with pytest.raises(LanesError, match="decision"):
        in_lanes(named(lambda a: a["x"] if a["x"][1] > 0 else 0.0), {"x": x}, changed)


# --- cost ---------------------------------------------------------------------------------------


def test_what_lanes_have_in_common_is_computed_once():
    seen = {}

    def f(a):
        first = np.tanh(a["x"] @ a["W"])
        seen["first"], seen["last"] = first, first @ a["V"]
        return {"y": seen["last"]}

    rng = np.random.default_rng(0)
    inputs = {name: rng.normal(size=n) for name, n in (("x", (2, 3)), ("W", (3, 4)), ("V", (4, 2)))}
    in_lanes(f, inputs, {"V": versions(rng, inputs["V"], 0.1)})
    assert isinstance(seen["first"], LaneArray)
    assert seen["first"].values.shape == (2, 4, 1) and seen["last"].values.shape == (2, 2, P)


def test_untouched_inputs_are_neither_written_nor_shared():
    x = np.arange(3.0)

    def f(a):
        a["x"] += a["b"]
        return {"y": a["x"] * 1.0}

    found = in_lanes(f, {"x": x, "b": np.zeros(3)}, {"b": np.ones((2, 3))})
    assert np.array_equal(x, np.arange(3.0)) and np.array_equal(found["y"][1], x + 1)
