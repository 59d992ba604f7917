"""Loss, tokens, seconds and CPU time of training, since the log's last line and of the epoch.

Losses are summed by task. Perplexity over a mixture of tasks has no meaning. So a mixture has,
instead of `loss` and `perplexity`, `tasks`: each task's loss, perplexity, target_tokens and
updates. If the objective is more than the words' loss (label smoothing, characters), there is also
`objective`, and if lengths are predicted, `length_loss`, their share of the loss; both are in nats
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
    """Nats, target tokens and updates of a task, in a window or in an epoch. The sums of a window
    are on the model's device. The objective stays 0 if it is the loss of the words, and the length
    if no lengths are predicted."""

    def __init__(self, xp: Any) -> None:
        self.loss, self.objective, self.length = (
            xp.zeros((), dtype=np.float64) for _ in range(3))  # nats
        self.tokens = self.updates = 0

    def values(self) -> list[Any]:
        """All sums as plain numbers."""
        loss, objective, length = (
            float(to_host(nats)) for nats in (self.loss, self.objective, self.length))
        return [loss, self.tokens, self.updates, objective, length]

    def put(self, values: Sequence[Any]) -> None:
        """Restore sums that `values` returned."""
        (self.loss[...], self.tokens, self.updates, self.objective[...], self.length[...]) = values

    def close(self) -> dict[str, float]:
        """The numbers for the log; all sums start again from 0."""
        loss, tokens, updates, objective, length = self.values()
        self.put([0.0, 0, 0, 0.0, 0.0])
        return {**_per_token(loss, tokens, objective, length), "target_tokens": tokens,
                "updates": updates}


class Meter:
    """Sums over a window (the updates since the log's last line) and over the epoch.

    The window's loss is summed on the model's device in float64. It is fetched only when a line is
    written or a checkpoint saved.
    """

    def __init__(self, xp: Any) -> None:
        self.facts: dict[str, Any] = {}  # numbers of the last window that was closed
        self.finite = True  # whether the loss of that window is finite
        self._xp = xp
        self._totals: dict[str, tuple[_Totals, _Totals]] = {}  # window and epoch, by task
        self._norm: Array = 0.0
        self._window_seconds = np.zeros(2)  # wall-clock time, and CPU time of all threads
        self._seconds = np.zeros(2)  # both times of all training, without validation
        self._clock: np.ndarray | None = None  # last reading of both; None while the clock stands

    @property
    def window_tokens(self) -> int:
        """The target tokens since the log's last line."""
        return sum(window.tokens for window, _ in self._totals.values())

    def start(self) -> None:
        """Start the clock."""
        self._clock = _now()

    def stop(self) -> None:
        """Stop the clock."""
        self._take_time()
        self._clock = None

    def add(
        self, loss: Array, norm: Array, tokens: int, task: str = PLAIN, parts: Losses | None = None
    ) -> None:
        """Add an update: its summed loss in nats, the norm of the normalised gradient, its target
        tokens, its task and, if there are any, the parts of its loss."""
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
        """The numbers of the window, for a line of the log; a new window begins.

        These are loss (nats per target token) and perplexity, or tasks; gradient_norm, of the last
        update before clipping; target_tokens; target_tokens_per_second; and the seconds since
        training began, elapsed_seconds and cpu_seconds. The loss need not be finite.
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
        """The epoch's loss and perplexity, or tasks, and elapsed_seconds. The clock stops."""
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
        """All sums as plain numbers, for a checkpoint."""
        self._take_time()
        window, total = self._window_seconds.tolist(), self._seconds.tolist()
        tasks = {}
        for task, pair in self._totals.items():
            (*w, w_objective, w_length), (*e, e_objective, e_length) = (t.values() for t in pair)
            tasks[task] = [*w, *e, w_objective, e_objective, w_length, e_length]
        return {"tasks": tasks, "window_seconds": window, "seconds": total}

    def load(self, state: dict[str, Any]) -> None:
        """Restore what `state` returned. Older states lack some sums, which start from 0."""
        state = _as_now(state)
        for task, values in state["tasks"].items():
            older = [0.0] * (10 - len(values)) if len(values) in (6, 8) else []
            *six, w_objective, e_objective, w_length, e_length = map(number, [*values, *older])
            window, epoch = self._of(task)
            window.put([*six[:3], w_objective, w_length])
            epoch.put([*six[3:], e_objective, e_length])
        self._window_seconds[:], self._seconds[:] = state["window_seconds"], state["seconds"]


def perplexities(facts: Mapping[str, Any]) -> dict[str, float]:
    """The training perplexities in a window's or an epoch's numbers, by task; PLAIN is the task of
    a run that is no mixture."""
    if "tasks" in facts:
        return {task: numbers["perplexity"] for task, numbers in facts["tasks"].items()}
    return {PLAIN: facts["perplexity"]} if "perplexity" in facts else {}


def _together(parts: Mapping[str, dict[str, float]]) -> dict[str, Any]:
    """The numbers of all tasks; those of PLAIN alone stand without its name."""
    if set(parts) <= {PLAIN}:
        facts = parts.get(PLAIN, _per_token(0.0, 0))
        return {name: facts[name] for name in ("loss", "perplexity", "objective", "length_loss")
                if name in facts}
    return {"tasks": dict(parts)}


def _as_now(state: dict[str, Any]) -> dict[str, Any]:
    """A state in the current format; older runs had no tasks."""
    if "window" not in state:
        return state
    (loss, tokens, seconds), (cpu, all_cpu) = state["window"], state.get("cpu_seconds", (0.0, 0.0))
    # Older runs did not store the number of updates: 1 stands for any.
    sums = [loss, tokens, int(tokens > 0), *state["epoch"], int(state["epoch"][1] > 0)]
    return {"tasks": {PLAIN: sums}, "window_seconds": [seconds, cpu],
            "seconds": [state["seconds"], all_cpu]}


def _now() -> np.ndarray:
    """The wall-clock time, and this process's CPU time, in seconds."""
    return np.array([time.perf_counter(), time.process_time()])


def _per_token(
    loss: float, tokens: int, objective: float = 0.0, length: float = 0.0
) -> dict[str, float]:
    """Loss, perplexity and, if they are not 0, objective and length loss, per token. A perplexity
    too large for a float becomes e^700."""
    mean = loss / max(tokens, 1)
    return {"loss": mean, "perplexity": math.exp(min(mean, 700.0)),
            **({"objective": objective / max(tokens, 1)} if objective else {}),
            **({"length_loss": length / max(tokens, 1)} if length else {})}
