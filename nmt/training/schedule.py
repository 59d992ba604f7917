"""Learning rates that change between epochs.

A schedule has a `rate` (the learning rate of the coming epoch), is told the end of each epoch
(`epoch_end`), says when training should stop (`finished`), and gives its state as plain numbers.
Epochs count from 1.
"""

from __future__ import annotations

from typing import Any, Protocol


class Schedule(Protocol):
    """What the trainer needs of a schedule."""

    @property
    def rate(self) -> float:
        """The learning rate of the coming epoch."""

    @property
    def finished(self) -> bool:
        """True when further training is pointless."""

    def epoch_end(self, epoch: int, score: float | None) -> None:
        """Told after each epoch, with the validation score if there was a validation."""

    def state(self) -> dict[str, Any]:
        """The state as JSON-able values."""

    def load(self, state: dict[str, Any]) -> None:
        """Put back what `state` gave."""


class ThesisSchedule:
    """A fixed rate, halved every epoch from a given epoch on.

    Source: thesis, section 4.3.1: "a learning rate of 1; after 5 epochs, I begin to halve the
    learning rate every epoch". Epochs 1 to halve_after use `rate`, the next rate / 2, then rate /
    4, and so on. halve_after None never halves: a constant rate.
    Departure: sections 3.3 and 5.3 halve every half epoch; rates change between epochs only here.
    """

    finished = False

    def __init__(self, rate: float = 1.0, halve_after: int | None = 5) -> None:
        if halve_after is not None and halve_after < 1:
            raise ValueError(f"halve_after: expected at least 1 epoch, got {halve_after}")
        self.rate = self._initial = _positive("rate", rate)
        self._halve_after = halve_after

    def epoch_end(self, epoch: int, score: float | None) -> None:
        """Set the rate of epoch `epoch + 1`; the score is not looked at."""
        if self._halve_after is not None:
            self.rate = self._initial * 0.5 ** max(0, epoch + 1 - self._halve_after)

    def state(self) -> dict[str, Any]:
        """The current rate."""
        return {"rate": self.rate}

    def load(self, state: dict[str, Any]) -> None:
        """Put back what `state` gave."""
        self.rate = state["rate"]


class PlateauSchedule:
    """The rate times a factor whenever the validation score stops improving.

    Source: Nguyen, section 4 (training): decay 0.8, patience 3, and training stops when the rate
    becomes too small (1e-6).

    Arguments: rate, the first learning rate; factor, in (0, 1); patience, the number of epochs in
    a row without a new best score after which the rate decays; minimum, training is `finished`
    when the rate falls below it; higher_is_better, False for perplexity, True for BLEU.
    """

    def __init__(self, rate: float, factor: float = 0.8, patience: int = 3, minimum: float = 1e-6,
                 higher_is_better: bool = False) -> None:
        if not 0 < factor < 1:
            raise ValueError(f"factor: expected a number between 0 and 1, got {factor}")
        if patience < 1:
            raise ValueError(f"patience: expected at least 1 epoch, got {patience}")
        self.rate = _positive("rate", rate)
        self._factor, self._patience, self._minimum = factor, patience, minimum
        self._higher_is_better = higher_is_better
        self._best: float | None = None
        self._waited = 0

    @property
    def finished(self) -> bool:
        """True when the rate has fallen below the minimum."""
        return self.rate < self._minimum

    def epoch_end(self, epoch: int, score: float | None) -> None:
        """Decay when `score` is the last of `patience` epochs without a new best.

        Raises ValueError without a score.
        """
        if score is None:
            raise ValueError("score: the plateau schedule expected a validation score, got None")
        if is_better(score, self._best, self._higher_is_better):
            self._best, self._waited = score, 0
            return
        self._waited += 1
        if self._waited >= self._patience:
            self.rate *= self._factor
            self._waited = 0

    def state(self) -> dict[str, Any]:
        """Rate, best score and epochs waited since."""
        return {"rate": self.rate, "best": self._best, "waited": self._waited}

    def load(self, state: dict[str, Any]) -> None:
        """Put back what `state` gave."""
        self.rate, self._best, self._waited = state["rate"], state["best"], state["waited"]


def is_better(score: float, best: float | None, higher_is_better: bool) -> bool:
    """True when `score` beats `best`; any number beats None, a NaN beats nothing."""
    if score != score:
        return False
    return best is None or (score > best if higher_is_better else score < best)


def _positive(name: str, value: float) -> float:
    """`value`, checked to be above zero."""
    if not value > 0:
        raise ValueError(f"{name}: expected a positive number, got {value}")
    return value
