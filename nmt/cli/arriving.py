"""Lines of standard input as they arrive, with a call before the reader has to wait."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from select import select

from nmt.data.corpus import Readable

PAUSE = 0.05  # seconds without input, after which the lines that came are translated
AT_ONCE = 1 << 13  # bytes read at a time


def stdin_in_time(before_waiting: Callable[[], None]) -> Readable:
    """Standard input, which calls `before_waiting` before it waits. A stand-in for standard input
    without a descriptor never calls it."""
    file = sys.stdin.buffer
    try:
        descriptor = file.fileno()
    except OSError:  # a stand-in, as in tests
        return file
    return Arriving(descriptor, before_waiting)


class Arriving:
    """Lines of a descriptor; calls a function when no input has arrived for a while."""

    def __init__(self, descriptor: int, before_waiting: Callable[[], None]) -> None:
        self._descriptor, self._before_waiting = descriptor, before_waiting
        self._left, self._ended = b"", False  # bytes that were read but not returned

    def readline(self, size: int) -> bytes:
        """The next line with its end, or its first `size` bytes; b"" at the end."""
        parts = [self._left]
        while b"\n" not in parts[-1] and sum(map(len, parts)) < size and not self._ended:
            if not select([self._descriptor], [], [], PAUSE)[0]:
                self._before_waiting()
            parts.append(os.read(self._descriptor, AT_ONCE))
            self._ended = not parts[-1]
        arrived = b"".join(parts)
        end = arrived.find(b"\n", 0, size) + 1 or min(size, len(arrived))
        self._left = arrived[end:]
        return arrived[:end]
