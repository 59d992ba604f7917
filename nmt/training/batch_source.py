"""What the trainer asks of its data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from nmt.data.batches import Batch


class BatchSource(Protocol):
    """Where batches come from."""

    def epoch(self, rng: np.random.Generator) -> Sequence[Any]:
        """The keys of one epoch's batches; `rng` alone may decide their order."""

    def clock(self, keys: Sequence[Any]) -> np.ndarray:
        """(len(keys) + 1,) int: how many updates that the schedule counts come before each key of
        an epoch, and in all. They end the epoch; of a mixture they are the reference task's."""

    def batch(self, key: Any) -> Batch:
        """The batch of a key."""

    def tokens(self, batch: Any) -> int:
        """Target tokens in the batch: what the loss is summed over."""

    def weight(self, batch: Any) -> int:
        """What the gradient of the batch's loss is divided by: sentences, say, or tokens."""
