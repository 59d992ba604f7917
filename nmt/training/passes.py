"""The loss and the gradients of an update, summed over its batches."""

from __future__ import annotations

from typing import Any, NamedTuple

from backend import Array
from backend.rows import RowGradient, add_gradients
from nmt.models.contract import Cache, Gradients, Losses


class Sums(NamedTuple):
    """Loss and gradients, summed over target tokens."""

    loss: Array  # 0-d, nats
    word_loss: Array  # of the words alone, for perplexity; the same array as `loss` if it is equal
    gradients: Gradients
    length_loss: Array | None = None  # of the targets' lengths, a part of both; None: not predicted

    @property
    def losses(self) -> Losses:
        """The parts of the loss that the log shows."""
        return Losses(self.word_loss, lengths=self.length_loss)


def sums_of(loss: Array, cache: Cache, gradients: Gradients) -> Sums:
    """The sums of one batch, from the results of `Trainable.loss` and `backward`."""
    return Sums(loss, cache.losses.words, gradients, cache.losses.lengths)


def accumulate(total: Sums | None, sums: Sums) -> Sums:
    """The sums of a batch added to those of the batches before it, which are None for the first
    batch. Neither is written to."""
    if total is None:
        return sums
    loss, words = total.loss + sums.loss, total.word_loss + sums.word_loss
    same = total.word_loss is total.loss and sums.word_loss is sums.loss
    gradients = total.gradients | {
        name: (_add(total.gradients[name], gradient) if name in total.gradients else gradient)
        for name, gradient in sums.gradients.items()}
    lengths = [length for length in (total.length_loss, sums.length_loss) if length is not None]
    return Sums(loss, loss if same else words, gradients,
                sum(lengths[1:], start=lengths[0]) if lengths else None)


def _add(total: Any, gradient: Any) -> Any:
    """The sum of two gradients of one parameter, in a new array."""
    if isinstance(total, RowGradient):
        total, gradient = gradient, total
    return add_gradients(total if isinstance(total, RowGradient) else total.copy(), gradient)
