"""`nmt align --method`, `nmt annotate` and `nmt restore`, files to files."""

import json
import math
import re
import sys

import numpy as np
import pytest
from tiny_run import SOURCE, TARGET, captured, complaint, files_in, nmt, write_recipe

from nmt.data.aligner import align, eflomal
from nmt.data.aligner.symmetrise import SYMMETRISATIONS
from nmt.data.corpus import read_lines
from nmt.data.vocabulary import Vocabulary

# The French has an unknown word for each of the English ones, and one linked to a known word.
ENGLISH = ["the u of v u", "the the of", "of the v", ""]
FRENCH = ["le x de y x", "le z de", "de le y", ""]
LINKS = ["0-0 1-1 2-2 3-3 4-4", "1-1 0-0 2-2", "0-0 1-1 2-2", ""]
SIZES = ["--source-vocabulary", 4, "--target-vocabulary", 4]


def write(path, *lines):
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(line + "\n" for line in lines), "utf-8")
    return path


@pytest.fixture(autouse=True)
def files(corpus):
    """A toy corpus that translates word for word, and the pairs above, in the working directory."""
    for name, lines in (("s", ENGLISH), ("t", FRENCH), ("links", LINKS)):
        write(corpus / name, *lines)
    return corpus


# --- align ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("symmetrise", [None, *SYMMETRISATIONS])
def test_align_by_the_corpus(files, capsys, symmetrise) -> None:
    chosen = [] if symmetrise is None else ["--symmetrise", symmetrise]
    out = captured(capsys, "align", "train.en", "train.de", "--method", "hmm", *chosen).out
    sides = [[line.split() for line in read_lines(name)] for name in ("train.en", "train.de")]
    join = SYMMETRISATIONS[symmetrise or "grow-diag-final-and"]
    expected = [join(*pair) for pair in zip(*align(*sides)[:2], strict=True)]
    assert out.splitlines() == [" ".join(f"{i}-{j}" for i, j in links) for links in expected]


def test_alignments_go_into_a_file_that_other_commands_read(files, capsys) -> None:
    assert captured(capsys, "align", "train.en", "train.de", "--method", "hmm", "-o", "a").out == ""
    gold = [" ".join(f"{n}-{n}" for n in range(len(line.split())))
            for line in read_lines("train.en")]
    write(files / "gold", *gold)
    score = captured(capsys, "aer", "a", "gold", "--source", "train.en", "--target", "train.de").out
    assert score.startswith("AER 0.0") and float(score.split()[1]) < 0.05
    nmt("dictionary", "train.en", "train.de", "d", "--links", "a", "--min-count", 2)
    assert read_lines("d") == sorted("\t".join(pair) for pair in zip(SOURCE, TARGET, strict=True))


def test_what_align_refuses(files, capsys, monkeypatch) -> None:
    pair = ["align", "s", "t"]
    for wrong in ([], ["--method", "hmm", "--model", "m"]):
        assert complaint(capsys, *pair, *wrong) \
            == "expected --method NAME or --model DIR, got both or neither"
    assert complaint(capsys, *pair, "--model", "m", "--symmetrise", "union") \
        == "--symmetrise: needs --method, got --model"
    write(files / "short", "one")
    assert complaint(capsys, "align", "s", "short", "--method", "model1") \
        == "parallel files differ in length: s has 4 lines, short has 1"
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    assert complaint(capsys, *pair, "--method", "eflomal") == (
        f"--method eflomal: expected the program {eflomal.PROGRAM}, found none; pip install "
        "-e '.[align]' in a checkout, or take --method hmm")


# --- annotate and restore -------------------------------------------------------------------------

