"""The checks that mutants are shown to: the catalogue's."""

from __future__ import annotations

from functools import partial

from grads.verification import catalogue, derivations
from grads.verification.mutation.record import Check


def checks() -> list[Check]:
    """One for every entry of the catalogue: all architectures, tiny and at real sizes."""
    return [Check(entry.name, partial(catalogue.check, entry), partial(catalogue.numbers, entry))
            for entry in catalogue.entries()]


def checks_of_derivations() -> list[Check]:
    """One for every derivation."""
    return [Check(entry.name, partial(derivations.check, entry), dict)
            for entry in derivations.entries()]
