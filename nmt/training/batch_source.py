"""What the trainer asks of its data: batches, and what validates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from backend import Array

Validate = Callable[[dict[str, Array]], dict[str, float]]


class BatchSource(Protocol):
    """Where batches come from."""

    def epoch(self, rng: np.random.Generator) -> Sequence[Any]:
        """The keys of one epoch's batches; `rng` alone may decide their order."""

    def clock(self, keys: Sequence[Any]) -> np.ndarray:
        """(len(keys) + 1,) int: how many updates that the schedule counts come before each key of
        an epoch, and in all. They end the epoch; of a mixture they are the reference task's."""

    def batch(self, key: Any) -> Any:
        """The batch of a key."""

    def tokens(self, batch: Any) -> int:
        """Target tokens in the batch: what the loss is summed over."""

    def weight(self, batch: Any) -> int:
        """What the gradient of the batch's loss is divided by: sentences, say, or tokens."""


class Training(NamedTuple):
    """The data of a training run."""

    batches: BatchSource
    validate: Validate | None = None  # scores by name of the parameters, `train.criterion` among
    lines: Iterable[str] = ()  # the training data, which a resumed run must find unchanged
    notes: Sequence[str] = ()  # on the data, for whoever trains and for the log
    dev: Iterable[str] = ()  # the dev data, likewise unchanged
