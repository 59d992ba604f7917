"""`python -m benchmarks`: names, several of them, options, errors."""

from __future__ import annotations

import pytest

from benchmarks import __main__ as suite
from benchmarks.__main__ import find, main
from benchmarks.registry import ABOUT as BENCHMARKS


@pytest.fixture
def ran(monkeypatch):
    """Every benchmark replaced by one that notes its name and its options."""
    ran = []

    def fake(name):
        if name not in BENCHMARKS:
            return find(name)
        return lambda options: ran.append((name, options))

    monkeypatch.setattr(suite, "find", fake)
    return ran


def test_several_one_after_the_other_with_their_defaults(ran):
    main(["step", "search", "kernels"])
    assert ran == [("step", []), ("search", []), ("kernels", [])]


def test_options_go_to_all_that_are_named(ran):
    main(["recipes", "memory", "--quick", "--output", "somewhere"])
    assert ran == [(name, ["--quick", "--output", "somewhere"]) for name in ("recipes", "memory")]


@pytest.mark.parametrize("words", [["--help"], ["-h"], []])
def test_help_lists_all(ran, capsys, words):
    main(words)
    printed = capsys.readouterr().out
    assert all(f"\n  {name} " in printed for name in BENCHMARKS) and not ran


@pytest.mark.parametrize("words, said", [
    (["serach"], "got 'serach'; did you mean 'search'?"),
    (["step", "nonsense"], "got 'nonsense'"), (["--quick"], "got '--quick'"),
])  # fmt: skip
def test_an_unknown_name_is_one_line_and_nothing_runs(ran, capsys, words, said):
    with pytest.raises(SystemExit, match="2"):
        main(words)
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1 and not ran


def test_a_directory_that_cannot_be_written_is_one_line(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    with pytest.raises(SystemExit, match="2"):
        main(["recipes", "--recipe", "multi30k-rnnsearch", "--quick", "--device", "cpu",
              "--output", str(tmp_path / "file")])
    error = capsys.readouterr().err
    assert str(tmp_path / "file") in error and error.count("\n") == 1


@pytest.mark.parametrize("name", BENCHMARKS)
def test_each_help_fits_on_a_screen(name, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as stopped:
        find(name)(["--help"])
    lines = capsys.readouterr().out.splitlines()
    assert stopped.value.code == 0 and any("--" in line for line in lines)
    assert len(lines) <= 50 and max(map(len, lines)) <= 80


@pytest.mark.parametrize("words, said", [
    (["step", "--seconds", "inf"], "argument --seconds: expected seconds above 0"),
    (["step", "--hidden", "9" * 5000], "argument --hidden: expected an integer of at least 1"),
    (["crossover", "--bogus"], "unrecognized arguments: --bogus"),
    (["step", "--resume", "--budget", "0"], "argument --budget: expected a number above 0"),
    (["table", "--results", "/no/such/folder"], "/no/such/folder: expected a directory of result"),
])  # fmt: skip
def test_a_wrong_option_is_one_line(capsys, words, said):
    with pytest.raises(SystemExit, match="2"):
        main(words)
    error = capsys.readouterr().err
    assert error.startswith(f"benchmarks: {said}") and error.count("\n") == 1, error
