"""`nmt similarity` and `nmt words`."""

import importlib.util
import json

import pytest
from tiny_run import captured, complaint, nmt


def write(path, text):
    path.write_text(text, "utf-8")
    return path


@pytest.fixture
def pairs(trained):
    return write(trained / "pairs", "one two 5\nsix four 3\ntwo four 2\nloveless one 1\n")


def test_similarity_prints_a_row_for_each_model_and_writes_it(trained, pairs, capsys) -> None:
    assert nmt("similarity", pairs, "--model", "model", "lm/../model", "-o", "found.json") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("rho x 100") and len(lines) == 3
    assert lines[1].split()[0] == "model" and lines[1].split()[-4:] == ["4", "3", "1", "1"]
    assert lines[1].split()[1:] == lines[2].split()[1:]
    actual = json.loads((trained / "found.json").read_text())["model"]
    shown = [f"{100 * actual['agreements'][name][which]:.1f}"
             for name in ("cosine", "pearson") for which in ("all", "known")]
    assert lines[1].split()[1:5] == shown


def test_words_draws_those_with_a_vector(trained, capsys) -> None:
    pytest.importorskip("matplotlib")
    words = write(trained / "words", "one two six\nspiritless four one\n")
    picture = trained / "map.png"
    said = captured(capsys, "words", words, "--model", trained / "model", "-o", picture)
    assert said.out == f"{picture}\n" and picture.stat().st_size > 5000
    assert said.err == "1 of 5 words have no vector and are left out: spiritless\n"


def test_words_that_cannot_be_drawn(trained, capsys, monkeypatch) -> None:
    pytest.importorskip("matplotlib")
    arguments = ["words", write(trained / "words", "one spiritless"), "--model", trained / "model",
                 "-o", trained / "map.png"]
    assert "at least two words with a vector, got 1" in complaint(capsys, *arguments)
    spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec",
                        lambda name: None if name == "sklearn" else spec(name))
    assert "--method t-sne: scikit-learn is not installed" in complaint(
        capsys, *arguments, "--method", "t-sne")
    assert not (trained / "map.png").exists()
