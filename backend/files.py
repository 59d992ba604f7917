"""How files are written: every option that writes, every checkpoint, vocabulary and recipe.

A regular file is replaced in one move: it is whole, or as it was. What is no regular file (a
device, a FIFO, `/dev/stdout`) is written straight into, and links are followed. A process that is
killed in between leaves a hidden file, which the next one to write there removes.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import secrets
import stat
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from backend.errors import UserError

Part = bytes | memoryview  # what is contiguous in memory
LINKS = 40  # that lead on to each other, as many as Linux follows
NAMED = 50  # characters of a name that its unfinished file repeats: names have 255 bytes
UNFINISHED = re.compile(r"\.(.{1,50})\.[0-9a-f]{16}\.unfinished")


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a UTF-8 file, and make the directories above it. Errors as `write_file`."""
    with suppress(OSError):  # then the file is named as what cannot be written
        Path(path).parent.mkdir(parents=True, exist_ok=True)
    write_file(path, [text.encode()])


def write_file(path: str | os.PathLike[str], parts: Iterable[Part]) -> None:
    """Write the parts of a file one after another.

    A regular file is written beside `path` under another name, flushed to the disk, given the mode
    and owner of the file that it replaces (a new one has those of the umask) and renamed; the
    directory is flushed.
    Raises UserError naming the path where it cannot be written: a regular file is as it was then
    (or new and whole, where only its directory could not be flushed).
    """
    path = Path(path)
    try:
        descriptor, status = _own_descriptor(path), _status(path)
        if descriptor is not None:
            sys.stdout.flush()
            _write_and_close(os.dup(descriptor), parts)
        elif status is None or stat.S_ISREG(status.st_mode):
            _replace(Path(os.path.realpath(path)), parts, status)
        else:
            _write_and_close(os.open(path, os.O_WRONLY | os.O_CLOEXEC), parts)
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror or error}") from error


def check_writable(path: Path) -> None:
    """Raise UserError, before the work, where a file cannot be written afterwards."""
    directory = Path(os.path.realpath(path)).parent
    straight = path.exists() and not path.is_file() and not path.is_dir()
    fine = straight or (directory.is_dir() and not path.is_dir())
    if not fine or not os.access(path if straight else directory, os.W_OK):
        raise UserError(f"{path}: expected a file in a directory that can be written to")


def make_directory(path: Path, within: Path | None = None) -> None:
    """Make a directory and those above it, unless it is there; `within` is not made anew.

    Raises UserError.
    """
    try:
        if path != within:
            path.mkdir(parents=within is None, exist_ok=True)
    except OSError as error:
        raise UserError(f"{path}: cannot make the directory: {error.strerror}") from error


def sweep(directory: Path, name: str | None = None) -> None:
    """Remove what killed processes left unfinished, of one file or of all.

    The writer of an unfinished file holds a lock on it, which ends with the process: what is
    locked is another's work and stays.
    """
    with suppress(OSError):
        for entry in list(os.scandir(directory)):
            found = UNFINISHED.fullmatch(entry.name)
            if found and (name is None or found[1] == name[:NAMED]):
                _remove_if_abandoned(entry.path)


def _remove_if_abandoned(path: str) -> None:
    """Remove an unfinished file unless a process is writing it."""
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(path)
        finally:
            os.close(descriptor)


def _status(path: Path) -> os.stat_result | None:
    """What a path leads to; None for nothing. Raises OSError for a directory."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    return status


def _own_descriptor(path: Path) -> int | None:
    """The open file of this process that a path such as /dev/stdout or /dev/fd/3 stands for."""
    own = f"/proc/{os.getpid()}/fd"
    for _ in range(LINKS):
        parent = os.path.realpath(path.parent)
        if parent == own and path.name.isdecimal():
            return int(path.name)
        if not path.is_symlink():
            break
        path = Path(parent, os.readlink(path))
    return None


def _replace(path: Path, parts: Iterable[Part], status: os.stat_result | None) -> None:
    """Write a file beside `path`, then put it in its place; status of the old one, if any."""
    sweep(path.parent, path.name)
    temporary, descriptor = _unfinished(path)
    try:
        try:
            _write(descriptor, parts)
            if status is not None:
                _keep_owner_and_mode(descriptor, status)
            os.fsync(descriptor)
            os.replace(temporary, path)
        finally:
            os.close(descriptor)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    _flush_directory(path.parent)


def _unfinished(path: Path) -> tuple[Path, int]:
    """A new file beside `path`, open and locked."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    while True:
        name = path.with_name(f".{path.name[:NAMED]}.{secrets.token_hex(8)}.unfinished")
        descriptor = os.open(name, flags, 0o666)
        with suppress(OSError):  # a file system without locks: nothing is swept there
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(descriptor).st_nlink:  # not swept before it was locked
            return name, descriptor
        os.close(descriptor)


def _write_and_close(descriptor: int, parts: Iterable[Part]) -> None:
    """Write into an open file that need not be a regular one."""
    try:
        _write(descriptor, parts)
    finally:
        os.close(descriptor)


def _write(descriptor: int, parts: Iterable[Part]) -> None:
    """All bytes of all parts: a system call may write fewer than it was given."""
    for part in parts:
        rest = memoryview(part).cast("B")
        while rest:
            rest = rest[os.write(descriptor, rest):]


def _keep_owner_and_mode(descriptor: int, status: os.stat_result) -> None:
    """Those of the file that is replaced, as far as this process may give a file away."""
    with suppress(PermissionError):
        os.fchown(descriptor, status.st_uid, status.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(status.st_mode))


def _flush_directory(path: Path) -> None:
    """Wait until the names in a directory are on the disk, where a file system can say so."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except PermissionError:  # it may be written to and not be read
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)
