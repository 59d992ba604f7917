"""Blocks cover everything exactly once, and the results do not depend on their size."""

from __future__ import annotations

import numpy as np
import pytest
from attending import HE, backward, make
from literal import draw

from attention import blocks
from attention.blocks import pieces, rectangles
from attention.scores import Variant

LENGTHS = (7, 4, 1, 6)
VARIANTS = [
    Variant("concat"), Variant("additive"), Variant("general", "local-m", 1),
    Variant("concat", "local-m", 1), Variant("general", "local-p", 1),
    Variant("concat-identity", "local-p", 2, renormalise=True)]


@pytest.mark.parametrize("B, Q, pair_size",
                         [(3, 4, 1), (3, 4, 5), (5, 2, 7), (2, 9, 30), (1, 1, 99),
                          (0, 3, 2), (3, 0, 2)])
def test_rectangles_cover_every_pair_once(B, Q, pair_size, monkeypatch):
    monkeypatch.setattr(blocks, "ON_HOST", 20)
    covered = np.zeros((B, Q), dtype=int)
    for b, t in rectangles(np, B, Q, pair_size):
        covered[b, t] += 1
        assert covered[b, t].size * pair_size <= max(20, pair_size)  # one pair is always allowed
    assert (covered == 1).all()


def test_pieces_cover_all_items():
    assert list(pieces(5, 2)) == [slice(0, 2), slice(2, 4), slice(4, 5)]
    assert list(pieces(0, 2)) == []


def run(variant, stepwise):
    """Contexts and all gradients of the target states of a ragged batch."""
    h, _, _, memory = make(variant, LENGTHS)
    dc = draw(np.random.default_rng(3), (*h.shape[:2], HE))
    c, cache = memory.attend(h)
    dh, dstates, gradients = backward(h, dc, memory, 1, stepwise)
    return {"c": c, "align": memory.alignment(cache), "dh": dh, "dstates": dstates, **gradients}


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
@pytest.mark.parametrize("size", [1, 60, 100, 200])
def test_blocks_do_not_change_what_is_computed(variant, size, monkeypatch):
    at_once = run(variant, False)
    monkeypatch.setattr(blocks, "ON_HOST", size)
    for stepwise in (False, True):
        actual = run(variant, stepwise)
        for name, expected in at_once.items():
            away = np.abs(actual[name] - expected).max()
            assert away <= 1e-13 * np.abs(expected).max(), name
