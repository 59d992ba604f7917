"""The checks that mutants are shown to: the catalogue's."""

from __future__ import annotations

from functools import partial
from typing import Any

from grads import catalogue
from grads.verification.mutation.record import Check

ENTRIES_OF_TENSORS = 4  # differentiated one by one; random directions go over the rest


def checks() -> list[Check]:
    """One for every entry of the catalogue and shape, by complex step."""
    how: dict[str, Any] = {"method": "complex", "sample": ENTRIES_OF_TENSORS}
    return [Check(f"{entry.name}, {shape}", partial(catalogue.check, entry, shape, **how))
            for entry in catalogue.ENTRIES for shape in entry.shapes]


def checks_of_derivations() -> list[Check]:
    """One for every derivation, thoroughly, so that the diagnosis says all it can."""
    return [Check(entry.name, partial(catalogue.check, entry, "one sentence"))
            for entry in catalogue.DERIVATIONS]
