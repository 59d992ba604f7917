"""Learning rates as functions of the update: a linear warm-up, and decay with the inverse square
root.

Nguyen Eq. 3.8: LR(n) = lambda / sqrt(d) min(1 / sqrt(n), n / n_w^1.5) at update n, counted from 1.
Its peak, at n = n_w, is lambda / sqrt(d n_w). Here the peak is the option: LR(n) = peak
min(sqrt(n_w / n), n / n_w). With the schedules of other modules:

| Nguyen (2019), 3.3.3.4 | schedule | warmup | learning_rate |
|---|---|---|---|
| InvSqrtDecay | inverse-sqrt | n_w, 8,000 | the peak, 4.9e-4 at d = 512 |
| ValDecay | plateau | n_w | the peak |
| NoWarmup | plateau | 0 | 3e-4 |
| 2x | either | n_w | the peak doubled |
"""

from __future__ import annotations

from typing import Any

from nmt.training.resuming import number
from nmt.training.schedule import Schedule


class InverseSqrtSchedule:
    """The rate times sqrt(n_w / n) after update n_w."""

    finished = False

    def __init__(self, rate: float, warmup: int) -> None:
        """rate: the one up to update n_w = warmup, after which it decays. Raises ValueError for a
        warmup below 1."""
        if warmup < 1:
            raise ValueError(f"warmup: expected at least 1 update with the schedule inverse-sqrt, "
                             f"got {warmup}")
        self.rate, self._warmup = rate, warmup

    def rate_at(self, epoch: int, done: float, update: int = 1) -> float:
        """The rate of an update; it does not depend on the epoch."""
        return self.rate * min(1.0, (self._warmup / update) ** 0.5)  # (Nguyen 3.8), from its peak

    def evaluated(self, score: float) -> None:
        """Nothing changes."""

    def epoch_end(self, epoch: int) -> None:
        """Nothing changes."""

    def state(self) -> dict[str, Any]:
        """The rate at the peak."""
        return {"rate": self.rate}

    def load(self, state: dict[str, Any]) -> None:
        """Put back what `state` gave."""
        self.rate = number(state["rate"])


class WarmUp:
    """A linear warm-up of another schedule: its rate times min(1, n / n_w)."""

    def __init__(self, within: Schedule, warmup: int) -> None:
        self._within, self._warmup = within, warmup

    @property
    def rate(self) -> float:
        """That of the schedule within."""
        return self._within.rate

    @property
    def finished(self) -> bool:
        """As the schedule within."""
        return self._within.finished

    def rate_at(self, epoch: int, done: float, update: int = 1) -> float:
        """The rate of an update."""
        rate = self._within.rate_at(epoch, done, update)
        return rate * min(1.0, update / self._warmup)                      # (Nguyen 3.8), to it

    def evaluated(self, score: float) -> None:
        """Tell the schedule within."""
        self._within.evaluated(score)

    def epoch_end(self, epoch: int) -> None:
        """Tell the schedule within."""
        self._within.epoch_end(epoch)

    def state(self) -> dict[str, Any]:
        """That of the schedule within."""
        return self._within.state()

    def load(self, state: dict[str, Any]) -> None:
        """Put back what `state` gave."""
        self._within.load(state)


def scale(peak: float, warmup: int, width: int) -> float:
    """lambda of Nguyen Eq. 3.8 for a peak, of a model of this width d."""
    return peak * (width * warmup) ** 0.5
