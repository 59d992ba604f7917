"""A training step on the stand-in for CuPy never waits for the device, and its kernel launches are
counted.

The stand-in counts every call that starts a kernel, and every matrix product, as one; a fused
kernel counts its own.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from host_cuda.launcher import HostLauncher, needs_compiler
from literal import noisy_loss
from strict.module import StrictArray, strict, to_numpy

import backend
from attention.norms import NORMS
from backend import fused
from backend.fused import switch
from nmt.data.batches import make_batch
from nmt.models.transformer import Transformer, TransformerConfig
from nmt.models.translator import ModelConfig, Translator
from nmt.training.optimizers import SGD, Adam, gradient_scale

pytestmark = needs_compiler

STEPS = 20  # words of the longest source; the targets are as long with their end marker


class Count(NamedTuple):
    launches: int
    products: int  # of them
    syncs: int
    to_host: int
    loss: float


def ragged_batch(steps):
    """Three pairs of different lengths."""
    rng = np.random.default_rng(0)
    pairs = [([*map(int, rng.integers(3, 30, steps - i))],
              [*map(int, rng.integers(3, 30, steps - 1 - i))]) for i in range(3)]
    return make_batch(pairs, range(3), reverse_source=True)


def translator(**settings):
    """A small model with dropout."""
    return Translator(ModelConfig(layers=2, hidden_size=6, embedding_size=5, dropout=0.2,
                                  **settings), 30, 30, True)


def training_step(on, optimizer=SGD, steps=STEPS, make=translator, **settings):
    """The second update of a small model with dropout: forward, backward, clip, update."""
    batch = ragged_batch(steps)
    switch.register(StrictArray, HostLauncher())
    try:
        with backend.using(strict), fused.using(on):
            model, update = make(**settings), optimizer(0.1)
            parameters = model.initial_parameters(np.random.default_rng(1))
            for _ in range(2):
                strict.counts.reset()
                loss, cache = noisy_loss(model, parameters, batch, 2)
                gradients = model.backward(cache)
                scale, _ = gradient_scale(gradients, 3, 5.0)
                update.update(parameters, gradients, scale)
    finally:
        switch._launchers.pop(StrictArray)
    c = strict.counts
    return Count(c.launches, c.products, c.syncs, c.to_host, float(to_numpy(loss)))


@pytest.mark.parametrize("on", [False, True], ids=["unfused", "fused"])
@pytest.mark.parametrize("settings", [
    {}, {"input_feeding": False}, {"bidirectional": True, "bridge": True},
    {"unit": "rnn"}, {"unit": "gru", "input_feeding": False}, {"score": "concat"},
    {"attention": "local-p"},
])
@pytest.mark.parametrize("optimizer", [SGD, Adam])
def test_nothing_is_waited_for(settings, optimizer, on):
    count = training_step(on, optimizer, steps=6, **settings)
    assert (count.syncs, count.to_host) == (0, 0)
    assert np.isfinite(count.loss)


def transformer(**settings):
    """Three layers a side, as in the recipes."""
    return Transformer(TransformerConfig(3, 3, 8, 12, 2, dropout=0.2, label_smoothing=0.1,
                                         **settings), 30, 30)


@pytest.mark.parametrize("on", [False, True], ids=["unfused", "fused"])
@pytest.mark.parametrize("norm", NORMS)
def test_a_transformer_waits_for_nothing(norm, on):
    count = training_step(on, Adam, 6, transformer, norm=norm)
    assert (count.syncs, count.to_host) == (0, 0)
    assert np.isfinite(count.loss)


@pytest.mark.parametrize("norm", ["layer", "scale", "rms"])
def test_launches_of_a_transformers_step(norm):
    """The figures are those of docs/gpu.md."""
    count, plain = (training_step(on, Adam, make=transformer, norm=norm) for on in (True, False))
    page = (Path(__file__).parents[3] / "docs" / "gpu.md").read_text(encoding="utf-8")
    assert f"| `{norm}` | {plain.launches} | {count.launches} | {count.products} |" in page
    assert plain.products == count.products
    assert count.loss == pytest.approx(plain.loss, rel=1e-5)


@pytest.mark.parametrize("feeding", [True, False])
def test_launches_of_a_step(feeding):
    """The figures are those of docs/gpu.md: pass by pass, fused, of them products."""
    fused_count = training_step(True, input_feeding=feeding)
    plain_count = training_step(False, input_feeding=feeding)
    page = (Path(__file__).parents[3] / "docs" / "gpu.md").read_text(encoding="utf-8")
    row = f"| {plain_count.launches} | {fused_count.launches} | {fused_count.products} |"
    assert f"| {'with input feeding' if feeding else 'without'} {row}" in page
    assert plain_count.products == fused_count.products
    assert fused_count.loss == pytest.approx(plain_count.loss, rel=1e-5)


def test_launches_grow_by_what_a_word_adds():
    """The figures are those of docs/gpu.md. Without feeding: a product and a kernel for each of two
    layers a side, forward and backward."""
    feeding, without = ((training_step(True, steps=40, input_feeding=fed).launches
                         - training_step(True, steps=20, input_feeding=fed).launches) / 20
                        for fed in (True, False))
    assert without == 2 * 2 * (2 + 2)
    page = (Path(__file__).parents[3] / "docs" / "gpu.md").read_text(encoding="utf-8")
    assert f"adds {feeding:g} launches with input feeding, and {without:g} without" in page
