"""Reading small files, and writing files atomically.

Checkpoints, vocabularies, recipes and all outputs of commands are written by this module. A regular
file is replaced by a rename, so that it is either complete or unchanged. Anything else (a device, a
FIFO, `/dev/stdout`) is written to directly; links are followed. A process that is killed while
writing leaves a hidden file, which the next process that writes there removes.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import secrets
import shutil
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from backend.errors import UserError

Part = bytes | memoryview  # bytes, or a buffer contiguous in memory
LINKS = 40  # symbolic links in a chain, as many as Linux follows
NAMED = 50  # characters of a name that its temporary file repeats: names have at most 255 bytes
UNFINISHED = re.compile(r"\.(.{1,50})\.[0-9a-f]{16}\.unfinished")


def read_file(path: str | os.PathLike[str], max_bytes: int, description: str) -> bytes:
    """The content of a file of at most `max_bytes` bytes; description: what the error calls the
    file.

    A user may name a pipe, or a device without an end such as /dev/zero: both are read to the limit
    only. Raises UserError if the file cannot be read, or is longer.
    """
    try:
        with open(path, "rb") as file:
            content = file.read(max_bytes + 1)
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from error
    if len(content) > max_bytes:
        raise UserError(f"{path}: expected {description} of at most {max_bytes:,} bytes, got more")
    return content


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a UTF-8 file, and make the directories above it. Errors as `write_file`."""
    with suppress(OSError):  # `write_file` then raises an error that names the file
        Path(path).parent.mkdir(parents=True, exist_ok=True)
    write_file(path, [text.encode()])


def write_file(path: str | os.PathLike[str], parts: Iterable[Part]) -> None:
    """Write the parts of a file one after another.

    A regular file is written beside `path` under another name, flushed to disk, given the mode and
    owner of the file that it replaces (a new file has the umask's mode) and renamed. Then the
    directory is flushed. Raises UserError, naming the path, if it cannot be written. A regular file
    is then unchanged, or new and complete if only its directory could not be flushed.
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
    """Raise UserError, before a long computation, if its result could not be written to `path`."""
    directory = Path(os.path.realpath(path)).parent
    straight = path.exists() and not path.is_file() and not path.is_dir()
    fine = straight or (directory.is_dir() and not path.is_dir())
    if not fine or not os.access(path if straight else directory, os.W_OK):
        raise UserError(f"{path}: expected a file in a directory that can be written to")


def make_directory(path: Path, within: Path | None = None) -> None:
    """Make a directory and its parents, unless they exist. `within` itself is never created.

    Raises UserError if the directory cannot be made.
    """
    try:
        if path != within:
            path.mkdir(parents=within is None, exist_ok=True)
    except OSError as error:
        raise UserError(f"{path}: cannot make the directory: {error.strerror}") from error


@contextmanager
def new_directory(path: Path) -> Iterator[Path]:
    """Context of a new directory under another name, which is renamed to `path` at the end, or
    removed if anything fails.

    Raises UserError unless `path` is new or an empty directory, and if it cannot be written.
    """
    if path.exists() and not (path.is_dir() and not any(path.iterdir())):
        raise UserError(f"{path}: expected a new or empty directory")
    place = Path(os.path.realpath(path))
    make_directory(place.parent)
    sweep(place.parent, place.name)
    unfinished = _unfinished_name(place)
    try:
        unfinished.mkdir()
        lock = os.open(unfinished, os.O_RDONLY | os.O_CLOEXEC)
        try:
            with suppress(OSError):  # as in `_unfinished`
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield unfinished
        finally:
            os.close(lock)
        for file in unfinished.iterdir():
            _flush(file)
        _flush(unfinished)
        os.replace(unfinished, place)
        _flush(place.parent)
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror or error}") from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def sweep(directory: Path, name: str | None = None) -> None:
    """Remove the temporary files and directories that killed processes left: those of the file
    `name`, or all.

    A process locks the temporary file that it writes, and the lock ends with the process. So a
    locked file is still being written, and stays.
    """
    with suppress(OSError):
        for entry in list(os.scandir(directory)):
            match = UNFINISHED.fullmatch(entry.name)
            if match and (name is None or match[1] == name[:NAMED]):
                remove, access = (shutil.rmtree, os.O_RDONLY) if entry.is_dir() else \
                    (os.unlink, os.O_RDWR)
                _remove_if_abandoned(entry.path, remove, access)


def _remove_if_abandoned(path: str, remove: Callable[[str], None], access: int) -> None:
    """Remove a temporary file or directory unless a process is writing it."""
    with suppress(OSError):
        descriptor = os.open(path, access | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove(path)
        finally:
            os.close(descriptor)


def _status(path: Path) -> os.stat_result | None:
    """The status of the file that a path leads to; None if there is none. Raises OSError for a
    directory."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    return status


def _own_descriptor(path: Path) -> int | None:
    """The open file of this process that a path such as /dev/stdout or /dev/fd/3 stands for."""
    descriptors = f"/proc/{os.getpid()}/fd"
    for _ in range(LINKS):
        parent = os.path.realpath(path.parent)
        if parent == descriptors and path.name.isdecimal():
            return int(path.name)
        if not path.is_symlink():
            break
        path = Path(parent, os.readlink(path))
    return None


def _replace(path: Path, parts: Iterable[Part], status: os.stat_result | None) -> None:
    """Write a file beside `path`, then rename it to `path`. status: the old file's, if any."""
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
    _flush(path.parent)


def _unfinished_name(path: Path) -> Path:
    """The name of a temporary file beside `path`, which `UNFINISHED` matches."""
    return path.with_name(f".{path.name[:NAMED]}.{secrets.token_hex(8)}.unfinished")


def _unfinished(path: Path) -> tuple[Path, int]:
    """A new temporary file beside `path`, open and locked."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    while True:
        name = _unfinished_name(path)
        descriptor = os.open(name, flags, 0o666)
        with suppress(OSError):  # a file system without locks: `sweep` removes nothing there
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(descriptor).st_nlink:  # no `sweep` removed it before it was locked
            return name, descriptor
        os.close(descriptor)


def _write_and_close(descriptor: int, parts: Iterable[Part]) -> None:
    """Write to an open descriptor and close it."""
    try:
        _write(descriptor, parts)
    finally:
        os.close(descriptor)


def _write(descriptor: int, parts: Iterable[Part]) -> None:
    """Write all bytes of all parts. A system call may write fewer bytes than it was given."""
    for chunk in parts:
        remaining = memoryview(chunk).cast("B")
        while remaining:
            remaining = remaining[os.write(descriptor, remaining):]


def _keep_owner_and_mode(descriptor: int, status: os.stat_result) -> None:
    """Set the mode and owner of the replaced file, as far as this process is permitted to."""
    with suppress(PermissionError):
        os.fchown(descriptor, status.st_uid, status.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(status.st_mode))


def _flush(path: Path) -> None:
    """Flush a file, or a directory's entries, to disk, where the file system supports it."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except PermissionError:  # a directory may be writable but not readable
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)
