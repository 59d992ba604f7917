"""Search by length, against all translations."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from literal import draw_parameters

from nmt.data.batches import make_batch, make_sources
from nmt.data.vocabulary import END, UNKNOWN
from nmt.models.contract import Tables
from nmt.models.transformer import TransformerConfig, build
from nmt.search.beam import beam_search, greedy
from nmt.search.combine import Ensemble
from nmt.search.every_beam import every_beam_search
from nmt.search.force import force_decode
from nmt.search.interface import Hypothesis, SearchOptions
from nmt.search.lengths import (
    Lengths,
    best_lengths,
    best_products,
    chosen_lengths,
    drawn,
    most_probable,
)
from nmt.search.sample import best_of_draws, sample

SOURCES = [[2, 3, 4], [4], [3, 2]]
V, LENGTHS = 5, 4  # <unk>, </s> and three words; 0 to 3 of them
ALL = [list(words) for m in range(LENGTHS)
       for words in product([i for i in range(V) if i != END], repeat=m)]


def make(seed=1, **options):
    config = TransformerConfig(1, 2, 6, 7, 2, positions=LENGTHS, target_positions="countdown",
                               **options)
    model = build(config, Tables((V,), V))
    parameters = draw_parameters(np.random.default_rng(seed), model.weights())
    return model, {name: 2 * value for name, value in parameters.items()}


def every_one(model, parameters, source):
    """All translations with their log p, best first."""
    pairs = [(source, words) for words in ALL]
    forced = force_decode(model, parameters, make_batch(pairs, range(len(pairs)), False))
    return sorted(((hypothesis.log_probability, hypothesis.tokens) for hypothesis in forced),
                  reverse=True)


WIDE = SearchOptions(beam=200, nbest=10, lengths=LENGTHS)


@pytest.mark.parametrize("ensemble", ["", "probabilities", "logs"])
def test_a_wide_beam_over_all_lengths_finds_the_best_products(ensemble) -> None:
    """Eq. 4.1: the empty translation is included, </s> is not; also for two models together."""
    model, parameters = make()
    if ensemble:
        other, others = make(seed=2)
        model, parameters = Ensemble([model, other], ensemble), Ensemble.joined(
            [parameters, others])
    results = beam_search(model, parameters, make_sources(SOURCES, False), WIDE)
    for source, nbest in zip(SOURCES, results, strict=True):
        expected = every_one(model, parameters, source)[: len(nbest)]
        assert [hypothesis.tokens for hypothesis in nbest] == [words for _, words in expected]
        np.testing.assert_allclose([hypothesis.log_probability for hypothesis in nbest],
                                   [log_p for log_p, _ in expected], rtol=1e-10)
        assert len(nbest) == 10 and all(hypothesis.finished for hypothesis in nbest)
        assert not any(END in hypothesis.tokens for hypothesis in nbest)
        for hypothesis in nbest:
            assert hypothesis.score == hypothesis.log_probability
            assert (hypothesis.alignment is None) == (not hypothesis.tokens)
            if hypothesis.tokens:
                assert hypothesis.alignment.shape == (len(hypothesis.tokens), len(source))


def test_with_length_normalisation_the_length_counts_as_a_factor() -> None:
    model, parameters = make()
    options = SearchOptions(beam=200, nbest=10, lengths=LENGTHS, length_normalisation=0.7)
    for source, nbest in zip(SOURCES, beam_search(
            model, parameters, make_sources(SOURCES, False), options), strict=True):
        expected = sorted(((log_p / ((6 + len(words)) / 6) ** 0.7, words)
                           for log_p, words in every_one(model, parameters, source)), reverse=True)
        assert [hypothesis.tokens for hypothesis in nbest] == [words for _, words in expected[:10]]
        np.testing.assert_allclose([hypothesis.score for hypothesis in nbest],
                                   [score for score, _ in expected[:10]], rtol=1e-10)


@pytest.mark.parametrize("beam", [1, 3])
def test_each_length_is_searched_by_itself(beam) -> None:
    """A search of k lengths equals k searches of one length each, of the most probable lengths."""
    model, parameters = make()
    sources = make_sources(SOURCES, False)
    logits = model.lengths(model.encode(parameters, sources, 3))
    order = np.argsort(-logits, axis=1)
    together = beam_search(model, parameters, sources,
                           SearchOptions(beam=beam, nbest=beam, lengths=2))
    [single] = zip(*beam_search(model, parameters, sources, SearchOptions(beam=beam)), strict=True)
    for b, (nbest, first) in enumerate(zip(together, single, strict=True)):
        assert {len(hypothesis.tokens) for hypothesis in nbest} <= {*order[b, :2].tolist()}
        assert len(first.tokens) == order[b, 0]
        assert nbest[0].log_probability >= first.log_probability
    if beam == 1:
        again = greedy(model, parameters, sources, SearchOptions(lengths=2))
        assert [hypothesis.tokens for hypothesis in again] == [
            nbest[0].tokens for nbest in together]


def test_without_unknown_words_and_within_limits() -> None:
    """`<unk>` keeps its probability; a limit on steps limits the words, and one step is for the
    length."""
    model, parameters = make()
    options = SearchOptions(beam=200, nbest=5, lengths=LENGTHS, unknown=False)
    results = beam_search(model, parameters, make_sources(SOURCES, False), options,
                        np.array([3, 1, 2]))
    for source, nbest, most in zip(SOURCES, results, (2, 0, 1), strict=True):
        expected = [(log_p, words) for log_p, words in every_one(model, parameters, source)
                    if UNKNOWN not in words and len(words) <= most][:5]
        assert [hypothesis.tokens for hypothesis in nbest] == [words for _, words in expected]
        np.testing.assert_allclose([hypothesis.log_probability for hypothesis in nbest],
                                   [log_p for log_p, _ in expected], rtol=1e-10)


def test_draws_are_of_the_models_distribution() -> None:
    """Lengths are drawn first. Each translation is drawn in proportion to its probability; also the
    best of many draws."""
    model, parameters = make()
    many = make_sources([SOURCES[0]] * 3000, False)
    draws = sample(model, parameters, many, SearchOptions(), 1.0, np.random.default_rng(1))
    p = {tuple(words): np.exp(log_p) for log_p, words in every_one(model, parameters, SOURCES[0])}
    counts = dict.fromkeys(p, 0)
    for hypothesis in draws:
        counts[tuple(hypothesis.tokens)] = counts.get(tuple(hypothesis.tokens), 0) + 1
    inside = sum(p.values())  # less than 1: </s> is forbidden and keeps its share
    for words, share in sorted(p.items(), key=lambda hypothesis: -hypothesis[1])[:5]:
        assert counts[words] / 3000 == pytest.approx(share, abs=0.04 + (1 - inside))
    for hypothesis in draws[:50]:
        expected = p[tuple(hypothesis.tokens)]
        assert np.exp(hypothesis.log_probability) == pytest.approx(expected, rel=1e-9)
    [best] = best_of_draws(model, parameters, make_sources([SOURCES[0]], False), SearchOptions(),
                           1.0, np.random.default_rng(2), 60)
    assert tuple(best.tokens) in sorted(p, key=lambda words: -p[words])[:3]
    [cold] = sample(model, parameters, make_sources([SOURCES[0]], False), SearchOptions(), 1e-9,
                    np.random.default_rng(3))
    [first] = greedy(model, parameters, make_sources([SOURCES[0]], False), SearchOptions())
    assert cold.tokens == first.tokens


def test_every_beam() -> None:
    model, parameters = make()
    sources = make_sources(SOURCES, False)
    options = SearchOptions(beam=3, lengths=3)
    single = [beam_search(model, parameters, sources, SearchOptions(beam=k, lengths=3))
              for k in (1, 2, 3)]
    for b, [best] in enumerate(every_beam_search(model, parameters, sources, options)):
        assert best.score == max(nbests[b][0].score for nbests in single)


def test_lengths_are_chosen_in_order() -> None:
    log_p = np.log([[0.2, 0.5, 0.2, 0.1], [0.1, 0.2, 0.3, 0.4]])
    lengths_of_both = chosen_lengths(log_p, np.array([4, 3]), most_probable(3))
    assert lengths_of_both.sentences.tolist() == [0, 0, 0, 1, 1, 1]
    # Of equal ones the shorter; 3 is too long.
    assert lengths_of_both.words.tolist() == [1, 0, 2, 2, 1, 0]
    assert chosen_lengths(log_p, np.array([1, 1]), most_probable(3)).words.tolist() == [0, 0]
    rng = np.random.default_rng(0)
    chosen = [chosen_lengths(log_p[1:], np.array([4]), drawn(1.0, rng)).words[0]
              for _ in range(2000)]
    np.testing.assert_allclose(np.bincount(chosen) / 2000, np.exp(log_p[1]), atol=0.04)
    hypothesis = Hypothesis([2, 2], -2.0, -2.0, None, False)  # of its length and its words
    for empty, tokens in ((-2.5, [2, 2]), (-1.5, [])):
        lengths = Lengths(np.array([0, 0]), np.array([0, 2]), np.array([empty, -1.0]))
        [[best]] = best_products(lengths, [[hypothesis]], 1, SearchOptions())
        assert best.tokens == tokens and best.score == max(empty, -2.0) and best.finished
        assert best_lengths(lengths, [[best]]).words.tolist() == [len(tokens)]


