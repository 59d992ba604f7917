"""The error for a function that cannot be continued, with the line of the user's code."""

from __future__ import annotations

import os
import sys
from typing import Any

import numpy as np

_NUMPY = os.path.dirname(np.__file__) + os.sep
_CHECKER = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


class NotAnalytic(ValueError):
    """The function cannot be continued to complex arguments, so complex step cannot be used."""


def refuse(reason: str) -> NotAnalytic:
    """The error for an operation that cannot be continued, with its line."""
    return NotAnalytic(f"f: {reason} {_line()}")


def _line() -> str:
    """ "at FILE:LINE": the current line of the user's function."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        if is_users(frame.f_code.co_filename):
            return f"at {frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return "somewhere"


def is_users(filename: str) -> bool:
    """Whether a file belongs neither to NumPy nor to the checker."""
    return not (os.path.abspath(filename).startswith((_CHECKER, _NUMPY))
                or filename.startswith("<__array_function__"))
