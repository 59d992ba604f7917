"""An observer sees the search as it runs, and all candidates that it compares."""

import numpy as np
import pytest

import backend
from nmt.data.vocabulary import END
from nmt.search.beam import beam_search
from nmt.search.interface import SearchOptions
from tests.nmt.search.test_beam import (
    SOURCES,
    Endless,
    Markov,
    Model,
    Remembering,
    attention,
    limits,
    log_softmax,
    pad,
)


class Observer:
    """Keeps each step, and the prefix of every row, by sentence."""

    def __init__(self, candidates=0):
        self.candidates = candidates
        self.steps, self.prefixes = [], []
        self._rows = [(END,)] * len(SOURCES)

    def on_step(self, step):
        self.steps.append(step._replace(ended=[list(hypotheses) for hypotheses in step.ended]))
        self.prefixes.append(self._rows)
        kept = ~step.done
        rows, tokens = (array[kept].reshape(-1) for array in step.active[1:3])
        self._rows = [(*self._rows[row], int(token))
                      for row, token in zip(rows, tokens, strict=True)]


def same(ours, theirs):
    return all((a.tokens, a.log_probability, a.score, a.finished)
               == (b.tokens, b.log_probability, b.score, b.finished)
               and np.array_equal(a.alignment, b.alignment)
               for nbest, other in zip(ours, theirs, strict=True)
               for a, b in zip(nbest, other, strict=True))


@pytest.mark.parametrize("rule", [Markov(9, seed=4), Remembering(130, seed=4), Endless(-20.0)],
                         ids=["markov", "remembering", "endless"])
@pytest.mark.parametrize("options", [
    SearchOptions(beam=1), SearchOptions(beam=4, nbest=3, length_normalisation=0.8),
    SearchOptions(beam=3, unknown=False, minimum_steps=2)], ids=["greedy", "n best", "known"])
def test_an_observer_changes_nothing(rule, options):
    plain = beam_search(Model(rule), {}, pad(SOURCES), options)
    assert same(plain, beam_search(Model(rule), {}, pad(SOURCES), options, observer=Observer()))
    assert same(plain, beam_search(Model(rule), {}, pad(SOURCES), options, observer=Observer(25)))


@pytest.mark.parametrize("K", [1, 3])
def test_candidates_are_the_best_extensions_of_what_goes_on(K):
    rule, observer = Remembering(6, seed=2), Observer(10)
    beam_search(Model(rule), {}, pad(SOURCES), SearchOptions(beam=K), observer=observer)
    for step, prefixes in zip(observer.steps, observer.prefixes, strict=True):
        per_sentence = len(prefixes) // len(step.done)
        for i, sentence in enumerate(step.active.sentences):
            source = SOURCES[sentence]
            rows = range(i * per_sentence, (i + 1) * per_sentence)
            every = sorted(((total(rule, source, prefixes[row]) + log_p, row, token)
                            for row in rows for token, log_p in enumerate(
                                log_softmax(rule.logits(source, prefixes[row])))), reverse=True)
            candidates = step.candidates
            C = len(candidates.tokens[i])
            assert C == min(10, 6 * per_sentence)
            np.testing.assert_allclose(candidates.log_probabilities[i],
                                       [extension[0] for extension in every[:C]], rtol=1e-12)
            assert [(row, token) for _, row, token in every[:C]] == list(
                zip(candidates.rows[i], candidates.tokens[i], strict=True))
            others = [j for j in range(C) if candidates.tokens[i, j] != END]
            grown = candidates.grown[i][step.active.log_probabilities[i] > -np.inf]
            assert grown.tolist() == others[:K]
            assert candidates.finished[i].tolist() == [
                token == END for token in candidates.tokens[i, :K]]
            for row in rows:
                np.testing.assert_array_equal(backend.to_host(step.alignment)[row, : len(source)],
                                              attention(source, prefixes[row]))


def total(rule, source, prefix):
    """log p of what was read, the first marker given."""
    return sum(log_softmax(rule.logits(source, prefix[:t]))[prefix[t]]
               for t in range(1, len(prefix)))


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_what_ended_and_when_the_search_does(alpha):
    rule, observer = Remembering(5, seed=1), Observer()
    options = SearchOptions(beam=3, nbest=2, length_normalisation=alpha, minimum_steps=4)
    nbests = beam_search(Model(rule), {}, pad(SOURCES), options, observer=observer)
    last = {}
    for step in observer.steps:
        assert step.limits.tolist() == limits(SOURCES, options)
        for i, sentence in enumerate(step.active.sentences):
            last[sentence] = sorted((hypothesis.score for hypothesis in step.ended[sentence]),
                                    reverse=True)
            worst = last[sentence][-1] if len(last[sentence]) == 2 else -np.inf
            at_limit = step.number == step.limits[sentence]
            assert step.done[i] == (at_limit or worst >= step.reachable[i])
            assert step.reachable[i] == pytest.approx(
                step.active.log_probabilities[i, 0]
                / options.length_penalty(int(step.limits[sentence])))
    assert [last[i] for i in range(len(SOURCES))] == [[hypothesis.score for hypothesis in nbest]
                                                      for nbest in nbests]
