"""The trainer's hook: gradients summed over several ranks."""

import numpy as np
import pytest

from backend.rows import RowGradient
from nmt.language_models import Streams
from nmt.models.language_model import LanguageModel, LanguageModelConfig
from nmt.recipe import TextConfig
from nmt.training.batch_source import Training
from nmt.training.options import TrainOptions
from nmt.training.run import Run
from nmt.training.trainer import Trainer
from nmt.training.world import World

TEXT = TextConfig(train="t", streams=2, length=3)
IDS = np.random.default_rng(3).integers(0, 7, 40).tolist()


class Weighted(Streams):
    """Streams whose gradients are divided by another number."""

    divisor = 1.0

    def weight(self, batch):
        return super().weight(batch) * self.divisor


def run(directory, divisor=1.0, max_norm=None, world=None):
    """The parameters after some epochs, in float64."""
    model = LanguageModel(LanguageModelConfig(layers=1, hidden_size=4, embedding_size=3), 7)
    parameters = model.initial_parameters(np.random.default_rng(1), "float64")
    source = Weighted(IDS, TEXT)
    source.divisor = divisor
    options = TrainOptions(epochs=2, learning_rate=0.5, schedule="constant", max_norm=max_norm)
    Trainer(model, parameters, Training(source), options, Run(directory, world)).train()
    return parameters


class Two(World):
    """Two ranks with the same sentences."""

    def sum(self, sums, parameters):
        return sums._replace(gradients={
            name: g._replace(values=2 * g.values) if isinstance(g, RowGradient) else 2 * g
            for name, g in sums.gradients.items()})


@pytest.mark.parametrize("max_norm", [None, 0.05])  # clipped at each update
def test_summed_gradients_are_what_is_scaled_and_clipped(tmp_path, max_norm) -> None:
    plain = run(tmp_path / "plain", max_norm=max_norm)
    two = run(tmp_path / "two", 2.0, max_norm, world=Two())  # weighed so
    wrong = run(tmp_path / "wrong", 2.0, max_norm)
    for name, parameter in plain.items():
        np.testing.assert_allclose(two[name], parameter, rtol=1e-12)
    assert (max_norm is None) == any(not np.allclose(wrong[name], plain[name]) for name in plain)
