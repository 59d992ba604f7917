"""Runs a user's code so that it cannot end the command or take away its output.

Every error that the code raises becomes one line. A call of `os._exit` and the like becomes a line,
too: the command would otherwise end as if all were right. If the code closes or replaces the
standard streams, they are restored afterwards.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from backend.errors import UserError
from grads.check.continuation.array import is_users
from grads.check.watch import TimeUp

# defects if our own code raises them
DEFECTS = (ArithmeticError, AssertionError, AttributeError, LookupError, NameError)
LEAVE = ("_exit", "abort", "execv", "execve")  # in os, and in posix or nt, which os takes them from
_PROJECT = str(Path(__file__).resolve().parents[2]) + "/grads"  # files that are not the user's


class Lent:
    """A standard stream for a user's code: closing it does not close the command's stream."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def close(self) -> None:
        """Do nothing: the stream belongs to the command."""

    detach = close

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._stream)


@contextmanager
def contained(context: str) -> Iterator[None]:
    """Context of a user's code. Its errors are raised as a UserError that begins with `context`."""
    process, streams = os.getpid(), (sys.stdin, sys.stdout, sys.stderr)
    left: list[str] = []
    ways = [(module, name, getattr(module, name)) for module in (os, sys.modules[os.name])
            for name in LEAVE if hasattr(module, name)]

    def refusing(name: str, leave: Callable[..., NoReturn]) -> Callable[..., NoReturn]:
        def refused(*arguments: Any) -> NoReturn:
            if os.getpid() != process:  # in a process that the user's code has started
                leave(*arguments)
            left.append(f"os.{name}({', '.join(map(repr, arguments[:1]))})")
            raise SystemExit(left[-1])

        return refused

    for module, name, leave in ways:
        setattr(module, name, refusing(name, leave))
    sys.stdin, sys.stdout, sys.stderr = map(Lent, streams)
    try:
        yield
    except (KeyboardInterrupt, TimeUp, UserError):
        raise
    except BaseException as error:
        if isinstance(error, DEFECTS) and not _user_frames(error):
            raise
        raise UserError(f"{context}: {_said(error)}") from error
    finally:
        sys.stdin, sys.stdout, sys.stderr = streams
        for module, name, leave in ways:
            setattr(module, name, leave)
    if sys.stdout.closed:
        left.append("it closes sys.stdout")
    if left:  # and no exception has told so
        raise UserError(f"{context}: {left[0]}")


def _user_frames(error: BaseException) -> list[traceback.FrameSummary]:
    """The frames of an error in the user's files."""
    return [frame for frame in traceback.extract_tb(error.__traceback__)
            if is_users(frame.filename) and not frame.filename.startswith((_PROJECT, "<frozen"))]


def _said(error: BaseException) -> str:
    """An error in one line. If the user's code raised it: with its kind, file and line."""
    frames, user_frames = traceback.extract_tb(error.__traceback__), _user_frames(error)
    checker = frames and not is_users(frames[-1].filename) and isinstance(error, ValueError)
    if not user_frames or (checker and "numpy" not in frames[-1].filename):
        kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
        return f"{kind}{error}"
    return f"{type(error).__name__}: {error} at {user_frames[-1].filename}:{user_frames[-1].lineno}"
