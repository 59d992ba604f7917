"""Versions side by side and one by one give the same; complex numbers are kept or refused."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

from grads.check import evaluate as module
from grads.check.differentiate import at_entries
from grads.check.evaluate import Evaluator, NotAnalytic
from grads.check.lanes import LanesError

RNG = np.random.default_rng(5)
INPUTS = {"x": RNG.normal(size=(2, 3)), "W": RNG.normal(size=(3, 4)), "ids": np.array([1, 0, 1])}
VERSIONS = {"W": INPUTS["W"] + 0.1 * RNG.normal(size=(5, 3, 4))}


def product(a):
    return {"y": np.tanh(a["x"] @ a["W"])[a["ids"]], "n": a["x"].sum()}


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
@pytest.mark.parametrize("lanes", [True, False])
def test_versions(lanes, dtype):
    evaluate = Evaluator(product, INPUTS, lanes=lanes)
    changed = VERSIONS["W"] + (1e-30j if dtype == np.complex128 else 0.0)
    found = evaluate({"W": changed})
    assert found["y"].shape == (5, 3, 4) and found["n"].shape == (5,)
    for p in range(5):
        expected = product({**INPUTS, "W": changed[p]})["y"]
        np.testing.assert_allclose(found["y"][p].real, expected.real, rtol=1e-14)
        np.testing.assert_allclose(found["y"][p].imag, expected.imag, rtol=1e-12)
    assert found["y"].dtype == dtype and evaluate.alone == "" and evaluate.evaluations == 5
    lanes = lanes and dtype == np.float64
    assert evaluate.calls == (4 if lanes else 6)  # the base; all at once and two for comparison
    evaluate({"W": changed})
    assert evaluate.calls == (5 if lanes else 11) and evaluate.evaluations == 10


def test_what_lanes_cannot_do_runs_alone():
    def f(a):
        return {"y": np.array([math.tanh(v) for v in a["x"].tolist()])}

    evaluate = Evaluator(f, {"x": np.array([0.5, 1.0])})
    found = at_entries(evaluate, {}, {"y": np.ones(2)}, {"x": [0, 1]}, "ridders")["x"]
    np.testing.assert_allclose(found.value[0], 1 - np.tanh([0.5, 1.0]) ** 2, rtol=1e-9)
    assert evaluate.alone and evaluate.calls == 1 + evaluate.evaluations


def fake_lanes(monkeypatch, change):
    """Lanes that run the versions one by one and then do something to the result."""
    def in_lanes(f, inputs, changed, *others):
        P = len(next(iter(changed.values())))
        runs = [f({**inputs, **{name: a[p] for name, a in changed.items()}}) for p in range(P)]
        return change({name: np.stack([run[name] for run in runs]) for name in runs[0]})

    monkeypatch.setattr(module, "in_lanes", in_lanes)


def test_versions_run_a_few_at_a_time(monkeypatch):
    """The largest array of a run stays near four million numbers."""
    seen = []
    fake_lanes(monkeypatch, lambda out: seen.append(len(out["y"])) or out)
    evaluate = Evaluator(lambda a: {"y": a["x"][:2] * 3.0}, {"x": np.zeros(400_000)})
    found = at_entries(evaluate, {}, {"y": np.ones(2)}, {"x": np.arange(25)},
                       "forward")["x"]
    assert found.value.tolist() == [[3.0, 3.0] + 23 * [0.0]] and seen == 5 * [10]
    assert Evaluator(product, INPUTS).width == 256
    assert Evaluator(lambda a: {"y": np.zeros(12_000_000)}, {"x": np.ones(1)}).width == 1


@pytest.mark.parametrize("change", [
    lambda out: {name: a[::-1] for name, a in out.items()},  # lanes mixed up
    lambda out: {name: a * (1 + 1e-7) for name, a in out.items()},
    lambda out: {name: a[..., None] for name, a in out.items()},
])
def test_lanes_that_give_another_result_are_not_trusted(monkeypatch, change):
    fake_lanes(monkeypatch, change)
    exact = at_entries(product, INPUTS, {"y": np.ones((3, 4))}, {"W": [0, 5, 7]}, "ridders",
                       lanes=False)
    evaluate = Evaluator(product, INPUTS)
    found = at_entries(evaluate, INPUTS, {"y": np.ones((3, 4))}, {"W": [0, 5, 7]}, "ridders")
    np.testing.assert_array_equal(found["W"].value, exact["W"].value)
    assert evaluate.alone == "versions side by side gave another result"


def test_lanes_that_differ_by_rounding_are_trusted(monkeypatch):
    fake_lanes(monkeypatch, lambda out: {name: a * (1 + 1e-15) for name, a in out.items()})
    evaluate = Evaluator(product, INPUTS)
    at_entries(evaluate, INPUTS, {"y": np.ones((3, 4))}, {"W": [0, 5, 7]}, "ridders")
    assert evaluate.alone == ""


def test_lanes_may_fail_later(monkeypatch):
    evaluate = Evaluator(product, INPUTS)
    evaluate(VERSIONS)

    def in_lanes(*_):
        raise LanesError("tired")

    monkeypatch.setattr(module, "in_lanes", in_lanes)
    np.testing.assert_allclose(evaluate(VERSIONS)["y"][2],
                               product({**INPUTS, "W": VERSIONS["W"][2]})["y"], rtol=1e-14)
    assert evaluate.alone == "tired"


@pytest.mark.parametrize("method", ["complex", "ridders"])
@pytest.mark.parametrize("lanes", [True, False])
def test_nothing_f_does_to_its_arguments_is_seen(method, lanes):
    values = {"x": np.array([0.5, 1.5])}
    values["x"].flags.writeable = False

    def greedy(a):
        a["x"] *= a["x"]
        return {"y": a["x"]}

    found = at_entries(greedy, values, {"y": np.ones(2)}, {"x": [0, 1]}, method, lanes=lanes)["x"]
    np.testing.assert_allclose(found.value[0], [1.0, 3.0], rtol=1e-12)
    assert values["x"].tolist() == [0.5, 1.5]


def test_a_buffer_that_f_uses_again_is_read_in_time():
    buffer = np.empty(2)

    def f(a):
        buffer[...] = a["x"] ** 2
        return {"y": buffer}

    found = at_entries(f, {"x": np.array([1.0, 2.0])}, {"y": np.ones(2)}, {"x": [0, 1]}, "ridders",
                       lanes=False)["x"]
    np.testing.assert_allclose(found.value[0], [2.0, 4.0], rtol=1e-12)


BUFFER = np.zeros(2)


def dropped(a):
    BUFFER[...] = a["x"] ** 2  # HERE
    return {"y": BUFFER.copy()}


def refused(a):
    if a["x"].dtype.kind == "c":
        raise TypeError("real numbers only")  # HERE
    return {"y": a["x"]}


@pytest.mark.parametrize("lanes", [True, False])
@pytest.mark.parametrize("f, words", [(dropped, "the imaginary part of a complex argument is "
                                                "dropped"), (refused, "complex arguments are")])
def test_complex_step_says_why_and_where_it_cannot_be_used(f, words, lanes):
    with open(__file__, encoding="utf-8") as source:
        lines = [k for k, line in enumerate(source, start=1) if line.rstrip().endswith("# HERE")]
    line = lines[(dropped, refused).index(f)]
    with pytest.raises(NotAnalytic, match=rf"f: {words}.* at .*test_evaluate.py:{line}"):
        at_entries(f, {"x": np.ones(2)}, {"y": np.ones(2)}, {"x": [0, 1]}, lanes=lanes)
    found = at_entries(f, {"x": np.ones(2)}, {"y": np.ones(2)}, {"x": [0, 1]}, "ridders",
                       lanes=lanes)["x"]  # while real numbers are fine
    assert np.isfinite(found.value).all()


def test_warnings_about_complex_numbers_are_errors_during_the_complex_run_only():
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        with pytest.raises(NotAnalytic):
            at_entries(dropped, {"x": np.ones(2)}, {"y": np.ones(2)}, {"x": [0]}, lanes=False)
        np.array([1j]).astype(np.float64)
    assert [w.category for w in seen] == [np.exceptions.ComplexWarning]


def test_leaving_the_domain_makes_no_noise():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        at_entries(lambda a: {"y": np.log(a["x"])}, {"x": np.array(1e-3)}, {"y": np.array(1.0)},
                   {"x": [0]}, "ridders")


def test_errors_of_f_come_up():
    def f(a):
        if a["x"] != 1.0:
            raise RuntimeError("only one")
        return {"y": a["x"]}

    with pytest.raises(RuntimeError, match="only one"):
        at_entries(f, {"x": np.array(1.0)}, {"y": np.array(1.0)}, {"x": [0]}, "ridders")


def test_outputs_are_real_numbers():
    with pytest.raises(ValueError, match="f: expected output 'y' of a real dtype, got complex128"):
        Evaluator(lambda a: {"y": a["x"] * 1j}, {"x": np.ones(2)})
    assert Evaluator(lambda a: {"n": 3}, {"x": np.ones(2, np.float32)}).outputs["n"] == 3.0
    assert Evaluator(lambda a: {"x": a["x"]}, {"x": np.ones(2, np.float32)}).inputs["x"].dtype == (
        np.float64)
