"""Search with every beam, against a search with each beam."""

from dataclasses import replace

import pytest

from nmt.search.beam import beam_search
from nmt.search.every_beam import every_beam_search
from nmt.search.interface import SearchOptions

from .test_beam import SOURCES, Markov, Model, Remembering, pad


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_the_best_of_all_beams_is_kept(seed, alpha):
    options = SearchOptions(beam=4, nbest=2, minimum_steps=6, length_normalisation=alpha)
    model = Model(Remembering(6, seed=seed))
    nbests = every_beam_search(model, {}, pad(SOURCES), options)
    single = {beam: beam_search(model, {}, pad(SOURCES),
                                replace(options, beam=beam, nbest=min(2, beam)))
              for beam in range(1, 5)}
    for i, (best, *_) in enumerate(nbests):
        scores = {beam: max((h.score for h in nbest[i] if h.finished), default=None)
                  for beam, nbest in single.items()}
        ended = {beam: score for beam, score in scores.items() if score is not None}
        assert best.score == max(ended.values())
        assert best.beam == max(b for b, score in ended.items() if score == best.score)


def test_a_smaller_beam_can_find_a_better_translation():
    """For some seeds a smaller beam finds a better translation; otherwise the search would be
    useless."""
    options = SearchOptions(beam=3, minimum_steps=6)
    beams = [nbest[0].beam for seed in range(20)
             for nbest in every_beam_search(Model(Remembering(6, seed=seed)), {}, pad(SOURCES),
                                            options)]
    assert min(beams) < 3 == max(beams)


def test_hypotheses_are_distinct_and_as_many_as_asked_for():
    options = SearchOptions(beam=5, nbest=5, minimum_steps=5)
    for nbest in every_beam_search(Model(Markov(5)), {}, pad(SOURCES), options):
        assert len(nbest) == 5 == len({(*h.tokens, h.finished) for h in nbest})
        assert [h.score for h in nbest] == sorted((h.score for h in nbest), reverse=True)