ANNOTATED = {
    "noalign": (["the <unk> of <unk> <unk>", "the the of", "of the <unk>", ""],
                ["le <unk> de <unk> <unk>", "le <unk> de", "de le <unk>", ""], "5 unknown"),
    "copyable": (["the <unk_1> of <unk_2> <unk_1>", "the the of", "of the <unk_1>", ""],
                 ["le <unk_1> de <unk_2> <unk_1>", "le <unk_0> de", "de le <unk_1>", ""],
                 "4 with a pointer, 1 null"),
    "posall": (["the <unk> of <unk> <unk>", "the the of", "of the <unk>", ""],
               ["le <p_0> <unk> <p_0> de <p_0> <unk> <p_0> <unk> <p_0>",
                "le <p_0> <unk> <p_0> de <p_0>", "de <p_0> le <p_0> <unk> <p_0>", ""],
               "5 with a pointer"),
    "posunk": (["the <unk> of <unk> <unk>", "the the of", "of the <unk>", ""],
               ["le <unkpos_0> de <unkpos_0> <unkpos_0>", "le <unkpos_0> de", "de le <unkpos_0>",
                ""], "5 with a pointer"),
}
# Of the dictionary's words u, v and the.
RESTORED = {
    "noalign": ["le x de y x", "le <unk> de", "de le y", ""],
    "copyable": ["le x de y x", "le <unk> de", "de le y", ""],
    "posall": ["le x de y x", "le z z de", "de le y", ""],
    "posunk": ["le x de y x", "le z z de", "de le y", ""],
}


@pytest.mark.parametrize("method", ANNOTATED)
def test_annotated_files_are_restored(files, capsys, method) -> None:
    source, target, counts = ANNOTATED[method]
    links = [] if method == "noalign" else ["--links", "links"]
    said = captured(capsys, "annotate", "s", "t", "--method", method, *links, *SIZES,
                   "--output", "out").out
    assert said == f"out: 4 pairs; unknown words of the target: {counts}\n"
    assert files_in(files / "out") == {"s", "t", "source.vocab", "target.vocab"}
    assert (read_lines("out/s"), read_lines("out/t")) == (source, target)
    assert Vocabulary.read("out/source.vocab").words[2:] == ("the", "of")
    assert Vocabulary.read("out/target.vocab").words[2:] == ("de", "le")
    write(files / "d", "u\tx", "v\ty", "the\tz z")
    restore = ["restore", "s", "out/t", "--method", method, "--source-vocabulary",
               "out/source.vocab", "--dictionary", "d"]
    assert captured(capsys, *restore).out.splitlines() == RESTORED[method]
    nmt(*restore, "--output", "restored")
    assert read_lines("restored") == RESTORED[method]
    # Before restoration there is one kind of unknown word, whatever the method.
    assert captured(capsys, *restore, "--keep-unknown").out.splitlines() == ANNOTATED["noalign"][1]


def test_vocabularies_of_another_corpus(files, capsys) -> None:
    """A dev set is annotated by the vocabularies of the training text."""
    nmt("annotate", "s", "t", "--method", "noalign", *SIZES, "--output", "out")
    write(files / "dev" / "s", "v v v the")
    write(files / "dev" / "t", "y y y de")
    nmt("annotate", "dev/s", "dev/t", "--method", "noalign", "--output", "out2",
        "--source-vocabulary", "out/source.vocab",
        "--target-vocabulary", "out/target.vocab")
    assert read_lines("out2/s") == ["<unk> <unk> <unk> the"]
    assert read_lines("out2/t") == ["<unk> <unk> <unk> de"]


@pytest.mark.parametrize("method", ANNOTATED)
def test_sentences_to_translate_have_no_target(files, capsys, method) -> None:
    said = captured(capsys, "annotate", "s", "--method", method, "--source-vocabulary", 4,
                   "--output", "out").out
    assert said == "out: 4 sentences\n"
    assert files_in(files / "out") == {"s", "source.vocab"}
    assert read_lines("out/s") == ANNOTATED[method][0]


def test_lengths_are_filtered_before_annotation(files, capsys) -> None:
    said = captured(capsys, "annotate", "s", "t", "--method", "posall", "--links", "links", *SIZES,
                   "--max-length", 3, "--output", "out").out
    assert said.startswith("left out: 2 pairs with an empty side or over 3 words\nout: 2 pairs")
    assert [len(line.split()) for line in read_lines("out/t")] == [6, 6]
    assert read_lines("out/s") == ["the the of", "of the <unk>"]


