"""Several batches an update.

The gradient of a loss that is summed over sentences is the sum of the gradients of any batches that
they are cut into; divided by what all of these weigh it is that of the one large batch, up to
rounding. So batches that do not fit into memory are computed in parts (`train.accumulate`).
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
    task: str = ""  # as a batch's

    @property
    def indices(self) -> np.ndarray:
        """(B,) of all batches."""
        return np.concatenate([batch.indices for batch in self.batches])


def batches_of(update: Batch | Together) -> list[Batch]:
    """The batches of an update: one, or those that are accumulated."""
    if isinstance(update, Batch):
        return [update]
    return [replace(batch, task=update.task) for batch in update.batches]


class Accumulated:
    """A source whose batches are `count` of another's; an epoch's last one may be of fewer."""

    def __init__(self, source: BatchSource, count: int) -> None:
        self._source, self._count = source, count

    def epoch(self, rng: np.random.Generator) -> list[Sequence[Any]]:
        """The other's keys, `count` at a time."""
        keys = self._source.epoch(rng)
        return [keys[first : first + self._count] for first in range(0, len(keys), self._count)]

    def clock(self, keys: Sequence[Any]) -> np.ndarray:
        """(len(keys) + 1,): updates."""
        return np.arange(len(keys) + 1)

    def batch(self, key: Sequence[Any]) -> Together:
        """The batches of the keys."""
        return Together(tuple(map(self._source.batch, key)))

    def tokens(self, batch: Together) -> int:
        """Of all batches."""
        return sum(map(self._source.tokens, batch.batches))

    def weight(self, batch: Together) -> int:
        """Of all batches."""
        return sum(map(self._source.weight, batch.batches))


def accumulated(source: BatchSource, count: int) -> BatchSource:
    """A source with `count` batches an update; a mixture's updates stay those of one task."""
    if count == 1:
        return source
    mixed = getattr(source, "accumulated", None)
    return Accumulated(source, count) if mixed is None else mixed(count)


@contextmanager
def naming_batch(
    batch: Batch | Together, source: BatchSource, step: int, batch_size: int
) -> Iterator[None]:
    """Context of an update: a MemoryError tells of its batch, and of `train.batch_size`."""
    try:
        yield
    except MemoryError as error:
        raise too_large(error, f"update {step}: a batch of {len(batch.indices)} sentences, "
                        f"{source.tokens(batch)} target tokens",
                        f"train.batch_size is {batch_size}; a smaller one needs less") from error
