"""Target tokens/s of the recipes: the models of the recipes, equal first, every part counted."""

from __future__ import annotations

import os
from importlib import import_module
from time import perf_counter

import numpy as np
import pytest
from strict.module import strict
from timed import cases, parse, prepare
from timed import run as run_quick

from backend.errors import UserError
from benchmarks import recipes, training
from benchmarks.devices import CPU, Device, devices
from benchmarks.timing import blas_kernels
from nmt.data.batches import make_batch
from nmt.models.contract import Tables
from nmt.models.registry import make_model
from nmt.models.rnnsearch import RNNSearch
from nmt.models.rnnsearch_config import RNNSearchConfig
from nmt.models.translator import ModelConfig, Translator

torch = pytest.importorskip("torch", reason="PyTorch (extra `oracle`) is not installed")
Peer = import_module("grads.verification.reference.peer").Peer
QUICK = ["--quick", "--device", "cpu", "--output", os.devnull]  # unless another is named


def run(directory, *arguments, name="recipes"):
    """The rows of a quick run, by recipe."""
    path, record = run_quick(name, directory, "--device", "cpu", *arguments)
    return path.name, {row["case"]: row for row in record["rows"]}


def test_quick(tmp_path, capsys):
    name, rows = run(tmp_path)
    assert name == f"recipes-{blas_kernels()}.json"
    assert rows.keys() == recipes.KNOWN.keys() - {recipes.LARGE}
    for row in rows.values():
        assert row["amount"] == 4 * 4 and set(row["parts"]) >= {"clip", "update", "rest"}
        assert row["differences"].keys() >= {"loss", "gradients"}
        assert 0 < row["differences"]["gradients"] < training.EXACT
        assert "float32 loss" in row["differences"] and row["unit"] == "target tokens"
        assert list(row["seconds"]) == ["here", "PyTorch", "here, by part"]
    assert (tmp_path / f"recipes-{blas_kernels()}.png").stat().st_size > 1000
    printed = capsys.readouterr().out
    assert "not run" not in printed and printed.count("target tokens/s") == 12


def test_the_parts_of_a_step_are_of_the_whole_of_it():
    """The times of the parts add up to the step's time, and the steps train the model."""
    step_seconds: list[dict[str, float]] = []
    case = recipes.load("multi30k-thesis", parse("recipes", QUICK))
    model = make_model(case.model, case.tables)
    rng = np.random.default_rng(1)
    parameters, batch = model.initial_parameters(rng), recipes.random_batch(case, rng)
    step = recipes.split_step(model, parameters, batch, case.train, CPU, step_seconds)
    losses, took = [], []
    for _ in range(5):
        start = perf_counter()
        losses.append(step())
        took.append(perf_counter() - start)
    assert losses[-1] < losses[0] and len(step_seconds) == 5
    shares = [sum(seconds.values()) / total
              for seconds, total in zip(step_seconds, took, strict=True)]
    assert max(shares) <= 1 and max(shares) > 0.5  # wrapping takes a share of a tiny step


def test_the_parts_reported_are_medians_in_order():
    iterations = [{"update": 1.0, "clip": 1.0}, {"clip": 3.0, "update": 2.0}, {"clip": 2.0}]
    assert list(recipes.medians(iterations).items()) == [("clip", 2.0), ("update", 1.0)]


def test_the_large_recipe_is_separate_and_has_the_thesis_sizes(tmp_path):
    name, _ = run(tmp_path, name="recipes-large")
    assert name == f"recipes-large-{blas_kernels()}.json"
    case = recipes.load("thesis-size", parse("recipes", ["--device", "cpu"]))
    model, train = case.model, case.train
    assert (model.layers, model.hidden_size, model.embedding_size) == (4, 1000, 1000)
    assert (case.source_size, case.target_size, train.batch_size) == (50002, 50002, 128)
    assert model.input_feeding and train.optimizer == "sgd" and train.max_norm == 5.0


def test_a_users_own_recipe(tmp_path):
    (tmp_path / "mine.yaml").write_text(
        f"base: {recipes.DIRECTORY}/multi30k-thesis.yaml\n", "utf-8")
    out = tmp_path / "out"
    name, rows = run(out, "--recipe", str(tmp_path / "mine.yaml"))
    assert list(rows) == ["mine"] and str(tmp_path) not in (out / name).read_text()


def test_what_pytorch_has_no_kernel_for_has_a_peer_too(tmp_path):
    """Bahdanau et al.'s gated cell, in RNNencdec and with the thesis's attention."""
    (tmp_path / "gated.yaml").write_text(
        f"base: {recipes.DIRECTORY}/multi30k-thesis.yaml\nmodel:\n  unit: gru\n", "utf-8")
    _, rows = run(tmp_path / "out", "--recipe", str(recipes.DIRECTORY / "multi30k-rnnencdec.yaml"),
                  str(tmp_path / "gated.yaml"))
    for row in rows.values():
        assert row["differences"].keys() >= {"loss", "gradients", "float32 loss"}
        assert "PyTorch" in row["seconds"]


