"""The pages on speed agree with the result files."""

from __future__ import annotations

import json

import pytest

from backend.errors import UserError
from benchmarks import table
from benchmarks.__main__ import main

TIMING = {"median": 0.5, "low": 0.4, "high": 0.6, "best": 0.4}
SLOWER = TIMING | {"median": 1.25}
ENVIRONMENT = {"cpu": "a processor", "cores": 2, "versions": {"numpy": "2.4", "cupy": None},
               "thread_pools": [{"internal_api": "openblas", "version": "0.3",
                                 "architecture": "Haswell"}], "gpu": None}


def row(case, seconds, sizes=None, goals=None, **fields):
    """A row as the runner writes it."""
    return {"case": case, "sizes": sizes or {}, "amount": 100, "seconds": seconds, "absent": {},
            "goals": goals or {}, **fields}


PAIR = {"here": TIMING, "PyTorch": SLOWER}
RECIPE = row("demo", {"here": TIMING | {"median": 100 / 12345.6},
                      "PyTorch": TIMING | {"median": 100 / 12345.6 / 0.4},
                      "here, by part": TIMING}, parts={"encoder forward": 1.0, "rest": 3.0})
SIZES = {"parameters": 10**9, "gradients": 10**9, "saved": 2 * 10**9, "peaks": [1, 5 * 10**9]}
LAYER = {"T": 30, "B": 64, "H": 512}
BOTH = "LSTM layer, forward and backward"


def seconds(**medians):
    """Timings of these medians, by implementation."""
    return {name.replace("_", " "): {"median": median} for name, median in medians.items()}


ROWS = {
    "step": [row("global general, feeding", PAIR, goals={"PyTorch": 0.45})],
    "variants": [row("global dot, feeding", PAIR), row("RNNsearch", PAIR)],
    "recipes": [RECIPE], "recipes-large": [RECIPE | {"case": "thesis-size"}],
    "memory": [row("thesis-size", {}, bytes=SIZES, ratio=1.25)],
    "search": [row("greedy" if beam == 1 else f"beam {beam}", PAIR,
                   {"beam": beam, "sentences": n, "steps": 25},
                   {"PyTorch": 0.45} if (beam, n) == (10, 16) else {}) | {"amount": 15 * n}
               for beam in (1, 10) for n in (4, 16)],
    "kernels": [row(BOTH, {"NumPy": {"median": 0.5}, "nn.LSTM": {"median": 0.625},
                           "nn.LSTMCell loop": {"median": 1.0}}, LAYER, {"nn.LSTM": 0.95},
                    limit=1e11) | {"amount": 4e10}],
    "naive": [row(BOTH, {f"{n} form": {"median": 0.02 / n} for n in (1, 2)}, {"T": 30, "B": 8})],
    "scaling": [row("LSTM layer", {"64": {"median": 1.0}, "128": {"median": 2**1.84}},
                    letter="H", implementation="NumPy", fitted=["64", "128"],
                    operations={"64": 1.0, "128": 2**1.96})],
    "peers": [row(BOTH, {"thinc": {"median": 0.04}}, {"T": 30})
              | {"absent": {"other": "not right: dx by 1.0"}}],
    "checkers": [row("right functions", {}, right=90, wrong=228, checkers={
        "ours": {"false_alarms": ["a"], "misses": [], "unnamed": ["b"], "processor_seconds": 0.5},
        "theirs": {"false_alarms": [], "misses": ["c"], "processor_seconds": 2.0}})],
    "gradcheck": [row("a 2-layer translator", {
        "both methods": {"median": 1.0}, "complex step": {"median": 0.5},
        "torch.autograd.gradcheck": {"median": 10.0}}) | {"amount": 2736}],
    "attention": [row("local-m dot", {"40": {"median": 1.0}, "80": {"median": 2**0.02}},
                      letter="S", implementation="NumPy", fitted=["40", "80"],
                      operations={"40": 7, "80": 7}),
                  row("local-m dot, gradients of the memory", {}, operations={})],
}


def write(directory, kernels="native", only=None):
    """Result files of one kind of kernels."""
    for name, rows in ROWS.items():
        if only is None or name in only:
            record = {"benchmark": name, "options": {}, "environment": ENVIRONMENT, "rows": rows}
            (directory / f"{name}-{kernels}.json").write_text(json.dumps(record))


