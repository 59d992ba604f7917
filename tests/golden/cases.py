"""The fixed models and training runs that `golden.json` records, and how they are drawn.

Parameters are drawn here and not by `Translator.initial_parameters`, so that a change of the
initialisation leaves the golden values alone.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from nmt.data.batches import make_batch
from nmt.models.translator import ModelConfig, Translator

PATH = Path(__file__).with_name("golden.json")
SOURCE_SIZE, TARGET_SIZE = 9, 8
PAIRS = [
    ([2, 3, 4, 5, 3], [4, 2, 2, 6]),
    ([6, 2], [3, 5, 7, 2, 4, 4]),
    ([7, 8, 2, 3], []),
    ([5], [6, 3]),
]
SMALL = {"hidden_size": 4, "embedding_size": 3}
CASES = {
    "feeding-general": ModelConfig(**SMALL),
    "feeding-dot-no-biases": ModelConfig(score="dot", biases=False, **SMALL),
    "no-feeding-general": ModelConfig(input_feeding=False, output_bias=True, **SMALL),
    "no-attention": ModelConfig(attention="none", input_feeding=False, layers=3, **SMALL),
    "bidirectional-bridge": ModelConfig(bidirectional=True, bridge=True, **SMALL),
    "rnn-bidirectional": ModelConfig(
        unit="rnn", layers=1, bidirectional=True, bridge=True, **SMALL
    ),
}

MORE_PAIRS = [([8, 2], [7, 3, 3]), ([3, 3, 6, 7, 4], [2]), ([4, 5, 6], [5, 5, 5, 4])]
STEPS, BATCHES = 10, ((0, 1, 2), (3, 4), (5, 6))  # batches of positions, taken in turn


class Run(NamedTuple):
    """A small training run: which case's model, which optimizer, whether the norm is clipped."""

    case: str
    optimizer: str  # "adam" or "sgd"
    learning_rate: float
    max_norm: float | None  # of the gradient divided by the batch size (thesis, section 2.2.2)


RUNS = {
    "adam": Run("feeding-general", "adam", 0.02, None),
    "sgd-clipped": Run("bidirectional-bridge", "sgd", 1.0, 0.8),
}


def golden_batch():
    """The one ragged batch of all cases."""
    return make_batch(PAIRS, range(len(PAIRS)), reverse_source=False)


def run_batches():
    """The ten batches of a training run, one an update; source sides are reversed."""
    pairs = PAIRS + MORE_PAIRS
    return [make_batch(pairs, BATCHES[step % len(BATCHES)], reverse_source=True)
            for step in range(STEPS)]


def golden_parameters(config):
    """Uniform in [-0.8, 0.8), in alphabetical order of the names, float64."""
    rng = np.random.default_rng(20161201)
    weights = Translator(config, SOURCE_SIZE, TARGET_SIZE).weights()
    return {name: 1.6 * rng.random(weights[name].shape) - 0.8 for name in sorted(weights)}


def fingerprint(gradient):
    """A gradient in five numbers: sum, norm, first, middle and last entry."""
    flat = gradient.ravel()
    numbers = (flat.sum(), np.sqrt((flat**2).sum()), flat[0], flat[flat.size // 2], flat[-1])
    return [float(number) for number in numbers]
