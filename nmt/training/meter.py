"""Loss, tokens, seconds and CPU time of training: since the log's last line, and of the epoch.

Losses are summed by task. Perplexity over a mixture of tasks has no meaning: its facts have, in
place of `loss` and `perplexity`, `tasks`: for each its loss, perplexity, target_tokens and updates.
Where the objective is not the words' loss alone (label smoothing, characters) there is also
`objective`, and where lengths are predicted `length_loss`, their part of the loss, both in nats
per target token.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from operator import add
from typing import Any

import numpy as np

from backend import Array, to_host
from nmt.models.contract import Losses
from nmt.training.resuming import number

PLAIN = ""  # the task of batches outside a mixture


class _Totals:
    """Nats, target tokens and updates of a task: in a window where the model computes, or in an
    epoch. The objective stays 0 if it is the loss, the length where no lengths are predicted."""

    def __init__(self, xp: Any) -> None:
        self.loss, self.objective, self.length = (
            xp.zeros((), dtype=np.float64) for _ in range(3))  # nats
        self.tokens = self.updates = 0

    def values(self) -> list[Any]:
        """All as plain numbers."""
        loss, objective, length = (
            float(to_host(nats)) for nats in (self.loss, self.objective, self.length))
        return [loss, self.tokens, self.updates, objective, length]

    def put(self, values: Sequence[Any]) -> None:
        """Put back what `values` gave."""
        (self.loss[...], self.tokens, self.updates, self.objective[...],
         self.length[...]) = values

    def close(self) -> dict[str, float]:
        """The facts of the log; another window or epoch begins."""
        loss, tokens, updates, objective, length = self.values()
        self.put([0.0, 0, 0, 0.0, 0.0])
        return {**_per_token(loss, tokens, objective, length), "target_tokens": tokens,
                "updates": updates}


class Meter:
    """Sums over a window (the updates since the last line of the log) and over the epoch.

    The window's loss is summed where the model computes, in float64, and fetched only when a line
    is written or a checkpoint saved.
    """

    def __init__(self, xp: Any) -> None:
        self.facts: dict[str, Any] = {}  # of the last window closed
        self.finite = True  # whether its loss is
        self._xp = xp
        self._totals: dict[str, tuple[_Totals, _Totals]] = {}  # window and epoch, by task
        self._norm: Array = 0.0
        self._window_seconds = np.zeros(2)  # wall-clock time, and CPU time of all threads
        self._seconds = np.zeros(2)  # of training, likewise; validation left out
        self._clock: np.ndarray | None = None  # when both were last read; None while stopped

    @property
    def window_tokens(self) -> int:
        """Target tokens since the log's last line."""
        return sum(window.tokens for window, _ in self._totals.values())

    def start(self) -> None:
        """Let the clock run from here."""
        self._clock = _now()

    def stop(self) -> None:
        """Let the clock stand."""
        self._take_time()
        self._clock = None

    def add(
        self, loss: Array, norm: Array, tokens: int, task: str = PLAIN, parts: Losses | None = None
    ) -> None:
        """One update: summed loss in nats, norm of the normalised gradient, target tokens, task;
        the parts of the loss, where it has such."""
        (window, _), parts = self._of(task), parts or Losses(loss)
        window.loss += parts.words
        if parts.words is not loss:
            window.objective += loss
        if parts.lengths is not None:
            window.length += parts.lengths
        window.tokens += tokens
        window.updates += 1
        self._norm = norm

    def close_window(self) -> dict[str, Any]:
        """The numbers of a line of the log; a new window begins.

        Returns loss (nats per target token) and perplexity, or tasks, gradient_norm (of the last
        update, before clipping), target_tokens, target_tokens_per_second, and since training began
        elapsed_seconds and cpu_seconds. The loss may not be finite.
        """
        self._take_time()
        tokens = self.window_tokens
        self._seconds += self._window_seconds
        parts = {}
        for task, (window, epoch) in self._totals.items():
            if window.updates:
                epoch.put(list(map(add, epoch.values(), window.values())))
                parts[task] = window.close()
        self.finite = all(math.isfinite(facts["loss"]) for facts in parts.values())
        self.facts = {
            **_together(parts),
            "gradient_norm": float(to_host(self._norm)),
            "target_tokens": tokens,
            "target_tokens_per_second": tokens / max(float(self._window_seconds[0]), 1e-9),
            "elapsed_seconds": float(self._seconds[0]),
            "cpu_seconds": float(self._seconds[1]),
        }
        self._window_seconds[:] = 0.0
        return self.facts

    def close_epoch(self) -> dict[str, Any]:
        """Loss and perplexity, or tasks, over the epoch, elapsed seconds; the clock stops until
        `start`."""
        self._clock = None
        parts = {task: epoch.close() for task, (_, epoch) in self._totals.items() if epoch.updates}
        return {**_together(parts), "elapsed_seconds": float(self._seconds[0])}

    def _of(self, task: str) -> tuple[_Totals, _Totals]:
        """The window and the epoch of a task."""
        if task not in self._totals:
            self._totals[task] = _Totals(self._xp), _Totals(np)
        return self._totals[task]

    def _take_time(self) -> None:
        """Add the time since the clock was last read to the window."""
        if self._clock is None:
            return
        time_now = _now()
        self._window_seconds += time_now - self._clock
        self._clock = time_now

    def state(self) -> dict[str, Any]:
        """The sums as plain numbers; the clock runs on."""
        self._take_time()
        window, total = self._window_seconds.tolist(), self._seconds.tolist()
        tasks = {}
        for task, pair in self._totals.items():
            (*w, w_objective, w_length), (*e, e_objective, e_length) = (t.values() for t in pair)
            tasks[task] = [*w, *e, w_objective, e_objective, w_length, e_length]
        return {"tasks": tasks, "window_seconds": window, "seconds": total}

    def load(self, state: dict[str, Any]) -> None:
        """Put back what `state` gave; CPU time counts from here where it was not yet counted."""
        state = _as_now(state)
        for task, values in state["tasks"].items():
            older = [0.0] * (10 - len(values)) if len(values) in (6, 8) else []
            *six, w_objective, e_objective, w_length, e_length = map(number, [*values, *older])
            window, epoch = self._of(task)
            window.put([*six[:3], w_objective, w_length])
            epoch.put([*six[3:], e_objective, e_length])
        self._window_seconds[:], self._seconds[:] = state["window_seconds"], state["seconds"]


