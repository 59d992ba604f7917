"""A training run: its directory, the processes that share it, and what its files hold."""

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
    """The directory of a run. Each process of its world has a `Run`; that of the first writes."""

    def __init__(
        self, directory: str | Path, world: World | None = None, *,
        metadata: Mapping[str, Any] | None = None, beside: Mapping[str, Array] | None = None,
        check: Callable[[], None] | None = None,
        after_save: Callable[[str, dict[str, Array], dict[str, Any]], None] | None = None,
    ) -> None:
        """Arguments: directory, for `last.safetensors`, `best.safetensors` and `log.jsonl`; world,
        the processes that train together; metadata, JSON-able, saved as "model" in each checkpoint;
        beside, what each checkpoint holds beside the parameters and training leaves as it is, by
        name; check, of a directory that is there and held, is called before anything is written and
        raises UserError where the directory is not what it was; after_save, called with the file's
        name, the parameters and the facts of each checkpoint, once it is written.
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
        """Make the directory, unless it is there; clear the log of a run that never came to a
        checkpoint. Raises UserError where another run is in it."""
        if self.world.first:
            if self.last.exists():
                raise UserError(f"{self.last}: a training run is here already: "
                                f"--resume {self.directory} continues it")
            self.check()
            make_directory(self.directory)
        self.log.keep(lambda record: False)

    def save(self, file: str, parameters: dict[str, Array], facts: dict[str, Any],
             arrays: Mapping[str, Array] | None = None) -> None:
        """Write a checkpoint of the parameters and more arrays, with facts on them."""
        if not self.world.first:
            return
        named = checkpoint.prefixed(checkpoint.PARAMETERS, parameters)
        checkpoint.save(self.directory / file, named | self._beside | dict(arrays or {}),
                        {"model": self.metadata, **facts})
        if self._after_save is not None:
            self._after_save(file, parameters, facts)

    def last_saved(self) -> str:
        """What a resume would find, in words."""
        step = saved_step(self.directory)
        return (f"{self.last} holds the state after update {step}" if step
                else "no update was saved")

    def not_finite(self, step: int, description: str) -> UserError:
        """The error to raise when `what` is not finite at an update."""
        return UserError(f"update {step}: {description} is not finite; {self.last_saved()}")


def saved_step(directory: Path) -> int:
    """The update that a run's last checkpoint stands after; 0 where there is none."""
    last = directory / LAST
    training = checkpoint.load_metadata(last).get("training", {}) if last.is_file() else {}
    return int(training.get("counters", {}).get("step", 0))
