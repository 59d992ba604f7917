"""A user's file that would end the command, take its streams, or never end."""

from __future__ import annotations

import io
import sys
import textwrap

import pytest

from backend.errors import UserError
from grads.check.contained import contained
from grads.cli import main

FILE = '''
    import os, sys
    import numpy as np
    AT_IMPORT

    def f_inputs(rng):
        AT_INPUTS
        return [rng.normal(size=3)]

    def f_forward(x):
        AT_FORWARD
        y = np.sin(x)
        return y, x

    def f_backward(dy, x):
        AT_BACKWARD
        dx = dy * np.cos(x)
        return dx

    def g_inputs(rng):
        return [rng.normal(size=3)]

    def g(x):
        AT_FORWARD
        return (x * x).sum()

    def g_gradient(x):
        return 2 * x

    class Layer:
        def forward(self, x):
            return f_forward(x)[0]

        def backward(self, d):
            return f_backward(d, 1.0)

    layer, layer_inputs, loss_inputs = Layer(), f_inputs, f_inputs

    def loss(x):
        return g(x), g_gradient(x)
'''
PLACES = ("IMPORT", "INPUTS", "FORWARD", "BACKWARD")
COMMANDS = ("check", "walk", "explore")


@pytest.fixture
def run(tmp_path, capsys):
    """What a command says of a file in which a statement stands at a place: status, out, err."""

    def call(command, statement, place, *options, name="f"):
        text = textwrap.dedent(FILE)
        for marker in PLACES:
            text = text.replace(f"AT_{marker}", statement if marker == place else "pass")
        path = tmp_path / "mine.py"
        path.write_text(text, encoding="utf-8")
        output = ["-o", str(tmp_path / "mine.html")] if command == "explore" else []
        status = 0
        try:
            main([command, f"{path}:{name}", *output, *options])
        except SystemExit as error:
            status = error.code
        out, err = capsys.readouterr()
        return status, out, err.replace(str(path), "FILE")

    return call


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("statement, said", [
    ("os._exit(3)", "SystemExit: os._exit(3) at FILE:"),  # a status that pytest would end with
    ("sys.exit()", "SystemExit: at FILE:"),
    ("raise GeneratorExit('enough')", "GeneratorExit: enough at FILE:")])
def test_whoever_leaves_is_an_error(run, tmp_path, command, place, statement, said):
    status, out, err = run(command, statement, place)
    assert (status, out) == (2, "") and err.startswith("grads: FILE") and said in err
    assert err.count("\n") == 1 and not (tmp_path / "mine.html").exists()


@pytest.mark.parametrize("statement, said", [
    ("import posix; posix._exit(3)", "os._exit(3)"), ("os.abort()", "os.abort()"),
    ("os.execl('/bin/true', 'true')", "os.execv('/bin/true')"),
    ("os.execvp('true', ['true'])", "os.execv("),
    ("import posix; posix.execve('/bin/true', ['true'], {})", "os.execve('/bin/true')")])
def test_other_ways_to_leave(run, statement, said):
    status, out, err = run("check", statement, "BACKWARD")
    assert (status, out) == (2, "") and f"SystemExit: {said}" in err


def test_who_catches_the_exit_has_left_all_the_same(run):
    swallow = "exec('try: os._exit(3)\\nexcept BaseException: pass')"
    status, out, err = run("check", swallow, "BACKWARD")
    assert (status, out) == (2, "") and err == "grads: FILE:f: os._exit(3)\n"


def test_a_process_of_the_users_own_may_leave(run):
    fork = ("if (child := os.fork()) == 0: os._exit(5)\n"
            "    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5")
    assert run("check", fork, "BACKWARD")[0] == 0


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("statement", [
    "sys.stdout = None", "sys.stdout.close()", "sys.stderr = None", "sys.stderr.close()",
    "sys.stdin = sys.stdout = sys.stderr = None"])
def test_the_streams_are_ours_again(run, command, place, statement):
    streams = sys.stdin, sys.stdout, sys.stderr
    status, out, err = run(command, statement, place)
    assert (status, err) == (0, "") and ("1 check, 0 wrong" in out or command != "check") and out
    assert (sys.stdin, sys.stdout, sys.stderr) == streams


def test_an_error_is_told_where_stderr_was_replaced(run):
    status, out, err = run("check", "sys.stderr = None; raise ValueError('no')", "FORWARD")
    assert (status, out) == (2, "") and "ValueError: no at FILE:" in err


def test_what_lies_below_stdout_is_not_to_be_closed(monkeypatch):
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO()))
    with pytest.raises(UserError, match="mine: it closes sys"), contained("mine"):
        sys.stdout.buffer.close()


@pytest.mark.parametrize("name, place, said", [
    ("f", "IMPORT", "nothing was run"), ("f", "INPUTS", "nothing was run"),
    ("f", "FORWARD", "nothing of x"), ("f", "BACKWARD", "nothing of x"),
    ("g", "FORWARD", "nothing of x"), ("layer", "FORWARD", "nothing was run"),
    ("layer", "BACKWARD", "nothing was run"), ("loss", "FORWARD", "nothing was run")])
def test_the_time_limit_covers_all_of_the_users_code(run, name, place, said):
    status, out, err = run("check", "while True: pass", place, "--time-limit", "0.2", name=name)
    assert (status, err) == (3, "") and said in out and "1 check, 0 wrong, 1 not finished" in out


@pytest.mark.parametrize("command", ["walk", "explore"])
@pytest.mark.parametrize("place", PLACES)
def test_the_time_limit_of_a_walk(run, tmp_path, command, place):
    status, out, err = run(command, "import time; time.sleep(60)", place, "--time-limit", "0.2")
    assert (status, err) == (3, "") and "NOT FINISHED: the time was up after 0.2 s" in out
    assert not (tmp_path / "mine.html").exists()
    assert run(command, "pass", place, "--time-limit", "60")[0] == 0


def test_a_defect_of_ours_is_not_the_users(run, monkeypatch):
    monkeypatch.delattr("grads.check.comparison.length")
    status, _, err = run("check", "pass", "FORWARD")
    assert status == 70 and "unexpected NameError" in err and "a defect of grads" in err
