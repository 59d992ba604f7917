"""Loss, tokens, seconds and CPU time of training: since the log's last line, and of the epoch."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np

from backend import Array, to_host


class Meter:
    """Sums over a window (the updates since the last line of the log) and over the epoch.

    The window's loss is summed where the model computes, in float64, and fetched only when a line
    is written or a checkpoint saved.
    """

    def __init__(self, xp: Any) -> None:
        self.facts: dict[str, float] = {}  # of the last window closed
        self.window_tokens = 0
        self._loss = xp.zeros((), dtype=np.float64)  # nats
        self._norm: Array = 0.0
        self._window_seconds = np.zeros(2)  # on the clock, and of CPU time of all threads
        self._epoch_loss, self._epoch_tokens = 0.0, 0
        self._seconds = np.zeros(2)  # of training, likewise; validation left out
        self._clock: np.ndarray | None = None  # when both were last read; None while they stand

    def start(self) -> None:
        """Let the clock run from here."""
        self._clock = _now()

    def add(self, loss: Array, norm: Array, tokens: int) -> None:
        """One update: summed loss in nats, norm of the normalised gradient, target tokens."""
        self._loss += loss
        self._norm = norm
        self.window_tokens += tokens

    def close_window(self) -> dict[str, float]:
        """The numbers of a line of the log; a new window begins.

        Returns loss (nats per target token) and perplexity, gradient_norm (of the last update,
        before clipping), target_tokens, target_tokens_per_second, and since training began
        elapsed_seconds and cpu_seconds. The loss may not be finite.
        """
        self._take_time()
        loss, tokens = float(to_host(self._loss)), self.window_tokens
        self._seconds += self._window_seconds
        self.facts = {
            **_per_token(loss, tokens),
            "gradient_norm": float(to_host(self._norm)),
            "target_tokens": tokens,
            "target_tokens_per_second": tokens / max(float(self._window_seconds[0]), 1e-9),
            "elapsed_seconds": float(self._seconds[0]),
            "cpu_seconds": float(self._seconds[1]),
        }
        self._epoch_loss += loss
        self._epoch_tokens += tokens
        self._loss[...] = 0.0
        self._window_seconds[:] = 0.0
        self.window_tokens = 0
        return self.facts

    def close_epoch(self) -> dict[str, float]:
        """Loss and perplexity over the epoch, elapsed seconds; the clock stops until `start`."""
        self._clock = None
        facts = {**_per_token(self._epoch_loss, self._epoch_tokens),
                 "elapsed_seconds": float(self._seconds[0])}
        self._epoch_loss, self._epoch_tokens = 0.0, 0
        return facts

    def _take_time(self) -> None:
        """Add the time since the clock was last read to the window."""
        if self._clock is None:
            return
        now = _now()
        self._window_seconds += now - self._clock
        self._clock = now

    def state(self) -> dict[str, Any]:
        """The sums as plain numbers; the clock runs on."""
        self._take_time()
        window, total = self._window_seconds.tolist(), self._seconds.tolist()
        return {"window": [float(to_host(self._loss)), self.window_tokens, window[0]],
                "epoch": [self._epoch_loss, self._epoch_tokens], "seconds": total[0],
                "cpu_seconds": [window[1], total[1]]}

    def load(self, state: dict[str, Any]) -> None:
        """Put back what `state` gave; CPU time counts from here where it was not yet counted."""
        self._loss[...], self.window_tokens, window = state["window"]
        self._epoch_loss, self._epoch_tokens = state["epoch"]
        window_cpu, cpu = state.get("cpu_seconds", (0.0, 0.0))
        self._window_seconds[:] = window, window_cpu
        self._seconds[:] = state["seconds"], cpu


def _now() -> np.ndarray:
    """The clock, and this process's CPU time, in seconds."""
    return np.array([time.perf_counter(), time.process_time()])


def _per_token(loss: float, tokens: int) -> dict[str, float]:
    """Mean loss and perplexity; a perplexity too large for a float is given as e^700."""
    mean = loss / max(tokens, 1)
    return {"loss": mean, "perplexity": math.exp(min(mean, 700.0))}
