"""Spelling after a search: the best words by brute force; what is forbidden; the limit."""

from itertools import product

import numpy as np
import pytest

from nmt.data.batches import make_batch
from nmt.data.vocabulary import END, UNKNOWN
from nmt.models.contract import Tables
from nmt.models.hybrid import Hybrid
from nmt.models.hybrid_config import HybridConfig
from nmt.search.combine import Ensemble
from nmt.search.interface import SearchOptions
from nmt.search.spell import spell

TABLES = Tables((6,), 6, False, 6, 5)
PAIRS = [([3, 2], [0, 4, 0]), ([3], [2]), ([4, 4], [0])]


def member(seed, **options):
    config = HybridConfig(layers=1, hidden_size=5, embedding_size=3, character_embedding_size=3,
                          scale=1.5, **options)
    model = Hybrid(config, TABLES)
    return model, model.initial_parameters(np.random.default_rng(seed), "float64")


def batch_of():
    return make_batch(PAIRS, range(3), False, ([(), (), ()], None))


def scores(model, parameters, words):
    """log p of each word for each `<unk>`, including its boundary, by single steps."""
    speller, state = model.spelling(parameters, batch_of())
    table = []
    for n in range(3):
        row = []
        for word in words:
            carried, total = speller.select(state, np.array([n]), np.array([n])), 0.0
            for read, next_one in zip((END, *word), (*word, END), strict=True):
                logits, carried, _ = speller.step(parameters, carried, np.array([read]))
                total += logits[0, next_one] - np.log(np.exp(logits[0]).sum())
            row.append(total)
        table.append(row)
    return np.array(table)


@pytest.mark.parametrize("models", [[member(1)], [member(2, path="same", character_layers=2)],
                                    [member(3), member(4, path="same")]],
                         ids=["separate", "same, two layers", "ensemble"])
def test_the_best_word_is_found(models):
    """A beam wide enough finds the best of all words up to three letters, none forbidden."""
    model, parameters = models[0]
    if len(models) > 1:
        model = Ensemble([translator for translator, _ in models])
        parameters = Ensemble.joined([weights for _, weights in models])
    words = [word for n in (1, 2, 3) for word in product((2, 3, 4), repeat=n)]
    best = scores(model, parameters, words).argmax(axis=1)
    spelled = spell(model, parameters, batch_of(), SearchOptions(beam=60, longest_word=3))
    assert [len(sentence) for sentence in spelled] == [2, 0, 1]
    assert [tuple(word.characters) for sentence in spelled for word in sentence] == [
        words[k] for k in best]
    assert all(word.finished for sentence in spelled for word in sentence)


def biased(letter, value):
    """A speller that prefers one character."""
    model, parameters = member(5, output_bias=True)
    parameters["target_characters.output.b"][letter] = value
    return model, parameters


@pytest.mark.parametrize("beam", [1, 2, 5, 20])
def test_no_word_is_empty_and_no_character_unknown(beam):
    for letter in (END, UNKNOWN):
        spelled = spell(*biased(letter, 50.0), batch_of(), SearchOptions(beam=beam))
        for word in [word for sentence in spelled for word in sentence]:
            assert word.characters and UNKNOWN not in word.characters and END not in word.characters
            assert len(word.characters) == 1 or letter == UNKNOWN


@pytest.mark.parametrize("longest", [1, 4])
def test_a_runaway_speller_is_cut_and_says_so(longest):
    spelled = spell(*biased(3, 50.0), batch_of(), SearchOptions(beam=1, longest_word=longest))
    for word in [word for sentence in spelled for word in sentence]:
        assert word.characters == [3] * longest and not word.finished


def test_nothing_to_spell():
    batch = make_batch(PAIRS, [1], False, ([(), (), ()], None))
    assert spell(*member(1), batch, SearchOptions()) == [[]]
    with pytest.raises(ValueError, match="longest_word: expected an integer of at least 1"):
        SearchOptions(longest_word=0)
