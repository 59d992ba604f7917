"""Several batches per update: they equal the large batch, and belong to one task."""

from __future__ import annotations

import numpy as np
import pytest
from tiny_run import Crash, CrashAt

from nmt.data.batches import TextBatches
from nmt.models.translator import ModelConfig, Translator
from nmt.training.batch_source import Training
from nmt.training.options import TrainOptions
from nmt.training.run import Run
from nmt.training.sources import accumulated, batches_of
from nmt.training.tasks import Mixture
from nmt.training.trainer import Trainer

WORDS = 8


def pairs(count=19, seed=0, **options) -> TextBatches:
    rng = np.random.default_rng(seed)
    drawn = [tuple(rng.integers(2, WORDS, rng.integers(1, 6)).tolist() for _ in range(2))
             for _ in range(count)]
    return TextBatches(drawn, 4, True, **options)


class Large:
    """`number` batches of another source as one."""

    def __init__(self, source: TextBatches, number: int) -> None:
        self.source, self.number = source, number
        self.batch, self.tokens, self.weight = source.batch, source.tokens, source.weight
        self.clock = source.clock

    def epoch(self, rng):
        keys = self.source.epoch(rng)
        return [np.concatenate(keys[i : i + self.number])
                for i in range(0, len(keys), self.number)]


def trained(directory, source, observer=None, dropout=0.0, resume=False, **options):
    model = Translator(ModelConfig(layers=1, hidden_size=5, embedding_size=4, dropout=dropout),
                       WORDS, WORDS, True)
    parameters = model.initial_parameters(np.random.default_rng(1), "float64")
    trainer = Trainer(model, parameters, Training(source), TrainOptions(
        epochs=2, optimizer="adam", learning_rate=0.01, max_norm=0.2, **options), Run(directory),
        observer)
    if resume:
        trainer.resume()
    trainer.train()
    return trainer


@pytest.mark.parametrize("options", [{}, {"budget": 20}], ids=["sentences", "tokens"])
def test_accumulated_batches_are_the_large_batch(tmp_path, options) -> None:
    """Five batches an epoch, two an update: the last update has one."""
    parts = trained(tmp_path / "parts", pairs(**options), accumulate=2)
    large = trained(tmp_path / "large", Large(pairs(**options), 2))
    assert parts.counters == large.counters
    for name, parameter in large.parameters.items():
        np.testing.assert_allclose(parts.parameters[name], parameter, rtol=1e-12, atol=1e-13)


def test_a_resumed_run_goes_on_between_updates(tmp_path) -> None:
    whole = trained(tmp_path / "whole", pairs(), dropout=0.3, accumulate=2)
    with pytest.raises(Crash):
        trained(tmp_path / "cut", pairs(), CrashAt(3), 0.3, accumulate=2, checkpoint_every=1)
    again = trained(tmp_path / "cut", pairs(), None, 0.3, True, accumulate=2)
    for name, parameter in whole.parameters.items():
        np.testing.assert_array_equal(again.parameters[name], parameter)


def test_an_update_is_of_one_task() -> None:
    mixed = accumulated(Mixture({"a": pairs(), "b": pairs(9, 1)}, {"a": 1.0, "b": 1.0}), 3)
    keys = mixed.epoch(np.random.default_rng(0))
    assert sum(name == "a" for name, _ in keys) == 2  # of five batches
    for key in keys:
        batch = mixed.batch(key)
        assert {micro_batch.task for micro_batch in batches_of(batch)} == {key[0]}
        assert len(batch.batches) in (2, 3)
        assert mixed.weight(batch) == sum(len(micro_batch.indices) for micro_batch in batch.batches)
