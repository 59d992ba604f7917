"""--gemm, --no-fusing, and errors of a GPU, on the stand-in for CuPy."""

from __future__ import annotations

import json
import re
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from strict.module import StrictModule, strict
from tiny_run import TEXT_RECIPE, complaint, nmt, write_recipe

import backend.device
from backend import fused, gemm
from backend.memory import pool_figures, too_large
from backend.rows import check_ids
from lstm.embedding import embedding_forward
from nmt.data.batches import make_batch, make_sources
from nmt.models.translator import ModelConfig, Translator
from nmt.training.accuracy import precision_cost
from nmt.training.run import LOG


@pytest.fixture
def _stand_in(monkeypatch):
    monkeypatch.setattr(backend.device, "load", {"numpy": np, "cupy": strict}.__getitem__)


@pytest.fixture(autouse=True)
def _as_before():
    yield
    gemm.use("float32")
    fused.use(True)


class OutOfMemoryError(MemoryError):
    """CuPy's, which says so in these words."""


def exhausted(*_, **__):
    raise OutOfMemoryError("Out of memory allocating 1,234,944 bytes (allocated so far: 999 bytes)")


class SmallGPU(StrictModule):
    """A stand-in with a memory that can be asked for its size."""

    cuda = SimpleNamespace(runtime=SimpleNamespace(memGetInfo=lambda: (1000, 5000)))

    def get_default_memory_pool(self):
        return SimpleNamespace(free_bytes=lambda: 24, used_bytes=lambda: 70,
                               total_bytes=lambda: 94)


# --- precision of products --------------------------------------------------------------------


def small_step(dtype="float32"):
    """A model, its parameters and a batch, on the stand-in."""
    model = Translator(ModelConfig(layers=1, hidden_size=8, embedding_size=8, scale=0.7), 9, 9)
    parameters = model.initial_parameters(np.random.default_rng(1), dtype)
    return model, parameters, make_batch([([3, 4], [5, 6]), ([7], [8])], [0, 1], False)


@pytest.mark.parametrize("precision", ["tf32", "float16"])
def test_the_cost_of_a_precision_is_measured(precision):
    with backend.using(strict), gemm.using(precision):
        cost = precision_cost(*small_step())
        exact = precision_cost(*small_step("float64"))
    assert gemm.precision() == "float32"
    assert 1e-6 < cost.gradients < 1e-2 and cost.gradients <= cost.largest < 0.1
    assert 0 < cost.loss < 1e-3 and cost.name in small_step()[0].weights()
    assert f"matrix products in {precision}: against float32" in str(cost)
    assert (exact.loss, exact.gradients) == (0.0, 0.0)  # float64 is left as it is


@pytest.mark.usefixtures("_stand_in")
@pytest.mark.parametrize("kind", ["translator", "language model"])
def test_training_tells_the_cost_and_then_goes_on(kind, corpus, capsys):
    command = ["train", corpus / "r.yaml"]
    if kind == "language model":
        command = ["lm", "train", write_recipe(corpus / "lm.yaml", TEXT_RECIPE)]
    assert nmt("--backend", "cupy", "--gemm", "tf32", *command, "--output", corpus / "out") == 0
    assert "matrix products in tf32: against float32" in capsys.readouterr().out
    records = [json.loads(line) for line in (corpus / "out" / LOG).read_text().splitlines()]
    assert records[0]["event"] == "gemm" and records[0]["precision"] == "tf32"
    assert 0 < records[0]["gradient_error"] <= records[0]["largest_error"] < 0.1
    assert [r["event"] for r in records].count("gemm") == 1
    gemm.use("float32")
    assert nmt("--backend", "cupy", *command, "--output", corpus / "exact") == 0
    assert "matrix products in" not in capsys.readouterr().out
    ours, exact = (last_loss(corpus / name) for name in ("out", "exact"))
    assert ours != exact and ours == pytest.approx(exact, rel=1e-2)


def last_loss(directory):
    records = [json.loads(line) for line in (directory / LOG).read_text().splitlines()]
    return [r["loss"] for r in records if r["event"] == "epoch"][-1]


def test_a_precision_without_a_gpu_is_refused(corpus, capsys):
    said = complaint(capsys, "--gemm", "tf32", "train", corpus / "r.yaml")
    assert said == "gemm: 'tf32' needs --backend cupy; NumPy multiplies in float32"
    assert "invalid choice: 'half'" in complaint(capsys, "--gemm", "half", "train", "x")


@pytest.mark.usefixtures("_stand_in")
def test_fusing_is_switched_off_by_an_option(trained, capsys):
    pair = [trained / "test.en", trained / "test.de", "--model", trained / "model"]
    assert nmt("--backend", "cupy", "--no-fusing", "perplexity", *pair) == 0
    assert not fused.is_on()
    assert nmt("perplexity", *pair) == 0
    assert fused.is_on()


