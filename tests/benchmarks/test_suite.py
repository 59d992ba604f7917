"""The suite's benchmarks run, agree and write what they print, into a temporary directory."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec

import numpy as np
import pytest
from strict.module import strict

from benchmarks import __main__ as suite
from benchmarks import paired
from benchmarks.implementations import (
    check_equal,
    furthest,
    implementations_of,
    our_implementation,
)
from benchmarks.kernel_list import all_kernels, recurrent
from benchmarks.timing import KERNELS

TORCH = pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch (extra `oracle`) is missing")
QUICK = ["--quick", "--seconds", "0.01"]
NAMES = ("crossover", "kernels", "naive", "peers", "scaling")


@pytest.fixture(autouse=True)
def _few_iterations(monkeypatch):
    monkeypatch.setattr(paired, "ITERATIONS", (2, 2))


@pytest.fixture(scope="module")
def kernels():
    """Every kernel, tiny."""
    return [make() for make in all_kernels(quick=True)]


def run(name, directory, *more):
    """The record of a quick run."""
    assert suite.main([name, *QUICK, "--output", str(directory), *more]) == 0
    (path,) = directory.glob("*.json")
    return path, json.loads(path.read_text(encoding="utf-8"))


@TORCH
@pytest.mark.parametrize("name", NAMES)
def test_a_quick_run_writes_its_record_and_picture(name, tmp_path, capsys):
    path, record = run(name, tmp_path, *(["--only", "step"] if name == "kernels" else []))
    assert path.name.startswith(f"{name}-")
    assert record["benchmark"] == name
    assert record["options"]["quick"] and "output" not in record["options"]
    assert str(tmp_path) not in path.read_text(encoding="utf-8")
    assert record["environment"]["cores"] >= 1
    timed = [row for row in record["rows"] if row["median"] is not None]
    assert timed
    for row in timed:
        assert 0 < row["best"] <= row["low"] <= row["median"] <= row["high"]
    if find_spec("matplotlib") is not None:
        picture = path.with_suffix(".png").read_bytes()
        assert picture.startswith(b"\x89PNG") and len(picture) > 10_000
    printed = capsys.readouterr().out
    assert KERNELS[record['environment']['kernels']] in printed and path.name in printed


@TORCH
def test_every_kernel_agrees_with_pytorch(kernels):
    for kernel in kernels:
        found = check_equal(implementations_of(kernel))
        assert {name for name, _ in found} >= set(kernel.theirs), kernel.name
        assert kernel.theirs


def test_a_kernel_runs_on_the_gpus_stand_in(kernels):
    for kernel in kernels:
        both = {"NumPy": our_implementation(kernel, "numpy", lambda: None),
                "strict": our_implementation(kernel, strict, lambda: None)}
        assert check_equal(both)
        assert both["strict"].gpu and not both["NumPy"].gpu


def test_a_wrong_gradient_is_not_timed(kernels):
    kernel = recurrent.layer("lstm", 3, 2, 4)

    def broken(a):
        passes = recurrent.our_layers("lstm", a)

        def both():
            results = dict(passes.run["both"]())
            return results | {"dx": 1.01 * results["dx"]}

        return passes._replace(run={**passes.run, "both": both})

    wrong = replace(kernel, theirs={}, others={"broken": broken})
    with pytest.raises(AssertionError, match=r"broken and NumPy differ in both, dx: 1\.0e-02"):
        paired.run_kernel(wrong, 0.01, quick=True)
    rows = paired.run_kernel(wrong, 0.01, quick=True, doubted={"broken"})
    (row,) = [row for row in rows if (row["implementation"], row["pass"]) == ("broken", "both")]
    assert row["median"] is None
    assert row["note"] == "wrong, not timed: dx differs by 0.01 of its norm"
    (row,) = [row for row in rows if (row["implementation"], row["pass"]) == ("broken", "forward")]
    assert row["median"] > 0


@pytest.mark.parametrize("got, size", [
    ({"h": np.ones(2)}, 0.0), ({"h": np.full(2, 1.5)}, 0.5), ({"h": np.ones(3)}, np.inf),
    ({"h": np.array([1, np.nan])}, np.inf), ({}, np.inf), ({"h": np.ones(2), "c": 1}, np.inf),
])
def test_furthest(got, size):
    assert furthest(got, {"h": np.ones(2)}).size == pytest.approx(size)


def test_zeros_agree_with_nothing():
    assert furthest({"h": np.zeros(2)}, {"h": np.zeros(2)}).size == np.inf


def test_without_a_gpu_the_column_says_not_run(monkeypatch, tmp_path):
    for module in ("paired", "implementations", "crossover"):
        monkeypatch.setattr(import_module(f"benchmarks.{module}"), "find_cupy",
                            lambda: (None, "no GPU"))
    _, record = run("crossover", tmp_path)
    rows = [row for row in record["rows"] if row["implementation"] == "CuPy"]
    assert len(rows) == 4
    assert all(row["median"] is None and row["note"] == "not run: no GPU" for row in rows)


def test_without_matplotlib_the_numbers_come_all_the_same(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("benchmarks.pictures.find_spec", lambda name: None)
    path, record = run("naive", tmp_path)
    assert record["rows"] and not path.with_suffix(".png").exists()
    assert "no picture: matplotlib is not installed" in capsys.readouterr().out


def test_what_no_kernel_is_called_is_refused(tmp_path, capsys):
    assert suite.main(["kernels", *QUICK, "--output", str(tmp_path), "--only", "nothing"]) == 2
    assert "no kernel's name contains 'nothing'" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("part", [["--quick"], ["--only", "step"]])
def test_a_part_does_not_replace_the_record(part, capsys):
    assert suite.main(["kernels", *part]) == 2
    assert f"{part[0]}: expected --output DIR" in capsys.readouterr().err


def test_pictures_of_a_gpu_run(tmp_path):
    from benchmarks import crossover
    from benchmarks.pictures import draw

    pytest.importorskip("matplotlib")
    rows = [{"sizes": {"B": B, "H": H}, "implementation": name, "rate": 1e9,
             "median": ms * (1 if name == "CuPy" else B)}
            for B in (1, 4) for H in (8, 16) for name, ms in (("NumPy", 1e-3), ("CuPy", 2e-3))]
    made = {}
    environment = {"cpu": "a processor", "cores": 2, "kernels": "native"}

    def make(plt):
        made["figure"] = crossover.picture(plt, {"rows": rows, "environment": environment})
        return made["figure"]

    draw(tmp_path / "crossover.png", make)
    last = made["figure"].axes[2]
    assert [text.get_text() for text in last.texts] == ["0.5", "0.5", "2", "2"]
    assert "not run" not in last.get_title()
    assert last.collections, "the line where both are as fast"


def test_the_doubted_may_be_wrong_and_others_not(kernels):
    kernel = kernels[0]
    with pytest.raises(AssertionError, match="NumPy differ in forward, h"):
        check_equal(implementations_of(kernel) | {"other": our_implementation(
            replace(kernel, inputs={**kernel.inputs, "x": kernel.inputs["x"] * 1.001}), "numpy",
            lambda: None)})


@pytest.mark.parametrize("kernels, expected", [
    ("native", [1.2, 0.95, 0.97]), ("haswell", [None] * 3)])
def test_goals_are_those_of_the_kernels(monkeypatch, kernels, expected):
    from benchmarks import kernel_list

    monkeypatch.setattr(kernel_list, "blas_kernels", lambda: kernels)
    goals = [dict(make.args[-1] or {}) for make in kernel_list.lstm_layers(quick=False)]
    assert [goal.get(("nn.LSTM", "both")) for goal in goals] == expected


def test_pictures_are_drawn_again_without_measuring(tmp_path, capsys):
    from benchmarks import redraw
    from benchmarks.record import RESULTS

    pytest.importorskip("matplotlib")
    redraw.main(["--only", "search-native", "gradcheck-native", "--format", "svg", "pdf",
                 "--output", str(tmp_path)])
    assert capsys.readouterr().out.count("drawn: ") == 4
    assert (tmp_path / "search-native.pdf").read_bytes().startswith(b"%PDF")
    assert "<svg" in (tmp_path / "gradcheck-native.svg").read_text("utf-8")
    assert all(callable(redraw.picture_of(path.stem)) for path in RESULTS.glob("*.json"))


@pytest.mark.parametrize(("name", "expected"), [
    ("nothing-native", "expected a result file"), ("search", "expected a name that ends in"),
    ("other-native", "expected the name of a benchmark")])
def test_what_cannot_be_drawn_again_is_told(name, expected, tmp_path, capsys):
    if name != "nothing-native":
        (tmp_path / f"{name}.json").write_text("{}")
    assert suite.main(["redraw", "--only", name, "--results", str(tmp_path)]) == 2
    assert expected in capsys.readouterr().err
