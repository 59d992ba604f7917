"""The counts of `benchmarks.counting`, and the costs of local attention by them."""

from __future__ import annotations

import os

import numpy as np
import pytest
from timed import cases, parse, run

from attention.local import LocalMemory
from attention.scores import Variant
from benchmarks import attention, records, timing
from benchmarks.counting import counted, counting
from benchmarks.devices import CPU
from benchmarks.timing import blas_kernels

SMALL = ["--output", os.devnull, "--batch", "2", "--hidden", "5", "--steps", "3"]


@pytest.mark.parametrize("act, expected", [
    (lambda a: a @ a.T, 2 * 3 * 4 * 3),
    (lambda a: np.matmul(a, a[0]), 2 * 3 * 4),
    (lambda a: a * 2.0 + 1.0, 24),
    (lambda a: np.tanh(a, out=np.empty((3, 4))), 12),
    (lambda a: a.sum(axis=0), 12),
    (lambda a: a.reshape(4, 3)[1:].T.copy(), 0),
])
def test_operations_are_counted(act, expected):
    assert counted(lambda: act(counting(np.ones((3, 4))))) == expected


def test_counting_changes_nothing():
    a = np.arange(6.0).reshape(2, 3)
    b = counting(a.copy())
    b += 1.0
    np.testing.assert_array_equal(np.asarray(b @ b.T), (a + 1.0) @ (a + 1.0).T)


@pytest.mark.parametrize("score", ["dot", "general", "concat", "additive"])
@pytest.mark.parametrize("window", ["local-m", "local-p"])
def test_a_local_step_does_not_cost_more_in_a_longer_source(score, window):
    """Operations of a step forward and backward; those of global attention do grow."""
    options = parse("attention", SMALL)

    def cost(variant, S):
        return attention.count(attention.make_task(variant, S, options, "float64"))

    assert cost(Variant(score, window, D=2), 40) == cost(Variant(score, window, D=2), 320) > 0
    assert cost(Variant(score), 320) > 3 * cost(Variant(score), 40)


def test_exponents_are_fitted_above_the_window():
    costs = {str(S): 5.0 if S <= 21 else 7.0 * S**1.5 for S in (10, 20, 40, 80)}
    assert abs(records.exponent({"fitted": ["40", "80"]}, costs) - 1.5) < 1e-12
    (first, *_) = cases("attention", ["--quick", *SMALL[:2]])  # D = 1
    assert first.prepare(CPU).fields({})["fitted"] == ["6", "12"]


def test_a_quick_run_writes_its_record_and_picture(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(timing, "ITERATIONS", (2, 2))
    path, record = run("attention", tmp_path)
    assert path.name == f"attention-{blas_kernels()}.json"
    assert {file.name for file in tmp_path.iterdir()} == {path.name, path.with_suffix(".png").name}
    names = [row["case"] for row in record["rows"]]
    assert len(names) == 3 * len(attention.VARIANTS) and set(names) > attention.VARIANTS.keys()
    assert "output" not in record["options"]
    for row in record["rows"]:
        assert row["seconds"].keys() == {"3", "6", "12"}
        assert all(0 < timing["low"] <= timing["median"] <= timing["high"]
                   for timing in row["seconds"].values())
        assert set(row["operations"]) == (set(row["seconds"]) if row["case"] in attention.VARIANTS
                                          else set())
    assert "local-p general, time ~ S^" in capsys.readouterr().out


def test_a_mistake_is_noticed_before_anything_is_timed(monkeypatch):
    options = parse("attention", SMALL)
    task = attention.make_task(Variant("general", "local-m", D=2), 9, options, "float64")
    attention.check("right", task)
    for method, message in (("attend", "wrong, S=9: context"),
                            ("gradients", "wrong, S=9: gradient")):
        with monkeypatch.context() as patch:
            patch.setattr(LocalMemory, method, slightly_off(getattr(LocalMemory, method)))
            with pytest.raises(AssertionError, match=message):
                attention.check("wrong", task)


def slightly_off(function):
    """The function with the first array that it returns a billionth larger."""
    def wrong(*args):
        first, second = function(*args)
        return first * (1 + 1e-9), second
    return wrong
