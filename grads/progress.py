"""The progress bar of a check, and the alarm that ends it at its time limit."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from grads.check.watch import Watch
from nmt.console import progress


@contextmanager
def watching(title: str, limit: float | None) -> Iterator[Watch]:
    """The watch of one check, with its bar (`nmt.console.progress`).

    Arguments: title of the check; limit in seconds, None for no limit. An alarm ends a run of the
    user's function at the limit.
    """
    with progress.told(title) as tell:
        watch = Watch(limit, (lambda stage, done, total: tell(done, total, stage))
                      if progress.wanted() else None)
        with _alarm(watch):
            yield watch


@contextmanager
def limited(limit: float | None) -> Iterator[None]:
    """Context that an alarm ends with TimeUp after `limit` seconds; None for no limit."""
    watch = Watch(limit)
    with _alarm(watch), watch.user_code():
        yield


@contextmanager
def _alarm(watch: Watch) -> Iterator[None]:
    """Context of an alarm at the watch's limit, if the system has alarms."""
    if watch.limit is None or not hasattr(signal, "setitimer") or (
            threading.current_thread() is not threading.main_thread()):
        yield
        return
    before = signal.signal(signal.SIGALRM, watch.ring)
    try:
        signal.setitimer(signal.ITIMER_REAL, watch.limit + 0.001)
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
