"""Factored words from files to translations: case, place and tags, with pieces; invalid files."""

from pathlib import Path

import numpy as np
import pytest
from tiny_run import complaint, lines_of, nmt, write_corpus, write_recipe

from nmt.console.messages import several
from nmt.data.factors import CASES
from nmt.system import System

TAGS = {word: "EVEN" if k % 2 == 0 else "ODD"
        for k, word in enumerate("zero one two three four five six".split())}


@pytest.fixture
def work(tmp_path, monkeypatch):
    """A corpus in which every second sentence is in capitals, with files of the words' tags."""
    monkeypatch.chdir(tmp_path)
    write_corpus(tmp_path, pairs=60)
    for name in ("train", "dev", "test"):
        lines = Path(f"{name}.en").read_text().splitlines()
        Path(f"{name}.tags").write_text("".join(
            " ".join(TAGS[word] for word in line.split()) + "\n" for line in lines))
        Path(f"{name}.en").write_text("".join(
            (line.upper() if k % 2 else line) + "\n" for k, line in enumerate(lines)))
        assert nmt("factors", f"{name}.en", f"{name}.tags", "-o", f"{name}.f") == 0
    return tmp_path


def test_from_files_to_translations(work, capsys) -> None:
    assert Path("train.f").read_text().splitlines()[1].split()[0] in {
        f"{word.upper()}|{tag}" for word, tag in TAGS.items()}
    write_recipe(work / "r.yaml", data={"train_source": "train.f", "dev_source": "dev.f",
                                        "subwords": {"merges": 12}, "source_end": True},
                 model={"factors": {"case": 2, "place": 1, "pos": 2}})
    assert nmt("train", "r.yaml", "--output", "run") == 0
    system = System.open("run")
    assert system.parameters["encoder.W_e"].shape[1] == 3  # of 8
    assert system.parameters["encoder.W_case"].shape == (len(CASES), 2)
    assert system.parameters["encoder.W_pos"].shape == (4, 2)
    assert all(word == word.lower() for word in system.source.words)
    assert sorted(Path("run/factor_pos.vocab").read_text().split()[2:]) == ["EVEN", "ODD"]
    words = Path("test.f").read_text().splitlines()[1].split()
    (batch,) = system.batches([(words, ["null"])], 1).in_order()
    (side,) = batch.sources
    assert side.ids[:, 0].tolist() == system.source_ids(words)
    assert side.factors is not None and side.factors[0, :, 0].tolist() == [
        *[CASES.index("upper")] * (len(side.ids) - 1), 0]
    assert len(lines_of(capsys, "translate", "test.f", "--model", "run", "run")) == 6
    other = [word.lower() for word in words]
    ours, theirs = (system.force([(text, ["null"])])[0].log_probability
                    for text in (words, [word.replace("even", "EVEN").replace("odd", "ODD")
                                         for word in other]))
    assert not np.isclose(ours, theirs)  # the same pieces, in small letters


def test_what_does_not_fit(work, capsys) -> None:
    Path("short").write_text(Path("test.tags").read_text().split("\n")[0] + "\n")
    assert "parallel files differ in length: test.en has 6 lines, short has 1" in complaint(
        capsys, "factors", "test.en", "short", "-o", "out")
    lines = Path("test.tags").read_text().splitlines()
    Path("more").write_text("\n".join([*lines[:2], lines[2] + " ODD", *lines[3:]]) + "\n")
    number = len(lines[2].split())
    assert complaint(capsys, "factors", "test.en", "more", "-o", "out") == (
        f"more:3: expected {several(number, 'tag')}, one for each word of test.en, got "
        f"{number + 1}")
    Path("barred").write_text("\n".join(lines[:-1]) + "\n" + lines[-1].replace("D", "|") + "\n")
    assert "barred:6: expected tags without |, got" in complaint(
        capsys, "factors", "test.en", "barred", "-o", "out") and not Path("out").exists()
    recipe = write_recipe(work / "r.yaml", model={"factors": {"pos": 2}})
    assert complaint(capsys, "train", recipe, "--output", "run").startswith(
        "train.en:1: expected words with 1 tag behind | each (pos), got ")
    assert "factors: expected widths above 0 and below embedding_size = 8 together" in complaint(
        capsys, "train", recipe, "--output", "run", "--model.factors", "{pos: 8}")
    assert "data.tokenise: expected 'none' where words have tags" in complaint(
        capsys, "train", recipe, "--output", "run", "--data.tokenise", "moses")
    assert not Path("run").exists()


def test_a_word_without_its_tag_is_named_by_its_line(work, capsys) -> None:
    write_recipe(work / "r.yaml", data={"train_source": "train.f", "dev_source": "dev.f"},
                 model={"factors": {"pos": 2}}, search={"beam": 2})
    assert nmt("train", "r.yaml", "--output", "run") == 0
    lines = Path("test.f").read_text().splitlines()
    Path("bare.f").write_text("\n".join([*lines[:2], "one " + lines[2], *lines[3:]]) + "\n")
    said = "bare.f:3: expected words with 1 tag behind | each (pos), got 'one'"
    for words in (("translate", "bare.f", "--strict"), ("perplexity", "bare.f", "test.de"),
                  ("evaluate", "bare.f", "test.de"), ("align", "bare.f", "test.de"),
                  ("back-translate", "bare.f", "--source", "a", "--target", "b"),
                  ("logits", "steps", "bare.f", "--line", "3")):
        assert complaint(capsys, *words, "--model", "run") == said
    assert not Path("a").exists()
