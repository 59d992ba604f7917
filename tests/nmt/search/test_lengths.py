"""Search by length, against every translation there is."""

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
    return sorted(((one.log_probability, one.tokens) for one in forced), reverse=True)


WIDE = SearchOptions(beam=200, nbest=10, lengths=LENGTHS)


@pytest.mark.parametrize("ensemble", ["", "probabilities", "logs"])
def test_a_wide_beam_over_all_lengths_finds_the_best_products(ensemble) -> None:
    """Eq. 4.1: the empty translation among them, </s> not; also of two models together."""
    model, parameters = make()
    if ensemble:
        other, others = make(seed=2)
        model, parameters = Ensemble([model, other], ensemble), Ensemble.joined(
            [parameters, others])
    found = beam_search(model, parameters, make_sources(SOURCES, False), WIDE)
    for source, nbest in zip(SOURCES, found, strict=True):
        expected = every_one(model, parameters, source)[: len(nbest)]
        assert [one.tokens for one in nbest] == [words for _, words in expected]
        np.testing.assert_allclose([one.log_probability for one in nbest],
                                   [log_p for log_p, _ in expected], rtol=1e-10)
        assert len(nbest) == 10 and all(one.finished for one in nbest)
        assert not any(END in one.tokens for one in nbest)
        for one in nbest:
            assert one.score == one.log_probability
            assert (one.alignment is None) == (not one.tokens)
            if one.tokens:
                assert one.alignment.shape == (len(one.tokens), len(source))


def test_with_length_normalisation_the_length_counts_as_a_factor() -> None:
    model, parameters = make()
    options = SearchOptions(beam=200, nbest=10, lengths=LENGTHS, length_normalisation=0.7)
    for source, nbest in zip(SOURCES, beam_search(
            model, parameters, make_sources(SOURCES, False), options), strict=True):
        expected = sorted(((log_p / ((6 + len(words)) / 6) ** 0.7, words)
                           for log_p, words in every_one(model, parameters, source)), reverse=True)
        assert [one.tokens for one in nbest] == [words for _, words in expected[:10]]
        np.testing.assert_allclose([one.score for one in nbest],
                                   [score for score, _ in expected[:10]], rtol=1e-10)


@pytest.mark.parametrize("beam", [1, 3])
def test_each_length_is_searched_by_itself(beam) -> None:
    """k lengths together are the k searches of one length each; the lengths the most probable."""
    model, parameters = make()
    sources = make_sources(SOURCES, False)
    logits = model.lengths(model.encode(parameters, sources, 3))
    order = np.argsort(-logits, axis=1)
    together = beam_search(model, parameters, sources,
                           SearchOptions(beam=beam, nbest=beam, lengths=2))
    [single] = zip(*beam_search(model, parameters, sources, SearchOptions(beam=beam)), strict=True)
    for b, (nbest, first) in enumerate(zip(together, single, strict=True)):
        assert {len(one.tokens) for one in nbest} <= {*order[b, :2].tolist()}
        assert len(first.tokens) == order[b, 0]
        assert nbest[0].log_probability >= first.log_probability
    if beam == 1:
        again = greedy(model, parameters, sources, SearchOptions(lengths=2))
        assert [one.tokens for one in again] == [nbest[0].tokens for nbest in together]


def test_sentences_do_not_know_of_each_other() -> None:
    model, parameters = make()
    options = SearchOptions(beam=3, nbest=3, lengths=3)
    together = beam_search(model, parameters, make_sources(SOURCES, False), options)
    for source, nbest in zip(SOURCES, together, strict=True):
        [alone] = beam_search(model, parameters, make_sources([source], False), options)
        assert [one.tokens for one in alone] == [one.tokens for one in nbest]
        np.testing.assert_allclose([one.score for one in alone], [one.score for one in nbest])


def test_without_unknown_words_and_within_limits() -> None:
    """`<unk>` keeps its probability; a limit of steps is one of words and the length."""
    model, parameters = make()
    options = SearchOptions(beam=200, nbest=5, lengths=LENGTHS, unknown=False)
    found = beam_search(model, parameters, make_sources(SOURCES, False), options,
                        np.array([3, 1, 2]))
    for source, nbest, most in zip(SOURCES, found, (2, 0, 1), strict=True):
        expected = [(log_p, words) for log_p, words in every_one(model, parameters, source)
                    if UNKNOWN not in words and len(words) <= most][:5]
        assert [one.tokens for one in nbest] == [words for _, words in expected]
        np.testing.assert_allclose([one.log_probability for one in nbest],
                                   [log_p for log_p, _ in expected], rtol=1e-10)


def test_draws_are_of_the_models_distribution() -> None:
    """The lengths first: each translation as often as it is probable; the best of many draws."""
    model, parameters = make()
    many = make_sources([SOURCES[0]] * 3000, False)
    found = sample(model, parameters, many, SearchOptions(), 1.0, np.random.default_rng(1))
    p = {tuple(words): np.exp(log_p) for log_p, words in every_one(model, parameters, SOURCES[0])}
    counts = dict.fromkeys(p, 0)
    for one in found:
        counts[tuple(one.tokens)] = counts.get(tuple(one.tokens), 0) + 1
    inside = sum(p.values())  # less than 1: </s> is forbidden, and keeps its probability
    for words, share in sorted(p.items(), key=lambda one: -one[1])[:5]:
        assert counts[words] / 3000 == pytest.approx(share, abs=0.04 + (1 - inside))
    for one in found[:50]:
        assert np.exp(one.log_probability) == pytest.approx(p[tuple(one.tokens)], rel=1e-9)
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
    for b, [one] in enumerate(every_beam_search(model, parameters, sources, options)):
        assert one.score == max(found[b][0].score for found in single)


def test_lengths_are_chosen_in_order() -> None:
    log_p = np.log([[0.2, 0.5, 0.2, 0.1], [0.1, 0.2, 0.3, 0.4]])
    found = chosen_lengths(log_p, np.array([4, 3]), most_probable(3))
    assert found.sentences.tolist() == [0, 0, 0, 1, 1, 1]
    assert found.words.tolist() == [1, 0, 2, 2, 1, 0]  # of equal ones the shorter; 3 is too long
    assert chosen_lengths(log_p, np.array([1, 1]), most_probable(3)).words.tolist() == [0, 0]
    rng = np.random.default_rng(0)
    chosen = [chosen_lengths(log_p[1:], np.array([4]), drawn(1.0, rng)).words[0]
              for _ in range(2000)]
    np.testing.assert_allclose(np.bincount(chosen) / 2000, np.exp(log_p[1]), atol=0.04)
    one = Hypothesis([2, 2], -2.0, -2.0, None, False)  # of its length and its words
    for empty, tokens in ((-2.5, [2, 2]), (-1.5, [])):
        lengths = Lengths(np.array([0, 0]), np.array([0, 2]), np.array([empty, -1.0]))
        [[best]] = best_products(lengths, [[one]], 1, SearchOptions())
        assert best.tokens == tokens and best.score == max(empty, -2.0) and best.finished
        assert best_lengths(lengths, [[best]]).words.tolist() == [len(tokens)]


def test_members_that_count_otherwise_are_refused() -> None:
    model, _ = make()
    other = build(TransformerConfig(1, 1, 4, 5, 2), Tables((V,), V))
    with pytest.raises(ValueError, match="members: expected models that all count down, or none"):
        Ensemble([model, other])
