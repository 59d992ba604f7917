"""Shapes that nobody thought of: Hypothesis draws lengths, entry and seed."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grads import case, catalogue
from grads.case import Shape

LENGTHS = st.lists(st.integers(1, 7), min_size=1, max_size=5).map(tuple)


@pytest.mark.parametrize("entry", catalogue.ENTRIES, ids=lambda entry: entry.name)
@settings(max_examples=2, deadline=None, derandomize=True)
@given(LENGTHS, st.integers(0, 2**32 - 1))
def test_drawn_shapes(entry, lengths, seed):
    case.SHAPES["drawn"] = Shape(lengths)
    try:
        # dropout may leave nothing; a softmax over one word is one whatever its score, and one word
        # may be all of a sentence, or all of a window
        vanish = "dropout" in entry.name or "local" in entry.name or set(lengths) == {1}
        catalogue.check(entry, "drawn", seed, sample=6, vanish=vanish).raise_if_wrong()
    finally:
        del case.SHAPES["drawn"]
