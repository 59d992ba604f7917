"""Replacing unknown words, and dictionaries."""

import pytest

from backend.errors import UserError
from nmt.data.rare_words import dictionary_of, read_dictionary, replace_unknown, write_dictionary

SOURCE = ["the", "ecotax", "portico", "in", "Pont-de-Buis"]
LINKS = [(0, 0), (2, 1), (1, 2), (4, 3)]


def test_dictionary_or_copy() -> None:
    words = ["le", "<unk>", "<unk>", "<unk>"]
    assert replace_unknown(words, SOURCE, LINKS, {}) == ["le", "portico", "ecotax", "Pont-de-Buis"]
    dictionary = {"portico": ["portique"], "ecotax": ["taxe", "verte"], "the": ["no"]}
    assert replace_unknown(words, SOURCE, LINKS, dictionary) \
        == ["le", "portique", "taxe", "verte", "Pont-de-Buis"]


def test_what_has_no_link_stays() -> None:
    assert replace_unknown(["<unk>", "a"], SOURCE, [], {}) == ["<unk>", "a"]


def test_dictionary_files(tmp_path) -> None:
    path = tmp_path / "d"
    path.write_bytes("\ufeffa\tx\r\n\n b \t y  z \n  \nc\tc\n".encode())
    dictionary = {"a": ["x"], "b": ["y", "z"], "c": ["c"]}
    assert read_dictionary(path) == dictionary
    write_dictionary(path, dictionary)
    assert path.read_text() == "a\tx\nb\ty z\nc\tc\n" and read_dictionary(path) == dictionary


@pytest.mark.parametrize(("text", "message"), [
    (b"a\tx\nb y\n", r"d:2: expected a source word, a tab and its translation, got 'b y'"),
    (b"a\tx\ty\n", r"d:1: expected a source word"),
    (b"a b\tx\n", r"d:1: expected a source word"),
    (b"a\t\n", r"d:1: expected a source word"),
    (b"\tx\n", r"d:1: expected a source word"),
    (b"a\tx\n\na\ty\n", r"d:3: expected a new source word, got 'a', which is on line 1 already"),
    (b"a\tx\n\xe9\ty\n", r"d:2: expected UTF-8"),
])
def test_bad_dictionaries(tmp_path, text, message) -> None:
    (tmp_path / "d").write_bytes(text)
    with pytest.raises(UserError, match=message):
        read_dictionary(tmp_path / "d")


def test_the_most_frequent_translation() -> None:
    sources = [["a", "b"], ["a", "b"], ["a"]]
    targets = [["x", "y"], ["x", "z"], ["w", "x"]]
    links = [[(0, 0), (1, 1)], [(0, 0), (1, 1)], [(0, 0), (0, 1)]]
    assert dictionary_of(sources, targets, links) == {"a": ["x"], "b": ["y"]}  # y before z
    assert dictionary_of(sources, targets, links, min_count=3) == {"a": ["x"]}
    assert dictionary_of(sources, targets, links, min_count=4) == {}