@pytest.mark.parametrize("name, short", [
    ("demo", "demo"), ("somewhere/mine.yaml", "mine"),
    (str(recipes.DIRECTORY / "thesis-small/global-dot.yaml"), "thesis-small/global-dot"),
])  # fmt: skip
def test_names_of_recipes(name, short):
    assert recipes.short(name) == short


@pytest.mark.parametrize("name, said", [
    ("multi30k", "expected a YAML file or one of demo"), ("no.yaml", "cannot be read"),
])  # fmt: skip
def test_an_unknown_recipe_is_refused(tmp_path, name, said):
    with pytest.raises(UserError, match=said):
        run(tmp_path, "--recipe", name)


def test_a_gpu_that_is_not_there_is_one_line(tmp_path):
    with pytest.raises(UserError, match="cupy"):
        run(tmp_path, "--device", "gpu")


def test_all_devices_reports_what_was_not_run(capsys):
    assert devices("all")[0] == CPU and devices("cpu") == [CPU]
    assert "GPU: not run" in capsys.readouterr().out


@pytest.mark.parametrize("name", [*recipes.KNOWN])
def test_nothing_is_transferred_implicitly(monkeypatch, name):
    """On the stand-in for CuPy, as on a GPU."""
    stand_in = Device("gpu", strict, "cpu", lambda: None)
    (case,) = cases("recipes", [*QUICK, "--recipe", name])
    assert 0 < max(prepare(case, stand_in).values()) < training.CLOSE


def test_a_wrong_loss_of_what_is_timed_is_seen(monkeypatch, tmp_path):
    right = Peer.__call__

    def wrong(self, batch, noise=None):
        loss = right(self, batch, noise)
        return loss * 1.0001 if loss.dtype == torch.float32 else loss

    monkeypatch.setattr(Peer, "__call__", wrong)
    with pytest.raises(AssertionError, match=r"float32 loss: .* differ by 1\.0e-04"):
        run(tmp_path, "--recipe", "multi30k-de-en")


@pytest.mark.parametrize("model, recipe", [
    (Translator, "multi30k-de-en"), (RNNSearch, "multi30k-rnnsearch"),
])  # fmt: skip
def test_a_wrong_gradient_is_not_timed(monkeypatch, tmp_path, model, recipe):
    right = model.backward

    def wrong(self, cache):
        gradients = right(self, cache)
        gradients["decoder.0.W"] *= 1 + 1e-8
        return gradients

    monkeypatch.setattr(model, "backward", wrong)
    with pytest.raises(AssertionError, match="gradients: ours and PyTorch's differ by"):
        run(tmp_path, "--recipe", recipe)
    assert not list(tmp_path.iterdir())


def make_peer(config, device="cpu"):
    """The peer of a model of nine words."""
    model = make_model(config, Tables((9,), 9))
    return Peer(model, model.initial_parameters(np.random.default_rng(1)), device)


def test_their_dropout_keeps_the_mean():
    case = recipes.load("multi30k-de-en", parse("recipes", ["--device", "cpu"]))
    small = case._replace(source=6, target=7)
    batch = recipes.random_batch(small, np.random.default_rng(1), 40)
    peer = make_peer(case.model)
    shapes = peer.noise_shapes(batch)
    assert list(shapes.values()) == [(6, 40, 256), (7, 40, 256), (7, 40, 768)]
    for site, mask in peer.draw_noise(shapes).items():
        assert mask.shape == shapes[site]
        assert set(mask.unique().tolist()) == {0.0, torch.tensor(1 / 0.7).item()}
        assert abs(mask.mean() - 1) < 0.02
    assert make_peer(ModelConfig()).noise_shapes(batch) == {}


SMALL = {"hidden_size": 4, "embedding_size": 3}
LEFT_NOTHING = {
    "rnnsearch": RNNSearchConfig(layer_size=3, **SMALL),
    **{f"{attention} {score}{' feeding' * feeding}": ModelConfig(
        attention=attention, score=score, input_feeding=feeding, dropout=0.2, **SMALL)
       for attention, score in (("global", "general"), ("global", "additive"),
                                ("local-m", "dot"), ("local-p", "concat"))
       for feeding in (True, False)},
}


@pytest.mark.parametrize("config", LEFT_NOTHING.values(), ids=LEFT_NOTHING)
def test_the_peer_leaves_nothing_on_the_host(config):
    """On PyTorch's `meta` device, which, like a GPU, does not compute with tensors on the host."""
    batch = make_batch([([3, 4, 5], [6, 7])] * 2, range(2), False)
    peer = make_peer(config, "meta")
    loss = peer(batch, peer.draw_noise(peer.noise_shapes(batch)))
    loss.backward()
    assert loss.device.type == "meta"
    assert all(p.grad is not None for p in peer.parameters.values())
