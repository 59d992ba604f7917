"""Progress bars for work that takes over a second, on stderr if that is a terminal.

A command switches bars on (`shown`), and the functions that it calls report their progress
(`counted`, `told`, `busy`). Nothing is printed without `shown`, as in a program that imports this
package or in a server's thread, nor if stderr is a pipe or a file.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sized
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import NamedTuple, Protocol, TypeVar

import rich.console
from rich.console import ConsoleOptions, RenderableType, RenderResult
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Column
from rich.text import Text

from nmt.console.terminal import Console

Item = TypeVar("Item")
AFTER = 1.0  # seconds of work before bars are shown
PAUSE = 0.1  # seconds between updates: an update takes 20 us, longer than reading a line


class Tell(Protocol):
    """Receives how much is done, the total (None: unknown), and the current item."""

    def __call__(self, done: int, total: int | None, item: str = "", /) -> None: ...


class Narrow(NamedTuple):
    """A drawing that is four columns narrower, which leaves room for the `^C` that a terminal
    shows. On a line of its own, `^C` would not be erased."""

    drawn: RenderableType

    def __rich_console__(self, console: rich.console.Console, options: ConsoleOptions
                         ) -> RenderResult:
        """Draw it four columns narrower."""
        yield from console.render(self.drawn, options.update_width(options.max_width - 4))


class Bar(Progress):
    """rich's progress bars, four columns narrower."""

    def get_renderable(self) -> Narrow:
        """The bars of all tasks."""
        return Narrow(super().get_renderable())


class Count(ProgressColumn):
    """The column of a bar that says how much is done and, if known, the total."""

    def render(self, task: Task) -> Text:
        """`3 of 9`, `3`, or nothing."""
        done = f"{int(task.completed)}" if task.total or task.completed else ""
        return Text(done if task.total is None else f"{done} of {int(task.total)}")


class Bars:
    """The bars of a command, with a row for each function at work. A bar is erased when its work is
    done.

    redrawn: whether a thread redraws the bars ten times a second. For programs that measure time,
    bars are instead drawn at once, and again only when progress is reported.
    """

    def __init__(self, console: Console, redrawn: bool = True) -> None:
        self._bars = Bar(
            TextColumn("{task.description}", table_column=Column(ratio=1, no_wrap=True)),
            BarColumn(20), Count(), TimeElapsedColumn(),
            console=console, transient=True, auto_refresh=redrawn, expand=True,
            redirect_stdout=sys.stdout.isatty())
        self._redrawn = redrawn
        self._lock = threading.Lock()
        self._start = threading.Timer(AFTER, self._show)
        self._rows = 0

    @contextmanager
    def row(self, description: str) -> Iterator[Tell]:
        """Context of a new row; yields the function that updates it."""
        row = self._bars.add_task(Text(description).markup, total=None)  # escapes a name's brackets
        last = time.perf_counter()
        self._open()

        def tell(done: int, total: int | None, item: str = "", /) -> None:
            nonlocal last
            now = time.perf_counter()
            if now - last >= PAUSE:
                last = now
                text = f"{description}: {item}" if item else description
                self._bars.update(row, completed=done, total=total, description=Text(text).markup)
                if not self._redrawn:
                    self._bars.refresh()

        try:
            yield tell
        finally:
            self._bars.remove_task(row)
            self._close()

    def _open(self) -> None:
        """Count a new row. The first one starts the timer that shows the bars."""
        self._rows += 1
        if not self._redrawn:
            self._bars.start()
            self._bars.refresh()
        elif self._rows == 1:
            self._start = threading.Timer(AFTER, self._show)
            self._start.daemon = True
            self._start.start()

    def _show(self) -> None:
        """Show the bars when the timer ends, unless all work is done."""
        with self._lock:
            if self._rows:
                self._bars.start()

    def _close(self) -> None:
        """Count a row that closes. After the last one, everything drawn is erased."""
        with self._lock:
            self._rows -= 1
            if not self._rows:
                self.erase()

    def erase(self) -> None:
        """Stop the timer and erase all bars."""
        self._start.cancel()
        self._bars.stop()


_BARS: ContextVar[Bars | None] = ContextVar("bars", default=None)


@contextmanager
def shown(redrawn: bool = True) -> Iterator[None]:
    """Context in which this thread shows bars on stderr, if that is a terminal.

    The bars are erased at the end, also after Ctrl-C.
    """
    bars = Bars(Console(file=sys.stderr), redrawn) if sys.stderr.isatty() else None
    try:
        with _using(bars):
            yield
    finally:
        if bars is not None:
            bars.erase()


def hidden() -> AbstractContextManager[None]:
    """Context without bars, because something else is drawn on the terminal."""
    return _using(None)


@contextmanager
def _using(bars: Bars | None) -> Iterator[None]:
    token = _BARS.set(bars)
    try:
        yield
    finally:
        _BARS.reset(token)


def wanted() -> bool:
    """Whether bars are switched on in this thread."""
    return _BARS.get() is not None


@contextmanager
def told(description: str) -> Iterator[Tell]:
    """Context of a bar with this label; yields the function that updates it."""
    bars = _BARS.get()
    if bars is None:
        yield lambda done, total, item="", /: None
        return
    with bars.row(description) as tell:
        yield tell


@contextmanager
def busy(description: str) -> Iterator[None]:
    """Context of a bar without a count, for work of unknown length."""
    with told(description):
        yield


def counted(items: Iterable[Item], description: str) -> Iterable[Item]:
    """Iterate over the items, with a bar that counts them under this label."""
    return items if _BARS.get() is None else _counted(items, description)


def _counted(items: Iterable[Item], description: str) -> Iterator[Item]:
    total = len(items) if isinstance(items, Sized) else None
    with told(description) as tell:
        for done, item in enumerate(items):
            tell(done, total)
            yield item
