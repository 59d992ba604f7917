"""Blocks cover everything once, and what is computed does not depend on their size."""

from __future__ import annotations

import numpy as np
import pytest
from literal import draw

from attention import blocks
from attention.attend import memory_backward, memory_forward
from attention.blocks import pieces, rectangles
from attention.look import look_backward, look_forward, look_memory_backward, make_sums
from attention.scores import score_weights
from attention.way import Way
from lstm.recurrent import make_padding
from lstm.parameters import Scheme

H, Q, LENGTHS = 4, 5, (7, 4, 1, 6)
WAYS = [Way("concat"), Way("additive"), Way("dot", "local-m", 1), Way("concat", "local-m", 1),
        Way("general", "local-p", 1), Way("concat-identity", "local-p", 2, renormalise=True)]


@pytest.mark.parametrize("B, Q, one", [(3, 4, 1), (3, 4, 5), (5, 2, 7), (2, 9, 30), (1, 1, 99),
                                       (0, 3, 2), (3, 0, 2)])
def test_rectangles_cover_every_pair_once(B, Q, one, monkeypatch):
    monkeypatch.setattr(blocks, "ON_HOST", 20)
    covered = np.zeros((B, Q), dtype=int)
    for b, t in rectangles(np, B, Q, one):
        covered[b, t] += 1
        assert covered[b, t].size * one <= max(20, one)  # one pair is always allowed
    assert (covered == 1).all()


def test_pieces_end_where_they_should():
    assert list(pieces(5, 2)) == [slice(0, 2), slice(2, 4), slice(4, 5)]
    assert list(pieces(0, 2)) == []


def run(way):
    """Contexts and all gradients of Q target states that look at a ragged batch."""
    rng, B, S = np.random.default_rng(3), len(LENGTHS), max(LENGTHS)
    parameters = {name: draw(rng, weight.shape, np.float64, 0.8)
                  for name, weight in score_weights(way, "attention", H, H, Scheme()).items()}
    h, dc = (draw(rng, (B, Q, H), np.float64, 1.0) for _ in range(2))
    states = draw(rng, (S, B, H), np.float64, 1.0)
    memory = memory_forward(states, make_padding(np.array(LENGTHS), S), way, parameters,
                            "attention")
    c, seen = look_forward(h, memory, parameters)
    sums = make_sums(memory, parameters)
    dh, pulled = look_backward(dc, seen, memory, parameters, sums)
    d, found = look_memory_backward(dc, h, [seen], [pulled], memory, parameters, sums)
    d_states, more = memory_backward(d.dhbar, d.dkeys, memory, parameters, "attention", d.d_query)
    return {"c": c, "dh": dh, "d_states": d_states, **found, **more}


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("size", [1, 40, 200])
def test_blocks_do_not_change_what_is_computed(way, size, monkeypatch):
    whole = run(way)
    monkeypatch.setattr(blocks, "ON_HOST", size)
    for name, expected in whole.items():
        found = run(way)[name]
        assert np.abs(found - expected).max() <= 1e-13 * np.abs(expected).max(), name