def perplexities(facts: Mapping[str, Any]) -> dict[str, float]:
    """The training perplexities of facts, by task: of one that is no mixture, under PLAIN."""
    if "tasks" in facts:
        return {task: numbers["perplexity"] for task, numbers in facts["tasks"].items()}
    return {PLAIN: facts["perplexity"]} if "perplexity" in facts else {}


def _together(parts: Mapping[str, dict[str, float]]) -> dict[str, Any]:
    """The facts of all tasks: of a single nameless one its loss and perplexity."""
    if set(parts) <= {PLAIN}:
        facts = parts.get(PLAIN, _per_token(0.0, 0))
        return {name: facts[name] for name in ("loss", "perplexity", "objective", "length_loss")
                if name in facts}
    return {"tasks": dict(parts)}


def _as_now(state: dict[str, Any]) -> dict[str, Any]:
    """The state of an older run, without tasks, in the current format."""
    if "window" not in state:
        return state
    (loss, tokens, seconds), (cpu, all_cpu) = state["window"], state.get("cpu_seconds", (0.0, 0.0))
    # the number of updates was not stored, and is not shown: 1 where there are tokens
    sums = [loss, tokens, int(tokens > 0), *state["epoch"], int(state["epoch"][1] > 0)]
    return {"tasks": {PLAIN: sums}, "window_seconds": [seconds, cpu],
            "seconds": [state["seconds"], all_cpu]}


def _now() -> np.ndarray:
    """The clock, and this process's CPU time, in seconds."""
    return np.array([time.perf_counter(), time.process_time()])


def _per_token(
    loss: float, tokens: int, objective: float = 0.0, length: float = 0.0
) -> dict[str, float]:
    """Mean loss and perplexity, the objective where it is another, and the lengths' part of the
    loss; a perplexity too large for a float is given as e^700."""
    mean = loss / max(tokens, 1)
    return {"loss": mean, "perplexity": math.exp(min(mean, 700.0)),
            **({"objective": objective / max(tokens, 1)} if objective else {}),
            **({"length_loss": length / max(tokens, 1)} if length else {})}
