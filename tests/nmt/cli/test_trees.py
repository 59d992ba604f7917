"""`nmt trees` and `nmt brackets`, files to files."""

import json
import re
from pathlib import Path

import pytest
from tiny_run import complaint, files_in, nmt, printed, write_recipe

from nmt.cli.trees import tell_long_trees
from nmt.data.trees import repair
from nmt.data.vocabulary import Vocabulary
from nmt.evaluation.evaluate import TestSet
from nmt.recipe import Recipe
from nmt.recipe.file import load_recipe
from nmt.run_directory import RunDirectory
from nmt.search.interface import SearchOptions
from nmt.system import System
from nmt.translation import Translation

TREE = "(ROOT (S (NP-SBJ (DT The) (NN dog)) (VP (VBZ 's)) (. {word})))\n"


@pytest.fixture
def documents(tmp_path):
    """Ten documents of two trees, the second of one word."""
    paths = [tmp_path / f"d{number}.ptb" for number in range(10)]
    for number, path in enumerate(paths):
        path.write_text(TREE.format(word=number) + "(ROOT (NP (NN Dog)))\n")
    return paths


def lines(path):
    return path.read_text("utf-8").splitlines()


def test_trees_become_files_and_trees_again(tmp_path, documents, capsys) -> None:
    out = tmp_path / "out" / "gum"
    assert nmt("trees", *documents, "--lower-case", "--escape", "--output", out) == 0
    assert capsys.readouterr().out.splitlines()[1] == (
        f"{out}/dev.{{words,trees}}: 2 trees of 1 document, 5 words, 13 symbols, 7 different")
    assert files_in(out) == {f"{name}.{kind}" for name in ("train", "dev", "test")
                             for kind in ("words", "trees")}
    assert lines(out / "dev.words") == ["the dog &apos;s 4", "dog"]
    assert lines(out / "test.trees") == ["(S (NP XX XX )NP (VP XX )VP XX )S", "(NP XX )NP"]
    assert nmt("brackets", out / "test.words", out / "test.trees") == 0
    assert capsys.readouterr().out.splitlines()[0] == (
        "(ROOT (S (NP (XX the) (XX dog)) (VP (XX &apos;s)) (XX 9)))")


def test_sets_by_name_and_length(tmp_path, documents, capsys) -> None:
    assert nmt("trees", *documents, "--dev", documents[0], "--max-length", 3, "--output",
               tmp_path / "out") == 0
    assert lines(tmp_path / "out" / "train.words") == ["Dog"] * 9
    assert lines(tmp_path / "out" / "dev.words") == ["Dog"]
    assert not (tmp_path / "out" / "test.words").exists()


def test_a_tree_that_fits_no_words_is_an_empty_line(tmp_path, documents) -> None:
    (tmp_path / "w").write_text("a b\na\n")
    (tmp_path / "t").write_text("(S XX\n(S XX\n")
    assert nmt("brackets", tmp_path / "w", tmp_path / "t", "-o", tmp_path / "b") == 0
    assert lines(tmp_path / "b") == ["", "(ROOT (S (XX a)))"]


def test_bad_input_is_named_and_nothing_written(tmp_path, documents, capsys) -> None:
    out = ["--output", tmp_path / "out"]
    assert "without --dev and --test" in complaint(capsys, "trees", *documents[:4], *out)
    assert complaint(capsys, "trees", *documents, tmp_path, *out) == (
        f"{tmp_path}: cannot be read: Is a directory")
    documents[4].write_text("(ROOT (NP (NN Dog)))\n(S (X a)\n")
    assert complaint(capsys, "trees", *documents, *out) == (
        f"{documents[4]}:2: the tree that begins here lacks 1 ')'")
    documents[4].write_text(TREE)
    assert complaint(capsys, "trees", *documents, "--max-length", 2, *out) == (
        f"{documents[4]}: expected a tree for the dev set, got none within the limit")
    assert not (tmp_path / "out").exists()


# --- scores ---------------------------------------------------------------------------------------


WORDS = "a dog .\nb\nc d\n"
GOLD = "(S (NP XX )NP (VP XX )VP XX )S\n(X XX )X\n(X XX XX )X\n"
FOUND = "(S (NP XX )NP XX XX\n(Y XX )Y\n(X XX )X\n"


