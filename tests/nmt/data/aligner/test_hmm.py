"""The HMM's forward-backward algorithm against all alignments, one by one."""

from itertools import product

import numpy as np
import pytest

from nmt.data.aligner import hmm
from nmt.data.aligner.word_pairs import word_pairs

SOURCES = [["a", "b", "c"], ["c"], ["b", "a", "b"], ["a", "d"], ["d", "c", "b"], []]
TARGETS = [["x", "y", "z"], ["x", "x"], ["w"], ["y", "w", "x", "z"], ["z", "z", "y"], ["x"]]


@pytest.fixture
def corpus():
    return word_pairs(SOURCES, TARGETS)


@pytest.fixture
def table(corpus):
    return np.random.default_rng(3).uniform(0.05, 1.0, len(corpus.source_of_type))


@pytest.fixture
def jumps():
    return hmm.Jumps(np.random.default_rng(4).uniform(0.5, 3.0, 7), null=0.3, uniform=0.1)


def literal(t, jumps, longest):
    """t (J, I + 1): posteriors (J, I + 1) and expected jumps, by going through all alignments."""
    words, width = t.shape
    posteriors, counts, total = np.zeros_like(t), np.zeros(2 * longest + 1), 0.0
    for alignment in product(range(width), repeat=words):
        probability, position, made = 1.0, 0, []
        for j, i in enumerate(alignment):
            if i == 0:
                probability *= jumps.null * t[j, 0]
                continue
            reachable = sum(jumps.weights[longest + other - position] for other in range(1, width))
            jump = jumps.weights[longest + i - position] / reachable
            mixed = (1 - jumps.uniform) * jump + jumps.uniform / (width - 1)
            probability *= (1 - jumps.null) * mixed * t[j, i]
            made.append(i - position)
            position = i
        total += probability
        for j, i in enumerate(alignment):
            posteriors[j, i] += probability
        for d in made:
            counts[longest + d] += probability
    return posteriors / total, counts / total


def test_posteriors_and_jumps_are_those_of_all_alignments(corpus, table, jumps) -> None:
    flat, new = hmm.expectation(corpus, table, jumps)
    emissions = table[corpus.types]
    expected = np.zeros(7)
    for group in corpus.groups:
        actual, t = group.of(flat), group.of(emissions)
        for n in range(len(group.pairs)):
            rows = [step.start + n for step in group.steps() if step.start + n < step.stop]
            posteriors, counts = literal(t[rows], jumps, longest=3)
            np.testing.assert_allclose(actual[rows], posteriors, rtol=1e-10)
            expected += counts
    np.testing.assert_allclose(new.weights, expected + hmm.UNSEEN, rtol=1e-9)
    assert (new.null, new.uniform) == (jumps.null, jumps.uniform)


def test_rows_of_the_jump_matrix_leave_room_for_null(jumps) -> None:
    for length in (1, 2, 3):
        matrix = jumps.matrix(length)
        assert matrix.shape == (length + 1, length)
        np.testing.assert_allclose(matrix.sum(1), 0.7)
    # From position 1 of 3: weights of jumps 0, 1, 2.
    weights = jumps.weights[3:6]
    np.testing.assert_allclose(jumps.matrix(3)[1], 0.7 * (0.9 * weights / weights.sum() + 0.1 / 3))


def test_jumps_that_never_occur_give_no_division_by_zero() -> None:
    """With one word on each side, no jump of 0 occurs, but the matrix has its row."""
    corpus = word_pairs([["a"], ["b"]], [["x"], ["y"]])
    table = np.ones(len(corpus.source_of_type))
    _, jumps = hmm.expectation(corpus, table, hmm.even_jumps(corpus, 0.2, 0.2))
    np.testing.assert_allclose(jumps.matrix(1), [[0.8], [0.8]])


def test_long_sentences_do_not_underflow() -> None:
    words = [str(n) for n in range(300)]
    corpus = word_pairs([words], [words])
    table = np.full(len(corpus.source_of_type), 1e-6)
    flat, _ = hmm.expectation(corpus, table, hmm.even_jumps(corpus, 0.2, 0.2))
    np.testing.assert_allclose(corpus.groups[0].of(flat).sum(1), 1.0)


def test_without_pairs() -> None:
    corpus = word_pairs([], [])
    flat, _ = hmm.expectation(corpus, np.empty(0), hmm.even_jumps(corpus, 0.2, 0.2))
    assert flat.size == 0
