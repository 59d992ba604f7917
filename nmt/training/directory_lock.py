"""A lock that lets only one process write in a run directory. It ends with the process."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from backend.errors import UserError
from nmt.files import sweep

FILE = ".lock"
SIZE = 4096  # bytes of the lock file, padded with spaces


class DirectoryLock:
    """Context in which this process alone writes in a run directory.

    Entering it removes the temporary files of killed processes. It raises UserError if another
    process holds the lock, naming that process, or if the lock file cannot be made. The lock is the
    system's (`flock`) and ends with the process, however that ends. A file system without locks
    has none.
    """

    def __init__(self, directory: Path, files: Sequence[str]) -> None:
        """directory: exists already. files: those that the run has from its start."""
        self._directory, self._files = directory, list(files)
        self._lock = self._open = -1

    def __enter__(self) -> DirectoryLock:
        self._lock = _acquire(self._directory)
        self._open = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        holder = {"process": os.getpid(), "host": socket.gethostname(),
                  "since": time.strftime("%Y-%m-%d %H:%M:%S"), "files": self._files}
        # One call overwrites the whole content: a process may be killed between two calls.
        os.pwrite(self._lock, json.dumps(holder).encode().ljust(SIZE), 0)
        for place in {self._directory, *((self._directory / name).parent for name in self._files)}:
            sweep(place)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        if _same(self._directory / FILE, self._lock):
            with suppress(OSError):
                os.unlink(self._directory / FILE)
        os.close(self._open)
        os.close(self._lock)

    @property
    def stands(self) -> bool:
        """Whether the directory is still at its path: it was neither moved nor deleted."""
        return _same(self._directory, self._open)

    def check(self) -> None:
        """Raise UserError unless the directory is still at its path and has the files of its start.
        """
        if not self.stands:
            raise UserError(f"{self._directory}: expected the directory of this run, "
                            f"{self._what_became()}")
        for name in self._files:
            if not (self._directory / name).exists():
                raise UserError(f"{self._directory / name}: expected this run's file, found "
                                "nothing: it was deleted during the run")

    def _what_became(self) -> str:
        """What happened to the directory, as far as the system reports it."""
        if not os.fstat(self._open).st_nlink:
            return "which was deleted during the run"
        with suppress(OSError):
            return f"which was moved to {os.readlink(f'/proc/self/fd/{self._open}')} during the " \
                   "run; resume it there"
        return "which was moved or deleted during the run"


def left_by_killed(directory: Path) -> set[str]:
    """The files that a run killed before its first checkpoint may have written."""
    files = _read(directory / FILE).get("files")
    return {FILE, *(str(name) for name in files)} if isinstance(files, list) else set()


def _acquire(directory: Path) -> int:
    """The descriptor of the lock file, open and locked."""
    path = directory / FILE
    while True:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise UserError(f"{path}: cannot be written: {error.strerror}") from error
        try:
            with suppress(OSError):
                _lock_or_refuse(descriptor, directory)
            if _same(path, descriptor):  # otherwise its holder has just removed it
                return descriptor
        except UserError:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _lock_or_refuse(descriptor: int, directory: Path) -> None:
    """Lock a file. Raises UserError if another process has locked it, and OSError on a file system
    without locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = _read(directory / FILE)
        raise UserError(
            f"{directory}: expected a run that no process is training, but process "
            f"{holder.get('process')} on {holder.get('host')} has trained it since "
            f"{holder.get('since')}") from None


def _read(path: Path) -> dict[str, Any]:
    """The content of a lock file; empty if there is none, or if it has another form."""
    try:
        with open(path, "rb") as file:
            holder = json.loads(file.read(SIZE))
    except (OSError, ValueError):
        return {}
    return holder if isinstance(holder, dict) else {}


def _same(path: Path, descriptor: int) -> bool:
    """Whether a path leads to the open file."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except OSError:
        return False
