"""The learning rate of inverse-sqrt: a linear warm-up, then decay with the inverse square root.

Nguyen Eq. 3.8: LR(n) = lambda / sqrt(d) min(1 / sqrt(n), n / n_w^1.5) at update n, counted from 1.
Its peak, at n = n_w, is lambda / sqrt(d n_w). Here the recipe gives the peak: LR(n) = peak
min(sqrt(n_w / n), n / n_w). Nguyen's schedules in recipes:

| Nguyen (2019), 3.3.3.4 | schedule | warmup | learning_rate |
|---|---|---|---|
| InvSqrtDecay | inverse-sqrt | n_w, 8,000 | the peak, 4.9e-4 at d = 512 |
| ValDecay | plateau | n_w | the peak |
| NoWarmup | plateau | 0 | 3e-4 |
| 2x | either | n_w | the peak doubled |
"""

from __future__ import annotations

from nmt.training.schedule import Schedule


class InverseSqrtSchedule(Schedule):
    """A schedule with the peak rate times sqrt(n_w / n) at update n, after update n_w, the warm-up,
    which is at least 1."""

    def _rate_at(self, epoch: int, done: float, update: int) -> float:
        """The rate of an update; it does not depend on the epoch."""
        return self.rate * min(1.0, (self._warmup / update) ** 0.5)  # (Nguyen 3.8), from its peak


def scale(peak: float, warmup: int, width: int) -> float:
    """lambda of Nguyen Eq. 3.8 for a peak and a model of width d."""
    return peak * (width * warmup) ** 0.5