@pytest.fixture
def page(tmp_path):
    """The page of all tables, with the markers and an old figure between them."""
    for name in table.PAGES:
        (tmp_path / name).write_text(f"before\n{table.BEGIN}\nstale\n{table.END}\nafter\n")
    return tmp_path / "speed-tables.md"


def written(page, directory):
    """The page that the command has written."""
    main(["table", "--pages", str(page.parent), "--results", str(directory)])
    return page.read_text()


def test_the_page_is_what_the_files_say(capsys):
    main(["table", "--check"])  # otherwise run `python -m benchmarks table`
    assert capsys.readouterr().out == "".join(f"{name}: up to date\n" for name in table.PAGES)


def test_every_section(page, tmp_path):
    write(tmp_path)
    page = written(page, tmp_path)
    assert page.startswith(f"before\n{table.BEGIN}\n\n") and page.endswith(f"{table.END}\nafter\n")
    times = "500 ms | 1,250 ms | **0.40** | 0.45"
    for line in (
        "Measured on: older EPYC.",
        f"| training step, global general, input feeding | {times} |",
        f"| beam search, beam 10, 16 sentences, 25 steps | {times} |",
        "| training step, ms here / PyTorch, and ratio | feeding | no feeding |",
        "| global dot | 500 / 1,250 **0.40** |  |", "| RNNsearch |  | 500 / 1,250 **0.40** |",
        "| the same, ours against others | T=30 |",
        "| thinc | 40 |", "| other | not right |",
        "| an LSTM layer's forward and backward, ms | T=30 B=8 |",
        "| 2 form | 10 |",
        "| LSTM layer, NumPy | H | 1.84 | 1.96 |",
        "| LSTM layer, T=30 B=64 H=512, against nn.LSTM | 500 ms | 625 ms | **0.80** | 0.95 |",
        "| LSTM layer, T=30 B=64 H=512, forward and backward | 100 GFLOP/s | 80 GFLOP/s "
        "| **80%** | 88% |",
        "| 2,736 entries | 1.00 s | 0.50 s | 10.00 s | **0.10** | **0.05** |",
        "| `ours` | **1** of 90 | **0** of 228 | 227 of 228 | 0.5 s |",
        "| `theirs` | **0** of 90 | **1** of 228 | none | 2.0 s |",
        "| attention to the source, local-m dot, NumPy | S | 0.02 | 0.00 |",
        "| [`demo`](../nmt/recipes/demo.yaml) | 12,346 | 4,938 | **0.40** |",
        "| `thesis-size` | 12,346 | 4,938 | **0.40** |",
        "| encoder forward | 25 % | 25 % |",
        "| `thesis-size` | 1.00 GB | 1.00 GB | 2.00 GB | 4.00 GB | 5.00 GB | **1.25** | 1.5 |",
        "| greedy | 120 / 48 | 480 / 192 |",
        "- older EPYC: a processor, 2 cores, openblas 0.3 Haswell, numpy 2.4",
        "- on a GPU: not run",
    ):
        assert f"\n{line}\n" in page, line
    assert "stale" not in page


def test_the_short_page_has_a_row_for_each_work_and_a_column_for_each_processor(page, tmp_path):
    write(tmp_path)
    (tmp_path / "step-native-Xeon.json").write_text((tmp_path / "step-native.json").read_text())
    written(page, tmp_path)
    short = (tmp_path / "speed.md").read_text().split("\n")
    assert "| our time / PyTorch's | older EPYC | Xeon |" in short
    assert "| training step, global general, input feeding | **0.40** | **0.40** |" in short
    assert "| beam search, beam 10, 16 sentences, 25 steps | **0.40** |  |" in short
    assert sum(line.startswith("| ") for line in short) <= 20


def test_every_table_has_as_many_cells_in_every_row(page, tmp_path):
    for kernels in ("haswell", "native", "gpu"):
        write(tmp_path, kernels)
    for block in written(page, tmp_path).split("\n\n"):
        lines = [line for line in block.split("\n") if line.startswith("|")]
        assert len({line.count("|") for line in lines}) <= 1, block


def test_what_is_missing_is_left_out(page, tmp_path):
    write(tmp_path, "haswell", only=["search"])
    page = written(page, tmp_path)
    assert "training step" not in page and "`demo`" not in page
    assert "Measured on: older EPYC, Haswell kernels." in page
    assert "| **0.40** | 0.45 |" in page and "on a GPU: not run" in page


