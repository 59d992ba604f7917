"""The page of speed says what the result files say."""

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
RECIPE = {"recipe": "demo", "device": "cpu", "target_tokens": 100,
          "seconds": {"ours": TIMING, "split": TIMING, "pytorch": SLOWER},
          "tokens_per_second": {"ours": 12345.6, "pytorch": 80.0}, "ratio": 0.4,
          "parts": {"encoder forward": 1.0, "rest": 3.0}}
SIZES = {"parameters": 10**9, "gradients": 10**9, "saved": 2 * 10**9, "peaks": [1, 5 * 10**9]}
ROWS = {
    "recipes": [RECIPE], "recipes-large": [RECIPE | {"recipe": "thesis-size"}],
    "memory": [{"recipe": "thesis-size", "bytes": SIZES, "ratio": 1.25}],
    "search": [{"beam": beam, "sentences": n, "steps": 25, "ratio": 0.4,
                "seconds": {"ours": TIMING, "pytorch": SLOWER},
                "sentences_per_second": {"ours": 30.0 * n, "pytorch": 12.0}}
               for beam in (1, 10) for n in (4, 16)],
    "kernels": [{"kernel": "LSTM layer", "sizes": {"T": 30, "B": 64, "H": 512}, "pass": "both",
                 "implementation": name, "median": median, "rate": 8e10, "roofline": 1e11,
                 "fraction": 0.8}
                for name, median in (("NumPy", 0.5), ("nn.LSTM", 0.625), ("nn.LSTMCell loop", 1.0),
                                     ("CuPy", 0.01), ("nn.LSTM, CUDA", 0.02))],
}
ROWS |= {
    "naive": [{"form": f"{n} form", "sizes": {"T": 30, "B": 8}, "median": 0.02 / n}
              for n in (1, 2)],
    "scaling": [{"sweep": "LSTM layer", "letter": "H", "value": n, "implementation": "NumPy",
                 "exponent": 1.84, "expected": 1.96} for n in (64, 128)],
}
ROWS["peers"] = [{"implementation": name, "sizes": {"T": 30}, "pass": "both", "median": median,
                  "note": note}
                 for name, median, note in (("thinc", 0.04, None),
                                            ("other", None, "not right: dx by 1.0"))]
ROWS["checkers"] = [{"checker": "ours", "right": 90, "wrong": 228, "false_alarms": ["a"],
                     "misses": [], "seconds": TIMING}]
VARIANTS = {"global dot, feeding": {"seconds": {"ours": TIMING, "pytorch": SLOWER}, "ratio": 0.4}}
CHECK = {"environment": ENVIRONMENT, "entries": 2736,
         "ratios": {"both methods": 0.1, "complex step": 0.05, "gradcheck": 1.0},
         "seconds": {"both methods": {"median": 1.0}, "complex step": {"median": 0.5},
                     "gradcheck": {"median": 10.0}}}
ATTENTION = {"environment": ENVIRONMENT, "options": {},
        "variants": {"local-m dot": {"exponents": {"step": 0.02, "operations": 0.0}}}}
STEP = {"options": {"no_feeding": False}, "environment": ENVIRONMENT, "ratio": 0.4,
        "seconds": {"ours": TIMING, "pytorch": SLOWER}}


def write(directory, kernels="native", only=None):
    """Result files of one kind of kernels."""
    for name, rows in ROWS.items():
        if only is None or name in only:
            record = {"benchmark": name, "options": {}, "environment": ENVIRONMENT, "rows": rows}
            (directory / f"{name}-{kernels}.json").write_text(json.dumps(record))
    if only is None:
        (directory / f"step-{kernels}.json").write_text(json.dumps(STEP))
        (directory / f"gradcheck-{kernels}.json").write_text(json.dumps(CHECK))
        (directory / f"attention-{kernels}.json").write_text(json.dumps(ATTENTION))
        record = {"environment": ENVIRONMENT, "rows": VARIANTS}
        (directory / f"variants-{kernels}.json").write_text(json.dumps(record))


@pytest.fixture
def page(tmp_path):
    """A page with the markers and an old figure between them."""
    path = tmp_path / "page.md"
    path.write_text(f"before\n{table.BEGIN}\nold\n{table.END}\nafter\n")
    return path


def made(page, directory):
    """The page after the command."""
    assert main(["table", "--page", str(page), "--results", str(directory)]) == 0
    return page.read_text()


def test_the_page_is_what_the_files_say(capsys):
    assert main(["table", "--check"]) == 0, "run `python -m benchmarks table`"
    assert capsys.readouterr().out == "speed.md: up to date\n"


