"""`nmt translate` of files and at a terminal."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from tiny_run import ROOT, nmt, write_recipe


def test_files_are_translated_one_after_another(
    trained: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with open(trained / "test.en", encoding="utf-8") as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        assert nmt("translate", "--model", trained / "model") == 0
    piped = capsys.readouterr().out
    one, other = trained / "one.en", trained / "other.en"
    lines = (trained / "test.en").read_text("utf-8").splitlines(keepends=True)
    one.write_text("".join(lines[:2]), "utf-8")
    other.write_text("".join(lines[2:]), "utf-8")
    assert nmt("translate", one, other, "--model", trained / "model") == 0
    assert capsys.readouterr().out == piped


def test_attention_is_drawn_beside_the_lines(
    trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (trained / "two.en").write_text("one two\n\nthree\n", "utf-8")
    assert nmt("translate", trained / "two.en", "--model", trained / "model", "--show",
               "attention") == 0
    said = capsys.readouterr()
    assert said.out.count("\n") == 3 and "1 one  2 two" in said.err and "1 three" in said.err


@pytest.mark.parametrize("files, options, said", [
    (["none.en"], [], "none.en: cannot be read"),
    (["long.en"], [], "long.en:2: expected at most 1000 words"),
    (["bad.en"], [], "bad.en:1: expected UTF-8"),
    (["huge.en"], [], "huge.en:2: expected a line of at most 262,144 bytes, got more"),
    (["test.en"], ["--replace-unk", "/dev/zero"], "/dev/zero:1: expected a line of at most"),
    ([], ["long.en"], "long.en: expected a run directory, got a file; files to translate"),
])
def test_errors_come_before_any_line(
    files: list[str], options: list[str], said: str, trained: Path,
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(trained)
    Path("long.en").write_text("one\n" + "one " * 1001 + "\n", "utf-8")
    Path("bad.en").write_bytes(b"\xff\n")
    Path("huge.en").write_text("one\n" + "one " * 2_500_000 + "\n", "utf-8")
    assert nmt("translate", *files, "--model", "model", *options) == 2
    output = capsys.readouterr()
    assert output.out == "" and said in output.err and output.err.count("\n") == 1


def converse(*arguments: object, typed: str) -> tuple[int, str]:
    """A command at a terminal of its own: what it exits with and what stands there."""
    main, own = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "nmt", *map(str, arguments)], stdin=own, stdout=own, stderr=own,
        cwd=ROOT, env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "TERM": "dumb"})
    os.close(own)
    os.write(main, typed.encode())
    seen = b""
    while True:
        try:
            seen += os.read(main, 4096)
        except OSError:  # the terminal is gone with the process
            break
    os.close(main)
    return process.wait(), seen.decode().replace("\r", "")


def test_a_dialogue(trained: Path) -> None:
    links = trained / "links"
    code, seen = converse(
        "translate", "--model", trained / "model", "--show", "attention", "--alignments", links,
        typed=f"one two\nbanana one banana\n{'a ' * 1001}\none\n\n")
    assert code == 0
    assert f"en to de by {trained / 'model'}: a sentence a line" in seen
    answered = seen.partition("ends.")[2]
    assert "eins zwei\n" in answered and "1 one  2 two" in answered
    assert "not in the vocabulary, read as <unk>: banana\n" in answered
    assert "sentence:1: expected at most 1000 words" in answered
    assert len(links.read_text("utf-8").splitlines()) == 3


def test_the_demonstration_says_what_it_knows(tmp_path: Path) -> None:
    recipe = write_recipe(
        tmp_path / "r.yaml", {"data": {"corpus": "cldr", "train_size": 50, "dev_size": 5,
                                       "test_size": 0},
                              "model": {"layers": 1, "hidden_size": 4, "embedding_size": 4},
                              "train": {"epochs": 1}})
    assert nmt("train", recipe, "--output", tmp_path / "demo") == 0
    code, seen = converse("translate", "--model", tmp_path / "demo", typed="\x04")
    assert code == 0 and "It was trained on generated phrases of dates" in seen
    examples = seen.partition("Try:\n")[2].partition(">")[0].splitlines()
    assert len(examples) == 3 and all(line.startswith("  ") for line in examples)
