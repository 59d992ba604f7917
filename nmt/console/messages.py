"""Wording that messages share: counts of things, and the name that was probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Collection


def several(count: int, singular: str, plural: str = "") -> str:
    """A count and its noun: `1 check`, `2 checks`. plural: for nouns whose plural is not singular
    + s."""
    return f"{count} {singular if count == 1 else plural or f'{singular}s'}"


def nearest(name: str, known: Collection[str]) -> str:
    """A hint on the nearest known name; "" if none is near."""
    last = {path.split(".")[-1]: path for path in known}  # `epochs` means `train.epochs`
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.75)
    near = near or [last[word] for word in
                    difflib.get_close_matches(name.split(".")[-1], last, n=1)]
    return f"; did you mean '{near[0]}'?" if near else ""
