"""Shallow fusion: a search must find the best of all translations, which are scored by hand."""

from itertools import product

import numpy as np
import pytest

from nmt.data.batches import make_batch, make_sources
from nmt.data.vocabulary import END
from nmt.models.language_model import LanguageModel, LanguageModelConfig
from nmt.models.translator import ModelConfig, Translator
from nmt.search.beam import beam_search, greedy
from nmt.search.combine import Ensemble
from nmt.search.force import force_decode
from nmt.search.fusion import ShallowFusion
from nmt.search.interface import SearchOptions

SENTENCE = [3, 4, 2]
STEPS, V = 3, 5


def parts():
    """A translator and a language model of five words, whose scores differ much."""
    translator = Translator(ModelConfig(layers=1, hidden_size=4, embedding_size=3, scale=1.5), 6, V)
    language = LanguageModel(LanguageModelConfig(layers=1, hidden_size=4, embedding_size=3,
                                                 scale=1.5, uniform_biases=True), V)
    theirs = language.initial_parameters(np.random.default_rng(2), "float64")
    theirs["output.b"][END] = -3.0  # its sentences are longer
    return ((translator, translator.initial_parameters(np.random.default_rng(1), "float64")),
            (language, theirs))


def search(beta, **options):
    (translator, weights), (language, theirs) = parts()
    model = ShallowFusion(translator, language, beta)
    return beam_search(model, Ensemble.joined([weights, theirs]),
                       make_sources([SENTENCE], False),
                       SearchOptions(minimum_steps=STEPS, length_factor=0.1, **options))[0]


def by_hand(beta, words, unknown=True):
    """log p_TM + beta log p_LM of all finished translations."""
    (translator, weights), (language, theirs) = parts()
    scores = {}
    for length in range(STEPS):
        for tokens in product([w for w in range(V) if w != END and (unknown or w)], repeat=length):
            batch = make_batch([(SENTENCE, tokens)], [0], False)
            (forced,) = force_decode(translator, weights, batch)
            log_p = -float(language.loss(theirs, batch)[0])
            scores[tokens] = forced.log_probability + beta * log_p
    return scores


@pytest.mark.parametrize("unknown", [True, False])
@pytest.mark.parametrize("beta", [0.0, 0.7, 3.0])
def test_a_wide_beam_finds_the_best_sum(beta, unknown) -> None:
    expected = by_hand(beta, V, unknown)
    for hypothesis in search(beta, beam=200, nbest=50, unknown=unknown):
        if hypothesis.finished:
            assert hypothesis.log_probability == pytest.approx(expected[tuple(hypothesis.tokens)],
                                                               rel=1e-12)
    best = next(hypothesis for hypothesis in search(beta, beam=200, nbest=50, unknown=unknown)
                if hypothesis.finished)
    assert tuple(best.tokens) == max(expected, key=lambda tokens: expected[tokens])


def test_the_language_model_decides() -> None:
    """With some weights other translations win, because the models differ."""
    winners = {tuple(search(beta, beam=20, nbest=20, length_normalisation=3.0)[0].tokens)
               for beta in (0.0, 3.0, 30.0)}
    assert len(winners) > 1


def test_weight_0_is_the_translator_and_an_ensemble_may_stand_for_it() -> None:
    (translator, weights), (language, theirs) = parts()
    together = Ensemble([translator, translator])
    model = ShallowFusion(together, language, 0.0)
    sources = make_sources([SENTENCE, [2]], False)
    parameters = Ensemble.joined([Ensemble.joined([weights, weights]), theirs])
    ours = greedy(model, parameters, sources, SearchOptions())
    alone = greedy(translator, weights, sources, SearchOptions())
    assert [hypothesis.tokens for hypothesis in ours] == [hypothesis.tokens for hypothesis in alone]
    for fused, other in zip(ours, alone, strict=True):
        assert fused.log_probability == pytest.approx(other.log_probability, rel=1e-9)
        np.testing.assert_allclose(fused.alignment, other.alignment, rtol=1e-12)
    batch = make_batch([(SENTENCE, [2, 3])], [0], False)
    assert model.loss(parameters, batch)[0] == pytest.approx(
        float(translator.loss(weights, batch)[0]), rel=1e-9)
