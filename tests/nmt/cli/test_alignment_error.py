"""`nmt aer`: an aligner's links against gold links, in both formats."""

import re

import pytest
from tiny_run import complaint, lines_of, nmt, printed

from nmt.data.corpus import read_lines
from nmt.data.tokenise import tokeniser

# |A| = 5, |S| = 3, |P| = 5, |A and S| = 2, |A and P| = 3: AER = 1 - 5/8
FOUND = {"pharaoh": ["0-0 1-1 0-2", "", "1-0 0-1"],
         "naacl": ["1 1 1", "1 2 2 S", "1 1 3 P", "3 2 1", "3 1 2 0.5"]}
GOLD = {"pharaoh": ["0-0 1-1", "", "0?0 1-1 1p0"],
        "naacl": ["1 1 1 S", "3 1 1 P", "3 2 2", "3 2 1 P", "1 2 2 S"]}
SAID = """AER 0.3750
precision 0.6000
recall 0.6667
links 5 (gold: 3 sure, 2 only possible)
sentences 3
"""


def write(path, lines):
    path.write_text("".join(line + "\n" for line in lines), "utf-8")


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    """Links and gold links in both formats, and their sentences, in the working directory."""
    monkeypatch.chdir(tmp_path)
    for name, content in (("found", FOUND), ("gold", GOLD)):
        for form, lines in content.items():
            write(tmp_path / f"{name}.{form}", lines)
    write(tmp_path / "s", ["a b", "", "a b"])
    write(tmp_path / "t", ["x y z", "x", "x y"])
    return tmp_path


@pytest.mark.parametrize("sentences", [[], ["--source", "s", "--target", "t"]])
@pytest.mark.parametrize("gold", GOLD)
@pytest.mark.parametrize("suffix", FOUND)
def test_every_pair_of_formats(capsys, suffix, gold, sentences) -> None:
    assert printed(capsys, "aer", f"found.{suffix}", f"gold.{gold}", *sentences) == SAID


def test_gold_links_have_no_error_and_numbering_and_order_can_be_said(files, capsys) -> None:
    write(files / "own", ["1-1 2-2", "", "2-2"])
    write(files / "swapped", ["1 0 0", "1 1 1", "3 1 1", "3 1 0 P"])  # from 0, target first
    write(files / "right", ["1-0", "", ""])
    write(files / "left", ["0-1", "", ""])
    for arguments, error in ((["own", "gold.pharaoh", "--links-first", 1], "0.0000"),
                             (["own", "swapped", "--links-first", 1, "--gold-first", 0], "0.0000"),
                             (["right", "left"], "1.0000"),
                             (["right", "left", "--links-swapped"], "0.0000"),
                             (["right", "left", "--gold-swapped"], "0.0000")):
        assert f"AER {error}\n" in printed(capsys, "aer", *arguments)


def test_sentences_behind_the_last_link_count(files, capsys) -> None:
    """They have no line in NAACL format; a file in Pharaoh format or the sentences tell their
    number."""
    write(files / "short", ["1 1 1"])
    write(files / "long", ["0-0", "", "", ""])
    write(files / "four", ["a"] * 4)
    for arguments, sentences in ((["short", "short"], 1), (["long", "short"], 4),
                                 (["short", "long"], 4),
                                 (["short", "short", "--source", "four", "--target", "four"], 4)):
        assert printed(capsys, "aer", *arguments).endswith(f"sentences {sentences}\n")


def test_bad_gold_links_can_be_left_out(files, capsys) -> None:
    write(files / "bad", ["0-0 1-1 7-7", "", "0?0 1-1 1p0"])
    sentences = "--source", "s", "--target", "t"
    assert nmt("aer", "found.naacl", "bad", "--drop-bad-links", *sentences) == 0
    assert capsys.readouterr().out \
        == "bad: 1 link does not fit its sentence and is left out\n" + SAID


def test_scores_behind_links_are_left_out(files, capsys) -> None:
    write(files / "scored", ["0-0:0.9 1?1:-1.5e-3 0p1:1"])
    write(files / "plain", ["0-0 1?1 0p1"])
    said = {printed(capsys, "aer", links, gold) for links in ("scored", "plain")
            for gold in ("scored", "plain")}
    assert len(said) == 1 and "gold: 1 sure, 2 only possible" in said.pop()


