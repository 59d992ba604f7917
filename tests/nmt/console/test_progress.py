"""Bars appear only on a terminal, after a while, and are erased when the work is done."""

from __future__ import annotations

import io
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from nmt.console import progress
from nmt.console.progress import busy, counted, hidden, shown, told, wanted
from nmt.training.progress import ConsoleObserver, Progress


class Screen(io.StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Iterator[Screen]:
    """stderr, on which bars are shown at once."""
    stderr = Screen()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(sys, "stderr", stderr)
    monkeypatch.setattr(progress, "AFTER", 0.0)
    monkeypatch.setattr(progress, "PAUSE", 0.0)
    with shown():
        yield stderr


def seen(screen: Screen, text: str) -> bool:
    """Whether the text is drawn within some seconds; a thread draws."""
    end = time.monotonic() + 20
    while text not in screen.getvalue() and time.monotonic() < end:
        time.sleep(0.01)
    return text in screen.getvalue()


def test_items_are_counted_by_name_and_the_bar_goes(screen: Screen) -> None:
    taken = []
    for item in counted("abc", "[letters]"):
        taken.append(item)
        assert seen(screen, f"{len(taken) - 1} of 3")
    assert "".join(taken) == "abc" and "[letters]" in screen.getvalue()
    with busy("something else"):
        assert seen(screen, "something else")
    assert not [thread for thread in threading.enumerate() if isinstance(thread, threading.Timer)]
    assert screen.getvalue().endswith("\x1b[2K\x1b[?25h\r")  # the line is empty


def test_a_bar_inside_a_bar_shows_its_item(screen: Screen) -> None:
    with told("checks") as tell:
        tell(2, 9, "entries of [W]")
        with busy("a check"):
            assert seen(screen, "a check") and seen(screen, "checks: entries of [W]")
        assert seen(screen, "2 of 9")


def test_short_work_shows_no_bar(screen: Screen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "AFTER", 60.0)
    assert list(counted(range(3), "numbers")) == [0, 1, 2] and screen.getvalue() == ""


def test_no_bar_in_a_log_in_a_thread_or_beside_another_bar(
    screen: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[bool] = []
    thread = threading.Thread(target=lambda: answers.append(wanted()))
    thread.start()
    thread.join()
    assert answers == [False] and wanted()
    with hidden():
        assert not wanted() and list(counted("ab", "letters")) == ["a", "b"]
    monkeypatch.setenv("FORCE_COLOR", "1")  # as in CI: colours, but no terminal
    monkeypatch.setattr(sys, "stderr", log := io.StringIO())
    with shown(), busy("something"):
        assert not wanted()
    assert log.getvalue() == ""


def test_no_other_bar_beside_the_bar_of_training(screen: Screen) -> None:
    from nmt.console.terminal import Console

    observer = ConsoleObserver(Console(file=Screen(), force_terminal=True))
    observer.on_batch(Progress(1, 2, 1, 4, 1, 0.1, None))
    assert not wanted()
    observer.close()
    assert wanted()


def test_a_program_that_measures_time_is_not_interrupted(
    screen: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", screen)  # pytest has put its own there
    with shown(redrawn=False), busy("kernels"):
        threads = set(threading.enumerate())
        for place in counted(range(3), "iterations"):
            assert not set(threading.enumerate()) - threads
            assert f"{place} of 3" in screen.getvalue() and "kernels" in screen.getvalue()
