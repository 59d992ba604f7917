"""Suggestions for unknown names."""

from __future__ import annotations

import difflib
from collections.abc import Collection


def nearest(name: str, known: Collection[str]) -> str:
    """A hint with the nearest known name; "" if none is near."""
    last = {one.split(".")[-1]: one for one in known}  # `epochs` means `train.epochs`
    found = difflib.get_close_matches(name, known, n=1, cutoff=0.75)
    found = found or [last[one] for one in
                      difflib.get_close_matches(name.split(".")[-1], last, n=1)]
    return f"; did you mean '{found[0]}'?" if found else ""
