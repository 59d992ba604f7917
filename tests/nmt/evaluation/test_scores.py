"""Scores against values worked out by hand."""

import math

import pytest

from backend.errors import UserError
from nmt.evaluation.scores import bleu, chrf, perplexity


def test_bleu_of_one_sentence_by_hand() -> None:
    # n-gram precisions of "a b c d e" against "a b c d f": 4/5, 3/4, 2/3, 1/2; no brevity penalty
    expected = 100 * (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** 0.25
    result = bleu(["a b c d e"], ["a b c d f"], tokenize="none")
    assert result.score == pytest.approx(expected)
    assert "tok:none" in result.signature and "version:" in result.signature


def test_bleu_pays_for_brevity() -> None:
    expected = 100 * math.exp(1 - 8 / 4)
    assert bleu(["a b c d"], ["a b c d e f g h"]).score == pytest.approx(expected)


def test_tokenisation_matters_and_is_signed() -> None:
    hypotheses, references = ["one two three four, five"], ["one two three four , five"]
    assert bleu(hypotheses, references).score == pytest.approx(100)
    assert bleu(hypotheses, references, tokenize="none").score < 80
    assert "tok:13a" in bleu(hypotheses, references).signature


def test_chrf_by_hand() -> None:
    # unigrams 2 of 3 both ways, bigrams 1 of 2 both ways, trigrams none: the mean of the F-scores
    result = chrf(["abc"], ["abd"])
    assert result.score == pytest.approx(100 * (2 / 3 + 1 / 2 + 0) / 3)
    assert "nc:6" in result.signature


def test_chrf3_by_hand() -> None:
    # of "ab" against "abcd" unigrams: precision 1, recall 1/2; bigrams: 1, 1/3; no trigrams
    def f_score(precision: float, recall: float) -> float:
        return 10 * precision * recall / (9 * precision + recall)

    result = chrf(["ab"], ["abcd"], beta=3)
    assert result.score == pytest.approx(100 * f_score(1, (1 / 2 + 1 / 3) / 2))
    assert result.score < chrf(["ab"], ["abcd"]).score  # recall counts more
    assert chrf(["a b"], ["ab cd"], beta=3).score == result.score  # spaces do not count


@pytest.mark.parametrize("metric", [bleu, chrf])
def test_lines_must_match(metric) -> None:
    with pytest.raises(UserError, match="2 hypotheses and 1 references"):
        metric(["a", "b"], ["a"])
    with pytest.raises(UserError, match="at least one"):
        metric([], [])


def test_perplexity_is_the_exponential_of_the_mean() -> None:
    assert perplexity(3 * math.log(7), 3) == pytest.approx(7)
    assert perplexity(1e6, 1) == math.inf
    with pytest.raises(ValueError, match="tokens"):
        perplexity(1.0, 0)
