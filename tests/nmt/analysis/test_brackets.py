"""Bracketing F1, by hand on small trees; EVALB's own numbers on them are the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.analysis.brackets import Brackets, brackets, compare, f1_by_length, total
from nmt.data.trees import Span, repair

WORDS = "the dog barks out , loud .".split()
GOLD = "(S (NP XX XX )NP (VP XX (PRT XX )PRT XX (ADJP XX )ADJP )VP XX )S".split()
SYMBOLS = st.lists(st.sampled_from(["XX", "(S", "(NP", "(PRT", ")S", ")NP", ")VP", "dog"]),
                   max_size=40)


def compared(written, words=WORDS, gold=GOLD):
    return compare(written.split(), gold, words)


def test_brackets_are_without_punctuation_functions_and_root() -> None:
    symbols = "(TOP (S-IMP (NP-SBJ XX )NP-SBJ (PRN XX )PRN (PRT XX (NP XX )NP )PRT )S-IMP )TOP"
    assert brackets(symbols.split(), ["a", "&quot;", "b", "("]) == {
        Span("S", 0, 3): 1, Span("NP", 0, 1): 1, Span("ADVP", 1, 3): 1, Span("NP", 2, 3): 1}


@pytest.mark.parametrize(("written", "counts"), [
    # Brackets of GOLD: S 0-5, NP 0-2, VP 2-5, PRT 3-4 and ADJP 4-5, the comma not counted.
    (" ".join(GOLD), (1, 0, 1, 5, 5, 5)),
    # ADVP is PRT; where the comma hangs does not matter; NP over the wrong words is one too few,
    # one too many.
    ("(S (NP XX )NP XX (VP XX (ADVP XX XX )ADVP (ADJP XX )ADJP XX )VP )S", (1, 0, 0, 4, 5, 5)),
    # A repeated bracket matches once if the reference has it once.
    ("(S (S (NP XX XX )NP XX XX XX XX XX )S )S", (1, 0, 0, 2, 3, 5)),
    ("XX XX XX XX XX XX XX", (1, 0, 0, 0, 0, 5)),
    # A truncated tree: open constituents are closed.
    ("(S (NP XX XX )NP (VP XX (PRT XX )PRT XX (ADJP XX )ADJP )VP XX", (1, 0, 1, 5, 5, 5)),
    ("(S (NP XX XX )NP (VP XX", (1, 1, 0, 0, 0, 5)),  # another number of words: all missed
    ("", (1, 1, 0, 0, 0, 5)),
])
def test_by_hand(written, counts) -> None:
    assert compared(written) == counts


def test_sums_and_percentages() -> None:
    summed = total([Brackets(1, 0, 0, 2, 3, 5), Brackets(1, 0, 1, 1, 1, 1), Brackets(1, 1, gold=4)])
    assert summed == (3, 1, 1, 3, 4, 10)
    assert summed.precision == 75.0 and summed.recall == 30.0
    assert summed.f1 == pytest.approx(2 * 75 * 30 / (75 + 30))
    assert (total([]).precision, total([]).recall, total([]).f1) == (0.0, 0.0, 0.0)


def test_by_length() -> None:
    parts = [Brackets(1, 0, 0, 1, 2, 2), Brackets(1, 1, 0, 0, 0, 4), Brackets(1, 0, 0, 3, 3, 3)]
    rows = f1_by_length(parts, [1, 2, 30], edges=(2, 10))
    assert [(row.label, row.sentences, row.words, row.score) for row in rows] == [
        ("1-2", 2, 3, 25.0), ("3-10", 0, 0, None), ("11+", 1, 30, 100.0)]


@given(SYMBOLS, SYMBOLS)
def test_any_output_has_a_valid_score(written, gold) -> None:
    """A tree scores 100 against itself, no score exceeds 100, and each gold bracket is matched or
    missed."""
    gold, words = repair(gold), ["w"] * gold.count("XX")
    itself, other = compare(gold, gold, words), compare(written, gold, words)
    assert itself.matched == itself.found == itself.gold == other.gold and itself.exact
    assert itself.f1 in (0.0, 100.0) and (itself.f1 == 100.0) == bool(itself.gold)
    assert 0 <= other.matched <= min(other.found, other.gold)
    assert other.unfit == int(written.count("XX") != len(words))


@given(SYMBOLS)
def test_other_labels_match_nothing(gold) -> None:
    gold, words = repair(gold), ["w"] * gold.count("XX")
    other = compare([symbol if symbol == "XX" else f"{symbol}X" for symbol in gold], gold, words)
    assert other.matched == 0 and other.found == other.gold


@pytest.mark.parametrize("gold", ["(S XX", "XX XX", "(S XX )S )NP"])
def test_a_reference_that_is_no_tree_is_refused(gold) -> None:
    with pytest.raises(ValueError, match="expected the symbols of a tree over 1 word, got"):
        compare(["XX"], gold.split(), ["w"])
