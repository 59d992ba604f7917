"""`python -m benchmarks gpu` on the stand-in: sections, budgets, and that finished work is not
repeated."""

from __future__ import annotations

import json

import pytest
from host_cuda.launcher import needs_compiler

from backend.errors import UserError
from benchmarks import gpu
from benchmarks.__main__ import main


@needs_compiler
def test_a_rehearsal(tmp_path, capfd):
    """Runs tests of tests/gpu with the kernels compiled for the host, and a benchmark, twice."""
    words = ["gpu", "--rehearse", "--output", str(tmp_path), "--only", "sources", "CPU against"]
    main(words)
    journal = gpu.read(tmp_path / gpu.JOURNAL)
    assert [section["state"] for section in journal["sections"].values()] == ["done", "done"]
    assert len(journal["tests"]) == 2 * gpu.FEW
    assert {test["outcome"] for test in journal["tests"].values()} == {"passed"}
    record = json.loads((tmp_path / "crossover-stand-in.json").read_text("utf-8"))
    assert len(record["rows"]) == 4 and not record["cut"] and not record["failed"]
    assert all(list(row["seconds"]) == ["NumPy", "CuPy"] for row in record["rows"])
    assert f"{2 * gpu.FEW} tests passed, 0 tests failed" in capfd.readouterr().out
    main(words)
    assert capfd.readouterr().out.count(": done before") == 2


def test_every_section_is_within_nine_minutes_and_every_test_in_one():
    *before, last = gpu.SECTIONS
    assert sum(section.budget for section in before) <= gpu.TOTAL - 60
    assert gpu.TOTAL + gpu.GRACE <= 540
    files = {path.name for path in (gpu.TESTS / "gpu").glob("test_*.py")}
    assert files == {name for section in gpu.SECTIONS for name in section.tests}
    assert last.tests == ("test_catalogue.py",)


@pytest.fixture
def states(monkeypatch):
    """Every section ends at once, in the state that is set for it, or done."""
    outcomes = {}
    monkeypatch.setattr(gpu, "run_section", lambda section, *_: outcomes.get(section.name, {
        "state": "done", "seconds": 1.0}))
    return outcomes


def test_what_was_cut_or_failed_is_done_again(states, tmp_path, capsys):
    states |= {"memory": {"state": "cut", "why": "its budget is spent"},
               "commands": {"state": "failed", "why": "exit status 1"}}
    with pytest.raises(UserError, match="gpu: failed: commands"):
        gpu.run_sections(tmp_path, 100.0, False, [""])
    (tmp_path / gpu.JOURNAL).open("a").write('{"test": "half')  # as a killed process leaves it
    states.clear()
    capsys.readouterr()
    gpu.run_sections(tmp_path, 100.0, False, [""])
    printed = capsys.readouterr().out
    assert printed.count("done before") == len(gpu.SECTIONS) - 2
    assert "== memory: at most" in printed and "== commands: at most" in printed


def test_sections_without_time_are_cut_and_reported(states, tmp_path, capsys):
    gpu.run_sections(tmp_path, 0.0, False, [""])
    sections = gpu.read(tmp_path / gpu.JOURNAL)["sections"]
    assert {section["state"]
            for section in sections.values()} == {"cut"} and len(sections) == len(gpu.SECTIONS)
    assert "0 s are over" in capsys.readouterr().out


def test_a_section_that_hangs_is_ended(monkeypatch, tmp_path):
    monkeypatch.setattr(gpu, "GRACE", 0.1)
    monkeypatch.setattr(gpu.subprocess, "Popen", sleeping(gpu.subprocess.Popen))
    outcome = gpu.run_section(gpu.SECTIONS[2], 0.2, tmp_path, False)
    assert outcome["state"] == "ended" and outcome["seconds"] < 20


def sleeping(popen):
    """A process that sleeps for a minute, in place of the one that was started."""
    return lambda words, **how: popen(["/bin/sleep", "60"], **how)


def test_a_failed_test_is_in_the_report(tmp_path):
    for entry in ({"test": "a", "outcome": "failed", "message": "away"},
                  {"test": "b", "outcome": "passed", "message": ""}):
        gpu.write(tmp_path / gpu.JOURNAL, entry)
    lines = gpu.report(tmp_path / gpu.JOURNAL)
    assert lines == ["1 tests passed, 1 tests failed, 0 tests skipped", "FAILED a: away"]


def test_without_a_gpu_is_one_line(tmp_path, capsys):
    if gpu.find_spec("cupy") is not None:
        pytest.skip("CuPy is installed")
    with pytest.raises(SystemExit, match="2"):
        main(["gpu", "--output", str(tmp_path)])
    assert "cupy is not installed" in capsys.readouterr().err and not list(tmp_path.iterdir())
