"""Pairs of one text, and corpora of them."""

import pytest

from backend.errors import UserError
from nmt.data.corpora import load_corpus
from nmt.data.monolingual import PAIRINGS, halves
from nmt.recipe import DataConfig

TEXT = "one two three\nfour\n\nfive, six\n"


def config(directory, corpus, text=TEXT, **changes):
    for name in ("train", "dev"):
        (directory / name).write_text(text, "utf-8")
    return DataConfig(**{"corpus": corpus, "directory": str(directory), "train_source": "train",
                         "dev_source": "dev", "test_source": "dev", "tokenise": "none", **changes})


def test_the_middle_word_belongs_to_the_first_half() -> None:
    assert list(halves([["a", "b", "c"], ["a", "b"], ["a"], []])) == [
        (["a", "b"], ["c"]), (["a"], ["b"]), (["a"], []), ([], [])]


@pytest.mark.parametrize(("corpus", "pairs", "empty"), [
    ("copy", ["one two three|one two three", "four|four", "five, six|five, six"], 1),
    ("halves", ["one two|three", "five,|six"], 2),
    ("neighbours", ["one two three|four"], 0),
])
def test_corpora_of_one_text(tmp_path, corpus, pairs, empty) -> None:
    loaded = load_corpus(config(tmp_path, corpus))
    expected = [tuple(side.split() for side in pair.split("|")) for pair in pairs]
    assert loaded.train == expected and (loaded.empty, loaded.too_long) == (empty, 0)
    assert loaded.test is not None and loaded.dev.pairs == loaded.test.pairs == expected
    assert loaded.dev.sources == [source for source, _ in expected]
    assert loaded.dev.references == [" ".join(target) for _, target in expected]


def test_lengths_are_those_of_the_pairs(tmp_path) -> None:
    loaded = load_corpus(config(tmp_path, "halves", max_length=1))
    assert (len(loaded.train), loaded.empty, loaded.too_long) == (1, 2, 1)
    loaded = load_corpus(config(tmp_path, "copy", max_length=2, cut_long=True))
    assert loaded.train[0] == (["one", "two"], ["one", "two"]) and loaded.too_long == 0


def test_both_sides_are_words_of_the_one_language(tmp_path) -> None:
    loaded = load_corpus(config(tmp_path, "copy", "l'une, deux\n", tokenise="moses",
                                source_language="fr", target_language="en"))
    assert loaded.train == [(["l'", "une", ",", "deux"],) * 2]
    assert loaded.dev.references == ["l'une, deux"]


@pytest.mark.parametrize(("corpus", "text", "message"), [
    ("halves", "one\ntwo\n", "train: expected at least one pair to train on, got none: 2 with an "
                             "empty side, 0 over 50 words"),
    ("neighbours", "one two\n\nthree\n", "train: expected at least one pair to train on"),
    ("copy", "a\n\n" + "b " * 9 + "\n", "dev:3: expected at most 8 words .*, got 9"),
])
def test_texts_that_make_no_pairs_are_named(tmp_path, corpus, text, message) -> None:
    with pytest.raises(UserError, match=message):
        load_corpus(config(tmp_path, corpus, text, max_translate_length=8))


def test_a_dev_text_without_a_pair_is_named(tmp_path) -> None:
    data = config(tmp_path, "halves")
    (tmp_path / "dev").write_text("one\n\n")
    with pytest.raises(UserError, match="dev: expected sentences that make a pair, got none"):
        load_corpus(data)


@pytest.mark.parametrize("corpus", PAIRINGS)
def test_a_recipe_of_one_text_names_its_files(corpus) -> None:
    with pytest.raises(ValueError, match="dev_source: expected the name of a file"):
        DataConfig(corpus=corpus, train_source="t")


def test_an_unknown_corpus_names_the_nearest() -> None:
    with pytest.raises(ValueError, match=r"corpus: expected one of files, copy, halves, .*, got "
                                         r"'halfs'; did you mean 'halves'\?"):
        DataConfig(corpus="halfs")
