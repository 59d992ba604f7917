"""`nmt translate --jobs`: several processes write the same as one."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from tiny_run import captured, complaint, start

from nmt.system import System


@pytest.fixture
def there(trained: Path) -> Path:
    """A model, many sentences with an empty one among them, and a dictionary."""
    lines = Path("train.en").read_text("utf-8").splitlines()
    Path("many.en").write_text("\n".join([*lines, "", *lines[:7]]) + "\n", "utf-8")
    Path("words").write_text("one\teins\ntwo\tzwei\n", "utf-8")
    return trained


@pytest.mark.parametrize("options", [
    ("--nbest", "2", "--alignments", "links"),
    ("--shortlist", "words", "--frequent", "4", "--shortlist-check", "--beam", "3"),
    ("--every-beam", "--beam", "3", "--show", "attention"),
], ids=lambda options: options[0])
def test_several_processes_write_what_one_writes(options, there, capsys) -> None:
    actual = []
    for jobs in (1, 3):
        told = captured(capsys, "translate", "many.en", "--model", "model", "--threads", 1,
                        "--jobs", jobs, *options)
        links = Path("links")
        actual.append((told.out, told.err, links.read_bytes() if links.exists() else b""))
        links.unlink(missing_ok=True)
    assert actual[0] == actual[1] and actual[0][0].count("\n") >= 308


def test_a_process_that_is_killed_is_one_line(there, capsys, monkeypatch) -> None:
    search = System._nbests

    def dying(self, sources, *arguments):
        if len(sources) < 64:  # the last batch is smaller
            os.kill(os.getpid(), signal.SIGKILL)
        return search(self, sources, *arguments)

    monkeypatch.setattr(System, "_nbests", dying)
    said = complaint(capsys, "translate", "many.en", "--model", "model", "--jobs", 2)
    assert "one of several that share the work, ended by SIGKILL" in said


def test_an_error_in_a_process_is_told_as_it_is(there, capsys, monkeypatch) -> None:
    def full(self, sources, *arguments):
        raise MemoryError("no room")

    monkeypatch.setattr(System, "_nbests", full)
    assert complaint(capsys, "translate", "many.en", "--model", "model", "--jobs", 2) == \
        "out of memory: no room"


def test_what_cannot_be_shared_is_refused(there, capsys) -> None:
    said = complaint(capsys, "translate", "many.en", "--model", "model", "--jobs", 2, "--sample", 1)
    assert said.startswith("--jobs: cannot be used with --sample")


def test_ctrl_c_ends_all(there) -> None:
    Path("long.en").write_text(Path("many.en").read_text("utf-8") * 60, "utf-8")
    with open("out", "wb") as out:
        running = start("translate", "long.en", "--model", "model", "--jobs", 2, "--threads", 1,
                        stdout=out, stderr=subprocess.PIPE, start_new_session=True)
        deadline = time.monotonic() + 60
        while not Path("out").stat().st_size and time.monotonic() < deadline:
            time.sleep(0.02)
        running.send_signal(signal.SIGINT)
        _, err = running.communicate(timeout=60)
    assert (running.returncode, err) == (130, b"nmt: interrupted\n")
    with pytest.raises(ProcessLookupError):
        os.killpg(running.pid, 0)  # no process of its session is left
