"""A function at perturbed inputs: what it gets and gives; complex numbers are kept or refused."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from grads.check.differentiate import at_entries
from grads.check.evaluate import Evaluator, NotAnalytic

RNG = np.random.default_rng(5)
INPUTS = {"x": RNG.normal(size=(2, 3)), "W": RNG.normal(size=(3, 4)), "ids": np.array([1, 0, 1])}


def product(a):
    return {"y": np.tanh(a["x"] @ a["W"])[a["ids"]], "n": a["x"].sum()}


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_versions(dtype):
    evaluate = Evaluator(product, INPUTS)
    changed = INPUTS["W"] + RNG.normal(size=(3, 4)) * (1e-30j if dtype == np.complex128 else 0.1)
    outputs = evaluate({"W": changed})
    expected = product({**INPUTS, "W": changed})["y"]
    np.testing.assert_allclose(outputs["y"].real, expected.real, rtol=1e-14)
    np.testing.assert_allclose(outputs["y"].imag, expected.imag, rtol=1e-12)
    assert outputs["y"].dtype == dtype and outputs["n"].shape == () and evaluate.evaluations == 1


def absolute_loop(a):
    total, norms = np.zeros(3), []
    for row in a["x"]:
        total += np.maximum(row, 0.2) * np.abs(row)
        norms.append(np.linalg.norm(row))
    return {"y": total, "norms": np.array(norms), "spread": a["x"].std()}


def test_a_continued_function_writes_into_what_it_creates():
    """NumPy's abs, maximum, norm and std of complex numbers are not what complex step needs."""
    weights = {"y": np.ones(3), "norms": np.ones(2), "spread": np.ones(())}
    numeric, expected = (at_entries(absolute_loop, INPUTS, weights, {"x": range(6)}, method)["x"]
                         for method in ("complex", "ridders"))
    np.testing.assert_allclose(numeric.value[0], expected.value[0], rtol=1e-8)


@pytest.mark.parametrize("method", ["complex", "ridders"])
def test_nothing_f_does_to_its_arguments_is_seen(method):
    values = {"x": np.array([0.5, 1.5])}
    values["x"].flags.writeable = False

    def greedy(a):
        a["x"] *= a["x"]
        return {"y": a["x"]}

    numeric = at_entries(greedy, values, {"y": np.ones(2)}, {"x": [0, 1]}, method)["x"]
    np.testing.assert_allclose(numeric.value[0], [1.0, 3.0], rtol=1e-12)
    assert values["x"].tolist() == [0.5, 1.5]


def test_a_buffer_that_f_uses_again_is_read_in_time():
    buffer = np.empty(2)

    def f(a):
        buffer[...] = a["x"] ** 2
        return {"y": buffer}

    numeric = at_entries(f, {"x": np.array([1.0, 2.0])}, {"y": np.ones(2)}, {"x": [0, 1]},
                         "ridders")["x"]
    np.testing.assert_allclose(numeric.value[0], [2.0, 4.0], rtol=1e-12)


BUFFER = np.zeros(2)


def dropped(a):
    BUFFER[...] = a["x"] ** 2  # HERE
    return {"y": BUFFER.copy()}


def refused(a):
    if a["x"].dtype.kind == "c":
        raise TypeError("real numbers only")  # HERE
    return {"y": a["x"]}


@pytest.mark.parametrize("f, words", [(dropped, "the imaginary part of a complex argument is "
                                                "dropped"), (refused, "complex arguments are")])
def test_complex_step_says_why_and_where_it_cannot_be_used(f, words):
    with open(__file__, encoding="utf-8") as source:
        lines = [k for k, line in enumerate(source, start=1) if line.rstrip().endswith("# HERE")]
    line = lines[(dropped, refused).index(f)]
    with pytest.raises(NotAnalytic, match=rf"f: {words}.* at .*test_evaluate.py:{line}"):
        at_entries(f, {"x": np.ones(2)}, {"y": np.ones(2)}, {"x": [0, 1]})
    numeric = at_entries(f, {"x": np.ones(2)}, {"y": np.ones(2)}, {"x": [0, 1]}, "ridders")["x"]
    # while real numbers are fine
    assert np.isfinite(numeric.value).all()


def test_warnings_about_complex_numbers_are_errors_during_the_complex_run_only():
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        with pytest.raises(NotAnalytic):
            at_entries(dropped, {"x": np.ones(2)}, {"y": np.ones(2)}, {"x": [0]})
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
