"""`nmt trees` and `nmt brackets`, files to files."""

import pytest
from tiny_run import complaint, files_in, nmt

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
        f"{out}/dev.{{words,trees}}: 2 trees of 1 documents, 5 words, 13 symbols, 7 different")
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
