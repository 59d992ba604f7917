"""All benchmarks run, find equal results, and write their records into a temporary directory."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest
from strict.module import strict
from timed import declared, run

from benchmarks import __main__ as suite
from benchmarks import kernel_list, kernels, runner, table, timing
from benchmarks.case import furthest
from benchmarks.devices import CPU, Device
from benchmarks.kernel_list import all_kernels, recurrent
from benchmarks.pictures import draw_record, figure_of
from benchmarks.timing import KERNELS

TORCH = pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch (extra `oracle`) is missing")
QUICK = ["--quick", "--seconds", "0.01"]
NAMES = ("crossover", "kernels", "naive", "peers", "scaling")


@pytest.fixture(autouse=True)
def _few_iterations(monkeypatch):
    monkeypatch.setattr(timing, "ITERATIONS", (2, 2))


@pytest.fixture(scope="module")
def every_kernel():
    """Every kernel, tiny."""
    return list(all_kernels(quick=True))


@TORCH
@pytest.mark.parametrize("name", NAMES)
def test_a_quick_run_writes_its_record_and_picture(name, tmp_path, capsys):
    path, record = run(name, tmp_path, *(["--only", "step"] if name == "kernels" else []))
    assert path.name.startswith(f"{name}-")
    assert record["benchmark"] == name
    assert record["options"]["quick"] and "output" not in record["options"]
    assert str(tmp_path) not in path.read_text(encoding="utf-8")
    assert record["environment"]["cores"] >= 1
    timings = [seconds for row in record["rows"] for seconds in row["seconds"].values()]
    assert timings
    for seconds in timings:
        assert 0 < seconds["best"] <= seconds["low"] <= seconds["median"] <= seconds["high"]
    if find_spec("matplotlib") is not None:
        picture = path.with_suffix(".png").read_bytes()
        assert picture.startswith(b"\x89PNG") and len(picture) > 10_000
    printed = capsys.readouterr().out
    assert KERNELS[record['environment']['kernels']] in printed and path.name in printed


@TORCH
def test_every_kernel_agrees_with_pytorch(every_kernel):
    for kernel in every_kernel:
        for pass_ in kernel.work:
            prepared = kernel.prepare(pass_, CPU)
            assert set(prepared.calls) == {"NumPy", *kernel.theirs}, kernel.name
            assert set(prepared.differences) == set(kernel.theirs) != set()


def test_a_kernel_runs_on_the_gpus_stand_in(every_kernel):
    stand_in = Device("stand-in", strict, None, lambda: None)
    for kernel in every_kernel:
        for pass_ in kernel.work:
            prepared = kernel.prepare(pass_, stand_in)
            assert list(prepared.calls) == list(prepared.differences) == ["CuPy"], kernel.name


def test_a_wrong_gradient_is_not_timed():
    kernel = recurrent.layer("lstm", 3, 2, 4)

    def broken(a):
        passes = recurrent.our_layer("lstm", a)

        def both():
            results = dict(passes.run["both"]())
            return results | {"dx": 1.01 * results["dx"]}

        return passes._replace(run={**passes.run, "both": both})

    wrong = replace(kernel, theirs={}, others={"broken": broken})
    options = Namespace(seconds=0.01, quick=True)
    forward, both = wrong.cases()
    with pytest.raises(AssertionError, match=r"broken and NumPy differ in both, dx: 1\.0e-02"):
        runner.run_case(both, CPU, options)
    assert runner.run_case(forward, CPU, options)["seconds"]["broken"]["median"] > 0


@pytest.mark.parametrize("got, size", [
    ({"h": np.ones(2)}, 0.0), ({"h": np.full(2, 1.5)}, 0.5), ({"h": np.ones(3)}, np.inf),
    ({"h": np.array([1, np.nan])}, np.inf), ({}, np.inf), ({"h": np.ones(2), "c": 1}, np.inf),
])
def test_furthest(got, size):
    assert furthest(got, {"h": np.ones(2)}).size == pytest.approx(size)


def test_zeros_equal_nothing():
    assert furthest({"h": np.zeros(2)}, {"h": np.zeros(2)}).size == np.inf


def test_without_a_gpu_the_column_says_not_run(tmp_path):
    _, record = run("crossover", tmp_path, "--device", "cpu")
    assert len(record["rows"]) == 4
    for row in record["rows"]:
        assert row["absent"] == {"CuPy": "not run: no GPU"} and list(row["seconds"]) == ["NumPy"]


def test_on_a_device_cupy_stands_beside_numpy(tmp_path):
    _, record = run("crossover", tmp_path, "--device", "stand-in")
    for row in record["rows"]:
        assert list(row["seconds"]) == ["NumPy", "CuPy"] and row["differences"]["CuPy"] < 1e-4


def test_without_matplotlib_the_numbers_are_written(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("benchmarks.pictures.find_spec", lambda name: None)
    path, record = run("naive", tmp_path)
    assert record["rows"] and not path.with_suffix(".png").exists()
    assert "no picture: matplotlib is not installed" in capsys.readouterr().out


@pytest.mark.skipif(find_spec("matplotlib") is None, reason="matplotlib is not installed")
@pytest.mark.parametrize("only, panels", [("step", 1), ("GRU layer, forward  T", 0)])
def test_without_pytorch_the_panel_of_comparisons_is_left_out(
    only, panels, monkeypatch, tmp_path, capsys
):
    monkeypatch.setattr("benchmarks.kernel.find_torch", lambda: None)
    drawn = []
    monkeypatch.setattr("benchmarks.pictures.figure_of", lambda plt, chart, environment:
                        drawn.append(len(chart.panels)) or figure_of(plt, chart, environment))
    _, record = run("kernels", tmp_path, "--only", only)
    assert {name for row in record["rows"] for name in row["seconds"]} == {"NumPy"}
    assert drawn == [panels] * bool(panels)
    assert ("no picture: nothing was compared" in capsys.readouterr().out) == (not panels)


def test_an_unknown_kernel_is_refused(tmp_path, capsys):
    with pytest.raises(SystemExit, match="2"):
        suite.main(["kernels", *QUICK, "--output", str(tmp_path), "--only", "nothing"])
    assert "--only: expected words of one of LSTM layer, forward" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name, option", [("kernels", ["--quick"]), ("search", ["--beams", "3"])])
def test_a_part_does_not_replace_the_record(name, option, capsys):
    with pytest.raises(SystemExit, match="2"):
        suite.main([name, *option])
    assert f"{option[0]}: needs --output DIR" in capsys.readouterr().err


def test_pictures_of_a_gpu_run(tmp_path):
    plt = pytest.importorskip("matplotlib.pyplot")
    rows = [{"sizes": {"B": B, "H": H}, "seconds": {
        "NumPy": {"median": 1e-3 * B}, "CuPy": {"median": 2e-3}}} for B in (1, 4) for H in (8, 16)]
    record = {"rows": rows, "environment": {"cpu": "a processor", "cores": 2, "kernels": "native"}}
    chart = kernels.crossover_chart(record)
    draw_record(tmp_path / "crossover.png", chart, record)
    assert (tmp_path / "crossover.png").stat().st_size > 10_000
    figure = figure_of(plt, chart, record["environment"])
    last = figure.axes[1]
    drawn = {line.get_label(): list(line.get_ydata()) for line in last.lines}
    assert drawn["batch 1"] == [0.5, 0.5] and drawn["batch 4"] == [2.0, 2.0]
    assert [1, 1] in drawn.values(), "the line where both are as fast"
    assert "CuPy" in last.get_ylabel()
    plt.close(figure)


@pytest.mark.parametrize("kernels, expected", [
    ("native", [1.3, 1.1, 0.95, 0.97]), ("haswell", [None] * 4)])
def test_goals_are_those_of_the_kernels(monkeypatch, kernels, expected):
    monkeypatch.setattr(kernel_list, "blas_kernels", lambda: kernels)
    passes = [list(layer.cases()) for layer in kernel_list.lstm_layers(quick=False)]
    assert [both.goals.get("nn.LSTM") for _, both in passes] == expected
    assert not any(forward.goals for forward, _ in passes)


def test_pictures_are_drawn_again_without_measuring(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    table.redraw(["--only", "search-native", "gradcheck-native", "--format", "svg", "pdf",
                 "--output", str(tmp_path)])
    assert capsys.readouterr().out.count("drawn: ") == 4
    assert (tmp_path / "search-native.pdf").read_bytes().startswith(b"%PDF")
    assert "<svg" in (tmp_path / "gradcheck-native.svg").read_text("utf-8")
    for stem, record in table.read(runner.RESULTS).items():
        chart = declared(record["benchmark"]).chart
        assert chart(record).panels if chart else record["benchmark"] == "checkers", stem
    table.redraw(["--only", "checkers-native", "--output", str(tmp_path)])
    assert "checkers-native: its benchmark has no picture" in capsys.readouterr().out
    assert not (tmp_path / "checkers-native.png").exists()


@pytest.mark.parametrize(("name", "expected"), [
    ("nothing-native", "nothing-native.json: cannot be read: No such file"),
    ("search", "KeyError('benchmark')")])
def test_records_that_cannot_be_drawn_are_reported(name, expected, tmp_path, capsys):
    if name != "nothing-native":
        (tmp_path / f"{name}.json").write_text("{}")
    with pytest.raises(SystemExit, match="2"):
        suite.main(["redraw", "--only", name, "--results", str(tmp_path)])
    assert expected in capsys.readouterr().err
