"""How far a check is, on a terminal: for functions that take their time."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from backend.terminal import Console
from grads.check.watch import Watch

AFTER = 1.0  # seconds from which on it is shown


@contextmanager
def watching(title: str, limit: float | None, screen: Console | None = None) -> Iterator[Watch]:
    """The watch of one check; a terminal is told how far it is, on stderr.

    Arguments: title of the check; limit in seconds, None for none; screen, where it is told. An
    alarm ends a run of the user's function that goes on beyond the limit, where the system has
    alarms.
    """
    screen = screen or Console(stderr=True)
    shown = Shown(title, screen) if screen.is_terminal else None
    watch = Watch(limit, shown.told if shown else None)
    alarm = limit is not None and hasattr(signal, "setitimer") and (
        threading.current_thread() is threading.main_thread())
    before = signal.signal(signal.SIGALRM, watch.ring) if alarm else None
    try:
        if alarm:
            signal.setitimer(signal.ITIMER_REAL, float(limit or 0) + 0.001)
        yield watch
    finally:
        if alarm:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        if shown:
            shown.progress.stop()


class Shown:
    """A bar that appears where a check takes longer than AFTER, and goes with it."""

    def __init__(self, title: str, screen: Console) -> None:
        self.progress = Progress(TextColumn("{task.description}"), BarColumn(),
                                 TextColumn("{task.completed} of {task.total}"),
                                 TimeElapsedColumn(), console=screen, transient=True)
        self.title, self.start = title, time.perf_counter()
        self.task: TaskID | None = None

    def told(self, what: str, done: int, of: int) -> None:
        """`Watch.told`."""
        if time.perf_counter() - self.start < AFTER:
            return
        title = Text(f"{self.title}: {what}").markup  # a name may have brackets
        if self.task is None:
            self.task = self.progress.add_task(title, total=of)
            self.progress.start()
        self.progress.update(self.task, description=title, completed=done, total=of)
