"""Force-decoding against the teacher-forced loss, and against search."""

import numpy as np
import pytest

from nmt.data.batches import make_batch, make_sources
from nmt.models.translator import ModelConfig, Translator
from nmt.search.beam import greedy
from nmt.search.force import force_decode
from nmt.search.interface import SearchOptions

PAIRS = [([3, 4, 5, 2], [2, 3]), ([2, 6], [5, 6, 2, 7]), ([4], [])]


def system(**settings):
    config = ModelConfig(**{"layers": 2, "hidden_size": 4, "embedding_size": 3, "scale": 0.8,
                            **settings})
    model = Translator(config, 7, 8)
    return model, model.initial_parameters(np.random.default_rng(1), "float64")


@pytest.mark.parametrize("feeding", [True, False])
@pytest.mark.parametrize("reverse", [True, False])
def test_each_pair_costs_what_the_loss_says(feeding, reverse) -> None:
    model, parameters = system(input_feeding=feeding)
    forced = force_decode(model, parameters, make_batch(PAIRS, [0, 1, 2], reverse))
    for place, (hypothesis, (source, target)) in enumerate(zip(forced, PAIRS, strict=True)):
        batch = make_batch(PAIRS, [place], reverse)
        loss, _ = model.loss(parameters, batch)
        assert hypothesis.log_probability == pytest.approx(-float(loss), rel=1e-12)
        assert len(hypothesis.steps) == len(target) + 1
        assert hypothesis.steps.sum() == pytest.approx(hypothesis.log_probability, rel=1e-12)
        assert hypothesis.tokens == target and hypothesis.finished
        assert hypothesis.alignment.shape == (len(target) + 1, len(source))
        np.testing.assert_allclose(hypothesis.alignment.sum(axis=1), 1.0)
        (alone,) = force_decode(model, parameters, batch)
        np.testing.assert_allclose(alone.alignment, hypothesis.alignment, atol=1e-14)


def test_forced_along_its_own_translation_it_sees_what_it_saw() -> None:
    model, parameters = system()
    sources = [source for source, _ in PAIRS]
    translations = greedy(model, parameters, make_sources(sources, False), SearchOptions())
    pairs = list(zip(sources, (translation.tokens for translation in translations), strict=True))
    forced = force_decode(model, parameters, make_batch(pairs, range(len(pairs)), False))
    for translation, again in zip(translations, forced, strict=True):
        steps = len(translation.alignment)
        np.testing.assert_allclose(again.alignment[:steps], translation.alignment, atol=1e-14)
        if translation.finished:
            assert again.log_probability == pytest.approx(translation.log_probability, rel=1e-12)


def test_without_attention_there_is_no_alignment() -> None:
    model, parameters = system(attention="none", input_feeding=False)
    (forced,) = force_decode(model, parameters, make_batch(PAIRS, [0], False))
    assert forced.alignment is None and forced.log_probability < 0
