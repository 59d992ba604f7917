"""Shapes that nobody thought of: Hypothesis draws lengths, entry and seed."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grads import case, catalogue
from grads.case import Shape

LENGTHS = st.lists(st.integers(1, 7), min_size=1, max_size=5).map(tuple)


@pytest.mark.parametrize("entry", catalogue.ENTRIES, ids=lambda entry: entry.name)
@settings(max_examples=3, deadline=None, derandomize=True)
@given(LENGTHS, st.integers(0, 2**32 - 1))
def test_drawn_shapes(entry, lengths, seed):
    case.SHAPES["drawn"] = Shape(lengths)
    try:
        catalogue.check(
            entry, "drawn", seed, sample=6, vanish="dropout" in entry.name
        ).raise_if_wrong()
    finally:
        del case.SHAPES["drawn"]
