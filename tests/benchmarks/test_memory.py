"""The memory that a step needs is counted byte by byte, and the memory that it takes is
measured."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from timed import run

from backend.rows import RowGradient
from backend.workspace import Workspace
from benchmarks import memory
from benchmarks.memory import Gauge, covered, extent, reachable
from benchmarks.timing import blas_kernels
from lstm.cells import CELLS
from nmt.data.batches import make_batch
from nmt.models.translator import ModelConfig, Translator


def test_views_of_one_buffer_count_once():
    a, b = np.zeros((4, 10)), np.zeros(3, np.float32)
    assert covered([a]) == 320 and covered([a, a[1:3], a.T, a]) == 320
    assert covered([a[:2], a[1:3]]) == 240  # three rows
    assert covered([a[0], a[2]]) == 160  # not the row between them
    assert covered([a[:, :4]]) == 3 * 80 + 32  # from the first byte to the last
    assert covered([a[::-1]]) == 320 and covered([a, b]) == 332 and covered([]) == 0
    assert covered([np.zeros((0, 5)), b]) == 12


def test_extents_are_numpys():
    a = np.arange(24.0).reshape(2, 3, 4)
    for view in (a, a[::-1, ::2], a.transpose(2, 0, 1)[1:], a[0, 0, :1], a[:, ::-1, 1]):
        assert extent(view) == np.lib.array_utils.byte_bounds(view)


def test_all_arrays_of_a_cache_are_found():
    a, b, c = np.zeros(1), np.zeros(2), np.zeros(3)
    nested = {"x": [a, (b, None, 3, "name")], "y": RowGradient(c, a, (2, 3)), "w": Workspace()}
    assert [array is expected for array,
            expected in zip(reachable(nested), (a, b, c, a), strict=True)]
    assert list(reachable([lambda: None, CELLS["lstm"]])) == []  # functions that hold nothing
    assert next(reachable([lambda: a])) is a  # and one that does
    with pytest.raises(TypeError, match="got object"):
        list(reachable([a, object()]))


def test_fed_vectors_are_counted():
    """The joined vectors [c_t; h_t] that input feeding keeps outside of any tuple."""
    model = Translator(ModelConfig(layers=1, hidden_size=4, embedding_size=3), 9, 9)
    parameters = model.initial_parameters(np.random.default_rng(1))
    _, cache = model.loss(parameters, make_batch([([3, 4], [5, 6, 7])], [0], False))
    shapes = [array.shape for array in reachable(cache.decoder)]
    assert (4, 1, 4 + 4) in shapes and shapes.count((1, 4)) == 4  # joined; h~_t of each step


def test_the_saved_activations_of_a_translator():
    """The arrays of the equations: x, h, c, u and tanh c of each LSTM layer, and ds of the
    output."""
    T, B, H, V = 5, 3, 8, 20
    config = ModelConfig(layers=1, hidden_size=H, embedding_size=H, attention="none",
                         input_feeding=False)
    model = Translator(config, V, V)
    parameters = model.initial_parameters(np.random.default_rng(1))
    batch = make_batch([([3] * T, [4] * (T - 1))] * B, range(B), False)
    _, cache = model.loss(parameters, batch)
    held = covered(parameters.values())
    saved = covered([*parameters.values(), *reachable(cache)]) - held
    layer = T * B * (H + 4 * H + H) + 2 * (T + 1) * B * H
    least = 4 * (2 * layer + T * B * V)
    assert least <= saved <= least + 4 * T * B * H + 2000  # h of the output layer, and ids


GAUGED = """
import numpy as np
from benchmarks.memory import Gauge, PeakWatch
gauge = Gauge(np)
gauge.start()
gauge.reset()
watch, size = PeakWatch(gauge), 64 << 20
with watch.timed("rest"):
    with watch.timed("large"):
        np.ones(size, np.uint8)
    with watch.timed("small"):
        np.ones(size // 8, np.uint8)
print(gauge.peak() / size, watch.where)
gauge.reset()
print(gauge.peak() / size)
"""


@pytest.mark.skipif(not memory.CLEAR.exists(), reason="no /proc/self/clear_refs here")
def test_the_gauge_sees_what_comes_and_goes():
    """In a new process, as recipes are measured, because an old process returns idle pages."""
    root = Path(memory.__file__).parents[1]
    readings = subprocess.run([sys.executable, "-c", GAUGED], cwd=root, check=True, text=True,
                              capture_output=True).stdout.split()
    assert 0.98 <= float(readings[0]) <= 1.2 and readings[1] == "large"
    assert float(readings[2]) < 0.5


def test_a_system_without_a_high_water_mark_is_one_line(monkeypatch, tmp_path):
    monkeypatch.setattr(memory, "CLEAR", tmp_path / "none")
    with pytest.raises(memory.UserError, match="clear_refs"):
        Gauge(np)


@pytest.mark.skipif(not memory.CLEAR.exists(), reason="no /proc/self/clear_refs here")
def test_quick(tmp_path, capsys):
    path, record = run("memory", tmp_path, "--device", "cpu")
    assert path.name == f"memory-{blas_kernels()}.json"
    (row,) = record["rows"]
    sizes = row["bytes"]
    assert row["case"] == "thesis-size" and len(sizes["peaks"]) == 2
    assert all(sizes[name] > 0 for name in ("parameters", "gradients", "saved"))
    needed = sizes["parameters"] + sizes["gradients"] + sizes["saved"]
    assert row["ratio"] == max(sizes["peaks"]) / needed
    assert "goal 1.5" in capsys.readouterr().out
