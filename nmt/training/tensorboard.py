"""TensorBoard event files of training, in the run directory (extra `tensorboard`)."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from backend.errors import UserError, missing
from nmt.console.terminal import Console
from nmt.training.meter import perplexities
from nmt.training.progress import ConsoleObserver, Progress

DIRECTORY = "tensorboard"  # in the run directory


class TensorBoardObserver(ConsoleObserver):
    """Prints as `ConsoleObserver` does, and writes event files. At updates they get
    `train/perplexity`, `train/learning_rate` and `train/target_tokens_per_second`; after
    evaluations, at the last update's number, `epoch/train_perplexity` and the dev set's scores,
    `dev/perplexity` and so on. With several tasks, the names of perplexities end in the task's.

    The file is made at the first number, so that a run that fails before leaves none. A resumed run
    adds a file.
    """

    def __init__(self, directory: Path, console: Console | None = None) -> None:
        """directory: the run's. Raises UserError without tensorboardX."""
        super().__init__(console)
        if importlib.util.find_spec("tensorboardX") is None:
            raise UserError(f"--tensorboard: {missing('tensorboardX', 'tensorboard')}")
        self._directory = directory / DIRECTORY
        self._writer: Any = None
        self._step = 0
        self._speed: float | None = None

    def on_batch(self, progress: Progress) -> None:
        """Write the values of the last updates, if there are new ones."""
        super().on_batch(progress)
        self._step = progress.step
        if progress.tokens_per_second == self._speed:
            return  # no new measurement
        self._speed = progress.tokens_per_second
        self._write("train/learning_rate", progress.learning_rate)
        self._write("train/target_tokens_per_second", self._speed or 0.0)
        self._write_all("train/perplexity", progress.perplexities)

    def on_evaluation(self, step: int, scores: Mapping[str, float], improved: bool) -> None:
        """Write the dev set's scores."""
        super().on_evaluation(step, scores, improved)
        self._write_all("dev", scores)

    def on_epoch(self, epoch: int, facts: Mapping[str, Any], scores: Mapping[str, float],
                 improved: bool) -> None:
        """Write the epoch's numbers, and flush the file."""
        super().on_epoch(epoch, facts, scores, improved)
        self._write_all("epoch/train_perplexity", perplexities(facts))
        self._write_all("dev", scores)
        self._writer.flush()

    def close(self) -> None:
        """Write what is buffered, and close the file."""
        super().close()
        if self._writer is not None:
            self._writer.close()

    def _write_all(self, name: str, values: Mapping[str, float]) -> None:
        """Write numbers under this name and their own, which may be empty."""
        for key, value in values.items():
            self._write(f"{name}/{key}".rstrip("/"), value)

    def _write(self, name: str, value: float) -> None:
        """Write a number at the last update."""
        if self._writer is None:
            from tensorboardX import SummaryWriter

            # Without the suffix, a run that is resumed within a second would overwrite its file.
            self._writer = SummaryWriter(str(self._directory), filename_suffix=f".{self._step:09}")
        self._writer.add_scalar(name, value, self._step)