def test_outcomes_of_unknown_words_are_printed(files, capsys) -> None:
    write(files / "mt", "<unkpos_0> <unkpos_9>", "<unkpos_null> le", "<unk>", "<unkpos_0>")
    said = captured(capsys, "restore", "s", "mt", "--method", "posunk")
    assert said.out.splitlines() == ["the the", "<unk> le", "<unk>", "<unk>"]
    assert said.err == ("unknown words: 2 with a pointer, 3 null, 1 pointers outside the sentence, "
                        "to the nearest word instead\n")
    write(files / "mt", "<p_1> le <p_0> <p_0>", "", "", "")
    assert captured(capsys, "restore", "s", "mt", "--method", "posall").err \
        == "unknown words: none\n2 positional symbols follow no word and are left out\n"


def test_bad_links(files, capsys) -> None:
    write(files / "bad", LINKS[0], "0-0 1-3", LINKS[2], "")
    annotate = ["annotate", "s", "t", "--method", "posunk", *SIZES, "--output", "out", "--links"]
    assert complaint(capsys, *annotate, "bad") \
        == ("bad:2: link '1-3': expected a target word from 0 to 2, got 3; positions count words "
            "between spaces, or the tokens that --tokens FILE of nmt align or nmt translate wrote")
    assert "t" not in files_in(files / "out")
    said = captured(capsys, *annotate, "bad", "--drop-bad-links").out
    assert said.startswith("bad: 1 link does not fit its sentence and is left out; posi")
    assert read_lines("out/t")[1] == "le <unkpos_null> de"
    dictionary = ["dictionary", "s", "t", "d", "--min-count", 1, "--links", "bad"]
    assert complaint(capsys, *dictionary).startswith("bad:2: link '1-3'")
    assert captured(capsys, *dictionary, "--drop-bad-links").out.startswith("bad: 1 link does not")
    assert read_lines("d") == ["of\tde", "the\tle", "u\tx", "v\ty"]
    write(files / "bad", LINKS[0])
    assert complaint(capsys, *annotate, "bad") \
        == "bad: expected a line for each of 4 sentence pairs, found 1"


def test_what_annotate_refuses(files, capsys) -> None:
    start = ["annotate", "s", "t", "--method", "posunk", "--output", "out"]
    assert complaint(capsys, *start, *SIZES) \
        == "--method posunk: needs --links FILE"
    assert complaint(capsys, *start, *SIZES[:2]) \
        == "TARGET: needs --target-vocabulary N|FILE"
    for option in (["--links", "links"], SIZES[2:], ["--max-length", 4]):
        assert complaint(capsys, "annotate", "s", *start[3:], *SIZES[:2], *option) \
            == f"{option[0]}: needs TARGET"
    links = ["--links", "links"]
    assert complaint(capsys, *start, *links, "--source-vocabulary", 1, "--target-vocabulary", 4) \
        == "--source-vocabulary: expected an integer of at least 2, got '1'"
    assert complaint(capsys, *start, *links, "--source-vocabulary", 4, "--target-vocabulary",
                     "none").startswith("none: cannot be read")
    assert complaint(capsys, *start[:-1], ".", *links, *SIZES) \
        == "--output: expected a directory other than that of s"
    assert complaint(capsys, *start[:-1], "s/out", *links, *SIZES).startswith("s/out: cannot make")
    write(files / "fr" / "s", *FRENCH)
    assert complaint(capsys, "annotate", "s", "fr/s", *start[3:], *links, *SIZES).startswith(
        "s, fr/s: expected different names")
    assert read_lines("s") == ENGLISH and read_lines("t") == FRENCH


