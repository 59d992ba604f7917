"""Outputs other than regular files. They are made in a test's directory, so that the machine's stay
untouched."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


def null_device(path: Path) -> Path:
    """A new null device; skips if this user may not make devices."""
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 3))
        path.write_bytes(b"x")
    except OSError as error:
        pytest.skip(f"this user may make no devices here: {error}")
    return path


@contextmanager
def fifo(path: Path) -> Iterator[list[bytes]]:
    """A FIFO with a reader; afterwards the list holds what was read."""
    os.mkfifo(path)
    contents: list[bytes] = []
    reader = threading.Thread(target=lambda: contents.append(path.read_bytes()), daemon=True)
    reader.start()
    yield contents
    reader.join(30)
    assert not reader.is_alive(), "nothing was written into the FIFO"


def left_over(directory: Path) -> list[str]:
    """Names of hidden files."""
    return [name for name in os.listdir(directory) if name.startswith(".")]