# --- memory -----------------------------------------------------------------------------------


def test_memory_is_logged_where_there_is_a_pool(corpus, monkeypatch):
    gpu = SmallGPU()
    assert pool_figures(np) == pool_figures(strict) == {}
    assert pool_figures(gpu) == {"pool_used_bytes": 70, "pool_total_bytes": 94}
    monkeypatch.setattr("nmt.training.reports.pool_figures", lambda xp: pool_figures(gpu))
    assert nmt("train", corpus / "r.yaml", "--output", corpus / "out") == 0
    records = [json.loads(line) for line in (corpus / "out" / LOG).read_text().splitlines()]
    updates = [r for r in records if r["event"] == "update"]
    assert updates and all(r["pool_total_bytes"] == 94 for r in updates)


def test_requested_and_free_memory_are_reported():
    with pytest.raises(OutOfMemoryError) as caught:
        exhausted()
    with backend.using(SmallGPU()):
        error = too_large(caught.value, "a batch", "smaller ones need less")
    assert str(error) == ("a batch: too large for the memory: 1,234,944 bytes asked for, 0.0 MB "
                          "free; smaller ones need less")
    host = too_large(MemoryError("Unable to allocate 7.45 GiB for an array"), "a", "b")
    assert re.fullmatch(r"a: too large for the memory: 7.45 GiB asked for, [0-9.,]+ [GM]B free; b",
                        str(host))
    assert "memory asked for" in str(too_large(MemoryError(), "a", "b"))


def test_a_batch_too_large_ends_training_in_one_line(corpus, capsys, monkeypatch):
    monkeypatch.setattr(Translator, "backward", exhausted)
    said = complaint(capsys, "train", corpus / "r.yaml", "--output", corpus / "out")
    assert said.startswith("update 1: a batch of 8 sentences, ")
    assert "1,234,944 bytes asked for, " in said and " free; train.batch_size is 8" in said
    assert not (corpus / "out").exists()


@pytest.mark.parametrize("command, method", [("perplexity", "loss"), ("align", "step"),
                                             ("evaluate", "step")])
def test_a_batch_too_large_ends_search_in_one_line(command, method, trained, capsys, monkeypatch):
    monkeypatch.setattr(Translator, method, exhausted)
    said = complaint(capsys, command, trained / "test.en", trained / "test.de", "--model",
                     trained / "model")
    assert said.startswith("a batch of 6 sentences: too large for the memory: 1,234,944 bytes")
    assert "evaluate.batch_size" in said


# --- ids --------------------------------------------------------------------------------------


def test_ids_are_checked_on_the_host():
    with backend.using(strict):
        table = strict.zeros((5, 2))
        strict.counts.reset()
        with pytest.raises(ValueError, match="ids: expected rows 0 to 4 of a table of 5, got id 7"):
            embedding_forward(table, np.array([[1, 7], [0, 2]]))
        assert (strict.counts.launches, strict.counts.to_host, strict.counts.syncs) == (0, 0, 0)
        with pytest.raises(ValueError, match="got id -1"):
            embedding_forward(table, np.array([-1, 2]))
    check_ids(np.array([0, 4]), 5)
    check_ids(np.array([], int), 0)
    with pytest.raises(ValueError, match="words: expected rows 0 to 4 of a table of 5, got id 5"):
        check_ids(np.array([5]), 5, "words")


@pytest.mark.parametrize("where", ["source", "target"])
def test_a_batch_with_an_id_that_the_tables_do_not_have_is_refused(where):
    with backend.using(strict):
        model, parameters, _ = small_step()
        pair = ([9], [3]) if where == "source" else ([3], [9])
        batch = make_batch([pair], [0], False)
        strict.counts.reset()
        with pytest.raises(ValueError, match="of a table of 9, got id 9"):
            model.loss(parameters, batch)
        state = model.encode(parameters, make_sources([[3]], False), 1)
        with pytest.raises(ValueError, match=r"tokens: .* got id 12"):
            model.step(parameters, state, np.array([12]))
        assert strict.counts.to_host == 0


# --- CuPy itself ------------------------------------------------------------------------------


def test_cupy_that_is_missing_ends_a_command_in_one_line(corpus, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    said = complaint(capsys, "--backend", "cupy", "train", corpus / "r.yaml")
    assert "cupy is not installed (pip install -e '.[cuda12]'" in said


def test_a_gpu_that_is_missing_ends_a_command_in_one_line(corpus, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(is_available=lambda: False))
    said = complaint(capsys, "--backend", "cupy", "train", corpus / "r.yaml")
    assert "installed but finds no usable GPU" in said and "[cuda13]" in said
