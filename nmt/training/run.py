"""A training run: its directory, the processes that share it, and the content of its files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from backend import Array
from backend.errors import UserError
from nmt.files import make_directory
from nmt.training import checkpoint
from nmt.training.log import Log, NoLog
from nmt.training.world import World

LAST = "last.safetensors"  # everything a resume needs
BEST = "best.safetensors"  # the parameters with the best validation score
LOG = "log.jsonl"


class Run:
    """The directory of a run. Each process of its world has a `Run`; the first process writes."""

    def __init__(
        self, directory: str | Path, world: World | None = None, *,
        metadata: Mapping[str, Any] | None = None, beside: Mapping[str, Array] | None = None,
        check: Callable[[], None] | None = None,
        after_save: Callable[[str, dict[str, Array], dict[str, Any]], None] | None = None,
    ) -> None:
        """directory: for `last.safetensors`, `best.safetensors` and `log.jsonl`. world: the
        processes that train together. metadata: JSON values, saved as "model" in each checkpoint.
        beside: further arrays of each checkpoint, which training does not change, by name. check:
        called before anything is written; raises UserError if the directory was moved, deleted or
        changed. after_save: called after each checkpoint is written, with the file's name, the
        parameters and the facts.
        """
        self.directory, self.world = Path(directory), world or World()
        self.metadata, self._beside = dict(metadata or {}), dict(beside or {})
        self.check, self._after_save = check or (lambda: None), after_save
        self.log = (Log if self.world.first else NoLog)(self.directory / LOG, self.check)

    @property
    def last(self) -> Path:
        """The checkpoint that a resume reads."""
        return self.directory / LAST

    def begin(self) -> None:
        """Make the directory, unless it exists, and clear the log of a run that never saved a
        checkpoint. Raises UserError if the directory holds another run."""
        if self.world.first:
            if self.last.exists():
                raise UserError(f"{self.last}: a training run is here already: "
                                f"--resume {self.directory} continues it")
            self.check()
            make_directory(self.directory)
        self.log.keep(lambda record: False)

    def save(self, file: str, parameters: dict[str, Array], facts: dict[str, Any],
             arrays: Mapping[str, Array] | None = None) -> None:
        """Write a checkpoint of the parameters and further arrays. facts: its metadata."""
        if not self.world.first:
            return
        named = checkpoint.prefixed(checkpoint.PARAMETERS, parameters)
        checkpoint.save(self.directory / file, named | self._beside | dict(arrays or {}),
                        {"model": self.metadata, **facts})
        if self._after_save is not None:
            self._after_save(file, parameters, facts)

    def last_saved(self) -> str:
        """A message on the state that a resume would start from."""
        step = saved_step(self.directory)
        return (f"{self.last} holds the state after update {step}" if step
                else "no update was saved")

    def not_finite(self, step: int, description: str) -> UserError:
        """The error for a value that is not finite at an update. description: what the error calls
        the value."""
        return UserError(f"update {step}: {description} is not finite; {self.last_saved()}")


def saved_step(directory: Path) -> int:
    """The number of updates before a run's last checkpoint; 0 if there is no checkpoint."""
    last = directory / LAST
    training = checkpoint.load_metadata(last).get("training", {}) if last.is_file() else {}
    return int(training.get("counters", {}).get("step", 0))