def test_each_device_has_its_own_implementations(page, tmp_path, monkeypatch):
    """On a GPU, CuPy is compared with CUDA; only rows with goals show them."""
    for kernels, ours, theirs in (("haswell", 0.5, 0.625), ("gpu", 0.01, 0.02)):
        name = "CuPy" if kernels == "gpu" else "NumPy"
        seconds = {name: {"median": ours}, "nn.LSTM": {"median": theirs}}
        if kernels == "haswell":
            seconds |= {"nn.LSTMCell loop": {"median": 1.0}}
        monkeypatch.setitem(ROWS, "kernels", [row(BOTH, seconds, LAYER, limit=1e11)])
        write(tmp_path, kernels, only=["kernels"])
    page = written(page, tmp_path)
    layer = "| LSTM layer, T=30 B=64 H=512, against"
    haswell = f"| older EPYC, Haswell kernels {layer}"
    for line in (f"{haswell} nn.LSTM | 500 ms | 625 ms | **0.80** |  |",
                 f"{haswell} nn.LSTMCell loop | 500 ms | 1,000 ms | **0.50** |  |",
                 f"| GPU {layer} nn.LSTM | 10 ms | 20 ms | **0.50** |  |"):
        assert f"\n{line}\n" in page, line
    assert page.count(layer) == 3


def test_tf32_has_rows_of_its_own(page, tmp_path):
    write(tmp_path, "gpu", only=["recipes"])
    (tmp_path / "recipes-gpu.json").rename(tmp_path / "recipes-tf32-gpu.json")
    write(tmp_path, "gpu", only=["recipes"])
    page = written(page, tmp_path)
    demo = "[`demo`](../nmt/recipes/demo.yaml) | 12,346 |"
    assert f"| GPU, TF32 | {demo}" in page and f"| GPU | {demo}" in page


def test_the_newest_processor_stands_for_all(page, tmp_path):
    write(tmp_path, only=["search", "recipes"])
    write(tmp_path, "haswell", only=["recipes"])
    (tmp_path / "recipes-native-Xeon.json").write_text(
        (tmp_path / "recipes-native.json").read_text())
    (tmp_path / "recipes-native.json").rename(tmp_path / "recipes-native-Zen5.json")
    (tmp_path / "unknown.json").write_text((tmp_path / "search-native.json").read_text())
    page = written(page, tmp_path)
    assert page.count("| 12,346 |") == 1 and page.count("Measured on: EPYC (Zen 5).") == 2
    assert "- EPYC (Zen 5); older EPYC: a processor" in page and "Haswell kernels" not in page


def test_a_gpu_is_named_where_there_is_one(page, tmp_path):
    write(tmp_path, "gpu", only=["recipes"])
    page = written(page, tmp_path)
    assert "not run" not in page and "Measured on: GPU." in page
    assert "- GPU: a processor" in page


def test_without_any_file(page, tmp_path):
    assert "\n\n- on a GPU: not run\n\n" in written(page, tmp_path)


def test_writing_twice_changes_nothing(page, tmp_path, capsys):
    write(tmp_path)
    assert written(page, tmp_path) == written(page, tmp_path)
    assert capsys.readouterr().out == "".join(
        f"{name}: {state}\n" for state in ("written", "up to date") for name in table.PAGES)


def test_check_changes_nothing_and_fails(page, tmp_path, capsys):
    before = page.read_text()
    with pytest.raises(SystemExit, match="2"):
        main(["table", "--check", "--pages", str(page.parent), "--results", str(tmp_path)])
    assert page.read_text() == before
    assert "run `python -m benchmarks table`" in capsys.readouterr().err


def test_a_page_without_markers(tmp_path, capsys):
    (tmp_path / "speed.md").write_text("nothing")
    with pytest.raises(SystemExit, match="2"):
        main(["table", "--pages", str(tmp_path), "--results", str(tmp_path)])
    assert "speed.md: expected the markers" in capsys.readouterr().err


def test_a_quick_run_is_no_measurement(tmp_path):
    quick = {"options": {"quick": True}, "rows": []}
    (tmp_path / "search-native.json").write_text(json.dumps(quick))
    with pytest.raises(UserError, match=r"search-native\.json: expected a measurement"):
        table.read(tmp_path)
