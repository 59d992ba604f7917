"""The message after an unexpected exception, and the report file with its traceback."""

from __future__ import annotations

import os
import platform
import sys
import tempfile
import traceback
from pathlib import Path

from nmt.console.package import PACKAGE, release

HERE = Path(__file__).resolve().parents[2]


def report_defect(name: str, error: Exception) -> str:
    """A line on the error. Its traceback is written to a file in the directory of temporary files.
    """
    defect = f"unexpected {type(error).__name__}: {error} at {place(error)}"
    ask = f"this is a defect of {name}"
    try:
        descriptor, path = tempfile.mkstemp(prefix=f"{name}-defect-", suffix=".txt")
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(_report(name, error))
    except OSError as problem:
        return f"{defect}; {ask}; its report cannot be written: {problem.strerror}"
    return f"{defect}; {ask}: please report it with {path}"


def place(error: Exception) -> str:
    """The innermost line of this package in the error's traceback."""
    frames = traceback.extract_tb(error.__traceback__)
    package_frames = [frame for frame in frames if Path(frame.filename).is_relative_to(HERE)
                      and "site-packages" not in frame.filename]
    if not frames:
        return "an unknown place"
    last = (package_frames or list(frames))[-1]
    return f"{last.filename.removeprefix(f'{HERE}/')}:{last.lineno}"


def _report(name: str, error: Exception) -> str:
    """The text of the report: the command, versions, and the traceback."""
    numpy = getattr(sys.modules.get("numpy"), "__version__", "not loaded")
    return "\n".join([
        f"A defect of {name}. This file holds the command as it was given, file names included.",
        f"arguments: {sys.argv[1:]!r}",
        f"{PACKAGE} {release()}, Python {platform.python_version()}, NumPy {numpy}, "
        f"{platform.platform()}",
        "", *traceback.format_exception(error)])
