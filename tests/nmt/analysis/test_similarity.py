"""Word similarity against values worked out by hand, and a translator's own vectors."""

import math

import numpy as np
import pytest

from backend.errors import UserError
from nmt.analysis.similarity import (
    RatedPair,
    cosine,
    pearson,
    read_pairs,
    similarity,
    spearman,
)
from nmt.system import System

PAIRS = "one\ttwo\t7.5\t8\t7\none nine 1\nloveless spiritless 5e0\n"


def write(path, text):
    path.write_text(text, "utf-8")
    return path


# --- measures -------------------------------------------------------------------------------------


def test_spearman_by_hand() -> None:
    # without ties 1 - 6 sum d^2 / (n (n^2 - 1)), d the differences of ranks
    assert spearman([1, 20, 3], [10, 11, 40]) == pytest.approx(1 - 6 * (0 + 1 + 1) / (3 * 8))
    assert spearman([1, 2, 3], [8, 9, 100]) == pytest.approx(1)  # only ranks count
    assert spearman([1, 2, 3], [3, 2, -7]) == pytest.approx(-1)
    # ranks 1, 2.5, 2.5, 4 against 1, 2, 3, 4: covariance 4.5, variances 4.5 and 5
    assert spearman([0, 5, 5, 9], [1, 2, 3, 4]) == pytest.approx(4.5 / math.sqrt(4.5 * 5))


def test_spearman_of_nothing_to_compare() -> None:
    assert math.isnan(spearman([1], [2])) and math.isnan(spearman([], []))
    assert math.isnan(spearman([3, 3], [1, 2])) and math.isnan(spearman([1, 2], [3, 3]))


def test_cosine_and_pearson_by_hand() -> None:
    x, y = np.array([[1.0, 2.0, 3.0], [0.0, 0.0, 0.0]]), np.array([[2.0, 2.0, 5.0], [1.0, 0, 0]])
    np.testing.assert_allclose(cosine(x, y), [21 / math.sqrt(14 * 33), 0])
    # without their means: (-1, 0, 1) and (-1, -1, 2)
    np.testing.assert_allclose(pearson(x, y), [3 / math.sqrt(2 * 6), 0])
    rows = np.random.default_rng(1).normal(size=(2, 4, 9))
    expected = [np.corrcoef(a, b)[0, 1] for a, b in zip(*rows, strict=True)]
    np.testing.assert_allclose(pearson(*rows), expected)


# --- data -----------------------------------------------------------------------------------------


def test_read_pairs(tmp_path) -> None:
    assert read_pairs(write(tmp_path / "pairs", PAIRS)) == [
        RatedPair("one", "two", 7.5), RatedPair("one", "nine", 1), RatedPair("loveless",
                                                                            "spiritless", 5)]


@pytest.mark.parametrize("line", ["one two", "one two three", "one two nan", ""])
def test_a_bad_pair_is_named_with_its_line(tmp_path, line) -> None:
    with pytest.raises(UserError, match=r"pairs:4: expected two words and their rating"):
        read_pairs(write(tmp_path / "pairs", f"{PAIRS}{line}\n"))
    with pytest.raises(UserError, match="at least one pair"):
        read_pairs(write(tmp_path / "none", ""))


# --- a translator ---------------------------------------------------------------------------------


@pytest.fixture
def system(trained) -> System:
    """The toy translator with vectors of our own: three words on a half circle."""
    translator = System.open(trained / "model")
    table = translator.parameters["encoder.W_e"]
    table[...] = 0
    for word, angle in (("one", 0.0), ("two", 0.5), ("six", 2.0)):
        (row,) = translator.source.ids([word])
        table[row, :2] = np.cos(angle), np.sin(angle)
    table[0, :2] = np.cos(3.0), np.sin(3.0)
    return translator


def test_vectors_are_rows_of_the_encoders_table(system) -> None:
    values, known = system.word_vectors(["six", "spiritless", "one"])
    assert values.dtype == np.float64 and known.tolist() == [True, False, True]
    np.testing.assert_allclose(values[:, 0], np.cos([2.0, 3.0, 0.0]), rtol=1e-6)


def test_similarity_of_a_translator(system) -> None:
    """Angles between the words 0.5, 2, 1.5 and, with <unk> at 3, 3 and 1."""
    pairs = [RatedPair("one", "two", 9), RatedPair("one", "six", 1), RatedPair("two", "six", 2),
             RatedPair("spiritless", "one", 0.5), RatedPair("six", "loveless", 0.1),
             RatedPair("loveless", "spiritless", 4)]
    report = similarity(system, pairs)
    assert (report.pairs, report.known, report.half_known, report.without_vector) == (6, 3, 2, 3)
    (by_cosine, _) = report.agreements
    # the ranks of ratings: 6 3 4 2 1 5; of cosines 5 2 3 1 4 6 (the same vector is most alike)
    ranks = [(6, 5), (3, 2), (4, 3), (2, 1), (1, 4), (5, 6)]
    expected = 1 - 6 * sum((a - b) ** 2 for a, b in ranks) / (6 * 35)
    assert by_cosine.measure == "cosine" and by_cosine.all == pytest.approx(expected)
    assert by_cosine.known == pytest.approx(1)
    shown = similarity(system, pairs[3:4]).to_json()
    assert shown["agreements"]["pearson"] == {"all": None, "known": None}
