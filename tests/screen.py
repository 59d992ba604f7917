"""Runs commands in a pseudo-terminal of 80 columns, and returns the screen at the end."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
import traceback
from collections.abc import Callable, Mapping
from typing import NamedTuple

ROWS, COLUMNS = 24, 80
CODE = re.compile(r"\x1b\[(\??[0-9;]*)([A-Za-z])|.", re.DOTALL)
PATIENCE = 60.0  # seconds after which a command that draws nothing is ended


class Drawn(NamedTuple):
    """A command that has run in a terminal."""

    status: int
    written: str  # all text that the terminal received, with codes
    lines: list[str]  # on the screen at the end, and above it
    cursor: bool  # whether the cursor is visible

    def seen(self) -> str:
        """All text that was on the screen, without codes."""
        return CODE.sub(lambda match: "" if match[2] else match[0], self.written)


def drawn(run: Callable[[], object], typed: Mapping[str, str] | None = None) -> Drawn:
    """Call `run` in a new process, whose terminal is captured.

    typed: keys to press, by the text after which they are pressed.
    """
    process, terminal = pty.fork()
    if not process:
        _child(run)
    waiting, received, end = dict(typed or {}), b"", time.monotonic() + PATIENCE
    while select.select([terminal], [], [], max(0.0, end - time.monotonic()))[0]:
        try:
            received += os.read(terminal, 65536)
        except OSError:  # the process has ended
            break
        for text in [awaited for awaited in waiting if awaited.encode() in received]:
            os.write(terminal, waiting.pop(text).encode())
    else:
        os.kill(process, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    os.close(terminal)
    written = received.decode()
    return Drawn(status, written, *screen(written))


def _child(run: Callable[[], object]) -> None:
    """Become a process that runs in a terminal."""
    status = 1
    try:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("4H", ROWS, COLUMNS, 0, 0))
        for name in ("COLUMNS", "LINES", "NO_COLOR"):
            os.environ.pop(name, None)
        os.environ["TERM"] = "xterm-256color"
        sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")
        run()
        status = 0
    except SystemExit as stop:
        status = int(stop.code or 0)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(status)


def screen(written: str) -> tuple[list[str], bool]:
    """The lines of a terminal that has received the text, and whether its cursor is visible."""
    lines, row, column, cursor = [""], 0, 0, True
    for match in CODE.finditer(written):
        how, code = match[1], match[2]
        if code == "A":
            row -= int(how or 1)
        elif code == "K":
            assert how == "2", written
            lines[row] = ""
        elif code == "H":
            row, column = 0, 0
        elif match[0] == "\x1b[2J":
            lines = [""]
        elif how == "?25":
            cursor = code == "h"
        elif match[0] == "\x1b[?1049h":
            before, lines, row, column = (lines, row, column), [""], 0, 0
        elif match[0] == "\x1b[?1049l":
            lines, row, column = before
        elif match[0] == "\r":
            column = 0
        elif code is None:
            if column == COLUMNS or match[0] == "\n":
                row, column = row + 1, 0 if match[0] != "\n" else column
                lines += [""] * (row == len(lines))
            if match[0] != "\n":
                lines[row] = lines[row][:column].ljust(column) + match[0] + lines[row][column + 1:]
                column += 1
        else:
            assert code == "m", written  # a colour
    return [line.rstrip() for line in lines], cursor
