"""The boundary of the command lines: every error is one line and an exit status."""

from __future__ import annotations

import argparse
import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from screen import drawn

from backend.errors import UserError
from nmt.console.arguments import above_zero, at_least_zero, count, natural, seconds
from nmt.console.command import DEFECT, command, guarded
from nmt.console.terminal import Console, escaped, print

ROOT = Path(__file__).resolve().parents[3]


def said(capsys, error: BaseException) -> tuple[int, str]:
    """Exit status and the one line of a command that raises."""

    with pytest.raises(SystemExit) as ended, guarded("nmt"):
        raise error
    status = ended.value.code
    line = capsys.readouterr().err
    assert line.startswith("nmt: ") and line.count("\n") == 1 and line.endswith("\n"), line
    return status, line[5:-1]


@pytest.mark.parametrize("error, status, line", [
    (UserError("x:\n y"), 2, "x: y"), (MemoryError(), 2, "out of memory"),
    (MemoryError("Unable to allocate 8 TiB"), 2, "out of memory: Unable to allocate 8 TiB"),
    (OSError(28, "No space left on device"), 2, "No space left on device"),
    (OSError(2, "No such file", "a\x1b[31m"), 2, "a\\x1b[31m: No such file"),
    (KeyboardInterrupt(), 130, "interrupted"),
])  # fmt: skip
def test_what_a_command_raises_is_one_line(capsys, error, status, line):
    assert said(capsys, error) == (status, line)


@pytest.mark.parametrize("error", [ValueError("a\nb\x1b]0;c"), RecursionError("deep"), KeyError(3)])
def test_an_unexpected_error_is_one_line_and_a_report_file(capsys, tmp_path, monkeypatch, error):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    status, line = said(capsys, error)
    (report,) = tmp_path.iterdir()
    kind = type(error).__name__
    assert status == DEFECT == 70 and f"unexpected {kind}" in line and "\x1b" not in line
    assert line.endswith(f"this is a defect of nmt: please report it with {report}")
    assert re.search(r"at tests/nmt/console/test_command.py:\d+;", line)
    text = report.read_text("utf-8")
    assert "Traceback (most recent call last):" in text and repr(sys.argv[1:]) in text
    assert report.stat().st_mode & 0o777 == 0o600  # it holds what was typed


def test_a_report_that_cannot_be_written_is_reported(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))
    status, line = said(capsys, ValueError("x"))
    assert status == 70 and line.endswith("its report cannot be written: No such file or directory")


def test_long_quotations_are_cut(capsys):
    _, line = said(capsys, UserError(f"expected a number, got {'9' * 5000}"))
    assert len(line) < 400 and line.startswith("expected a number, got 999") and "9...9" in line


PRINT = ("import sys; from nmt.console.command import guarded\n"
         "with guarded('nmt'): print('x' * 9)")


def shell(command: str, code: str = PRINT) -> subprocess.CompletedProcess:
    """The code as a process whose streams the shell has prepared."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(["bash", "-c", f'exec "$0" -c "$1" {command}', sys.executable, code],
                          capture_output=True, text=True, env=environment)


def test_closed_streams_and_a_full_device():
    """No output is lost silently or printed twice, and no file gets a stream's descriptor."""
    assert shell("<&-").stdout == "x" * 9 + "\n"
    for read in ("sys.stdin.buffer", "input()"):
        unread = shell("<&-", PRINT.replace("print('x' * 9)", read))
        assert unread.returncode == 2, unread
        assert unread.stderr == "nmt: <stdin>: expected text, but it is closed\n"
    closed = shell(">&-")
    assert closed.returncode == 2
    assert closed.stderr == "nmt: <stdout>: cannot write the output: it is closed\n"
    without = shell("2>&-", PRINT.replace("print('x' * 9)", "print(1, file=sys.stderr)"))
    assert (without.returncode, without.stdout) == (0, "")
    full = shell("> /dev/full")
    assert (full.returncode, full.stderr) == (2, "nmt: No space left on device\n")
    opened = shell("<&- 2>&-", PRINT.replace("print('x' * 9)", "print(open('/dev/null').fileno())"))
    assert int(opened.stdout) > 2


HOSTILE = "a\x1b[2Jb\u202ec\x9b\x1b[31md"
SHOWN = "a\\x1b[2Jb\\u202ec\\x9b\\x1b[31md"
SAY = f"""
import sys
from nmt.console import progress
from nmt.console.command import guarded
from backend.errors import UserError
from nmt.console.terminal import Console, print
word = {HOSTILE!r}
with guarded('nmt'):
    print(word)
    print(word, file=sys.stderr)
    Console(highlight=False).print('[bold]' + word)
    with progress.shown(redrawn=False), progress.busy(word):  # the stream is rich's while it draws
        print(word)
        Console(highlight=False).print('[bold]' + word)
    raise UserError(word)
"""


def test_text_cannot_control_a_terminal():
    """Text printed by hand or by rich, bars' labels and errors are escaped. rich's own codes pass,
    and text in pipes is unchanged."""
    terminal = drawn(lambda: exec(SAY, {}))
    assert terminal.status == 2 and "\x1b[1m" in terminal.written  # rich's bold
    assert terminal.lines == [*[SHOWN] * 5, f"nmt: {SHOWN}", ""] and SHOWN + " " in terminal.seen()
    assert not any(code in terminal.written for code in ("\x1b[2J", "\u202e", "\x9b", "\x1b[31m"))
    assert shell("", SAY).stdout.count(f"{HOSTILE}\n") == 2


def test_print_works_as_usual_but_escapes(capsys):
    print(1, "a\x1b", sep=",", end="!\n")
    assert capsys.readouterr().out == "1,a\x1b!\n"
    stream = io.StringIO()
    print("b", file=stream, flush=True)
    assert stream.getvalue() == "b\n" and Console(file=stream).file is stream
    assert escaped("ü 漢 \u00a0\ta\n") == "ü 漢 \u00a0\ta\n" and escaped("\ud800") == "\\ud800"


@pytest.mark.parametrize("kind, text", [
    (natural, "9" * 5000), (natural, "-1"), (natural, "٣"), (natural, "1e3"), (natural, "9" * 20),
    (count, "10000001"), (above_zero, "inf"), (above_zero, "nan"), (above_zero, "0"),
    (above_zero, "1e999"), (at_least_zero, "-1e-9"), (at_least_zero, "nan"), (above_zero, "x"),
    (seconds, "1e308"),
])  # fmt: skip
def test_a_number_that_is_none_is_refused(kind, text):
    with pytest.raises(argparse.ArgumentTypeError, match=r"expected (an? |seconds )"):
        kind(text)


def test_numbers():
    assert (natural("0"), count("7"), above_zero("1e-300"), at_least_zero("0")) == (0, 7, 1e-300, 0)


@pytest.mark.parametrize("given, advised", [(None, True), (1, False)])
def test_threads_of_a_command(given, advised, monkeypatch, capsys):
    """`--threads` is obeyed. Without it, there is advice if threads would wait for other
    programs."""
    used = []
    monkeypatch.setattr("nmt.console.command.use_threads", used.append)
    monkeypatch.setattr("nmt.console.command.crowded", lambda: "--threads 1 may be faster")
    options = argparse.Namespace(run=lambda options: None, threads=given)
    with command("nmt", lambda: options, heavy=True):
        pass
    assert used == [given] * (given is not None)
    assert ("--threads 1 may be faster" in capsys.readouterr().err) is advised
