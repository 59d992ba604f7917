"""`nmt detokenise` and `nmt statistics`."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny_run import complaint, nmt


def test_tokens_are_joined_as_moses_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "text"
    path.write_text("l&apos; herbe ( verte ) , oui .\n\nR &amp; B\n", encoding="utf-8")
    assert nmt("detokenise", path, "--language", "fr") == 0
    assert capsys.readouterr().out == "l'herbe (verte), oui.\n\nR & B\n"
    assert nmt("detokenise", path, "-o", tmp_path / "out") == 0
    assert (tmp_path / "out").read_text("utf-8") == "l' herbe (verte), oui.\n\nR & B\n"
    assert "expected another file" in complaint(capsys, "detokenise", path, "-o", path)


def test_what_table_5_1_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of seven words, four types; `a` and `b` are the most frequent of four characters."""
    path = tmp_path / "t"
    path.write_text("ab aab ab\n\nab bd ab abc\u0301\n", encoding="utf-8")
    assert nmt("statistics", path, "--characters", "2") == 0
    lines = [line.strip() for line in capsys.readouterr().out.split("\n")]
    assert [line.rpartition("  ")[2] for line in lines] == [
        "t", "3", "7", "16", "4", "4", "50.0 %", ""]
    (tmp_path / "empty").write_text("\n", encoding="utf-8")
    assert "found no word" in complaint(capsys, "statistics", tmp_path / "empty")
