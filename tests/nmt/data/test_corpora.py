"""From a recipe's data section to sentence pairs."""

import os
from dataclasses import replace

import pytest
from tiny_run import RECIPE, write_corpus

from backend.errors import UserError
from nmt.data import stored
from nmt.data.corpora import load_corpus, tokenisers
from nmt.recipe import DataConfig


def config(directory, **changes):
    return DataConfig(**{**RECIPE["data"], "directory": str(directory), **changes})


@pytest.fixture
def directory(tmp_path):
    write_corpus(tmp_path)
    return tmp_path


def test_pairs_are_read_and_those_left_out_counted(directory) -> None:
    (directory / "train.en").write_text("one two\n\nthree\n \n" + "four " * 7 + "\nfive\n")
    (directory / "train.de").write_text("eins zwei\nx\n\n\nvier\n" + "fünf " * 7 + "\n", "utf-8")
    corpus = load_corpus(config(directory, max_length=7))
    assert corpus.train == [(["one", "two"], ["eins", "zwei"]), (["four"] * 7, ["vier"]),
                            (["five"], ["fünf"] * 7)]
    assert (corpus.empty, corpus.too_long) == (3, 0)
    corpus = load_corpus(config(directory, max_length=6))
    assert (len(corpus.train), corpus.empty, corpus.too_long) == (1, 3, 2)
    assert len(load_corpus(config(directory, max_length=None)).train) == 3


def test_train_size_takes_the_first_pairs_that_can_be_trained_on(directory) -> None:
    (directory / "train.en").write_text("a\n\nb\n" + "c " * 7 + "\nd\ne\n")
    (directory / "train.de").write_text("A\nx\nB\nC\nD\nE\n")
    corpus = load_corpus(config(directory, train_size=3))
    assert corpus.train == [(["a"], ["A"]), (["b"], ["B"]), (["d"], ["D"])]
    assert (corpus.empty, corpus.too_long) == (1, 1)
    assert len(load_corpus(config(directory, train_size=9)).train) == 4
    copied = load_corpus(config(directory, corpus="copy", train_source="train.de", train_target="",
                                dev_source="dev.de", dev_target="", train_size=2))
    assert copied.train == [(["A"], ["A"]), (["x"], ["x"])]
    (directory / "train.de").write_text("A\nx\nB\n")
    with pytest.raises(UserError, match="parallel files differ in length"):
        load_corpus(config(directory, train_size=1))


def test_fewer_pairs_have_the_same_ones_drawn_for_validation(directory) -> None:
    whole, few = (load_corpus(config(directory, dev_source="", dev_target="", train_size=size))
                  for size in (None, 5))
    assert few.dev == whole.dev and few.train == list(whole.train)[:5]


def test_evaluation_sets_keep_their_lines(directory) -> None:
    (directory / "dev.en").write_text("one\n\ntwo  three\n")
    (directory / "dev.de").write_text("eins\nzwei\n\n")
    dev = load_corpus(config(directory)).dev
    assert dev.sources == [["one"], [], ["two", "three"]]
    assert dev.references == ["eins", "zwei", ""]
    assert dev.pairs == [(["one"], ["eins"])]


@pytest.mark.parametrize("at_once", (1, 3, 7))
def test_pairs_are_drawn_from_all_blocks(directory, monkeypatch, at_once) -> None:
    drawing = config(directory, dev_source="", dev_target="", dev_size=8)
    whole = load_corpus(drawing)
    monkeypatch.setattr(stored, "AT_ONCE", at_once)
    assert load_corpus(drawing) == whole
    lines = (directory / "train.en").read_text("utf-8").split("\n")[:-1]
    assert sorted([" ".join(x) for x, _ in [*whole.train, *whole.dev.pairs]]) == sorted(lines)


def test_a_test_set_is_read_where_one_is_named(directory) -> None:
    assert load_corpus(config(directory)).test is None
    test = load_corpus(config(directory, test_source="test.en", test_target="test.de")).test
    assert test is not None and len(test.references) == 6


def test_long_dev_sentences_are_kept_up_to_the_limit_of_translation(directory) -> None:
    (directory / "dev.en").write_text("one\n" + "one " * 9 + "\n")
    (directory / "dev.de").write_text("eins\n" + "eins " * 9 + "\n")
    assert len(load_corpus(config(directory)).dev.pairs) == 2
    with pytest.raises(UserError, match=r"dev\.en:2: expected at most 8 words .*, got 9"):
        load_corpus(config(directory, max_translate_length=8))


