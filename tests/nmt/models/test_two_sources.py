"""Two encoders, one decoder: errors, search against the loss, joint alignments."""

from __future__ import annotations

import numpy as np
import pytest
from literal import assert_close, draw_parameters

from attention.joint_alignment import alignment_columns, side_by_side
from nmt.data.batches import SourceIds, make_batch
from nmt.models.two_sources import TwoSources, TwoSourcesConfig
from nmt.search.beam import beam_search, greedy
from nmt.search.combine import Ensemble, SourcesEnsemble
from nmt.search.force import force_decode
from nmt.search.interface import SearchOptions

PAIRS = [(SourceIds(([2, 4, 2, 5], [3, 5])), [3, 2]), (SourceIds(([6, 3], [2, 4, 4])), [4, 5, 2]),
         (SourceIds(([3], [5, 2, 3, 3, 4])), [])]
COLUMNS = [4 + 1 + 2, 2 + 1 + 3, 1 + 1 + 5]  # of their joint alignments


def make(seed=3, **options):
    config = TwoSourcesConfig(hidden_size=3, embedding_size=2, layers=1, **options)
    model = TwoSources(config, (7, 6), 8, True)
    return model, draw_parameters(np.random.default_rng(seed), model.weights())


@pytest.mark.parametrize("options, message", [
    ({"bridge": False}, "bridge: expected true, since the last states of two encoders are "),
    ({"factors": {"case": 1}}, "factors: expected none with two sources"),
    ({"score": "cat"}, "score: expected one of"),
])
def test_what_makes_no_sense_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        TwoSourcesConfig(**options)


def test_the_joint_alignment_has_each_source_s_words_and_a_gap():
    """Sentences of 2 + 1 and 1 + 3 words, padded to 2 and 3 columns."""
    columns = alignment_columns([np.array([2, 1]), np.array([1, 3])], [2, 3])
    assert columns.tolist() == [[0, 1, -1, 2, -1], [0, -1, 2, 3, 4]]
    first = np.array([[[0.4, 0.6]], [[1.0, 0.0]]])
    second = np.array([[[1.0, 0.0, 0.0]], [[0.2, 0.3, 0.5]]])
    assert side_by_side([first, second], columns).tolist() == [
        [[0.4, 0.6, 0.0, 1.0, 0.0]], [[1.0, 0.0, 0.2, 0.3, 0.5]]]


@pytest.mark.parametrize("options", [
    {}, {"input_feeding": False}, {"attention": "local-p", "window": 1}, {"attention": "none"},
    {"unit": "gru", "bidirectional": True}], ids=str)
def test_forced_steps_have_the_loss_and_alignments_of_both(options):
    model, parameters = make(**options)
    batch = make_batch(PAIRS, range(3), True)
    forced = force_decode(model, parameters, batch)
    assert_close(model.loss(parameters, batch)[0],
                 -sum(translation.log_probability for translation in forced))
    for translation, width, ((first, _), _) in zip(forced, COLUMNS, PAIRS, strict=True):
        if options.get("attention") == "none":
            assert translation.alignment is None
            continue
        assert translation.alignment.shape == (len(translation.tokens) + 1, width)
        assert not translation.alignment[:, len(first)].any()
        if "attention" not in options:  # local-p does not sum to one
            np.testing.assert_allclose(translation.alignment.sum(axis=1), 2.0, rtol=1e-12)


def test_a_sentence_alone_has_the_numbers_that_it_has_among_others():
    """Padding of either source adds nothing."""
    model, parameters = make()
    together = force_decode(model, parameters, make_batch(PAIRS, range(3), True))
    for place, among in enumerate(together):
        (alone,) = force_decode(model, parameters, make_batch(PAIRS, [place], True))
        assert_close(alone.log_probability, among.log_probability)
        np.testing.assert_allclose(alone.alignment, among.alignment, atol=1e-14)


def test_search_keeps_the_alignments_of_the_hypotheses_kept():
    model, parameters = make()
    sources = make_batch(PAIRS, range(3), True).sources
    lists = beam_search(model, parameters, sources, SearchOptions(beam=3, nbest=3))
    for (source, _), nbest in zip(PAIRS, lists, strict=True):
        for hypothesis in nbest:
            if not hypothesis.finished:
                continue
            (again,) = force_decode(model, parameters,
                                    make_batch([(source, hypothesis.tokens)], [0], True))
            assert_close(hypothesis.log_probability, again.log_probability, 1e-9)
            np.testing.assert_allclose(hypothesis.alignment, again.alignment, atol=1e-12)
    assert_close(greedy(model, parameters, sources, SearchOptions())[0].log_probability,
                 beam_search(model, parameters, sources, SearchOptions())[0][0].log_probability)


def test_the_steps_are_limited_by_the_longer_source():
    model, parameters = make()
    parameters["output.W_hy"][1] = 0.0
    parameters["output.W_hy"][2:] *= 50  # the end marker is improbable
    source = make_batch([(SourceIds(([3], [2] * 20)), [])], [0], True).sources
    (translation,) = greedy(model, parameters, source, SearchOptions(length_factor=1.0))
    assert len(translation.tokens) > 10 or translation.finished


def test_an_ensemble_of_sources_is_the_ensemble_where_both_are_the_same():
    """Two models that read one source each: given the same words, their mean is that of an
    ensemble."""
    from nmt.models.translator import ModelConfig, Translator
    models = [Translator(ModelConfig(hidden_size=3, embedding_size=2, layers=1), 7, 8)
              for _ in range(2)]
    drawn = [draw_parameters(np.random.default_rng(seed), models[0].weights()) for seed in (1, 2)]
    parameters = Ensemble.joined(drawn)
    words = [[2, 4, 2], [6, 3]]
    plain = make_batch([(ids, [4, 3]) for ids in words], [0, 1], False)
    twice = make_batch([(SourceIds((ids, ids)), [4, 3]) for ids in words], [0, 1], False)
    for average in ("probabilities", "logs"):
        expected = force_decode(Ensemble(models, average), parameters, plain)
        actual = force_decode(SourcesEnsemble(models, average), parameters, twice)
        for doubled, single, ids in zip(actual, expected, words, strict=True):
            assert_close(doubled.log_probability, single.log_probability)
            halves = doubled.alignment[:, : len(ids)], doubled.alignment[:, len(ids) + 1 :]
            np.testing.assert_allclose(sum(halves) / 2, single.alignment, atol=1e-14)
    best = beam_search(SourcesEnsemble(models), parameters, twice.sources, SearchOptions(beam=3))
    again = beam_search(Ensemble(models), parameters, plain.sources, SearchOptions(beam=3))
    assert [nbest[0].tokens for nbest in best] == [nbest[0].tokens for nbest in again]
