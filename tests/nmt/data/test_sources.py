"""Sentences of several sources as one text, one list of words, one tuple of ids."""

from __future__ import annotations

import numpy as np
import pytest

from backend.errors import UserError
from nmt.data.batches import SourceIds, make_sources
from nmt.data.corpus import choose_pairs, stream_texts
from nmt.data.sources import as_text, joined, longest, parts, places, shortened, tokenise_each


def test_words_are_joined_and_parted():
    words = joined([["a", "b"], ["c"]])
    assert words == ["a", "b", "\n", "c"] and parts(words) == [["a", "b"], ["c"]]
    assert [words[place] for place in places(words)] == [["a", "b"], ["c"]]
    assert longest(words) == 2 and shortened(words, 1) == ["a", "\n", "c"]
    assert joined([["a"], []]) == [] and parts(["a"]) == [["a"]] and shortened([], 3) == []


def test_each_line_has_its_tokeniser():
    cutters = [str.split, list]
    assert tokenise_each(cutters, "a b\nab") == ["a", "b", "\n", "a", "b"]
    assert tokenise_each(cutters, "a b\n") == []
    with pytest.raises(UserError, match="expected a sentence of each of the 2 sources that the "
                                        "model reads, got 1"):
        tokenise_each(cutters, "a b")


def test_a_line_that_one_file_lacks_is_an_error(tmp_path):
    assert as_text(["", " "], ["a", "b"], 1) == "\n "
    with pytest.raises(UserError, match=r"b:3: expected a sentence, as a has one there, got an"):
        as_text(["x", " "], ["a", "b"], 3)
    for name, text in {"a": "x\ny\n", "b": "z\n"}.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(UserError, match=r"/a has 2 lines, .*/b has 1$"):
        list(stream_texts([tmp_path / "a", tmp_path / "b"]))


def test_the_limit_is_of_each_source():
    pairs = [(["a", "b", "\n", "c"], ["d"]), (["a", "\n", "b", "c", "d"], ["e"])]
    chosen = choose_pairs(pairs, 2)
    assert list(chosen.pairs) == [(["a", "b", "\n", "c"], ["d"])] and chosen.too_long == 1
    cut = choose_pairs(pairs, 2, cut=True).pairs
    assert list(cut)[1] == (["a", "\n", "b", "c"], ["e"])


def test_a_side_of_each_source():
    first, second = make_sources([SourceIds(([5, 6, 7], [2])), SourceIds(([9], [3, 4]))], True)
    np.testing.assert_array_equal(first.ids.T, [[7, 6, 5], [9, 1, 1]])
    np.testing.assert_array_equal(second.ids.T, [[2, 1], [4, 3]])
    assert first.lengths.tolist() == [3, 1] and second.lengths.tolist() == [1, 2]
    with pytest.raises(ValueError, match="expected no empty sentence, got one at place 1"):
        make_sources([SourceIds(([5], [2])), SourceIds(([9], []))], False)
