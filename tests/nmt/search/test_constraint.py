"""Searches for valid trees alone, against all trees of a few words, in scalar loops."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import pairwise

import numpy as np
import pytest

import backend
from nmt.data.batches import Side
from nmt.data.trees import repair, spans
from nmt.data.vocabulary import END, Vocabulary
from nmt.models.contract import Searchable
from nmt.search.beam import beam_search, greedy
from nmt.search.constraint import Constrained, TreesOnly, ValidTrees
from nmt.search.every_beam import every_beam_search
from nmt.search.interface import SearchOptions
from nmt.search.sample import sample

SYMBOLS = Vocabulary(["XX", "(A", ")A", "(B", ")B", "(C"]).words  # C never closes
WORDS = [2, 1, 3]
TABLE = np.random.default_rng(5).normal(size=(len(SYMBOLS), len(SYMBOLS)))


class LastWord(Searchable):
    """The logits depend on the last word; a state is how many rows there are."""

    def encode(self, parameters, sources, rows):
        return rows

    def step(self, parameters, state, tokens):
        assert len(tokens) == state
        return backend.to_device(TABLE[tokens]), state, None

    def select(self, state, rows, sentences):
        return len(rows)


def sources() -> tuple[Side, ...]:
    return (Side(np.full((max(WORDS), len(WORDS)), 4), np.array(WORDS)),)


def options(beam: int = 1, steps: int = 9) -> SearchOptions:
    return SearchOptions(beam=beam, nbest=beam, length_factor=steps / 100, minimum_steps=steps)


def every_tree(words: int, steps: int, opened: tuple[str, ...] = (),
               last: str = "") -> Iterator[list[str]]:
    """All trees with so many words and at most so many symbols."""
    if words == 0 and not opened:
        yield []
    if steps == 0:
        return
    ways = [("XX", words - 1, opened)] if words else []
    ways += [(f"({label}", words, (*opened, label)) for label in "AB" if words]
    ways += [(f"){opened[-1]}", words, opened[:-1])] if opened and last[:1] != "(" else []
    for symbol, left, still_open in ways:
        for rest in every_tree(left, steps - 1, still_open, symbol):
            yield [symbol, *rest]


def log_probability(symbols: list[str]) -> float:
    """log p of a tree and the end marker, under the model without a constraint."""
    ids = [END, *(SYMBOLS.index(symbol) for symbol in symbols), END]
    return float(sum(TABLE[a, b] - np.log(np.exp(TABLE[a]).sum())
                     for a, b in pairwise(ids)))


def limited(find, search):
    """The trees that a search function finds, as symbols."""
    trees = TreesOnly(SYMBOLS, search)
    nbests = trees.limited(find, [["w"] * n for n in WORDS])(LastWord(), {}, sources())
    return [[([SYMBOLS[token] for token in hypothesis.tokens], hypothesis) for hypothesis in nbest]
            for nbest in nbests]


def test_a_wide_beam_finds_all_trees_in_order() -> None:
    search = options(beam=400)
    for words, nbest in zip(WORDS, limited(partial(beam_search, options=search), search),
                            strict=True):
        trees = sorted(every_tree(words, 8))
        assert len(trees) > 10 and sorted(symbols for symbols, _ in nbest) == trees
        scores = [hypothesis.score for _, hypothesis in nbest]
        assert scores == sorted(scores, reverse=True)
        for symbols, hypothesis in nbest:
            assert hypothesis.finished
            assert hypothesis.log_probability == pytest.approx(log_probability(symbols))


def draws(model, parameters, sides, seed):
    return [[hypothesis] for hypothesis in sample(model, parameters, sides, options(), 1.5,
                                                  np.random.default_rng(seed))]


def greedily(model, parameters, sides):
    return [[hypothesis] for hypothesis in greedy(model, parameters, sides, options())]


@pytest.mark.parametrize("find", [
    greedily, partial(beam_search, options=options(beam=3)),
    partial(every_beam_search, options=options(beam=3)),
    *(partial(draws, seed=seed) for seed in range(5)),
])
def test_every_search_finds_valid_trees_alone(find) -> None:
    for words, nbest in zip(WORDS, limited(find, options()), strict=True):
        for symbols, hypothesis in nbest:
            assert symbols.count("XX") == words and repair(symbols) == symbols
            assert hypothesis.finished and len(symbols) < 9 and "(C" not in symbols
            assert all(start < end for _, start, end in spans(symbols))


def test_without_the_constraint_there_are_other_outputs() -> None:
    nbests = beam_search(LastWord(), {}, sources(), options(beam=3))
    outputs = [[SYMBOLS[token] for token in nbest[0].tokens] for nbest in nbests]
    assert any(symbols != repair(symbols) or symbols.count("XX") != words
               for words, symbols in zip(WORDS, outputs, strict=True))


def test_the_shortest_limit_leaves_words_alone() -> None:
    search = options(steps=4)
    outputs = limited(partial(beam_search, options=search), search)
    assert outputs[2][0][0] == ["XX"] * 3
    with pytest.raises(ValueError, match="at least 4 steps for 3 words, got 3"):
        ValidTrees(SYMBOLS, [3], [3])


def test_scores_stay_scores() -> None:
    """Scores of a model with scores are summed without a softmax."""
    model = LastWord()
    model.scores = True
    constrained = Constrained(model, ValidTrees(SYMBOLS, [1], [9]))
    scores, _, _ = constrained.step({}, constrained.encode({}, (), 1), np.array([END]))
    allowed = [SYMBOLS.index(symbol) for symbol in ("XX", "(A", "(B")]
    expected = np.full(len(SYMBOLS), -np.inf)
    expected[allowed] = TABLE[END, allowed]
    np.testing.assert_array_equal(backend.to_host(scores)[0], expected)
