"""Sampling: frequencies against the softmax, with fixed seeds."""

import numpy as np
import pytest
from strict.module import strict

import backend
from backend.topk import CHUNK
from nmt.data.batches import Side
from nmt.data.vocabulary import END, UNKNOWN
from nmt.models.contract import Searchable
from nmt.search.interface import SearchOptions
from nmt.search.sample import best_of_draws, draw, sample

LOGITS = np.array([0.3, -0.5, 1.2, -np.inf, 0.0])


class Memoryless(Searchable):
    """Every step has the same logits."""

    def __init__(self, logits):
        self.all = np.asarray(logits)

    def encode(self, parameters, sources, rows):
        return rows

    def step(self, parameters, state, tokens):
        assert len(tokens) == state
        return backend.to_device(np.tile(self.all, (state, 1))), state, None

    def select(self, state, rows, sentences):
        np.testing.assert_array_equal(rows, sentences)
        return len(rows)


def run(logits, count, temperature=1.0, seed=0, steps=30, unknown=True):
    sources = (Side(np.full((1, count), 4), np.ones(count, int)),)
    options = SearchOptions(minimum_steps=steps, unknown=unknown)
    rng = np.random.default_rng(seed)
    return sample(Memoryless(logits), {}, sources, options, temperature, rng)


def softmax(logits):
    p = np.exp(logits - logits.max())
    return p / p.sum()


@pytest.mark.parametrize("unknown", [True, False])
@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_frequencies_match_the_softmax(temperature, unknown):
    N = 6_000
    draws = run(LOGITS, N, temperature, seed=7, unknown=unknown)
    first = np.array([h.tokens[0] if h.tokens else END for h in draws])
    p = softmax(np.where(np.arange(5) == UNKNOWN, LOGITS if unknown else -np.inf, LOGITS)
                / temperature)
    counts = np.bincount(first, minlength=5)
    assert counts[3] == 0 and (counts[UNKNOWN] > 0) == unknown
    deviations = np.sqrt(N * p * (1 - p))
    assert np.all(np.abs(counts - N * p) <= 4 * deviations)


def test_sequences_have_their_joint_frequency():
    N = 20_000
    p = softmax(LOGITS)
    expected = N * p[2] * p[0] * p[END]
    count = sum(h.tokens == [2, 0] for h in run(LOGITS, N, seed=3))
    assert abs(count - expected) <= 4 * np.sqrt(expected)


def test_log_probabilities_are_the_models_own():
    log_p = np.log(softmax(LOGITS), where=np.isfinite(LOGITS), out=np.full(5, -np.inf))
    unfinished = 0
    for hypothesis in run(LOGITS, 50, temperature=3.0, steps=4):
        assert hypothesis.finished or len(hypothesis.tokens) == 4
        unfinished += not hypothesis.finished
        read = hypothesis.tokens + [END] * hypothesis.finished
        assert hypothesis.log_probability == pytest.approx(log_p[read].sum())
        assert hypothesis.score == hypothesis.log_probability
    assert 0 < unfinished < 50


def test_on_a_device_the_draws_are_the_same():
    strict.install()
    expected = run(LOGITS, 30, temperature=1.5)
    with backend.using(strict):
        draws = run(LOGITS, 30, temperature=1.5)
    assert [h.tokens for h in draws] == [h.tokens for h in expected]
    assert [h.score for h in draws] == [h.score for h in expected]


def test_draw_inverts_the_running_sum():
    V = 1000
    N = 2 * (CHUNK // V) + 3
    rng = np.random.default_rng(0)
    logits, uniform = rng.normal(scale=3, size=(N, V)), rng.random(N)
    uniform[:2] = 0.0, np.nextafter(1.0, 0.0)
    got = draw(logits, logits.max(axis=1), uniform, 1.5)
    for n in range(N):
        running = np.cumsum(softmax(logits[n] / 1.5))
        assert got[n] == min(np.searchsorted(running, uniform[n], side="right"), V - 1)


def test_a_single_possible_token_at_either_end_of_the_unit_interval():
    logits = np.array([[-np.inf, 0.0, -np.inf]] * 2)
    uniform = np.array([0.0, 1.0 - 2.0**-53])
    assert draw(logits, logits.max(axis=1), uniform, 1.0).tolist() == [1, 1]


@pytest.mark.parametrize("temperature", [0.0, -1.0, np.nan, np.inf])
def test_a_bad_temperature_names_itself(temperature):
    with pytest.raises(ValueError, match="temperature"):
        run(LOGITS, 1, temperature)


def test_the_most_probable_of_several_draws_is_kept():
    sources = (Side(np.full((1, 3), 4), np.ones(3, int)),)
    options = SearchOptions(minimum_steps=6)

    def draws(n, rng):
        return best_of_draws(Memoryless(LOGITS), {}, sources, options, 1.0, rng, n)

    rng = np.random.default_rng(5)
    single = [draws(1, rng) for _ in range(8)]
    for best, *drawn in zip(draws(8, np.random.default_rng(5)), *single, strict=True):
        ended = [d for d in drawn if d.finished]
        assert any(not d.finished for d in drawn) or len({d.log_probability for d in drawn}) > 1
        assert best.log_probability == max(d.log_probability for d in ended)
