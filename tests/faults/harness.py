"""Processes that meet a fault at a chosen system call, and what must be true of their runs after.

A process is a fork of this one, so that a hundred of them take no start-up time. Python's functions
for system calls that change files are counted in it; before the n-th one the fault happens.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import pickle
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tiny_run import files_in, nmt

from nmt.training import checkpoint
from nmt.training.directory_lock import FILE as LOCK
from nmt.training.kept import SUFFIX
from nmt.training.run import LAST, LOG

CALLS = ("open", "write", "pwrite", "ftruncate", "fsync", "fchmod", "fchown", "replace", "unlink",
         "close", "mkdir", "rmdir")
TIMES = ("target_tokens_per_second", "elapsed_seconds", "cpu_seconds")
Fault = Callable[[], None]
Photograph = dict[str, bytes | None]  # the files of a directory by name; None for a directory
SAID = tempfile.TemporaryFile(mode="a+b")
# Written at its end, wherever that is: a child's place in the file would be that of all before it,
# in the end beyond any limit on the size of files.
fcntl.fcntl(SAID, fcntl.F_SETFL, fcntl.fcntl(SAID, fcntl.F_GETFL) | os.O_APPEND)


def kill() -> None:
    """Kill this process, as kill -9 does."""
    os.kill(os.getpid(), signal.SIGKILL)


def failing(number: int) -> Fault:
    """A fault that makes the call fail with an error number."""
    def fail() -> None:
        raise OSError(number, os.strerror(number))

    return fail


def count_calls(fault: Fault | None = None, at: int = 0, always: bool = False) -> list[int]:
    """Count the calls of this process from here; before number `at`, from 1, the fault happens.

    always: before all later ones too. Returns a list whose one number rises.
    """
    made = [0]

    def counted(call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*arguments: Any, **settings: Any) -> Any:
            made[0] += 1
            if fault is not None and (made[0] == at or (always and made[0] > at)):
                fault()
            return call(*arguments, **settings)

        return wrapper

    for name in CALLS:
        setattr(os, name, counted(getattr(os, name)))
    return made


def start(work: Callable[[], int]) -> int:
    """Do the work in a new process; return its id. `said` returns what it prints."""
    sys.stdout.flush()
    SAID.truncate(0)
    child = os.fork()
    if not child:
        status = 70
        try:
            for stream in (1, 2):
                os.dup2(SAID.fileno(), stream)
            sys.stdout, sys.stderr = (open(stream, "w", 1, "utf-8", closefd=False)
                                      for stream in (1, 2))  # not pytest's streams
            status = work()
        finally:
            os._exit(status)
    return child


def said() -> str:
    """What the last process has printed."""
    SAID.seek(0)
    return SAID.read().decode()


def end(child: int) -> int:
    """Wait for a process: its exit status, or minus the signal that ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def run(work: Callable[[], int]) -> int:
    """Do the work in a new process, and wait for its end."""
    return end(start(work))


def calls_of(work: Callable[[], int], place: Path) -> int:
    """How many system calls the work makes. place: a directory for a temporary file."""
    def counted() -> int:
        made = count_calls()
        status = work()
        place.write_text(str(made[0]))
        return status

    assert run(counted) == 0
    return int(place.read_text())