def test_what_restore_refuses(files, capsys) -> None:
    write(files / "mt", "le", "<p_0>", "", "")
    assert complaint(capsys, "restore", "s", "mt", "--method", "posunk") \
        == "mt:2: expected symbols of posunk, got <p_0> of posall"
    for method in ("noalign", "copyable"):
        assert complaint(capsys, "restore", "s", "mt", "--method", method) \
            == f"--method {method}: needs --source-vocabulary FILE"
    write(files / "mt", "le")
    assert complaint(capsys, "restore", "s", "mt", "--method", "posunk") \
        == "parallel files differ in length: s has 4 lines, mt has 1"


# --- trained on it --------------------------------------------------------------------------------


def test_a_model_of_annotated_text(files, capsys) -> None:
    """posall: trained, two perplexities, translated, restored."""
    nmt("align", "train.en", "train.de", "--method", "hmm", "-o", "a")
    nmt("align", "dev.en", "dev.de", "--method", "hmm", "-o", "b")
    nmt("annotate", "train.en", "train.de", "--method", "posall", "--links", "a", "--output", "out",
        "--source-vocabulary", 7, "--target-vocabulary", 5)
    nmt("annotate", "dev.en", "dev.de", "--method", "posall", "--links", "b", "--output", "out",
        "--source-vocabulary", "out/source.vocab",
        "--target-vocabulary", "out/target.vocab")
    recipe = write_recipe(files / "out" / "r.yaml", data={"max_length": 12, "max_vocabulary": 5},
                          train={"epochs": 1})
    assert nmt("train", recipe, "--output", "m") == 0
    assert "<p_0>" in Vocabulary.read("m/target.vocab").words
    said = captured(capsys, "perplexity", "out/dev.en", "out/dev.de", "--model", "m").out
    both, words, positions = (float(text) for text in re.findall(r"(?:ity|s) ([\d.]+) over", said))
    counts = [int(text) for text in re.findall(r"over (\d+)", said)[1:]]
    target = " ".join(read_lines("out/dev.de")).split()
    assert counts == [len(target) // 2 + 8, len(target) // 2]  # 8 end markers
    assert math.log(both) == pytest.approx(
        np.average([math.log(words), math.log(positions)], weights=counts), abs=1e-4)
    assert positions < words


def test_one_perplexity_where_nothing_is_posall(trained, capsys) -> None:
    said = captured(capsys, "perplexity", trained / "dev.en", trained / "dev.de", "--model",
                   trained / "model").out
    assert said.count("\n") == 2 and "position" not in said  # and the likelihood


# --- groups by rarity -----------------------------------------------------------------------------


def test_scores_by_rarity(files, capsys) -> None:
    lines = [f"w{n} a b c" for n in range(120)]  # later sentences are rarer
    write(files / "src", *lines)
    write(files / "train", *(line for n, line in enumerate(lines) for _ in range(120 - n)))
    write(files / "ref", *lines)
    write(files / "hyp", *(line if n < 100 else "x y z v" for n, line in enumerate(lines)))
    score = ["score", "hyp", "ref", "--tokenize", "none"]
    for order in ([], ["--rarity-order", "inverse"]):
        said = captured(capsys, *score, "--source", "src", "--rarity", "train", *order).out
        assert said.splitlines()[2:] == ["BLEU 100.00 of sentences 1-100 by rarity",
                                         "BLEU 0.00 of sentences 101-120 by rarity"]
    assert complaint(capsys, *score, "--rarity", "train") \
        == "--source and --rarity: each needs the other"


def test_evaluate_by_rarity(trained, capsys) -> None:
    said = captured(capsys, "evaluate", "test.en", "test.de", "--model", "model", "--rarity",
                   "train.en", "--output", "e").out
    (system,) = json.loads((trained / "e" / "evaluation.json").read_text())["systems"]
    (group,) = system["bleu_by_rarity"]
    assert group == {"label": "1-6", "sentences": 6, "bleu": pytest.approx(system["bleu"]["score"])}
    assert re.search(rf"BLEU, by rarity 1-6 +{group['bleu']:.2f}", said)
    said = captured(capsys, "evaluate", "test.en", "test.de", "--model", "model").out
    assert "rarity" not in said
