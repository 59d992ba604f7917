"""What the command lines make of signals."""

import argparse
import os
import signal

import pytest

from backend.command import run_command


def called(run):
    """Exit status of a command."""
    with pytest.raises(SystemExit) as stop:
        run_command("nmt", lambda: argparse.Namespace(run=run))
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
