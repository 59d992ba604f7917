"""The state of training, apart from the parameters, and its form in a checkpoint."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from backend import Array, array_module
from backend.errors import UserError
from backend.host import differences, environment
from nmt.training import checkpoint
from nmt.training.meter import Meter
from nmt.training.options import TrainOptions
from nmt.training.resuming import differs, reading
from nmt.training.schedule import is_better
from nmt.training.world import World


@dataclass
class Counters:
    """Counters of training."""

    epoch: int = 1  # the current epoch, or the next one
    position: int = 0  # batches of this epoch that are done
    step: int = 0  # updates made in all
    best: float | None = None  # best validation score so far
    waited: int = 0  # evaluations since the best score

    def include(self, record: Mapping[str, Any]) -> bool:
        """Whether a record of the log was written before these counters were reached."""
        return record["step"] <= self.step and (
            record["event"] != "epoch" or record["epoch"] < self.epoch)


class TrainingState:
    """Counters, sums, optimizer, schedule, generators, and the state of streams of text."""

    def __init__(self, options: TrainOptions, parameters: Mapping[str, Array], world: World
                 ) -> None:
        """Make the state at the beginning of training."""
        self._options, self._world = options, world
        self.counters, self.meter = Counters(), Meter(array_module(*parameters.values()))
        self.optimizer, self.schedule = options.make_optimizer(), options.make_schedule()
        self.data_rng = np.random.default_rng([options.seed, 0])
        self.epoch_start = self.data_rng.bit_generator.state  # before the epoch's order is drawn
        self.dropout_rng = np.random.default_rng([options.seed, 1, world.rank])
        self.stream: Any = None  # a language model's state after the last batch
        self._environment = environment()

    def is_left(self) -> bool:
        """Whether training continues: epochs are left, and evaluations do not end it."""
        return self.counters.epoch < self._options.epochs + 1 and not self.is_enough()

    def is_enough(self) -> bool:
        """Whether evaluations end training: the learning rate is too small, or too many in a row
        had no new best score."""
        return self.schedule.finished or 0 < self._options.stop_after <= self.counters.waited

    def take_scores(self, scores: Mapping[str, float]) -> bool:
        """Take the scores of an evaluation, among them the criterion's; return whether they are the
        best so far."""
        counters, score = self.counters, scores[self._options.criterion]
        improved = is_better(score, counters.best, self._options.higher_is_better)
        self.schedule.evaluated(score)
        counters.best, counters.waited = (score, 0) if improved else (counters.best,
                                                                      counters.waited + 1)
        return improved

    def saved(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """The document and the arrays that a checkpoint needs for a resume of all ranks."""
        generator, *further = self._world.gather(self.dropout_rng.bit_generator.state)
        document = {
            "options": dataclasses.asdict(self._options),
            "environment": self._environment,
            "counters": dataclasses.asdict(self.counters),
            "meter": self.meter.state(),
            "schedule": self.schedule.state(),
            "data_rng": self.epoch_start,
            "dropout_rng": generator,
        } | ({"further_ranks": further} if further else {})
        arrays = checkpoint.prefixed(checkpoint.OPTIMIZER, self.optimizer.state_arrays())
        for layer, parts in enumerate(self._world.whole_state(self.stream) or ()):
            arrays |= {f"{checkpoint.CARRIED}{layer}.{place}": array
                       for place, array in enumerate(parts)}
        return document, arrays

    def load(self, saved: checkpoint.Checkpoint, parameters: Mapping[str, Array]) -> None:
        """Restore what `saved` returned, except streams (`resuming.read_stream`). For a damaged
        state, `resuming.reading` turns the exception into an error of the file."""
        document = saved.metadata["training"]
        arrays, step = saved.select(checkpoint.OPTIMIZER), document["counters"]["step"]
        if step and self.optimizer.state_names and not arrays:
            raise ValueError(f"expected the state of {type(self.optimizer).__name__} after "
                             f"{step} updates, found none")
        self.optimizer.load_state_arrays(arrays, parameters)
        self.counters = Counters(**document["counters"])
        self.meter.load(document["meter"])
        self.schedule.load(document["schedule"])
        self.data_rng.bit_generator.state = document["data_rng"]
        states = [document["dropout_rng"], *document.get("further_ranks", [])]
        self.dropout_rng.bit_generator.state = states[self._world.rank]

    def check_saved(self, path: Path, saved: checkpoint.Checkpoint, metadata: Mapping[str, Any]
                    ) -> None:
        """Raise UserError unless a checkpoint has this run's options, ranks, vocabularies and data.
        """
        document = saved.metadata.get("training")
        if not document:
            raise UserError(f"{path}: expected the state of a training run, found parameters only")
        with reading(path):
            difference = self._options.difference(document["options"])
            ranks = 1 + len(document.get("further_ranks", []))
        if difference:
            raise UserError(f"{path}: cannot resume with other options: {difference}")
        if ranks != self._world.size:
            raise UserError(f"{path}: cannot resume a run of {ranks} ranks with "
                            f"{self._world.size}, since its dropout would change; use mpiexec -n "
                            f"{ranks}")
        known = saved.metadata.get("model", {})
        for name, value in metadata.items():
            if differs(known.get(name, value), value):
                raise UserError(f"{path}: cannot resume: its {name!r} is {known[name]}, this "
                                f"run's {value}: vocabularies or data have changed")

    def notes_on_host(self, saved: checkpoint.Checkpoint) -> list[str]:
        """A note that results may differ in their last bits, if a run is resumed on another host.
        """
        changed = differences(saved.metadata["training"].get("environment", {}), self._environment)
        return [f"resumed elsewhere ({changed}): the last bits may not be those of a run that was "
                "never stopped"] if changed else []
