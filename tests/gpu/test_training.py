"""Training on the GPU: golden losses, the same run as on NumPy, waiting for the device, memory."""

from __future__ import annotations

import json

import numpy as np
import pytest
from golden.cases import CASES, PATH, RUNS, SOURCE_SIZE, TARGET_SIZE, golden_parameters, run_batches
from gpu.arrays import to_gpu, to_numpy
from literal import noisy_loss

import backend
from backend import gemm
from backend.errors import UserError
from backend.memory import too_large
from nmt.data.batches import make_batch
from nmt.models.contract import Tables
from nmt.models.registry import make_model
from nmt.models.rnnsearch_config import RNNSearchConfig
from nmt.models.translator import ModelConfig, Translator
from nmt.training.accuracy import precision_cost
from nmt.training.optimizers import OPTIMIZERS, SGD, gradient_scale

GOLDEN = json.loads(PATH.read_text(encoding="utf-8"))
DUPLICATES = [([3, 3, 3, 4], [5, 5]), ([4], [5, 6, 5, 5, 6]), ([3, 4, 4], [])]
SHAPES = {
    "ragged, repeated ids": DUPLICATES,
    "B = 1": DUPLICATES[:1],
    "T = 1": [([3], []), ([4], [])],
    "smallest": [([3], [])],
}


@pytest.mark.parametrize("name", RUNS)
def test_golden_run(name, fusing):
    """Ten updates in float64: PyTorch's losses and norms."""
    run, expected = RUNS[name], GOLDEN["runs"][name]
    config = CASES[run.case]
    model = Translator(config, SOURCE_SIZE, TARGET_SIZE)
    with backend.using("numpy"):
        parameters = golden_parameters(config)
    parameters, optimizer = to_gpu(parameters), OPTIMIZERS[run.optimizer](run.learning_rate)
    for batch, loss_then, norm_then in zip(run_batches(), expected["losses"], expected["norms"],
                                           strict=True):
        loss, cache = model.loss(parameters, batch)
        gradients = model.backward(cache)
        scale, norm = gradient_scale(gradients, len(batch.indices), run.max_norm)
        optimizer.update(parameters, gradients, scale)
        assert float(to_numpy(loss)) == pytest.approx(loss_then, rel=1e-9)
        assert float(to_numpy(norm)) == pytest.approx(norm_then, rel=1e-9)


MODELS = {
    "feeding": ModelConfig(layers=2, hidden_size=24, embedding_size=20, dropout=0.2),
    "no feeding, output bias": ModelConfig(hidden_size=24, embedding_size=20, input_feeding=False,
                                           output_bias=True),
    "bidirectional": ModelConfig(hidden_size=24, embedding_size=20, bidirectional=True,
                                 bridge=True, clip_elements=0.05),
    "rnn": ModelConfig(unit="rnn", hidden_size=24, embedding_size=20),
    "local-p": ModelConfig(hidden_size=24, embedding_size=20, attention="local-p"),
    "concat": ModelConfig(hidden_size=24, embedding_size=20, score="concat"),
    "rnnsearch": RNNSearchConfig(hidden_size=24, embedding_size=20, layer_size=12),
}


def trained(config, optimizer, pairs):
    """Losses of five updates in float32, and the parameters after them."""
    model, update = make_model(config, Tables((9,), 9)), OPTIMIZERS[optimizer](0.05)
    parameters = model.initial_parameters(np.random.default_rng(1))
    batch, losses = make_batch(pairs, range(len(pairs)), False), []
    for step in range(5):
        loss, cache = noisy_loss(model, parameters, batch, step)
        gradients = model.backward(cache)
        scale, _ = gradient_scale(gradients, len(pairs), 1.0)
        update.update(parameters, gradients, scale)
        losses.append(float(backend.to_host(loss)))
    return losses, {name: backend.to_host(a) for name, a in parameters.items()}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("name", MODELS)
def test_the_same_run_as_on_numpy(name, optimizer, shape, fusing):
    losses, parameters = trained(MODELS[name], optimizer, SHAPES[shape])
    with backend.using("numpy"):
        expected, theirs = trained(MODELS[name], optimizer, SHAPES[shape])
    np.testing.assert_allclose(losses, expected, rtol=2e-3)
    for key, parameter in theirs.items():
        assert parameters[key].dtype == np.float32
        np.testing.assert_allclose(parameters[key], parameter, atol=5e-3, err_msg=key)


def step_of(model, parameters, batch):
    """One update."""
    loss, cache = noisy_loss(model, parameters, batch, 0)
    gradients = model.backward(cache)
    scale, _ = gradient_scale(gradients, len(batch.indices), 5.0)
    SGD(0.1).update(parameters, gradients, scale)
    return loss


def test_a_step_waits_for_nothing(fusing, monkeypatch):
    """CuPy's guard finds no synchronisation, and nothing is copied to the host."""
    import cupyx

    model = Translator(MODELS["feeding"], 9, 9)
    parameters = model.initial_parameters(np.random.default_rng(1))
    batch = make_batch(DUPLICATES, range(3), False)
    step_of(model, parameters, batch)  # compiles
    with cupyx.allow_synchronize(False):
        loss = step_of(model, parameters, batch)
    assert np.isfinite(float(backend.to_host(loss)))


@pytest.mark.parametrize("precision", ["tf32", "float16"])
def test_the_cost_of_a_precision(precision):
    model = Translator(ModelConfig(layers=2, hidden_size=128, embedding_size=64), 200, 200)
    parameters = model.initial_parameters(np.random.default_rng(1))
    rng = np.random.default_rng(2)
    pairs = [(rng.integers(3, 200, 12).tolist(), rng.integers(3, 200, 11).tolist())
             for _ in range(32)]
    batch = make_batch(pairs, range(32), True)
    exact = precision_cost(model, parameters, batch)
    assert exact.gradients < 1e-6
    with gemm.using(precision):
        cost = precision_cost(model, parameters, batch)
    print(cost)
    assert 1e-6 < cost.gradients < 0.05


def test_too_little_memory_is_reported():
    import cupy

    free, _ = cupy.cuda.runtime.memGetInfo()
    with pytest.raises(MemoryError) as caught:
        cupy.empty(2 * free, np.uint8)
    error = too_large(caught.value, "a batch", "advice")
    assert isinstance(error, UserError)
    assert "bytes asked for, " in str(error) and "B free; advice" in str(error)


def test_the_memory_pool_is_reported():
    from backend.memory import pool_figures

    keep = backend.module().zeros((1 << 20,), np.float32)
    figures = pool_figures(backend.module())
    assert figures["pool_total_bytes"] >= figures["pool_used_bytes"] >= keep.nbytes
