"""What forward and backward passes of one update come to, over its batches."""

from __future__ import annotations

from typing import Any, NamedTuple

from backend import Array
from backend.rows import RowGradient, add_gradients
from nmt.models.contract import Cache, Gradients, Losses


class Sums(NamedTuple):
    """Loss and gradients, summed over target tokens."""

    loss: Array  # 0-d, nats
    word_loss: Array  # of words alone, which perplexity is of; the same array where it is the loss
    gradients: Gradients
    length_loss: Array | None = None  # of the targets' lengths, a part of both; None without

    @property
    def losses(self) -> Losses:
        """The parts of the loss that the log has."""
        return Losses(self.word_loss, lengths=self.length_loss)


def sums_of(loss: Array, cache: Cache, gradients: Gradients) -> Sums:
    """Those of one batch, from what `Trainable.loss` and `backward` returned."""
    return Sums(loss, cache.losses.words, gradients, cache.losses.lengths)


def accumulate(total: Sums | None, sums: Sums) -> Sums:
    """The sums of a further batch added to those of the batches before it, None for the first;
    neither is written to."""
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
    """The sum of two gradients of one parameter, in a fresh array."""
    if isinstance(total, RowGradient):
        total, gradient = gradient, total
    return add_gradients(total if isinstance(total, RowGradient) else total.copy(), gradient)
