"""Learning rates that change between epochs, or within them.

A schedule has the learning rate at the start of the next epoch (`rate`) and at each update
(`rate_at`). It receives scores (`evaluated`) and the end of each epoch (`epoch_end`), says when
training should stop (`finished`), and has a state of plain numbers. Epochs count from 1.
"""

from __future__ import annotations

import math
from typing import Any

from nmt.training.resuming import number


class Schedule:
    """A constant rate: the base of all schedules, with a linear warm-up (`nmt.training.warmup`)."""

    def __init__(self, rate: float, warmup: int = 0) -> None:
        """warmup: updates in which the rate rises from zero."""
        self.rate, self._warmup = rate, warmup

    def rate_at(self, epoch: int, done: float, update: int = 1) -> float:
        """The learning rate of an update. done: the share, in [0, 1), of the epoch that is over.
        update: the number of the update, from 1."""
        rate = self._rate_at(epoch, done, update)
        if not self._warmup:
            return rate
        return rate * min(1.0, update / self._warmup)                  # (Nguyen 3.8), to its peak

    def _rate_at(self, epoch: int, done: float, update: int) -> float:
        """The learning rate of an update without warm-up."""
        return self.rate

    @property
    def finished(self) -> bool:
        """Whether training should stop."""
        return False

    def evaluated(self, score: float) -> None:
        """Called after each evaluation, with the score of the criterion."""

    def epoch_end(self, epoch: int) -> None:
        """Called after each epoch."""

    def state(self) -> dict[str, Any]:
        """The state as JSON values."""
        return {"rate": self.rate}

    def load(self, state: dict[str, Any]) -> None:
        """Restore what `state` returned."""
        self.rate = number(state["rate"])


class ThesisSchedule(Schedule):
    """A fixed rate that is halved regularly after a given epoch.

    Source: thesis, section 4.3.1: "a learning rate of 1; after 5 epochs, I begin to halve the
    learning rate every epoch"; sections 3.3 and 5.3 halve "every 0.5 epoch". The first halving is
    after halve_after epochs, the next one halve_every epochs later, and so on. With 5 and 1, epochs
    1 to 5 use `rate`, the sixth rate / 2, the seventh rate / 4. With 5 and 0.5, the halves of the
    sixth use rate / 2 and rate / 4. halve_after None never halves: the rate is constant.
    """

    def __init__(self, rate: float = 1.0, halve_after: int | None = 5, halve_every: float = 1.0,
                 warmup: int = 0) -> None:
        super().__init__(rate, warmup)
        self._initial, self._halve_after, self._halve_every = rate, halve_after, halve_every

    def _rate_at(self, epoch: int, done: float, update: int = 1) -> float:
        """The rate when epoch - 1 + done epochs are over."""
        if self._halve_after is None:
            return self._initial
        late = epoch - 1 + done - self._halve_after  # epochs since the first halving
        halvings = math.floor(late / self._halve_every + 1e-9) + 1  # 1e-9: 0.3 / 0.1 is below 3
        return self._initial * 0.5 ** max(0, halvings)

    def epoch_end(self, epoch: int) -> None:
        """Set the rate at the start of epoch `epoch + 1`."""
        self.rate = self._rate_at(epoch + 1, 0.0)


class PlateauSchedule(Schedule):
    """A rate that is multiplied by a factor whenever the validation score stops improving.

    Source: Nguyen, section 4 (training): decay 0.8, patience 3, and training stops when the rate
    becomes too small (1e-6).

    rate: the first learning rate. factor: in (0, 1). patience: how many evaluations in a row may
    have no new best score before the rate decays. minimum: training is `finished` when the rate
    falls below it. higher_is_better: False for perplexity, True for BLEU.
    """

    def __init__(self, rate: float, factor: float = 0.8, patience: int = 3, minimum: float = 1e-6,
                 higher_is_better: bool = False, warmup: int = 0) -> None:
        super().__init__(rate, warmup)
        self._factor, self._patience, self._minimum = factor, patience, minimum
        self._higher_is_better = higher_is_better
        self._best: float | None = None
        self._waited = 0

    @property
    def finished(self) -> bool:
        """Whether the rate has fallen below the minimum."""
        return self.rate < self._minimum

    def evaluated(self, score: float) -> None:
        """Decay the rate if `patience` evaluations in a row, including this one, had no new best.
        """
        if is_better(score, self._best, self._higher_is_better):
            self._best, self._waited = score, 0
            return
        self._waited += 1
        if self._waited >= self._patience:
            self.rate *= self._factor
            self._waited = 0

    def state(self) -> dict[str, Any]:
        """The rate, the best score and the number of evaluations since then."""
        return super().state() | {"best": self._best, "waited": self._waited}

    def load(self, state: dict[str, Any]) -> None:
        """Restore what `state` returned."""
        super().load(state)
        best, self._waited = state["best"], number(state["waited"])
        self._best = None if best is None else number(best)


def is_better(score: float, best: float | None, higher_is_better: bool) -> bool:
    """Whether `score` beats `best`. Every number beats None; NaN beats nothing."""
    if score != score:
        return False
    return best is None or (score > best if higher_is_better else score < best)
