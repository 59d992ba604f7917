"""The data of training: a source of batches, and a function that validates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from backend import Array

Validate = Callable[[dict[str, Array]], dict[str, float]]


class BatchSource(Protocol):
    """A source of batches."""

    def epoch(self, rng: np.random.Generator) -> Sequence[Any]:
        """The keys of an epoch's batches. Their order may depend on `rng` only."""

    def clock(self, keys: Sequence[Any]) -> np.ndarray:
        """(len(keys) + 1,) int: how many of an epoch's updates the schedule counts before each key,
        and in all. A mixture of tasks counts the updates of its reference task."""

    def batch(self, key: Any) -> Any:
        """The batch of a key."""

    def tokens(self, batch: Any) -> int:
        """The number of target tokens in the batch, over which the loss is summed."""

    def weight(self, batch: Any) -> int:
        """The number that the gradient of the batch's loss is divided by, such as its sentences."""


class Training(NamedTuple):
    """The data of a training run."""

    batches: BatchSource
    validate: Validate | None = None  # parameters -> scores by name, including `train.criterion`
    lines: Iterable[str] = ()  # the training data, which must be unchanged when a run is resumed
    notes: Sequence[str] = ()  # notes on the data, for the user and for the log
    dev: Iterable[str] = ()  # the dev data, which must be unchanged too
