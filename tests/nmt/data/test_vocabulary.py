"""Vocabularies: order, symbols, files and their errors."""

import os

import pytest

from backend.errors import UserError
from nmt.data.vocabulary import END, UNKNOWN, Vocabulary


def test_frequency_then_alphabet_decides_the_ids() -> None:
    vocabulary = Vocabulary.build([["b", "c", "a"], ["c", "b"], ["c"]])
    assert vocabulary.words == ("<unk>", "</s>", "c", "b", "a")
    assert Vocabulary.build([["z", "y", "x"]]).words[2:] == ("x", "y", "z")
    assert vocabulary.ids(["a", "c", "nowhere"]) == [4, 2, UNKNOWN]
    assert vocabulary.tokens([2, 3, END]) == ["c", "b", "</s>"]
    assert len(vocabulary) == 5


def test_size_counts_the_symbols_and_frequency_cuts() -> None:
    sentences = [["a"] * 3 + ["b"] * 2 + ["c"]]
    assert Vocabulary.build(sentences, max_size=3).words[2:] == ("a",)
    assert Vocabulary.build(sentences, max_size=2).words[2:] == ()
    assert Vocabulary.build(sentences, min_frequency=2).words[2:] == ("a", "b")


def test_words_that_always_stay_are_not_counted() -> None:
    sentences = [["a"] * 3 + ["<p_1>", "b", "b", "<p_2>", "<p_2>", "<p_2>", "<p_2>", "</s>", "c"]]
    vocabulary = Vocabulary.build(sentences, 2, 4, always=lambda word: word.startswith("<"))
    assert vocabulary.words[2:] == ("<p_2>", "a", "b", "<p_1>")
    assert Vocabulary.build(sentences, 2, 4).words[2:] == ("<p_2>", "a")


def test_symbols_spelt_out_in_the_corpus_are_unknown_words() -> None:
    vocabulary = Vocabulary.build([["</s>", "a", "<unk>", "</s>"]])
    assert vocabulary.words == ("<unk>", "</s>", "a")
    assert vocabulary.ids(["a", "</s>", "<unk>"]) == [2, UNKNOWN, UNKNOWN]


@pytest.mark.parametrize("bad", [-1, 3])
def test_ids_outside_the_vocabulary_are_refused(bad: int) -> None:
    with pytest.raises(ValueError, match="ids"):
        Vocabulary(["a"]).tokens([2, bad])


@pytest.mark.parametrize("words", [["a", "a"], ["</s>"], ["a b"], ["a\nb"], [""]])
def test_words_that_a_file_could_not_hold_are_refused(words: list[str]) -> None:
    with pytest.raises(ValueError, match="words"):
        Vocabulary(words)


def test_a_file_brings_back_every_word(tmp_path) -> None:
    words = ["naïve", "x\u0085y", "a\u2028b", "p\u00a0q", "v\x0bw", "\x1c", "r\rs", "t\r", "\ufeff"]
    path = tmp_path / "words.txt"
    Vocabulary(words).write(path)
    assert Vocabulary.read(path).words[2:] == tuple(words)
    assert path.read_bytes().startswith("<unk>\n</s>\nnaïve\n".encode())


@pytest.mark.parametrize(
    ("content", "line", "told"),
    [
        (b"", 1, "<unk>"),
        (b"<unk>\n", 2, "</s>"),
        (b"</s>\n<unk>\n", 1, "<unk>"),
        (b"<unk>\r\n</s>\r\n", 1, "<unk>"),
        (b"<unk>\n</s>\na\nb\na\n", 5, "line 3"),
        (b"<unk>\n</s>\na\n\nb\n", 4, "empty"),
        (b"<unk>\n</s>\na b\n", 3, "space"),
        (b"<unk>\n</s>\na\n</s>\n", 4, "reserved"),
        (b"<unk>\n</s>\nok\n\xff\n", 4, "UTF-8"),
    ],
)
def test_a_damaged_file_is_named_with_its_line(tmp_path, content, line, told) -> None:
    path = tmp_path / "words.txt"
    path.write_bytes(content)
    with pytest.raises(UserError) as caught:
        Vocabulary.read(path)
    assert f"{path}:{line}:" in str(caught.value) and told in str(caught.value)


def test_a_missing_file_is_named(tmp_path) -> None:
    with pytest.raises(UserError, match=r"nothing\.txt"):
        Vocabulary.read(tmp_path / "nothing.txt")


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch, failing) -> None:
    path = tmp_path / "words.txt"
    Vocabulary(["old"]).write(path)

    def fail(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, failing, fail)
    with pytest.raises(UserError, match=r"words\.txt.*No space"):
        Vocabulary(["new"]).write(path)
    assert Vocabulary.read(path).words[2:] == ("old",)
    assert os.listdir(tmp_path) == ["words.txt"]
