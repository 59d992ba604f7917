"""Signals and the command lines."""

import argparse
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nmt.console.command import command

ROOT = Path(__file__).resolve().parents[3]


def called(run):
    """Exit status of a command."""
    with pytest.raises(SystemExit) as stop:
        with command("nmt", argparse.Namespace) as options:
            status = run(options)
        sys.exit(status)
    return stop.value.code


def test_sigterm_ends_a_command_with_143_and_what_it_began_is_undone(capsys):
    undone = []

    def run(options):
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        finally:
            undone.append(True)

    assert called(run) == 143 and undone
    assert capsys.readouterr().err == "nmt: terminated\n"
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


@pytest.mark.parametrize("number, status", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_that_comes_in_a_finalizer_is_not_lost(number, status):
    """Python prints exceptions in finalizers and ignores them."""
    class Finalized:
        def __del__(self):
            os.kill(os.getpid(), number)

    def run(options):
        del options.value
        time.sleep(20)

    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        with pytest.raises(SystemExit) as stop, \
                command("nmt", lambda: argparse.Namespace(value=Finalized())) as options:
            run(options)
    finally:
        signal.signal(signal.SIGINT, before)
    assert stop.value.code == status


def test_a_worker_of_a_command_ends_by_the_signal():
    def run(options):
        child = os.fork()
        if not child:
            os.kill(os.getpid(), signal.SIGTERM)
            os._exit(0)
        return os.WTERMSIG(os.waitpid(child, 0)[1])

    assert called(run) == signal.SIGTERM


def test_where_sigterm_is_ignored_it_stays_so():
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        assert called(lambda options: os.kill(os.getpid(), signal.SIGTERM) or 3) == 3
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize("module", ["nmt", "grads", "benchmarks"])
def test_ctrl_c_during_the_imports_is_silent(module, tmp_path):
    """The process sends the signal to itself when NumPy is imported."""
    (tmp_path / "numpy.py").write_text("import os, signal, time\n"
                                       "os.kill(os.getpid(), signal.SIGINT)\ntime.sleep(9)\n")
    ended = subprocess.run([sys.executable, "-m", module, "--help"], cwd=ROOT, text=True,
                           capture_output=True, env=os.environ | {"PYTHONPATH": str(tmp_path)})
    assert (ended.returncode, ended.stdout, ended.stderr) == (-signal.SIGINT, "", "")


def test_ctrl_c_after_the_imports_is_one_line():
    """In a process that begins with the system's handling of the signal, like the commands."""
    code = ("import os, signal\nfrom nmt.console.command import guarded\n"
            "signal.signal(signal.SIGINT, signal.SIG_DFL)\n"
            "with guarded('nmt'):\n    os.kill(os.getpid(), signal.SIGINT)")
    ended = subprocess.run([sys.executable, "-c", code], cwd=ROOT, text=True, capture_output=True)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "nmt: interrupted\n")
