"""What a continued run has met: where it cannot go on, and whether it had to differ from NumPy.

A run on plain complex arrays gives the same numbers as long as nothing differed, and takes less
time: that is what `Run.differs` is for.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import numpy as np

OURS = frozenset({"attention", "backend", "grads", "lstm", "nmt"})  # made for complex steps
_NUMPY = os.path.dirname(np.__file__) + os.sep


class NotAnalytic(ValueError):
    """The function cannot be continued to complex arguments, and complex step not be used."""


class Run:
    """One run of a function on continued arrays.

    Attributes: differs, whether anything was computed otherwise than NumPy computes with complex
    numbers; creates, whether a floating array was created, which would be real without us: a plain
    run will tell whether that matters; lanes, whether it is of many versions at once.
    """

    def __init__(self, lanes: bool = False) -> None:
        self.differs = self.creates = False
        self.lanes = lanes


runs: list[Run] = []  # the one in progress is the last


def differ() -> None:
    """Note that this run has left NumPy's complex arithmetic."""
    if runs:
        runs[-1].differs = True


def create() -> None:
    """Note that this run has created a complex array for a real one."""
    if runs:
        runs[-1].creates = True


def in_lanes_now() -> bool:
    """Whether many versions are continued at once."""
    return bool(runs) and runs[-1].lanes


def of_ours(depth: int) -> bool:
    """Whether a frame so far up is of a module of this project, which knows complex steps."""
    name = str(sys._getframe(depth + 1).f_globals.get("__name__", ""))
    return name.partition(".")[0] in OURS


def line() -> str:
    """ "at FILE:LINE": where the user's function is just now."""
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
