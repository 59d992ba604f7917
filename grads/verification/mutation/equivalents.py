"""Mutants that compute the same, or what no gradient check is there to tell: the reason of each.

A key is a mutant's name, or what names of several begin with: a function, or a function and what is
changed in it.
"""

from __future__ import annotations

from collections.abc import Mapping

EQUIVALENTS: dict[str, str] = {}


def reason(name: str, equivalents: Mapping[str, str] = EQUIVALENTS) -> tuple[str, str] | None:
    """The key that a mutant's name belongs to, and why it is no mistake; None if there is none."""
    return next(((key, why) for key, why in equivalents.items()
                 if name == key or name.startswith((f"{key} -> ", f"{key}: "))), None)
