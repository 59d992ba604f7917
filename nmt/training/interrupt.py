"""Ctrl-C that waits for a safe place."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any


class DeferredInterrupt:
    """A with-block in which the first Ctrl-C only sets `requested`; a second one interrupts.

    An update cut in half would leave parameters that no seed can bring back, so the loop checks
    `requested` between updates. Outside the main thread, where Python allows no signal handlers,
    it does nothing.
    """

    def __init__(self) -> None:
        self.requested = False
        self._before: Any = None

    def __enter__(self) -> DeferredInterrupt:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        """First time: take note. Second time: the user means now."""
        if self.requested:
            raise KeyboardInterrupt("stopped at once; the last checkpoint stands")
        self.requested = True
