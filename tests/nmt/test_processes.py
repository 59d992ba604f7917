"""Processes that share work."""

from __future__ import annotations

import subprocess
import sys

START = "import os, signal\nfrom nmt.processes import in_processes\n"
INTERRUPTED = START + """
os.register_at_fork(after_in_parent=lambda: os.kill(os.getpid(), signal.SIGINT))
try:
    print(list(in_processes(lambda k: [k], 1)))
except KeyboardInterrupt:
    print("interrupted")
"""
BLOCKED = START + """
print(list(in_processes(lambda k: [signal.pthread_sigmask(signal.SIG_BLOCK, ())], 1)))
"""

UNREAD = """
import time
from nmt.processes import start
process, reader = start(lambda writer: (time.sleep(0.1), writer.send(1)))
reader.close()
process.join()
print(process.exitcode)
"""


def said(program: str) -> tuple[str, str]:
    """What a program writes to stdout and stderr."""
    ended = subprocess.run([sys.executable, "-c", program], text=True, capture_output=True,
                           timeout=60)
    return ended.stdout, ended.stderr


def test_ctrl_c_while_a_process_is_started_is_not_lost() -> None:
    assert said(INTERRUPTED) == ("interrupted\n", "")


def test_a_process_has_no_signal_blocked() -> None:
    assert said(BLOCKED) == ("[(0, set())]\n", "")


def test_a_process_whose_reader_is_gone_ends_quietly() -> None:
    assert said(UNREAD) == ("0\n", "")