@dataclass
class Case:
    """A command that makes a run, and a run without faults."""

    directory: Path  # where the command is called
    command: tuple[str, ...] = ("train", "r.yaml")  # that begins a run, without --output
    resumes: tuple[str, ...] = ("train",)  # that resumes it; None for a run that is not trained
    seconds: float = 0.0  # that the run takes
    calls: int = 0  # that it makes

    def train(self, name: str) -> int:
        """The command that begins a run."""
        os.chdir(self.directory)
        return nmt(*self.command, "--output", name)

    def resume(self, name: str) -> int:
        """The command that resumes a run."""
        return nmt(*self.resumes, "--resume", self.directory / name) if self.resumes else 0

    def go_on(self, name: str) -> int:
        """What a user does after a fault: resume, or begin if there is no run."""
        return self.resume(name) if (self.directory / name / LAST).exists() else self.train(name)

    def photographs(self, name: str = "whole", status: int = 0) -> list[Photograph]:
        """Train, and copy what a kill before each call would leave in the run's directory.

        Of copies that differ only in hidden files, the last one stays, which has most of them.
        """
        taken: dict[frozenset[tuple[str, bytes | None]], Photograph] = {}
        place = self.directory / "photographs"

        def photograph() -> None:
            files = photograph_of(self.directory / name)
            taken[frozenset((file, content) for file, content in files.items()
                            if not Path(file).name.startswith("."))] = files

        def photographed() -> int:
            count_calls(photograph, 1, always=True)
            ended = self.train(name)
            place.write_bytes(pickle.dumps([*taken.values()]))
            return ended

        assert run(photographed) == status, said()
        photographs: list[Photograph] = pickle.loads(place.read_bytes())
        return photographs

    def make_whole(self) -> None:
        """Train without a fault."""
        before = time.monotonic()
        self.calls = calls_of(lambda: self.train("whole"), self.directory / "calls")
        self.seconds = time.monotonic() - before

    def check(self, name: str) -> None:
        """Raise AssertionError unless a run, once finished, equals the run without faults."""
        status = run(lambda: self.go_on(name))
        assert status == 0, said()
        ours, whole = self.directory / name, self.directory / "whole"
        assert files_in(ours) - {LOCK} == files_in(whole)
        assert not self.resumes or not hidden(ours)
        for file in files_in(whole):
            _same_file(ours / file, whole / file)


def photograph_of(directory: Path) -> Photograph:
    """The content of a directory. One is taken before each of a run's hundreds of calls: with
    `Path` that would take longer than the run."""
    photograph: Photograph = {}
    start = len(str(directory)) + 1
    for place, directories, files in os.walk(directory):
        photograph |= {os.path.join(place, name)[start:]: None for name in directories}
        for path in (os.path.join(place, name) for name in files):
            with open(path, "rb") as file:
                photograph[path[start:]] = file.read()
    return photograph


def restore(directory: Path, photograph: Photograph) -> None:
    """Restore a directory's content."""
    directory.mkdir()
    for name, content in sorted(photograph.items()):
        if content is None:
            (directory / name).mkdir()
        else:
            (directory / name).write_bytes(content)


def _same_file(ours: Path, whole: Path) -> None:
    """Whether two files are equal, except for times; checkpoints and logs are compared by
    content."""
    if whole.suffix == SUFFIX:
        _same_checkpoint(checkpoint.load(ours), checkpoint.load(whole))
    elif whole.name == LOG:
        assert _records(ours) == _records(whole)
    elif not whole.is_dir():
        assert ours.read_bytes() == whole.read_bytes(), whole


def _same_checkpoint(ours: checkpoint.Checkpoint, whole: checkpoint.Checkpoint) -> None:
    """Whether two checkpoints have the same arrays, bit for bit, and the same facts except for
    times."""
    assert ours.arrays.keys() == whole.arrays.keys()
    for name, array in ours.arrays.items():
        assert array.dtype == whole.arrays[name].dtype
        assert np.array_equal(array.view(np.uint8) if array.ndim else array,
                              whole.arrays[name].view(np.uint8) if array.ndim else
                              whole.arrays[name]), name
    for saved in (ours, whole):
        saved.metadata.get("training", {}).pop("meter", None)
    assert ours.metadata == whole.metadata


def _records(log: Path) -> list[dict[str, Any]]:
    """A log without times."""
    return [{key: value for key, value in json.loads(line).items() if key not in TIMES}
            for line in log.read_text("utf-8").splitlines()]


def killed_at_random(work: Callable[[], int], longest: float, rng: random.Random) -> int:
    """Kill a process after up to `longest` seconds; return its status, 0 if it had ended before."""
    child, until = start(work), time.monotonic() + rng.uniform(0, longest)
    while time.monotonic() < until:
        if os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            break
        time.sleep(0.001)
    os.kill(child, signal.SIGKILL)
    return end(child)


def hidden(directory: Path) -> list[str]:
    """The hidden files that a killed process left, except for its lock."""
    return [name for name in os.listdir(directory) if name.startswith(".") and name != LOCK]


FULL, READ_ONLY = failing(errno.ENOSPC), failing(errno.EROFS)
