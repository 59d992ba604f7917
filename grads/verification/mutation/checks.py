"""The checks that mutants are shown to: the catalogue's, and those of clipping.

Element-wise clipping is no gradient, so nothing can be differentiated. Where it acts, the models
are held to the references in PyTorch (tests/grads/verification/test_reference.py), and a mutant is
noticed by a change of what those confirmed.
"""

from __future__ import annotations

from functools import partial

from grads.verification import catalogue, derivations
from grads.verification.mutation.record import Check

ACTING = 0.01  # a limit of clipping within many elements of dh and dc


def checks() -> list[Check]:
    """One for every entry of the catalogue: all architectures, tiny and at real sizes."""
    entries = catalogue.entries()
    clipped = [entry._replace(options={**entry.options, "clip_elements": ACTING})
               for entry in entries
               if entry.options.get("clip_elements") and entry.shape == "ragged"]
    differentiated = [Check(entry.name, partial(catalogue.numbers, entry),
                            partial(catalogue.check, entry, diagnosis=0)) for entry in entries]
    return differentiated + [Check(f"{entry.name}, clipping acts",
                                   partial(catalogue.numbers, entry)) for entry in clipped]


def checks_of_derivations() -> list[Check]:
    """One for every derivation."""
    return [Check(one.name, partial(derivations.numbers, one), partial(derivations.check, one))
            for one in derivations.entries()]
