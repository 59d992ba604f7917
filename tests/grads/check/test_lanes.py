"""One run in lanes against as many runs alone: kernels, what is refused, what it costs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from lane_runs import STEPS, P, alone, compare, named, one_entry_each, versions
from literal import piece_of

import backend
from backend.workspace import Workspace
from grads.check.lanes import LaneArray, LanesError, in_lanes, lanes
from grads.verification.cases import model_case
from grads.verification.catalogue import entries, random_model
from nmt.models.language_model import LanguageModel, LanguageModelConfig

ENTRIES = [entry for entry in entries("tiny") if entry.shape == "ragged"]

# --- kernels ------------------------------------------------------------------------------------


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
@pytest.mark.parametrize("dtype", STEPS)
def test_every_kernel(entry, dtype):
    rng = np.random.default_rng(5)
    case = model_case(random_model(entry))
    inputs = {name: value.astype(dtype) for name, value in case.inputs.items()}
    moved = 0
    for name, value in inputs.items():
        directions = versions(rng, value, STEPS[dtype])
        out = compare(case.outputs, inputs, {name: directions}, 5e-13)
        moved += any((a != a[:1]).any() for a in out.values())
    assert moved == len(inputs)


@pytest.mark.parametrize("dtype", STEPS)
def test_single_entries_of_a_translator(dtype):
    options = {"bidirectional": True, "bridge": True}
    case = model_case(random_model(ENTRIES[0]._replace(options=ENTRIES[0].options | options)))
    inputs = {name: value.astype(dtype) for name, value in case.inputs.items()}
    workspace = Workspace()
    for name in ("encoder.W_e", "decoder.0.W", "encoder.1.forward.W", "attention.W_c"):
        changed = {name: one_entry_each(inputs[name], STEPS[dtype])}
        for _ in range(2):  # the second run finds the buffers of the first
            found = in_lanes(case.outputs, inputs, changed, workspace)["loss"]
        expected = alone(case.outputs, inputs, changed)["loss"]
        np.testing.assert_allclose(found.real, expected.real, rtol=1e-13)
        np.testing.assert_allclose(found.imag, expected.imag, rtol=0,
                                   atol=1e-13 * np.abs(expected.imag).max())
    assert workspace.nbytes > 0


def test_outputs_outlive_the_buffers_of_the_next_run():
    rng, workspace = np.random.default_rng(0), Workspace()
    inputs = {"x": rng.normal(size=(40, 50))}

    def f(a):
        y = np.empty_like(a["x"])
        np.tanh(a["x"], out=y)
        return {"y": y}

    first, second = (versions(rng, inputs["x"], 0.1, 8) for _ in range(2))
    kept = in_lanes(f, inputs, {"x": first}, workspace)["y"]
    in_lanes(f, inputs, {"x": second}, workspace)
    np.testing.assert_allclose(kept, np.tanh(first), rtol=1e-14)
    assert workspace.nbytes > first.nbytes


def test_several_inputs_change_together():
    rng = np.random.default_rng(0)
    inputs = {"W": rng.normal(size=(4, 3)), "x": rng.normal(size=3), "b": rng.normal(size=4)}
    changed = {name: versions(rng, inputs[name], 0.1) for name in ("W", "b")}
    compare(lambda a: {"y": np.tanh(a["W"] @ a["x"] + a["b"])}, inputs, changed)


@pytest.mark.parametrize("entry", ENTRIES[::12], ids=lambda entry: entry.name)
def test_a_backward_pass_is_a_function_too(entry):
    rng = np.random.default_rng(7)
    case = model_case(random_model(entry))
    upstream = {name: rng.normal(size=np.shape(out))
                for name, out in case.outputs(case.inputs).items()}

    def gradients(a):
        found = case.gradients(a, {k: backend.to_device(d) for k, d in upstream.items()}).items()
        return {name: d.dense() if hasattr(d, "dense") else d for name, d in found}

    name, value = list(case.inputs.items())[-1]
    compare(gradients, case.inputs, {name: versions(rng, value, 0.1)}, 1e-12)


def test_plain_arrays_from_outside_of_the_function():
    model = LanguageModel(LanguageModelConfig(hidden_size=3, embedding_size=2), 5)
    rng = np.random.default_rng(0)
    parameters = model.initial_parameters(rng, "float64")
    piece = piece_of(rng.integers(5, size=(5, 2)), model.encode(parameters, (), 2))
    compare(lambda a: {"loss": model.loss(a, piece)[0]}, parameters,
            {"rnn.0.W": versions(rng, parameters["rnn.0.W"], 0.1)})


# --- refusals: never a wrong number -------------------------------------------------------------


def into_plain(a):
    y = np.zeros(3)
    y[0] = a["x"][0]
    return y


def into_plain_view(a):
    y = np.zeros((3, 1))
    lanes.reshape(y, 3)[...] = a["x"]
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
    "into a plain array's view": into_plain_view,
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
    assert backend.module() is np and backend.array_module(x) is np


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


@pytest.mark.parametrize("changed", [
    {}, {"y": np.zeros((2, 3))}, {"x": np.zeros((2, 4))}, {"x": np.zeros((0, 3))},
    {"x": np.zeros((2, 3)), "s": np.zeros(3)},
])
def test_versions_that_do_not_fit(changed):
    with pytest.raises(ValueError, match="changed"):
        in_lanes(lambda a: {"y": a["x"]}, {"x": np.zeros(3), "s": np.zeros(())}, changed)


def test_not_within_another_backend_or_itself():
    x, changed = np.zeros(3), {"x": np.zeros((2, 3))}

    def nested(a):
        return in_lanes(lambda b: {"y": b["x"]}, {"x": x}, changed)

    with pytest.raises(LanesError, match="NumPy only"):
        in_lanes(nested, {"x": x}, changed)


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
