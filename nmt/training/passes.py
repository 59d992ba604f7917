"""What forward and backward passes of one update come to, over its batches."""

from __future__ import annotations

from typing import Any, NamedTuple

from backend import Array
from backend.rows import RowGradient, add_gradients
from nmt.models.contract import Gradients, losses


class Sums(NamedTuple):
    """Loss and gradients, summed over target tokens."""

    loss: Array  # 0-d, nats
    word_loss: Array  # of words alone, which perplexity is of; the same array where it is the loss
    gradients: Gradients
    length_loss: Array | None = None  # of the targets' lengths, a part of both; None without


def sums_of(loss: Array, cache: Any, gradients: Gradients) -> Sums:
    """Those of one batch, from what `Trainable.loss` and `backward` returned."""
    parts = losses(loss, cache)
    return Sums(loss, parts.words, gradients, parts.lengths)


def plus(one: Sums | None, other: Sums) -> Sums:
    """The sums of both; neither is written to."""
    if one is None:
        return other
    loss, words = one.loss + other.loss, one.word_loss + other.word_loss
    together = one.word_loss is one.loss and other.word_loss is other.loss
    gradients = one.gradients | {
        name: _added(one.gradients[name], gradient) if name in one.gradients else gradient
        for name, gradient in other.gradients.items()}
    lengths = [own for own in (one.length_loss, other.length_loss) if own is not None]
    return Sums(loss, loss if together else words, gradients,
                sum(lengths[1:], start=lengths[0]) if lengths else None)


def _added(one: Any, other: Any) -> Any:
    """The sum of two gradients of one parameter."""
    if isinstance(one, RowGradient):
        one, other = other, one
    return add_gradients(one if isinstance(one, RowGradient) else one.copy(), other)