def test_validation_pairs_are_not_drawn_from_a_pipe(directory) -> None:
    (directory / "train.en").unlink()
    os.mkfifo(directory / "train.en")
    with pytest.raises(UserError, match=r"train\.en: expected a regular file, because it is read"):
        load_corpus(config(directory, dev_source="", dev_target=""))


@pytest.mark.parametrize(("file", "content", "message"), [
    ("train.en", b"one\n", r"train\.en has 1 line, .*train\.de has 80"),
    ("dev.de", b"one\n" * 9, r"dev\.en has 8 lines, .*dev\.de has 9"),
    ("train.de", b"ok\n\xff\n", r"train\.de:2: expected UTF-8, got byte 0xff at column 1"),
    ("dev.en", b"ok\nab\xe9c\n", r"dev\.en:2: expected UTF-8, got byte 0xe9 at column 3"),
    ("train.en", b"\n" * 80, r"train\.en, .*train\.de: expected at least one pair to train on, "
                             "got none: 80 with an empty side, 0 over 6 words"),
    ("train.en", b"a b c d e f g\n" * 80, "got none: 0 with an empty side, 80 over 6 words"),
    ("dev.de", b"\n" * 8, r"dev\.en, .*dev\.de: expected at least one pair of sentences"),
    ("dev.en", None, r"dev\.en: cannot be read: No such file"),
])
def test_wrong_files_are_named(directory, file, content, message) -> None:
    (directory / file).unlink()
    if content is not None:
        (directory / file).write_bytes(content)
    with pytest.raises(UserError, match=message):
        load_corpus(config(directory))


def test_the_embedded_corpus() -> None:
    data = DataConfig(corpus="cldr", train_size=40, dev_size=6, test_size=5, seed=3)
    corpus = load_corpus(data)
    assert corpus.test is not None
    assert (len(corpus.train), len(corpus.dev.pairs), len(corpus.test.pairs)) == (40, 6, 5)
    assert (corpus.empty, corpus.too_long) == (0, 0)
    sources = [" ".join(x) for x, _ in corpus.train] \
        + [" ".join(x) for s in (corpus.dev, corpus.test) for x in s.sources]
    assert len(set(sources)) == 51
    _, target = tokenisers(data)
    assert [target.tokenise(line) for line in corpus.dev.references] \
        == [y for _, y in corpus.dev.pairs]
    data = DataConfig(corpus="cldr", train_size=5, dev_size=2, test_size=0)
    assert load_corpus(data).test is None


def test_the_reverse_task() -> None:
    data = DataConfig(corpus="reverse", train_size=3000, dev_size=40, test_size=30, seed=3)
    corpus = load_corpus(data)
    assert corpus.test is not None
    assert (len(corpus.train), len(corpus.dev.pairs), len(corpus.test.pairs)) == (3000, 40, 30)
    assert all(y == x[::-1] for x, y in corpus.train + corpus.dev.pairs + corpus.test.pairs)
    assert {len(x) for x, _ in corpus.train} == set(range(1, 26))
    assert {word for x, _ in corpus.train for word in x} == {str(n) for n in range(50)}
    assert corpus.test.references[0] == " ".join(corpus.test.pairs[0][1])
    assert tokenisers(data)[0].tokenise("1 12") == ["1", "12"]
    longer = load_corpus(replace(data, train_size=3001))
    assert longer.train[:-1] == corpus.train
    assert longer.dev == corpus.dev and longer.test == corpus.test
    other = load_corpus(replace(data, seed=4, test_size=0))
    assert other.train != corpus.train and other.test is None


def test_each_side_has_the_tokeniser_of_its_language() -> None:
    source, target = tokenisers(DataConfig(corpus="cldr", target_language="ja"))
    assert source.tokenise("It's two days.") == ["It", "'s", "two", "days", "."]
    assert target.tokenise("二日間") == ["二", "日", "間"]
    files = {"train_source": "a", "train_target": "b", "dev_source": "c", "dev_target": "d"}
    source, target = tokenisers(DataConfig(**files, tokenise="none"))
    assert target.tokenise("two days.") == ["two", "days."]
