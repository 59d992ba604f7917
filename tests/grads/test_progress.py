"""The alarm of a check's time limit, and its progress bar."""

from __future__ import annotations

import signal
import time

import pytest

from grads.check.watch import TimeUp
from grads.progress import watching
from nmt.console import progress


def test_a_check_is_told_of_where_bars_are_shown(monkeypatch):
    told = []
    with watching("layer", None) as watch:
        assert watch.told is None and not watch.active  # in a pipe
    monkeypatch.setattr(progress, "wanted", lambda: True)
    monkeypatch.setattr(progress, "told", lambda title: _row(title, told))
    with watching("mine.py:layer", None) as watch:
        watch.tell("entries", 3, 9)
    assert told == ["mine.py:layer", (3, 9, "entries")]


class _row:
    """Stands for a bar."""

    def __init__(self, title, told):
        told.append(title)
        self.told = told

    def __enter__(self):
        return lambda *what: self.told.append(what)

    def __exit__(self, *_):
        pass


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no alarms")
def test_a_function_that_does_not_return_is_ended():
    before, start = signal.getsignal(signal.SIGALRM), time.perf_counter()
    with watching("layer", 0.05) as watch:
        with pytest.raises(TimeUp):
            watch._watched(lambda: time.sleep(20))()
    assert time.perf_counter() - start < 10 and watch.stopped
    assert signal.getsignal(signal.SIGALRM) is before
