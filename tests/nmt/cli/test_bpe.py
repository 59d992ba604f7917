"""Byte pair encoding on the command line: `nmt bpe`, and every verb on a model of pieces."""

import json
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from tiny_run import Crash, CrashAt, complaint, lines_of, nmt, write_recipe

from nmt.data.bpe import Codes
from nmt.data.corpora import load_corpus
from nmt.data.corpus import read_lines
from nmt.recipe import Recipe
from nmt.recipe.file import load_recipe
from nmt.system import System
from nmt.training.progress import Observer
from nmt.translator_training import train

MERGES = [("e", "i</w>"), ("n", "e"), ("t", "w"), ("s", "i"), ("z", "w"), ("zw", "ei</w>")]
CODES = {"source_codes": "own.codes", "target_codes": "own.codes"}


@pytest.fixture(scope="module", autouse=True)
def work(workplace):
    """A directory with a model of pieces, with merges from a file, trained for two epochs with
    dropout."""
    Codes(MERGES).write("own.codes")
    write_recipe(workplace / "r.yaml", data={"subwords": {**CODES, "dropout": 0.3}},
                 search={"length_factor": 8.0})
    assert nmt("train", "r.yaml", "--output", "m") == 0


def test_a_run_has_its_codes_and_writes_words(capsys) -> None:
    system = System.open("m")
    assert system.source.pieces(["seven", "one"]) == "s@@ e@@ v@@ e@@ n o@@ n@@ e".split()
    assert system.target.codes == Codes(MERGES)
    lines = lines_of(capsys, "translate", "test.en", "--model", "m")
    assert len(lines) == 6 and not any("@@" in line for line in lines)
    nbest = lines_of(capsys, "translate", "test.en", "--model", "m", "--nbest", "2")
    assert len(nbest) == 12 and not any("@@" in line for line in nbest)


def test_verbs_on_a_model_of_pieces(capsys) -> None:
    """Links and error rates are in words, attention maps in pieces, and perplexity is per piece."""
    lines = lines_of(capsys, "align", "test.en", "test.de", "--model", "m")
    for links, source, target in zip(lines, *map(read_lines, ("test.en", "test.de")), strict=True):
        actual = [tuple(map(int, link.split("-"))) for link in links.split()]
        assert actual and len(set(actual)) == len(actual)
        assert {j for _, j in actual} == set(range(len(target.split())))
        assert max(i for i, _ in actual) < len(source.split())
    shown = "\n".join(lines_of(capsys, "attention", "test.en", "test.de", "--model", "m"))
    assert "@@" in shown
    lines_of(capsys, "translate", "test.en", "--model", "m", "--alignments", "a", "--replace-unk")
    assert len(read_lines("a")) == 6
    Path("gold").write_text("0-0\n" * 6)
    lines_of(capsys, "evaluate", "test.en", "test.de", "--model", "m", "--gold", "gold",
            "--without-unk", "--output", "found")
    (scores,) = json.loads(Path("found/evaluation.json").read_text())["systems"]
    assert scores["alignment"] and scores["bleu_without_unknown"]["sentences"] == 6
    system = System.open("m")
    pieces = sum(len(system.target.pieces(line.split())) + 1 for line in read_lines("test.de"))
    nats = -sum(forced.log_probability for forced in system.force(
        [(x.split(), y.split()) for x, y in zip(*map(read_lines, ("test.en", "test.de")),
                                               strict=True)]))
    assert lines_of(capsys, "perplexity", "test.en", "test.de", "--model", "m")[0].startswith(
        f"perplexity {np.exp(nats / pieces):.4f}")


def test_dropout_is_drawn_anew_each_epoch_and_resumes_bit_for_bit(tmp_path) -> None:
    """A run that is killed within the second epoch and resumed ends like one that was not
    stopped."""
    recipe = load_recipe(Recipe, "r.yaml", ["--train.checkpoint_every=3"])
    with pytest.raises(Crash):
        train(recipe, tmp_path / "m", CrashAt(14))
    train(recipe, tmp_path / "m", Observer(), resume=True)
    ours, expected = System.open(tmp_path / "m", "last"), System.open("m", "last")
    assert all(np.array_equal(ours.parameters[name], array)
               for name, array in expected.parameters.items())
    batches = expected.training_batches(load_corpus(recipe.data).train)
    rng, seen = np.random.default_rng(1), []
    for _ in range(2):
        batches.epoch(rng)
        seen.append([list(pair[0]) for pair in batches.pairs])
    assert seen[0] != seen[1]
    batches.epoch(np.random.default_rng(1))
    assert [list(pair[0]) for pair in batches.pairs] == seen[0]
    plain = expected.batches(load_corpus(recipe.data).train, 4).pairs
    assert sum(map(len, seen[0])) > sum(len(source) for source, _ in plain)


