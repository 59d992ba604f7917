"""IBM Model 1 against sums done by hand and term by term."""

from collections import defaultdict
from fractions import Fraction

import numpy as np
import pytest

from nmt.data.aligner import model1
from nmt.data.aligner.word_pairs import word_pairs

SOURCES, TARGETS = [["a"], ["a", "b"]], [["x"], ["x", "y"]]


def posteriors_of(corpus, flat):
    """Rows of each pair by target position, as lists: [pair][j][NULL, i = 1 ..]."""
    by_pair = defaultdict(list)
    for group in corpus.groups:
        rows = group.of(flat)
        for step in group.steps():
            for pair, row in zip(group.pairs, rows[step], strict=False):
                by_pair[int(pair)].append(row.tolist())
    return [by_pair[n] for n in range(corpus.number)]


def test_two_rounds_by_hand() -> None:
    """x beside a alone; x y beside a b. At first all of t are 1/2."""
    corpus = word_pairs(SOURCES, TARGETS)
    table = model1.uniform(corpus)
    first = model1.expectation(corpus, table)
    assert posteriors_of(corpus, first) == [[[1 / 2, 1 / 2]], [pytest.approx([1 / 3] * 3)] * 2]
    # c(x | NULL) = c(x | a) = 1/2 + 1/3, c(y | NULL) = c(y | a) = 1/3, c(x | b) = c(y | b) = 1/3,
    # so that t(x | NULL) = t(x | a) = 5/7, t(x | b) = 1/2.
    second = model1.expectation(corpus, model1.maximisation(corpus, first))
    ((of_x,), (x, y)) = posteriors_of(corpus, second)
    assert of_x == pytest.approx([1 / 2, 1 / 2])
    assert x == pytest.approx([10 / 27, 10 / 27, 7 / 27])
    assert y == pytest.approx([4 / 15, 4 / 15, 7 / 15])


def literal_em(sources, targets, rounds):
    """Model 1 word by word in fractions (Brown et al. 1993); the posteriors of the last E-step."""
    pairs = [([None, *x], y) for x, y in zip(sources, targets, strict=True) if x and y]
    beside = defaultdict(set)
    for x, y in pairs:
        for e in x:
            beside[e] |= set(y)
    t = {(f, e): Fraction(1, len(beside[e])) for e in beside for f in beside[e]}
    for _ in range(rounds):
        counts, totals = defaultdict(Fraction), defaultdict(Fraction)
        for x, y in pairs:
            for f in y:
                for e in x:
                    share = t[f, e] / sum(t[f, other] for other in x)
                    counts[f, e] += share
                    totals[e] += share
        t = {(f, e): count / totals[e] for (f, e), count in counts.items()}
    return [[[float(t[f, e] / sum(t[f, other] for other in x)) for e in x] for f in y]
            for x, y in pairs]


def test_against_fractions() -> None:
    """Ragged pairs, a word twice in a sentence, sources of equal length with unequal targets."""
    sources = [["a", "b", "a"], ["b"], ["c", "a"], ["b", "c"], ["c", "c"]]
    targets = [["x", "y"], ["y", "x", "y"], ["z"], ["y", "z", "x", "x"], ["z", "z"]]
    corpus = word_pairs(sources, targets)
    table = model1.uniform(corpus)
    for _ in range(3):
        posteriors = model1.expectation(corpus, table)
        table = model1.maximisation(corpus, posteriors)
    actual = posteriors_of(corpus, model1.expectation(corpus, table))
    for rows, expected in zip(actual, literal_em(sources, targets, 3), strict=True):
        np.testing.assert_allclose(rows, expected, rtol=1e-12)


def test_each_m_step_is_a_distribution_and_likelihood_rises() -> None:
    sources = [["a", "b"], ["b", "c"], ["a", "c", "d"]]
    targets = [["x", "y"], ["y", "z"], ["x", "z", "w", "w"]]
    corpus = word_pairs(sources, targets)
    table, before = model1.uniform(corpus), -np.inf
    for _ in range(6):
        np.testing.assert_allclose(corpus.per_source(table), 1.0)
        likelihood = sum(np.log(group.of(table[corpus.types]).sum(1)).sum()
                         for group in corpus.groups)
        assert likelihood > before + 1e-9
        before = likelihood
        table = model1.maximisation(corpus, model1.expectation(corpus, table))


def test_links_go_to_the_best_source_word_and_none_to_null() -> None:
    corpus = word_pairs([["a", "b"], [], ["c"]], [["x", "y", "z"], ["x"], ["z"]])
    flat = np.zeros(len(corpus.types))
    ones, twos = corpus.groups
    ones.of(flat)[:] = [[0.5, 0.5]]
    twos.of(flat)[:] = [[0.1, 0.2, 0.7], [0.6, 0.4, 0.0], [0.2, 0.4, 0.4]]
    assert model1.best_links(corpus, flat) == [[(1, 0), (0, 2)], [], []]
