"""The progress bar of a check, and a time limit for other code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from grads.check.watch import Watch
from nmt.console import progress


@contextmanager
def watching(title: str, limit: float | None) -> Iterator[Watch]:
    """The watch of one check, with its bar (`nmt.console.progress`).

    Arguments: title of the check; limit in seconds, None for no limit.
    """
    with progress.told(title) as tell:
        watch = Watch(limit, (lambda stage, done, total: tell(done, total, stage))
                      if progress.wanted() else None)
        yield watch


@contextmanager
def limited(limit: float | None) -> Iterator[None]:
    """Context that an alarm ends with TimeUp after `limit` seconds; None for no limit."""
    watch = Watch(limit)
    with watch.user_code():
        yield
