"""Files that are made once for all workers of a test run, in one directory."""

from __future__ import annotations

import atexit
import fcntl
import functools
import os
import pickle
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

Value = TypeVar("Value")


@functools.cache
def directory() -> Path:
    """The directory of this run, which is removed when a worker ends."""
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))
    path = Path(tempfile.gettempdir()) / f"tests-{run}"
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


def made_once(name: str, make: Callable[[], Value]) -> Value:
    """The result of `make`, which the first worker calls; the others wait and read a copy.

    name: of its file. Without workers nothing is written.
    """
    if "PYTEST_XDIST_TESTRUNUID" not in os.environ:
        return make()
    directory().mkdir(exist_ok=True)
    with (directory() / name).open("a+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        if kept := file.read():
            value: Value = pickle.loads(kept)
            return value
        value = make()
        file.write(pickle.dumps(value))
    return value
