"""Checkers on the corpus: their errors are counted and named."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest
from timed import run

from backend.errors import UserError
from benchmarks import gradcheck as checkers
from benchmarks.timing import blas_kernels
from grads.check.case import Case


def double(slope):
    """A case of y = 2 x, and a gradient that says `slope`."""
    return Case({"x": np.array([1.0, -2.0])}, lambda a: ({"y": 2 * a["x"]}, None),
                lambda d, _: {"x": slope * d["y"]})


def test_quick(tmp_path):
    path, record = run("checkers", tmp_path)
    assert path.name == f"checkers-{blas_kernels()}.json"
    (row,) = record["rows"]
    assert next(iter(row["checkers"])) == checkers.OURS
    assert row["right"] >= 3 and row["wrong"] == row["right"]
    assert all(scores["processor_seconds"] > 0 for scores in row["checkers"].values())


def test_false_alarms_and_misses_are_named():
    right, wrong = {"right": double(2.0)}, {"wrong": double(2.1)}
    nothing = {"false_alarms": [], "misses": []}

    def scored(check):
        scores = checkers.measure(check, right, wrong)
        assert scores.pop("slowest")["name"] == "right"
        assert scores.pop("processor_seconds") >= 0
        return scores

    assert scored(lambda case: True) == nothing | {"misses": ["wrong"]}
    assert scored(lambda case: False) == nothing | {"false_alarms": ["right"]}
    assert scored(lambda case: 1 / 0) == nothing | {"false_alarms": ["right"]}


@pytest.mark.parametrize("library, name", [
    (None, checkers.OURS), ("torch", checkers.GRADCHECK), ("jax", checkers.CHECK_GRADS)])
def test_each_checker_knows_right_from_wrong(library, name):
    if library is not None and find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    check = checkers.make_checks()[name]
    assert check(double(2.0)) and not check(double(2.01))
    assert not check(double(np.array([2.0, 2.01])))


def test_what_is_not_installed_is_said(monkeypatch, capsys):
    monkeypatch.setattr(checkers, "find_spec", lambda library: None)
    assert list(checkers.make_checks()) == [checkers.OURS]
    assert "jax check_grads: not run: jax is not installed" in capsys.readouterr().out


def test_without_the_corpus(monkeypatch, tmp_path):
    monkeypatch.setattr(checkers, "CORPUS", tmp_path / "none.py")
    with pytest.raises(UserError, match="the corpus is not installed; run it in a checkout"):
        run("checkers", tmp_path)


def test_a_scalars_backward_follows_the_upstream_gradient():
    corpus = checkers.load_module(checkers.CORPUS)
    pair = next(pair for pair in corpus.PAIRS if pair.scalar)
    case = checkers.make_case(pair)
    by_one, three = (case.gradients(case.inputs, {"f": np.array(d)}) for d in (1.0, 3.0))
    assert all(np.array_equal(three[name], 3.0 * by_one[name]) for name in by_one)