def test_learned_merges_joint_and_apart(tmp_path, capsys) -> None:
    pytest.importorskip("subword_nmt")
    for joint in (True, False):
        recipe = load_recipe(Recipe, "r.yaml", [
            "--data.subwords.source_codes=", "--data.subwords.target_codes=",
            "--data.subwords.merges=8", "--train.epochs=1", "--data.subwords.threshold=5",
            f"--data.subwords.joint={str(joint).lower()}"])
        system = train(recipe, tmp_path / str(joint), Observer())
        codes = [side.codes.merges for side in (system.source, system.target)]
        assert [len(merges) for merges in codes] == [8, 8] and (codes[0] == codes[1]) == joint
        assert System.open(tmp_path / str(joint)).target.words == system.target.words
    assert nmt("bpe", "learn", "train.en", "train.de", "--merges", "8", "-o", "both") == 0
    assert Codes.read("both") == Codes.read(tmp_path / "True" / "source.codes")


def test_bpe_of_files(capsys) -> None:
    assert nmt("bpe", "apply", "own.codes", "train.de", "-o", "cut") == 0
    text = " ".join(read_lines("cut"))
    assert "n@@ u@@ l@@ l" in text and " zwei " in text
    assert lines_of(capsys, "bpe", "join", "cut") == read_lines("train.de")
    drawn = lines_of(capsys, "bpe", "apply", "own.codes", "train.de", "--dropout", "0.5")
    assert drawn != read_lines("cut")
    assert drawn == lines_of(capsys, "bpe", "apply", "own.codes", "train.de", "--dropout", "0.5")


def test_pieces_out_of_a_vocabulary_are_cut_further_as_by_the_library(capsys, tmp_path) -> None:
    library = pytest.importorskip("subword_nmt.apply_bpe")
    words = sorted({word for line in read_lines("train.de") for word in line.split()})
    pieces = lines_of(capsys, "bpe", "apply", "own.codes", "train.de")
    counts = Counter(piece for line in pieces for piece in line.split())
    (tmp_path / "vocabulary").write_text("".join(f"{piece} {n}\n" for piece, n in counts.items()))
    (tmp_path / "words").write_text("".join(f"{word}\n" for word in words))
    apply = ["bpe", "apply", "own.codes", tmp_path / "words"]
    plain = lines_of(capsys, *apply)
    assert lines_of(capsys, *apply, "--vocabulary", tmp_path / "vocabulary") == plain
    most = sorted(counts.values())[-3]
    actual = lines_of(capsys, *apply, "--vocabulary", tmp_path / "vocabulary",
                      "--vocabulary-threshold", most)
    with open(tmp_path / "vocabulary") as file:
        known = library.read_vocabulary(file, most)
    with open("own.codes") as codes:
        theirs = library.BPE(codes, vocab=known)
        assert actual == [theirs.process_line(word) for word in words] != plain


def test_a_vocabulary_that_is_none(capsys, tmp_path) -> None:
    (tmp_path / "v").write_text("a 3\nb\n")
    apply = ["bpe", "apply", "own.codes", "train.de"]
    assert complaint(capsys, *apply, "--vocabulary", tmp_path / "v") == (
        f"{tmp_path}/v:2: expected a piece, a space and its count, got 'b'")
    assert complaint(capsys, *apply, "--vocabulary-threshold", "2") == (
        "--vocabulary-threshold: needs --vocabulary FILE")


def test_invalid_options_are_refused(capsys, tmp_path) -> None:
    def refused(*overrides: str) -> str:
        return complaint(capsys, "train", "r.yaml", "--output", tmp_path / "no", *overrides)

    assert refused("--data.subwords.threshold=9999").startswith(
        "data.subwords.threshold: expected pieces of the source that occur 9999 times or more")
    assert refused("--data.subwords.merges=5") == (
        "override: data.subwords.merges: cannot be used with source_codes, which are "
        "learned")
    assert "expected both or neither" in refused("--data.subwords.target_codes=")
    assert "expected 0 <= dropout < 1" in refused("--data.subwords.dropout=1")
    assert "no-such" in refused("--data.subwords.source_codes=no-such")
    assert "expected none with a model of characters" in refused("--model.architecture=hybrid")
    Path("old.codes").write_text("#version: 0.3\ne s\n")
    assert "old.codes:1: expected #version: 0.2, or none of" in refused(
        "--data.subwords.source_codes=old.codes")
    for kind, what in (("source.codes", "these are not the codes"),
                       ("target.vocab", "this is not the vocabulary")):
        shutil.copytree("m", tmp_path / kind)
        path = tmp_path / kind / kind
        path.write_text("\n".join(path.read_text().split("\n")[:-2]) + "\n")
        assert complaint(capsys, "translate", "test.en", "--model", tmp_path / kind) == (
            f"{path}: {what} that the model in best.safetensors was trained with")
        path.unlink()
        assert str(path.name) in complaint(capsys, "translate", "test.en", "--model",
                                           tmp_path / kind)
    assert "expected a number from 0 to below 1" in complaint(
        capsys, "bpe", "apply", "own.codes", "--dropout", "1")
