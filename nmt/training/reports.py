"""Reports during training, to an observer and to the run's log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from backend import Array, array_module, gemm
from backend.memory import pool_figures
from nmt.models.contract import Trainable
from nmt.training.accuracy import precision_cost
from nmt.training.batch_source import BatchSource
from nmt.training.log import Log
from nmt.training.meter import perplexities
from nmt.training.options import TrainOptions
from nmt.training.progress import Observer, Progress
from nmt.training.state import TrainingState

Scores = Mapping[str, float]


class Reports:
    """Writes lines of the log, and calls the observer, from the state of training."""

    def __init__(self, state: TrainingState, options: TrainOptions, log: Log,
                 observer: Observer) -> None:
        self._state, self._options, self._log, self._observer = state, options, log, observer

    def write(self, event: str, **record: Any) -> None:
        """Write a line of the log, with the counters of epoch and update."""
        counters = self._state.counters
        self._log.write(event, step=counters.step, epoch=counters.epoch, **record)

    def notes(self, texts: Iterable[str]) -> None:
        """Report notes on the run."""
        for text in texts:
            self._observer.on_note(text)
            self.write("note", text=text)

    def nothing_left(self) -> None:
        """Report that all epochs are trained already."""
        self._observer.on_note(f"nothing is left to train after epoch "
                               f"{self._state.counters.epoch - 1} of {self._options.epochs:g}")

    def precision(self, model: Trainable, parameters: dict[str, Array], source: BatchSource
                  ) -> None:
        """Report how much accuracy matrix products below float32 cost, on the first batch."""
        if gemm.precision() == "float32":
            return
        keys = source.epoch(np.random.default_rng([self._options.seed, 0]))
        cost = precision_cost(model, parameters, source.batch(keys[0]))
        self._observer.on_note(str(cost))
        self.write("gemm", precision=cost.precision, loss_error=cost.loss,
                   gradient_error=cost.gradients, largest_error=cost.largest, largest_at=cost.name)

    def window(self, facts: Mapping[str, Any], parameters: Mapping[str, Array]) -> None:
        """Report the updates since the log's last window."""
        self.write("update", **facts, learning_rate=self._state.optimizer.learning_rate,
                   **pool_figures(array_module(*parameters.values())))

    def batch(self, batches: int) -> None:
        """Report an update, with the loss and speed of the log's last window. batches: the number
        of updates in the epoch."""
        counters, facts = self._state.counters, self._state.meter.facts
        self._observer.on_batch(Progress(
            counters.epoch, self._options.epochs, counters.position, batches, counters.step,
            self._state.optimizer.learning_rate, facts.get("target_tokens_per_second"),
            perplexities(facts)))

    def evaluation(self, scores: Scores, improved: bool) -> None:
        """Report a validation within an epoch."""
        self.write("evaluation", scores=scores, improved=improved)
        self._observer.on_evaluation(self._state.counters.step, scores, improved)

    def epoch(self, facts: Mapping[str, Any], scores: Scores, improved: bool) -> None:
        """Report the end of an epoch."""
        self.write("epoch", **facts, scores=scores, improved=improved)
        self._observer.on_epoch(self._state.counters.epoch, facts, scores, improved)

    def close(self) -> None:
        """Close the observer: training has ended."""
        self._observer.close()
