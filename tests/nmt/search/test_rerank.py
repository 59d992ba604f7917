"""Tuning a log-linear combination: the envelope, the line search, BLEU from its statistics."""

import numpy as np
import pytest

from nmt.evaluation.scores import bleu, bleu_statistics
from nmt.search.rerank import Lists, bleu_of, choose, envelope, line_search, tune

WORDS = "a b c d e f g".split()


@pytest.fixture
def drawn():
    """Lists of 12 sentences with 1 to 6 translations, three features, and their statistics."""
    rng = np.random.default_rng(3)
    counts = rng.integers(1, 7, 12)
    references = [" ".join(rng.choice(WORDS, 8)) for _ in counts]
    texts, lines = [], []
    for reference, count in zip(references, counts, strict=True):
        for _ in range(count):
            words = reference.split()
            for place in rng.integers(0, 8, rng.integers(0, 6)):
                words[place] = str(rng.choice(WORDS))
            texts.append(" ".join(words[: rng.integers(5, 9)]))
            lines.append(reference)
    lists = Lists(rng.standard_normal((len(texts), 3)), np.cumsum([0, *counts]))
    return lists, np.array(bleu_statistics(texts, lines, "none")), texts, references


def test_bleu_from_its_statistics(drawn) -> None:
    lists, statistics, texts, references = drawn
    first = lists.starts[:-1]
    assert bleu_of(statistics[first].sum(axis=0)) == pytest.approx(
        bleu([texts[place] for place in first], references, "none").score)
    assert bleu_of(np.array([0, 8] + 8 * [0])) == 0.0
    assert bleu_of(np.array([8, 8, 8, 7, 6, 0, 8, 7, 6, 5])) == 0.0


def test_the_envelope_is_the_highest_line_everywhere() -> None:
    rng = np.random.default_rng(1)
    for _ in range(50):
        heights, slopes = rng.integers(-4, 5, (2, rng.integers(1, 9))).astype(float)
        lines = envelope(heights, slopes)
        assert lines[0][0] == -np.inf and [at for at, _ in lines] == sorted(at for at, _ in lines)
        for x in np.linspace(-9.03, 9.04, 90):
            line = next(line for at, line in reversed(lines) if at <= x)
            assert heights[line] + slopes[line] * x == pytest.approx((heights + slopes * x).max())


def test_no_value_of_a_weight_is_better_than_the_one_found(drawn) -> None:
    lists, statistics, *_ = drawn
    weights = np.array([1.0, -0.5, 0.3])
    for place in range(3):
        def score(value, place=place):
            moved = weights.copy()
            moved[place] = value
            return bleu_of(statistics[choose(lists, moved)].sum(axis=0))

        best = score(line_search(lists, statistics, weights, place))
        assert best == pytest.approx(max(map(score, np.linspace(-30, 30, 6001))))


def test_tuning_finds_the_feature_that_tells(drawn) -> None:
    """With a feature that measures quality, tuning chooses each list's best translation, the same
    every time."""
    lists, statistics, *_ = drawn
    good = statistics[:, 2:6].sum(axis=1) - statistics[:, 6:].sum(axis=1) / 2
    lists.features[:, 1] = good
    starts = [np.array([1.0, 0.0, 0.0]), np.ones(3)]
    tuned = tune(lists, statistics, starts)
    alone = bleu_of(statistics[choose(lists, np.array([0.0, 1.0, 0.0]))].sum(axis=0))
    assert tuned.bleu >= alone > bleu_of(statistics[choose(lists, starts[0])].sum(axis=0))
    assert np.abs(tuned.weights).sum() == pytest.approx(1.0)
    again = tune(lists, statistics, starts)
    assert (again.weights == tuned.weights).all()
    assert tuned.bleu == bleu_of(statistics[choose(lists, tuned.weights)].sum(axis=0))


def test_of_equal_translations_the_first_is_chosen() -> None:
    lists = Lists(np.ones((5, 2)), np.array([0, 2, 5]))
    assert choose(lists, np.array([1.0, 2.0])).tolist() == [0, 2]
