"""The state of a continued run: whether it differed from NumPy, and the error where it cannot go
on.

If nothing differed (`Run.differs`), later runs use plain complex arrays: the numbers are the same,
and the run is faster.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import numpy as np

OURS = frozenset({"attention", "backend", "grads", "lstm", "nmt"})  # made for complex steps
_NUMPY = os.path.dirname(np.__file__) + os.sep


class NotAnalytic(ValueError):
    """The function cannot be continued to complex arguments, so complex step cannot be used."""


class Run:
    """One run of a function on continued arrays.

    Attributes: differs, whether anything was computed differently from NumPy's complex functions;
    creates, whether a floating array was created as complex, which would be real in a plain run:
    that run will show whether it matters.
    """

    def __init__(self) -> None:
        self.differs = self.creates = False


runs: list[Run] = []  # the current run is the last


def differ() -> None:
    """Record that this run differs from NumPy's complex arithmetic."""
    if runs:
        runs[-1].differs = True


def create() -> None:
    """Record that this run has created a complex array in place of a real one."""
    if runs:
        runs[-1].creates = True


def of_ours(depth: int) -> bool:
    """Whether the frame `depth` levels up is of a module of this project that supports complex
    steps."""
    name = str(sys._getframe(depth + 1).f_globals.get("__name__", ""))
    return name.partition(".")[0] in OURS


def line() -> str:
    """ "at FILE:LINE": the current line of the user's function."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        if is_users(frame.f_code.co_filename):
            return f"at {frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return "somewhere"


def is_users(filename: str) -> bool:
    """Whether a file is neither NumPy's nor the checker's."""
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
    path = os.path.abspath(filename)
    return not (path.startswith((here, _NUMPY)) or filename.startswith("<__array_function__"))


def refuse(what: str, where: str | None = None) -> NotAnalytic:
    """The error for what cannot be continued, with its line."""
    return NotAnalytic(f"f: {what} {where or line()}")
