"""The check that translators can form an ensemble."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from backend.errors import UserError
from nmt.data.factors import factor_tables
from nmt.models.contract import CHARACTERS, counts_down

ORDER = ("reverse_source", "reverse_target", "source_end", "tokenise",
         "target_token")  # keys of data


def check_members(names: Sequence[str], systems: Sequence[Any]) -> None:
    """Raise UserError for the first `System` whose vocabularies or reading order differ from those
    of the first system.

    names: the systems', for the error.
    """
    _check_alike(names, [_facts(system) for system in systems])


def check_source_members(names: Sequence[str], systems: Sequence[Any]) -> None:
    """`check_members` for systems that read a source each: the words that they read may differ.

    Raises UserError also for a system that reads several sources, characters or factors, and for
    one that counts down.
    """
    for name, system in zip(names, systems, strict=True):
        if len(system.readers) > 1 or factor_tables(system.recipe.model) or system.spellings:
            raise UserError(f"{name}: expected a model of one source, without characters and "
                            "factors, among models that read a source each")
        if counts_down(system.recipe.model):
            raise UserError(f"{name}: expected model.target_positions forward among models that "
                            "read a source each, got countdown")
    may_differ = ("source vocabulary", "data.target_token", "codes")
    facts = [{**_facts(system), "target codes": system.target.codes} for system in systems]
    _check_alike(names, [{key: fact for key, fact in member.items() if key not in may_differ}
                         for member in facts])


def _check_alike(names: Sequence[str], facts: Sequence[dict[str, Any]]) -> None:
    """Raise UserError for the first member that differs from the first one in a fact."""
    for name, member_facts in zip(names, facts, strict=True):
        for key, fact in member_facts.items():
            if fact != facts[0][key]:
                raise UserError(f"{name}: expected the {key} of {names[0]} in one ensemble, got "
                                "another")


def _facts(system: Any) -> dict[str, Any]:
    """What all members of an ensemble must have in common, by name."""
    sides = [system.vocabularies[name] for name in system.sides_of(system.recipe)]
    sources = [side.words for side in sides[:-1]]
    return {"source vocabulary": sources, "target vocabulary": system.target.words,
            "model.target_positions": getattr(system.recipe.model, "target_positions", "forward"),
            "model.positions": counts_down(system.recipe.model) and system.recipe.model.positions,
            **{f"data.{key}": getattr(system.recipe.data, key) for key in ORDER},
            "characters": [system.vocabularies[name].words for name in CHARACTERS
                           if name in system.vocabularies],
            "codes": [side.codes for side in sides],
            "factors": [list(getattr(system.recipe.model, "factors", ())),
                        *(system.vocabularies[name].words
                          for name in factor_tables(system.recipe.model))]}
