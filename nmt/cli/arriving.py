"""Lines of standard input as they come: who reads them is told when none has come for a while."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from select import select

from nmt.data.corpus import Readable

PAUSE = 0.05  # seconds without a line, after which those that came are translated
AT_ONCE = 1 << 13  # bytes read


def stdin_in_time(before_waiting: Callable[[], None]) -> Readable:
    """Standard input, which says so before it waits, where it has a descriptor."""
    file = sys.stdin.buffer
    try:
        descriptor = file.fileno()
    except OSError:  # a stand-in, as of tests
        return file
    return Arriving(descriptor, before_waiting)


class Arriving:
    """Lines of a descriptor, with a call when none has arrived for a while."""

    def __init__(self, descriptor: int, before_waiting: Callable[[], None]) -> None:
        self._descriptor, self._before_waiting = descriptor, before_waiting
        self._left, self._ended = b"", False  # bytes that were read and not given

    def readline(self, size: int) -> bytes:
        """The next line with its end, or as many bytes of it; b"" at the end."""
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
