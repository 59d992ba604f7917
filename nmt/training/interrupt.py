"""Deferring Ctrl-C and SIGTERM until an update is complete."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any

from nmt.console.command import Terminated

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class DeferredInterrupt:
    """Context in which the first Ctrl-C or SIGTERM only sets `requested`. A second one interrupts,
    with an error that has no message yet.

    An interrupted update would leave parameters that cannot be reproduced, so that the loop checks
    `requested` between updates. Signals that the process ignores (`nohup`, a shell's background
    jobs) stay ignored. Outside the main thread, where Python allows no signal handlers, this does
    nothing.
    """

    def __init__(self) -> None:
        self.requested = False
        self._number = int(signal.SIGINT)  # number of the last signal
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
        """The exception to raise for the signal."""
        kind = Terminated if self._number == signal.SIGTERM else KeyboardInterrupt
        return kind(*message)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        """Set `requested` at the first signal; interrupt at the second."""
        self._number = number
        if self.requested:
            raise self.error()
        self.requested = True