@pytest.fixture
def parses(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, text in (("words", WORDS), ("gold", GOLD), ("found", FOUND)):
        (tmp_path / name).write_text(text)


def test_trees_in_files_are_scored(parses, capsys) -> None:
    assert nmt("score", "found", "gold", "--trees", "words") == 0
    # 2 of 3 brackets, 0 of 1, and a tree of one word over two; S, NP and Y are found.
    assert capsys.readouterr().out.splitlines() == [
        "F1 50.00, precision 66.67, recall 40.00",
        "0 exact of 3, 1 with a wrong number of words",
        "F1 50.00 of 3 sentences of 1-10 words"]


def test_what_cannot_be_scored_is_named(parses, tmp_path, capsys) -> None:
    arguments = ["score", "found", "gold", "--trees", "words"]
    assert "--trees: cannot be used with --source" in complaint(
        capsys, *arguments, "--source", "words", "--rarity", "words")
    (tmp_path / "gold").write_text(GOLD.replace("(X XX )X", "(X XX"))
    assert complaint(capsys, *arguments) == (
        "gold:2: expected the symbols of a tree over 1 word, got '(X XX'")
    (tmp_path / "words").write_text("a dog .\n")
    assert "words has 1 line" in complaint(capsys, *arguments)


def untrained_model():
    """A run directory of an untrained model of trees."""
    recipe = load_recipe(Recipe, write_recipe(Path("r.yaml"), model={"attention": "none"}))
    words = {side: Vocabulary.build([text.split()])
             for side, text in (("source", WORDS), ("target", GOLD))}
    RunDirectory("model", recipe, resume=False).write(System.create(recipe, words), {"epoch": 0})
    (Path("model") / "last.safetensors").rename(Path("model") / "best.safetensors")


def model_of_trees(monkeypatch):
    """The same model, which always writes FOUND."""
    untrained_model()
    actual = [[Translation(line.split(), 0.0, 0.0, None)] for line in FOUND.splitlines()]
    monkeypatch.setattr(System, "translate", lambda *_, **__: actual)


def test_a_model_of_trees(parses, monkeypatch, capsys, tmp_path) -> None:
    model_of_trees(monkeypatch)
    evaluate = ["evaluate", "words", "gold", "--model", "model", "--trees", "--buckets", "1,2"]
    rows = dict(re.findall(r"^(\S.*?)  +(\S+)$", printed(capsys, *evaluate, "--output",
                                                         "out"), re.MULTILINE))
    assert (rows["F1"], rows["exact trees"], rows["trees with a wrong number of words"]) == (
        "50.00", "0", "1")
    assert [rows[f"F1, {label} (n=1)"] for label in ("1-1 words", "2-2 words", "3+ words")] == [
        "0.00", "0.00", "80.00"]
    actual, = json.loads((tmp_path / "out" / "evaluation.json").read_text())["systems"]
    assert actual["bracketing"] == {"f1": 50.0, "precision": pytest.approx(200 / 3), "recall": 40.0,
                                    "sentences": 3, "unfit": 1, "exact": 0, "matched": 2,
                                    "found": 3, "gold": 5}
    assert actual["f1_by_length"][2] == {"label": "3+", "sentences": 1, "words": 3, "f1": 80.0}
    assert (tmp_path / "out" / "f1-by-length.png").is_file()
    assert complaint(capsys, *evaluate, "--restore") == (
        "--trees: cannot be used with --restore")
    (tmp_path / "gold").write_text(GOLD.replace("(X XX XX )X", "(X XX )X"))
    assert complaint(capsys, *evaluate) == (
        "gold:3: expected the symbols of a tree over 2 words, got '(X XX )X'")


def test_valid_trees_alone(parses, capsys) -> None:
    """An untrained model writes no trees, and with the constraint only trees."""
    untrained_model()
    capsys.readouterr()
    evaluate = ["evaluate", "words", "gold", "--model", "model", "--trees"]
    unfit = []
    for options in ([], ["--valid-trees"]):
        assert nmt(*evaluate, *options) == 0
        rows = dict(re.findall(r"^(\S.*?)  +(\S+)$", capsys.readouterr().out, re.MULTILINE))
        unfit.append(rows["trees with a wrong number of words"])
    assert unfit == ["3", "0"]
    for options in ([], ["--sample", "1", "--seed", "3"]):
        assert nmt("translate", "words", "--model", "model", "--valid-trees", *options) == 0
        trees = [line.split() for line in capsys.readouterr().out.splitlines()]
        assert [tree.count("XX") for tree in trees] == [3, 1, 2]
        assert trees == [repair(tree) for tree in trees]


def test_what_does_not_go_with_valid_trees(parses, capsys) -> None:
    untrained_model()
    evaluate = ["evaluate", "words", "gold", "--model", "model", "--valid-trees"]
    assert complaint(capsys, *evaluate) == "--valid-trees: needs --trees"
    assert "cannot be used with --valid-trees" in complaint(capsys, *evaluate, "--beams", "1")
    translate = ["translate", "words", "--model", "model", "--valid-trees"]
    Path("dictionary").write_text("a\tXX\n")
    assert complaint(capsys, *translate, "--shortlist", "dictionary") == (
        "--valid-trees: cannot be used with --shortlist")
    assert complaint(capsys, *translate, "--prefix", "XX") == (
        "--valid-trees: cannot be used with --prefix")


def test_a_translator_writes_no_trees(trained, capsys) -> None:
    wrong = ("expected models of linear trees, with XX among their target words and data.tokenise "
             "none;")
    assert complaint(capsys, "evaluate", "dev.en", "dev.de", "--model", "model", "--trees") == (
        f"--trees: {wrong} model is not")
    assert complaint(capsys, "translate", "dev.en", "--model", "model", "--valid-trees") == (
        f"--valid-trees: {wrong} --model is not")


def test_a_search_that_ends_before_the_trees_do_is_told(capsys) -> None:
    test = TestSet([["a"] * 10, ["a"]], [["XX"] * 32, ["XX"] * 9], ["", ""], [])
    tell_long_trees("m", test, SearchOptions())
    assert capsys.readouterr().err == (
        "m: 1 of 2 trees are longer than the search may write with search.length_factor 1.5; "
        "--length-factor 3.3 is enough\n")
    tell_long_trees("m", test, SearchOptions(length_factor=3.3))
    assert capsys.readouterr().err == ""
