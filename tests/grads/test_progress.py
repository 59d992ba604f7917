"""The bar of a check on a terminal, and the alarm of its time limit."""

from __future__ import annotations

import io
import signal
import time

import pytest
from rich.console import Console

from grads import progress
from grads.check.watch import TimeUp
from grads.progress import watching


def test_a_terminal_is_told_once_a_check_takes_its_time(monkeypatch):
    out = io.StringIO()
    screen = Console(file=out, force_terminal=True, width=100)
    with watching("mine.py:[layer]", None, screen) as watch:
        watch.tell("entries", 1, 9)
        assert out.getvalue() == ""
        monkeypatch.setattr(progress, "AFTER", 0.0)
        watch.tell("entries", 3, 9)
        watch.tell("entries", 4, 9)
    assert "mine.py:[layer]: entries" in out.getvalue() and "4 of 9" in out.getvalue()


def test_a_pipe_is_told_nothing(monkeypatch):
    monkeypatch.setattr(progress, "AFTER", 0.0)
    out = io.StringIO()
    with watching("layer", None, Console(file=out)) as watch:
        assert watch.told is None and not watch.active
    assert out.getvalue() == ""


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no alarms")
def test_a_function_that_does_not_return_is_ended():
    before, start = signal.getsignal(signal.SIGALRM), time.perf_counter()
    with watching("layer", 0.05, Console(file=io.StringIO())) as watch:
        with pytest.raises(TimeUp):
            watch._watched(lambda: time.sleep(20))()
    assert time.perf_counter() - start < 10 and watch.stopped
    assert signal.getsignal(signal.SIGALRM) is before
