"""Factors of words: their values, packed numbers, and texts that do not fit."""

import numpy as np
import pytest

from backend.errors import UserError
from nmt.data.batches import make_sources
from nmt.data.factors import CASES, PLACES, Factors, case_of, packed, places_of, unpacked
from nmt.data.vocabulary import Vocabulary


@pytest.mark.parametrize("word, case", [
    ("haus", "lower"), ("Haus", "title"), ("HAUS", "upper"), ("iPhone", "mixed"), ("I", "title"),
    ("12", "none"), ("</s>", "lower"), ("ß", "lower"), ("Ü-Wagen", "mixed"), ("日本", "none")])
def test_case(word, case) -> None:
    assert case_of(word) == case


def test_places() -> None:
    assert [PLACES[place] for place in places_of([0, 1, 1, 1, 2, 2])] == [
        "whole", "begin", "inside", "end", "begin", "end"]


def test_rows_and_numbers() -> None:
    """Two words, the first in two pieces; numbers and back, padded below with </s>."""
    factors = Factors(("case", "pos", "place"), {"factor_pos": Vocabulary(["NN", "VB"])})
    words, pieces = ["Hauses|NN", "geht|XY"], ["hau@@", "ses", "geht"]
    assert [factors.form(word) for word in words] == ["hauses", "geht"]
    rows = factors.rows(words, pieces)
    assert rows == [[2, 2, 1], [2, 2, 0], [2, 4, 1]]  # XY is <unk>
    assert CASES[2] == "title"
    sizes = (5, 4, 5)
    (side,) = make_sources([packed([7, 8, 9], rows, sizes), packed([3], [[1], [0], [1]], sizes)],
                           False)
    read = unpacked(side, sizes)
    assert read.ids.tolist() == [[7, 3], [8, 1], [9, 1]]
    assert read.factors is not None and read.factors.tolist() == [
        [[2, 1], [2, 0], [1, 0]], [[2, 0], [2, 0], [0, 0]], [[2, 1], [4, 0], [1, 0]]]
    assert read.factors.dtype == np.int64


@pytest.mark.parametrize("word", ["Haus", "Haus|", "|NN"])
def test_words_without_their_tags_are_named(word) -> None:
    with pytest.raises(UserError, match=r"expected words with 1 tag behind \| each \(pos\), got "):
        Factors(("pos",), {}).parts(word)
