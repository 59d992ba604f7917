"""Treebank files as symbols, and any output of a model as a tree."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.errors import UserError
from nmt.data.trees import (
    Span,
    Tree,
    bracketed,
    plain_label,
    read_trees,
    rebuild,
    repair,
    spans,
    split,
)

DOG = """
(ROOT
  (S
    (NP-SBJ=1 (DT The) (NN dog))
    (VP (VBZ barks)
      (NP (-NONE- *T*-1))
      (PRN (-LRB- -LRB-) (ADVP|PRT (RB loud)) (-RRB- -RRB-)))
    (. .)))
"""
SYMBOLS = st.lists(st.sampled_from(["XX", "(S", "(NP", ")S", ")NP", ")", "(", "dog", "<unk>"]))


def read(tmp_path, text):
    path = tmp_path / "trees.ptb"
    path.write_text(text, "utf-8")
    return read_trees(path)


def linear(tree):
    return " ".join(tree.symbols)


def test_a_tree_over_several_lines(tmp_path) -> None:
    tree, = read(tmp_path, DOG)
    assert linear(tree) == "(S (NP XX XX )NP (VP XX (PRN XX (ADVP XX )ADVP XX )PRN )VP XX )S"
    assert tree.words == ["The", "dog", "barks", "(", "loud", ")", "."]
    assert tree.tags == ["DT", "NN", "VBZ", "-LRB-", "RB", "-RRB-", "."]


def test_trees_side_by_side_with_other_roots_or_none(tmp_path) -> None:
    trees = read(tmp_path, "((S (X a)))(TOP (X a) (NP (X b)))\n (NP-TMP (X a)) (X a)\n"
                           "(ROOT (NP (-NONE- *))) (S1 (X a))")
    assert [linear(tree) for tree in trees] == [
        "(S XX )S", "XX (NP XX )NP", "(NP XX )NP", "XX", "XX"]


@pytest.mark.parametrize(("label", "plain"), [
    ("NP-SBJ-1", "NP"), ("NP=2", "NP"), ("ADVP|PRT", "ADVP"), ("-LRB-", "-LRB-"), ("S", "S")])
def test_labels_without_functions(label, plain) -> None:
    assert plain_label(label) == plain


@pytest.mark.parametrize(("text", "message"), [
    ("(S (X a))\n\n(S (X a)\n(S (X b))\n", ":3: the tree that begins here lacks 1 '\\)'"),
    ("(S (X a)))\n", ":1: expected '\\(', with which a tree begins, got '\\)'"),
    ("(S\n (X a) b)\n", ":2: expected '\\(' or '\\)', got 'b'"),
    ("(S (X a\n (X b)))\n", ":2: expected '\\)' behind the word 'a', got '\\('"),
    ("(S (X a b))\n", ":1: expected '\\(' or '\\)', got 'b'"),
    ("(S\n(NP\n))\n", ":3: expected a word or constituents in '\\(NP' of line 2, got '\\)'"),
    ("(S ())\n", ":1: expected a word or constituents in '\\(' of line 1, got '\\)'"),
    ("(S ((X a)))\n", ":1: expected a label behind '\\(', got '\\('"),
    ("S (X a)\n", ":1: expected '\\(', with which a tree begins, got 'S'"),
])
def test_what_is_no_tree_is_named(tmp_path, text, message) -> None:
    with pytest.raises(UserError, match=f"trees.ptb{message}"):
        read(tmp_path, text)


@pytest.mark.parametrize(("written", "repaired"), [
    ("(S (NP XX )NP XX )S", "(S (NP XX )NP XX )S"),
    ("(S (NP XX XX", "(S (NP XX XX )NP )S"),  # open constituents are closed
    ("(S (NP XX )S XX", "(S (NP XX )NP )S XX"),  # with the constituents inside
    (")S (S XX )NP )S )S", "(S XX )S"),  # closing symbols without an opening one are dropped
    ("(S (NP )NP XX (VP )S", "(S XX )S"),  # constituents without a word too
    ("(S dog <unk> XX ( ) )S", "(S XX )S"),
    ("", ""),
])
def test_repair(written, repaired) -> None:
    assert repair(written.split()) == repaired.split()


@given(SYMBOLS)
def test_what_is_repaired_is_a_tree(symbols) -> None:
    repaired = repair(symbols)
    assert repaired.count("XX") == symbols.count("XX")
    assert repair(repaired) == repaired
    assert len(spans(repaired)) == sum(symbol[0] == "(" for symbol in repaired)
    assert all(start < end for _, start, end in spans(repaired))


@given(SYMBOLS)
def test_a_rebuilt_tree_is_read_again(tmp_path_factory, symbols) -> None:
    words = [f"({n}" for n in range(symbols.count("XX"))]
    tree = rebuild(symbols, words)
    assert tree is not None and rebuild(symbols, [*words, "more"]) is None
    path = tmp_path_factory.mktemp("trees") / "one.ptb"
    path.write_text(bracketed(tree), "utf-8")
    trees = read_trees(path) if words else [Tree([], [], [])]
    assert [reread.symbols for reread in trees] == [tree.symbols]


def test_any_depth_is_read(tmp_path) -> None:
    deep = ["(S"] * 5000 + ["XX"] + [")S"] * 5000
    tree = rebuild(deep[:5001], ["word"])
    assert tree is not None and tree.symbols == deep and len(spans(deep)) == 5000
    assert read(tmp_path, bracketed(tree))[0].symbols == deep


def test_spans() -> None:
    assert spans("(S (NP XX XX )NP (VP XX )VP )S".split()) == [
        Span("NP", 0, 2), Span("VP", 2, 3), Span("S", 0, 3)]


# --- split ----------------------------------------------------------------------------------------


def test_documents_are_split_the_same_way_in_any_order() -> None:
    paths = [Path(f"/t/{n:02}") for n in range(1, 24)]
    documents = split(reversed(paths))
    assert [path.name for path in documents.dev] == ["05", "15"]
    assert [path.name for path in documents.test] == ["10", "20"]
    assert sorted([*documents.train, *documents.dev, *documents.test]) == paths
    assert documents.train == sorted(documents.train)


def test_documents_that_are_named_are_not_trained_on() -> None:
    paths = [Path(f"/t/{name}") for name in "abc"]
    documents = split(paths, dev=[Path("/t/x/../b")], test=[Path("/t/d")])
    assert documents == ([paths[0], paths[2]], [paths[1]], [Path("/t/d")])


@pytest.mark.parametrize(("names", "dev", "test", "message"), [
    ("abcd", "", "", "expected a document to train on and one for --dev, got 4 and 0"),
    ("ab", "ab", "", "got 0 and 2"),
    ("abc", "", "a", "got 2 and 0"),
    ("abc", "a", "a", "/t/a: expected in --dev or in --test, got in both"),
])
def test_splits_that_cannot_be(names, dev, test, message) -> None:
    with pytest.raises(UserError, match=message):
        split(*([Path(f"/t/{name}") for name in group] for group in (names, dev, test)))