def test_every_section(page, tmp_path):
    write(tmp_path)
    page = made(page, tmp_path)
    assert page.startswith(f"before\n{table.BEGIN}\n\n") and page.endswith(f"{table.END}\nafter\n")
    times = "500 ms | 1,250 ms | **0.40** | 0.45"
    for line in (
        f"| training step, global general, input feeding | native | {times} |",
        f"| beam search, beam 10, 16 sentences, 25 steps | native | {times} |",
        "| training step, here / PyTorch | native, ms | native, ratio |",
        "| global dot, feeding | 500 / 1,250 | **0.40** |",
        "| the same, ours against others | T=30, native |",
        "| thinc | 40 |", "| other | not right |",
        "| an LSTM layer's forward and backward, ms | T=30 B=8, native |",
        "| 2 form | 10 |",
        "| LSTM layer, NumPy | H | native | 1.84 | 1.96 |",
        "| LSTM layer, T=30 B=64 H=512, against nn.LSTM | native | 500 ms | 625 ms | **0.80** "
        "| 0.95 |",
        "| LSTM layer, T=30 B=64 H=512, forward and backward | native | 100 GFLOP/s | 80 GFLOP/s "
        "| **80%** | 88% |",
        "| 2,736 entries | native | 1.00 s | 0.50 s | 10.00 s | **0.10** | **0.05** |",
        "| `ours` | native | **1** of 90 | **0** of 228 | 500 ms |",
        "| attention to the source, local-m dot, NumPy | S | native | 0.02 | 0.00 |",
        "| [`demo`](../nmt/recipes/demo.yaml) | native | 12,346 | 80 | **0.40** |",
        "| `thesis-size` | native | 12,346 | 80 | **0.40** |",
        "| encoder forward | 25 % | 25 % |",
        "| `thesis-size` | native | 1.00 GB | 1.00 GB | 2.00 GB | 4.00 GB | 5.00 GB | **1.25** "
        "| 1.5 |",
        "| greedy | native | 120 / 12 | 480 / 12 |",
        "- native: a processor, 2 cores, openblas 0.3 Haswell, numpy 2.4", "- on a GPU: not run",
    ):
        assert f"\n{line}\n" in page, line
    assert "old" not in page


def test_every_table_has_as_many_cells_in_every_row(page, tmp_path):
    for kernels in ("haswell", "native", "gpu"):
        write(tmp_path, kernels)
    for block in made(page, tmp_path).split("\n\n"):
        lines = [line for line in block.split("\n") if line.startswith("|")]
        assert len({line.count("|") for line in lines}) <= 1, block


def test_what_is_missing_is_left_out(page, tmp_path):
    write(tmp_path, "haswell", only=["search"])
    page = made(page, tmp_path)
    assert "training step" not in page and "`demo`" not in page and "| Haswell | 500 ms" in page
    assert " | 0.70 |" in page and "on a GPU: not run" in page


def test_each_device_has_its_own_implementations(page, tmp_path):
    """On a GPU CuPy stands against CUDA; goals are those of native kernels."""
    for kernels in ("haswell", "gpu"):
        write(tmp_path, kernels, only=["kernels"])
    page = made(page, tmp_path)
    layer = "| LSTM layer, T=30 B=64 H=512, against"
    for line in (f"{layer} nn.LSTM | Haswell | 500 ms | 625 ms | **0.80** |  |",
                 f"{layer} nn.LSTMCell loop | Haswell | 500 ms | 1,000 ms | **0.50** |  |",
                 f"{layer} nn.LSTM, CUDA | GPU | 10 ms | 20 ms | **0.50** |  |"):
        assert f"\n{line}\n" in page, line
    assert page.count(layer) == 3


def test_tf32_has_rows_of_its_own(page, tmp_path):
    write(tmp_path, "gpu", only=["recipes"])
    (tmp_path / "recipes-gpu.json").rename(tmp_path / "recipes-tf32-gpu.json")
    assert "| GPU, TF32 | 12,346 |" in made(page, tmp_path)


def test_a_gpu_is_named_where_there_is_one(page, tmp_path):
    write(tmp_path, "gpu", only=["recipes"])
    page = made(page, tmp_path)
    assert "not run" not in page and "| GPU | 12,346 |" in page
    assert "- GPU: a processor" in page


def test_without_any_file(page, tmp_path):
    assert "\n\n- on a GPU: not run\n\n" in made(page, tmp_path)


def test_writing_twice_changes_nothing(page, tmp_path, capsys):
    write(tmp_path)
    assert made(page, tmp_path) == made(page, tmp_path)
    assert capsys.readouterr().out == "page.md: written\npage.md: up to date\n"


def test_check_changes_nothing_and_fails(page, tmp_path, capsys):
    before = page.read_text()
    assert main(["table", "--check", "--page", str(page), "--results", str(tmp_path)]) == 2
    assert page.read_text() == before
    assert "run `python -m benchmarks table`" in capsys.readouterr().err


def test_a_page_without_markers(tmp_path, capsys):
    page = tmp_path / "page.md"
    page.write_text("nothing")
    assert main(["table", "--page", str(page), "--results", str(tmp_path)]) == 2
    assert "page.md: expected the markers" in capsys.readouterr().err


def test_a_quick_run_is_no_measurement(tmp_path):
    quick = {"options": {"quick": True}, "rows": []}
    (tmp_path / "search-native.json").write_text(json.dumps(quick))
    with pytest.raises(UserError, match=r"search-native\.json: expected a measurement"):
        table.read(tmp_path)
