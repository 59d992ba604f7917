"""Ensembles: their averages by hand, their search against the members' own steps."""

import math

import numpy as np
import pytest
from strict.module import strict

import backend
from nmt.data.batches import make_batch, make_sources
from nmt.data.vocabulary import END
from nmt.models.rnnsearch import RNNSearch
from nmt.models.rnnsearch_config import RNNSearchConfig
from nmt.models.translator import ModelConfig, Translator
from nmt.search.beam import beam_search
from nmt.search.combine import Ensemble, mean_alignment, mean_of_logs, mean_of_probabilities
from nmt.search.force import force_decode
from nmt.search.interface import SearchOptions

PAIRS = [([3, 4, 5, 2], [2, 3]), ([2, 6], [5, 6, 2, 7]), ([4], [])]
SMALL = {"layers": 1, "hidden_size": 4, "embedding_size": 3}


def member(seed, **settings):
    if settings.pop("rnnsearch", False):
        model = RNNSearch(RNNSearchConfig(hidden_size=4, embedding_size=3, layer_size=3), 7, 8)
    else:
        model = Translator(ModelConfig(**SMALL, scale=0.8, **settings), 7, 8)
    return model, model.initial_parameters(np.random.default_rng(seed), "float64")


MEMBERS = [member(1), member(2, attention="local-p", window=1), member(3, rnnsearch=True),
           member(4, attention="none", input_feeding=False)]


def ensemble(members, average="probabilities"):
    models, parameters = zip(*members, strict=True)
    return Ensemble(models, average), Ensemble.joined(parameters)


def distribution(logits):
    """softmax of one row, in plain Python."""
    powers = [math.exp(x - max(logits)) for x in logits]
    return [power / math.fsum(powers) for power in powers]


@pytest.mark.parametrize("module", [np, strict], ids=["numpy", "strict"])
@pytest.mark.parametrize("models", [1, 2, 5])
def test_averages_by_hand(module, models) -> None:
    rng = np.random.default_rng(models)
    logits = [rng.normal(scale=3.0, size=(4, 90)) for _ in range(models)]
    with backend.using(module):
        on_device = [backend.to_device(member_logits) for member_logits in logits]
        probabilities = backend.to_host(mean_of_probabilities(on_device))
        logs = backend.to_host(mean_of_logs(on_device))
    for n in range(4):
        distributions = [distribution(member_logits[n].tolist()) for member_logits in logits]
        mean = [math.fsum(column) / models for column in zip(*distributions, strict=True)]
        np.testing.assert_allclose(np.exp(probabilities[n]), mean, rtol=1e-12)
        geometric = [math.exp(math.fsum(map(math.log, column)) / models)
                     for column in zip(*distributions, strict=True)]
        np.testing.assert_allclose(distribution(logs[n].tolist()),
                                   np.array(geometric) / math.fsum(geometric), rtol=1e-11)


def test_no_word_loses_its_probability_in_float32() -> None:
    certain = np.array([[0.0, -300.0, -400.0]], np.float32)
    doubtful = np.array([[0.0, -250.0, -400.0]], np.float32)
    mean = mean_of_probabilities([certain, doubtful])
    np.testing.assert_allclose(mean, [[0.0, -250.0 - math.log(2), -400.0]], rtol=1e-6)


@pytest.mark.parametrize("average", ["probabilities", "logs"])
def test_a_model_beside_itself_translates_as_it_does_alone(average) -> None:
    model, parameters = MEMBERS[0]
    copies = ensemble([MEMBERS[0]] * 3, average)
    batch = make_sources([source for source, _ in PAIRS], False)
    options = SearchOptions(beam=4, nbest=3)
    alone = beam_search(model, parameters, batch, options)
    for nbest, other in zip(alone, beam_search(*copies, batch, options), strict=True):
        for a, b in zip(nbest, other, strict=True):
            assert a.tokens == b.tokens
            assert a.log_probability == pytest.approx(b.log_probability, rel=1e-12)
            np.testing.assert_allclose(a.alignment, b.alignment, atol=1e-14)


@pytest.mark.parametrize("average", ["probabilities", "logs"])
def test_members_of_any_architecture_are_averaged_at_each_step(average) -> None:
    model, parameters = ensemble(MEMBERS, average)
    for place, (source, target) in enumerate(PAIRS):
        batch = make_batch(PAIRS, [place], False)
        states = [member.encode(member_parameters, batch.sources, 1)
                  for member, member_parameters in MEMBERS]
        total, attended = 0.0, []
        for read, word in zip([END, *target], [*target, END], strict=True):
            steps = [member.step(member_parameters, state, np.array([read]))
                     for (member, member_parameters), state in zip(MEMBERS, states, strict=True)]
            states = [state for _, state, _ in steps]
            distributions = [distribution(logits[0].tolist()) for logits, _, _ in steps]
            if average == "probabilities":
                mean = [sum(column) / len(MEMBERS) for column in zip(*distributions, strict=True)]
            else:
                mean = [math.prod(column) ** (1 / len(MEMBERS))
                        for column in zip(*distributions, strict=True)]
            total += math.log(mean[word] / sum(mean))
            attended.append(np.mean([a[0] for _, _, a in steps if a is not None], axis=0))
        [forced] = force_decode(model, parameters, batch)
        assert forced.log_probability == pytest.approx(total, rel=1e-12)
        np.testing.assert_allclose(forced.alignment, attended, atol=1e-14)
        assert forced.alignment.shape == (len(target) + 1, len(source))
        assert model.loss(parameters, batch)[0] == pytest.approx(-total, rel=1e-12)


def test_each_hypothesis_is_worth_what_forcing_it_says() -> None:
    """Every member keeps the same rows and sentences."""
    model, parameters = ensemble(MEMBERS)
    sources = [source for source, _ in PAIRS]
    results = beam_search(model, parameters, make_sources(sources, False),
                        SearchOptions(beam=5, nbest=5, minimum_steps=4, length_factor=1.0))
    pairs = [(source, hypothesis.tokens) for source, nbest in zip(sources, results, strict=True)
             for hypothesis in nbest if hypothesis.finished]
    worth = [hypothesis.log_probability for nbest in results for hypothesis in nbest
             if hypothesis.finished]
    assert len(pairs) > 5
    for pair, expected in zip(pairs, worth, strict=True):
        [forced] = force_decode(model, parameters, make_batch([pair], [0], False))
        assert forced.log_probability == pytest.approx(expected, rel=1e-12)


def test_alignments_reach_as_far_as_the_narrowest() -> None:
    wide, narrow = np.array([[0.5, 0.25, 0.25]]), np.array([[1.0, 0.0]])
    np.testing.assert_array_equal(mean_alignment([wide, narrow]), [[0.75, 0.125]])


def test_what_is_no_ensemble() -> None:
    with pytest.raises(ValueError, match="average: expected one of probabilities, logs; got 'max'"):
        Ensemble([MEMBERS[0][0]], "max")
