"""Several batches in one update (`train.accumulate`).

The loss is summed over sentences, so that the gradient of a large batch is, up to rounding, the sum
of the gradients of smaller batches that it is cut into, divided by the weight of them all. So a
batch that does not fit into memory is computed in parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from backend.memory import too_large
from nmt.data.batches import Batch
from nmt.training.batch_source import BatchSource


@dataclass(frozen=True)
class Together:
    """The batches of one update."""

    batches: tuple[Batch, ...]
    task: str = ""  # see `Batch`

    @property
    def indices(self) -> np.ndarray:
        """(B,) the indices of all batches."""
        return np.concatenate([batch.indices for batch in self.batches])


def batches_of(update: Batch | Together) -> list[Batch]:
    """The batches of an update, a single one or those that are accumulated."""
    if isinstance(update, Batch):
        return [update]
    return [replace(batch, task=update.task) for batch in update.batches]


class Accumulated:
    """A source that takes `count` batches of another source together. The last ones of an epoch
    may be fewer."""

    def __init__(self, source: BatchSource, count: int) -> None:
        self._source, self._count = source, count

    def epoch(self, rng: np.random.Generator) -> list[Sequence[Any]]:
        """The keys of the other source, `count` at a time."""
        keys = self._source.epoch(rng)
        return [keys[first : first + self._count] for first in range(0, len(keys), self._count)]

    def clock(self, keys: Sequence[Any]) -> np.ndarray:
        """(len(keys) + 1,) the updates before each key, and in all."""
        return np.arange(len(keys) + 1)

    def batch(self, key: Sequence[Any]) -> Together:
        """The batches of the keys."""
        return Together(tuple(map(self._source.batch, key)))

    def tokens(self, batch: Together) -> int:
        """The target tokens of all batches."""
        return sum(map(self._source.tokens, batch.batches))

    def weight(self, batch: Together) -> int:
        """The weight of all batches."""
        return sum(map(self._source.weight, batch.batches))


def accumulated(source: BatchSource, count: int) -> BatchSource:
    """The source with `count` batches in each update. In a mixture each update belongs to one
    task."""
    if count == 1:
        return source
    mixed = getattr(source, "accumulated", None)
    return Accumulated(source, count) if mixed is None else mixed(count)


@contextmanager
def naming_batch(
    batch: Batch | Together, source: BatchSource, step: int, batch_size: int
) -> Iterator[None]:
    """Context of an update that adds its batch and `train.batch_size` to a MemoryError's message.
    """
    try:
        yield
    except MemoryError as error:
        raise too_large(error, f"update {step}: a batch of {len(batch.indices)} sentences, "
                        f"{source.tokens(batch)} target tokens",
                        f"train.batch_size is {batch_size}; a smaller one needs less") from error
