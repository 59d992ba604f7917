"""How far a command is: bars on stderr, where that is a terminal, for what takes over a second.

A command lets bars be shown (`shown`); the functions that it calls say how far they are (`counted`,
`told`, `busy`). Where nobody lets them, in a program that imports this package, in a thread of a
server, in a pipe or a log, they say nothing.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sized
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Protocol, TypeVar

from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text

from backend.terminal import Console

Item = TypeVar("Item")
AFTER = 1.0  # seconds from which on bars are shown
PAUSE = 0.1  # seconds between two changes of a bar: a change costs 20 us, a line of a file less


class Tell(Protocol):
    """Is told how much is done, of how much (None: nobody knows), and at what one is."""

    def __call__(self, done: int, of: int | None, what: str = "", /) -> None: ...


class Count(ProgressColumn):
    """How much is done, of how much, where that is known."""

    def render(self, task: Task) -> Text:
        """`3 of 9`, `3`, or nothing."""
        done = f"{int(task.completed)}" if task.total or task.completed else ""
        return Text(done if task.total is None else f"{done} of {int(task.total)}")


class Bars:
    """The bars of a command, a row for each function that is at work; they go when it is done.

    redrawn: by a thread ten times a second; without it at once, and again when one is told, for
    programs that measure time.
    """

    def __init__(self, console: Console, redrawn: bool = True) -> None:
        self._bars = Progress(
            TextColumn("{task.description}"), BarColumn(), Count(), TimeElapsedColumn(),
            console=console, transient=True, auto_refresh=redrawn,
            redirect_stdout=sys.stdout.isatty())
        self._redrawn = redrawn
        self._lock = threading.Lock()
        self._start = threading.Timer(AFTER, self._show)
        self._rows = 0

    @contextmanager
    def row(self, what: str) -> Iterator[Tell]:
        """A row, while it is open; gives what moves it."""
        row = self._bars.add_task(Text(what).markup, total=None)  # a name may have brackets
        last = time.perf_counter()
        self._open()

        def tell(done: int, of: int | None, at: str = "", /) -> None:
            nonlocal last
            now = time.perf_counter()
            if now - last >= PAUSE:
                last = now
                self._bars.update(row, completed=done, total=of,
                                  description=Text(f"{what}: {at}" if at else what).markup)
                if not self._redrawn:
                    self._bars.refresh()

        try:
            yield tell
        finally:
            self._bars.remove_task(row)
            self._close()

    def _open(self) -> None:
        """One row more: the first is shown after a while."""
        self._rows += 1
        if not self._redrawn:
            self._bars.start()
            self._bars.refresh()
        elif self._rows == 1:
            self._start = threading.Timer(AFTER, self._show)
            self._start.daemon = True
            self._start.start()

    def _show(self) -> None:
        """What the timer calls: something may have been done in time."""
        with self._lock:
            if self._rows:
                self._bars.start()

    def _close(self) -> None:
        """One row less: with the last all that is drawn goes."""
        with self._lock:
            self._rows -= 1
            if not self._rows:
                self._start.cancel()
                self._bars.stop()


_BARS: ContextVar[Bars | None] = ContextVar("bars", default=None)


@contextmanager
def shown(redrawn: bool = True) -> Iterator[None]:
    """Let bars be shown on stderr, if that is a terminal, meanwhile and in this thread."""
    with _using(Bars(Console(file=sys.stderr), redrawn) if sys.stderr.isatty() else None):
        yield


def hidden() -> AbstractContextManager[None]:
    """Meanwhile none is shown: something else is drawn there."""
    return _using(None)


@contextmanager
def _using(bars: Bars | None) -> Iterator[None]:
    token = _BARS.set(bars)
    try:
        yield
    finally:
        _BARS.reset(token)


def wanted() -> bool:
    """Whether bars are shown here at all."""
    return _BARS.get() is not None


@contextmanager
def told(what: str) -> Iterator[Tell]:
    """A bar for what is named; gives the function that moves it."""
    bars = _BARS.get()
    if bars is None:
        yield lambda done, of, at="", /: None
        return
    with bars.row(what) as tell:
        yield tell


@contextmanager
def busy(what: str) -> Iterator[None]:
    """A bar that only moves, for what cannot be counted."""
    with told(what):
        yield


def counted(items: Iterable[Item], what: str) -> Iterable[Item]:
    """The items, with a bar that counts those that were taken."""
    return items if _BARS.get() is None else _counted(items, what)


def _counted(items: Iterable[Item], what: str) -> Iterator[Item]:
    of = len(items) if isinstance(items, Sized) else None
    with told(what) as tell:
        for done, item in enumerate(items):
            tell(done, of)
            yield item
