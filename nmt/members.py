"""The check that translators can form an ensemble."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from backend.errors import UserError
from nmt.data.factors import factor_tables
from nmt.models.contract import CHARACTERS

ORDER = ("reverse_source", "reverse_target", "source_end", "tokenise",
         "target_token")  # keys of data


def check_members(names: Sequence[str], systems: Sequence[Any]) -> None:
    """Raise UserError, naming it, for a `System` that does not have the vocabularies and the
    reading
    order of the first.

    names: the systems', for the error.
    """
    first = _facts(systems[0])
    for name, other in zip(names, systems, strict=True):
        for what, fact in _facts(other).items():
            if fact != first[what]:
                raise UserError(f"{name}: expected the {what} of {names[0]} in one ensemble, got "
                                "another")


def _facts(system: Any) -> dict[str, Any]:
    """What members have alike, by its name."""
    sides = (system.source, system.target)
    return {"source vocabulary": system.source.words, "target vocabulary": system.target.words,
            **{f"data.{key}": getattr(system.recipe.data, key) for key in ORDER},
            "characters": [system.vocabularies[name].words for name in CHARACTERS
                           if name in system.vocabularies],
            "codes": [side.codes for side in sides],
            "factors": [list(getattr(system.recipe.model, "factors", ())),
                        *(system.vocabularies[name].words
                          for name in factor_tables(system.recipe.model))]}
