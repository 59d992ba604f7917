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

    Arguments: title of the check; limit in seconds, None for none. An alarm ends a run of the
    user's function that goes on beyond the limit, where the system has alarms.
    """
    with progress.told(title) as tell:
        watch = Watch(limit, (lambda what, done, of: tell(done, of, what))
                      if progress.wanted() else None)
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