def test_links_of_a_models_tokens(tmp_path, monkeypatch, capsys) -> None:
    """A model has more tokens than there are words between spaces, so links need the model's
    tokens."""
    monkeypatch.chdir(tmp_path)
    for name, line in (("en", "It isn't 2:30, is it?"), ("de", "Es ist nicht 2:30, oder?")):
        write(tmp_path / f"raw.{name}", [line] * 12)
        write(tmp_path / f"more.{name}", [*[line] * 12, "Is it?"])
    assert nmt("train", "--train", "more.en", "more.de", "--train.epochs", 1, "--output", "m",
               "--model.hidden_size", 4, "--model.embedding_size", 4) == 0
    assert nmt("align", "raw.en", "raw.de", "--model", "m", "-o", "links", "--tokens", "both") == 0
    line = "It isn ￭'￭ t 2 ￭:￭ 30 ￭, is it ￭? ||| Es ist nicht 2 ￭:￭ 30 ￭, oder ￭?"
    assert read_lines("both") == [line] * 12
    dictionary = ["dictionary", "raw.en", "raw.de", "d", "--links", "links", "--min-count", 1]
    assert "; positions count words between spaces, or the tokens" in complaint(capsys, *dictionary)
    assert "; positions count words" in printed(capsys, *dictionary, "--drop-bad-links")
    assert printed(capsys, *dictionary, "--tokens", "both").startswith("d: ")
    told = printed(capsys, "aer", "links", "links", "--tokens", "both")
    assert told.startswith("AER 0.0000\n") and told.endswith("sentences 12\n")
    lines = lines_of(capsys, "translate", "raw.en", "--model", "m", "--alignments", "found",
                     "--tokens", "made")
    for text, tokens in zip(lines, read_lines("made"), strict=True):
        source, _, target = tokens.partition(" |||")
        assert source.split() == line.split(" ||| ")[0].split()
        assert tokeniser("joiner", "en").detokenise(target.split()) == text
    assert printed(capsys, "aer", "found", "found", "--tokens", "made").startswith("AER")
    assert nmt("align", "raw.en", "raw.de", "--method", "model1", "-o", "l", "--tokens", "t") == 0
    assert read_lines("t")[0] == "It isn't 2:30, is it? ||| Es ist nicht 2:30, oder?"
    write(tmp_path / "odd", ["a b"])
    for command, said in (
            (["aer", "links", "links", "--tokens", "odd"], "odd:1: expected source tokens, |||"),
            (["aer", "links", "links", "--tokens", "both", "--source", "raw.en", "--target",
              "raw.de"], "--tokens: cannot be used with --source"),
            (["translate", "raw.en", "--model", "m", "--tokens", "x"], "needs --alignments"),
            (["dictionary", "raw.en", "raw.de", "d", "--model", "m", "--tokens", "both"],
             "--tokens: needs --links")):
        assert said in complaint(capsys, *command)


@pytest.mark.parametrize(("lines", "options", "message"), [
    (["0-0", ""], "", "bad: expected a line for each of 3 sentence pairs, found 2"),
    (["0-0", "", "", ""], "", "bad: expected a line for each of 3 sentence pairs, found 4"),
    (["1 1 1", "4 1 1"], "", "bad:2: expected a sentence from 1 to 3, got 4"),
    (["0-0", "", "0_0"], "", r"bad:3: expected links such as 3-4 .*, got '0_0'"),
    (["1 1 1", "1 1 x"], "", r"bad:2: expected 'sentence source target'.*, got '1 1 x'"),
    (["1 0 1"], "", r"bad:1: link '1 0 1': expected a source word from 1 on, got 0"),
    (["0-0", "", "0-5"], "--source s --target t",
     r"bad:3: link '0-5': expected a target word from 0 to 1, got 5"),
    (["2 1 1"], "--source s --target t",
     r"bad:1: link '2 1 1': expected a source word from 1 to 0, got 1"),
    (["0-0", "", ""], "--source s", "--source and --target: each needs the other"),
    (["0-0", "", ""], "--source absent --target t", "absent: cannot be read"),
])
def test_bad_links(files, capsys, lines, options, message) -> None:
    write(files / "bad", lines)
    assert re.match(message, complaint(capsys, "aer", "bad", "gold.pharaoh", *options.split()))


def test_bad_gold(files, capsys) -> None:
    write(files / "few", ["0-0"])
    write(files / "empty", ["", "", ""])
    write(files / "possible", ["0?0", "", ""])
    for arguments, message in (
        (["found.pharaoh", "few"], "found.pharaoh: expected a line for each of 1 .*, found 3"),
        (["found.pharaoh", "empty"], "empty: expected at least one link, found none"),
        (["empty", "possible"], "empty, possible: expected a link or a sure gold link"),
        (["absent", "few"], "absent: cannot be read"),
        (["few"], "the following arguments are required: gold"),
    ):
        assert re.match(message, complaint(capsys, "aer", *arguments))
