"""A forced prefix, and a minimum length: translations begin with the prefix and have the model's
probabilities."""

from pathlib import Path

import numpy as np
import pytest
from strict.module import strict

import backend
from backend.errors import UserError
from nmt.search.interface import SearchOptions
from nmt.system import System

RUNS = Path(__file__).parents[2] / "golden_runs" / "runs"
OPTIONS = {
    "greedy": SearchOptions(), "beam": SearchOptions(beam=4, nbest=3, length_normalisation=1.0),
    "no-unk": SearchOptions(beam=3, unknown=False),
    "every": SearchOptions(beam=3, every_beam=True),
    "least": SearchOptions(beam=3, minimum_length=6),
}


def words_of(system: System, *places: int) -> list[str]:
    return [system.target.words[place] for place in places]


@pytest.mark.parametrize("run", ["luong-rnn", "rnnsearch-state-word", "transformer"])
@pytest.mark.parametrize("how", [*OPTIONS, "sample"])
def test_translations_begin_so_with_the_probabilities_of_forced_decoding(
    run: str, how: str
) -> None:
    system = System.open(RUNS / run)
    sources = [list(system.source.words[2:n]) for n in (3, 5, 4)]
    prefix = words_of(system, 4, 2, 3)
    if how == "sample":
        nbests = system.sample(sources, SearchOptions(), 1.0, np.random.default_rng(1), 2, prefix)
    else:
        nbests = system.translate(sources, OPTIONS[how], prefix=prefix)
    for source, nbest in zip(sources, nbests, strict=True):
        for translation in nbest:
            assert translation.words[:3] == prefix
            assert len(translation.words) >= 6 or how != "least"
            (forced,) = system.force([(source, translation.words)])
            steps = forced.steps if translation.finished else forced.steps[:-1]
            assert translation.log_probability == pytest.approx(steps.sum(), abs=1e-4)
    ended = [translation.finished for nbest in nbests for translation in nbest]
    assert any(ended) or run != "luong-rnn"


def test_a_prefix_of_the_best_translation_changes_nothing() -> None:
    system, options = System.open(RUNS / "luong-rnn"), SearchOptions(minimum_length=4)
    source = [list(system.source.words[2:5])]
    ((best,),) = system.translate(source, options)
    assert len(best.words) >= 4
    ((again,),) = system.translate(source, options, prefix=best.words[:2])
    assert again.words == best.words
    assert again.log_probability == pytest.approx(best.log_probability, abs=1e-5)
    ((longer,),) = system.translate(source, options, prefix=best.words[:1] * 40)
    assert longer.words[:40] == best.words[:1] * 40  # beyond the limit on steps


def test_what_no_translation_can_begin_with_is_refused() -> None:
    system = System.open(RUNS / "luong-rnn")
    with pytest.raises(UserError, match="of the target vocabulary, got nonesuch, </s>"):
        system.translate([["a"]], SearchOptions(), prefix=["nonesuch", "</s>"])


def test_on_a_device_the_translations_are_the_same() -> None:
    strict.install()
    by_device = []
    for device in (np, strict):
        with backend.using(device):
            system = System.open(RUNS / "luong-rnn")
            sources = [list(system.source.words[2:n]) for n in (3, 5)]
            nbests = system.translate(sources, OPTIONS["least"], prefix=words_of(system, 4, 2))
            by_device.append([[(translation.words, translation.log_probability)
                               for translation in nbest] for nbest in nbests])
    assert by_device[0] == by_device[1]
