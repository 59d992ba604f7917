"""`nmt detokenise`, `nmt statistics` and `nmt join-pairs`."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny_run import complaint, nmt, printed


def test_tokens_are_joined_as_moses_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "text"
    path.write_text("l&apos; herbe ( verte ) , oui .\n\nR &amp; B\n", encoding="utf-8")
    assert nmt("detokenise", path, "--language", "fr") == 0
    assert capsys.readouterr().out == "l'herbe (verte), oui.\n\nR & B\n"
    assert nmt("detokenise", path, "-o", tmp_path / "out") == 0
    assert (tmp_path / "out").read_text("utf-8") == "l' herbe (verte), oui.\n\nR & B\n"
    assert "expected a file other than" in complaint(capsys, "detokenise", path, "-o", path)


def test_what_table_5_1_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A text of seven words of four types, whose most frequent characters of four are `a` and
    `b`."""
    path = tmp_path / "t"
    path.write_text("ab aab ab\n\nab bd ab abc\u0301\n", encoding="utf-8")
    assert nmt("statistics", path, "--characters", "2") == 0
    lines = [line.strip() for line in capsys.readouterr().out.split("\n")]
    assert [line.rpartition("  ")[2] for line in lines] == [
        "t", "3", "7", "16", "4", "4", "50.0 %", ""]
    (tmp_path / "empty").write_text("\n", encoding="utf-8")
    assert "found no word" in complaint(capsys, "statistics", tmp_path / "empty")


def test_consecutive_pairs_are_joined(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Windows of 1, 2, 1, 2 .. pairs. Without overlap each pair is in one window; with overlap a
    window begins at each pair."""
    source, target = tmp_path / "text.de", tmp_path / "text.en"
    source.write_text("a\nb \n\nd\ne\n", encoding="utf-8")
    target.write_text("A\nB\nC\nD\nE\n", encoding="utf-8")
    apart, overlapping = tmp_path / "apart", tmp_path / "overlapping"
    assert "3 pairs" in printed(capsys, "join-pairs", source, target, "--most", "2", "-o", apart)
    assert (apart / "text.de").read_text("utf-8") == "a\nb\nd\n"
    assert (apart / "text.en").read_text("utf-8") == "A\nB C\nD\n"
    assert nmt("join-pairs", source, target, "--most", "2", "--overlapping", "-o", overlapping) == 0
    assert (overlapping / "text.en").read_text("utf-8") == "A\nB C\nC\nD E\nE\n"


def test_nothing_is_overwritten_by_joined_pairs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = tmp_path / "a", tmp_path / "b"
    for path in (source, target):
        path.write_text("x\n", encoding="utf-8")
    asked = "--most", "2", "-o"
    assert "other than that of" in complaint(capsys, "join-pairs", source, target, *asked, tmp_path)
    assert "names differ" in complaint(capsys, "join-pairs", source, source, *asked, tmp_path / "d")
    for path in (source, target):
        path.write_text("", encoding="utf-8")
    assert "got none" in complaint(capsys, "join-pairs", source, target, *asked, tmp_path / "d")
