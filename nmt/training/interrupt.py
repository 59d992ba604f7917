"""Ctrl-C and SIGTERM that wait for a safe place."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any

from backend.errors import Terminated

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class DeferredInterrupt:
    """A with-block in which the first Ctrl-C or SIGTERM only sets `requested`; a second one
    interrupts, with an error that has no message yet.

    An update cut in half would leave parameters that no seed can bring back, so the loop checks
    `requested` between updates. What the process was told to ignore (`nohup`, a shell's background
    jobs) it goes on ignoring. Outside the main thread, where Python allows no signal handlers,
    nothing is done.
    """

    def __init__(self) -> None:
        self.requested = False
        self._number = int(signal.SIGINT)  # of the signal that came last
        self._before: dict[int, Any] = {}

    def __enter__(self) -> DeferredInterrupt:
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                if signal.getsignal(number) not in (signal.SIG_IGN, None):
                    self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def error(self, *message: str) -> KeyboardInterrupt:
        """What to raise for the signal that came."""
        kind = Terminated if self._number == signal.SIGTERM else KeyboardInterrupt
        return kind(*message)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        """First time: take note. Second time: the user means now."""
        self._number = number
        if self.requested:
            raise self.error()
        self.requested = True
