"""Runs all mutants, or a fixed sample of them, and the papers' mistakes by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from grads.check.report import Report
from grads.derivations.errata import MISTAKES
from grads.verification.mutation.checks import checks, checks_of_derivations
from grads.verification.mutation.equivalents import EQUIVALENTS, reason
from grads.verification.mutation.execution import (
    Outcome,
    complaint,
    computes_the_same,
    execute,
    sample,
)
from grads.verification.mutation.injection import replaced
from grads.verification.mutation.record import mutants, poisoned, record


def run(number: int | None = None, jobs: int = 1,
        told: Callable[[int, int], None] = lambda done, of: None) -> list[Outcome]:
    """Run all mutants, or `number` of those that are mistakes, in the order of their functions.

    Arguments: jobs, the number of processes at a time; told, called with the number of finished
    mutants and the total number. Returns their outcomes. Raises AssertionError if a check that
    killed a mutant also fails without it, and if a key of EQUIVALENTS names no mutant.
    """
    shown_to = checks()
    recording = record(shown_to)
    chosen = mutants(recording.functions)
    unknown = set(EQUIVALENTS) - {key[0] for mutant in chosen if (key := reason(mutant.name))}
    assert not unknown, f"equivalents: expected mutants, there are none of {sorted(unknown)}"
    if number is not None:
        chosen = sample([mutant for mutant in chosen if reason(mutant.name) is None], number)
    outcomes = []
    for outcome in execute(chosen, shown_to, recording, jobs):
        outcomes.append(outcome)
        told(len(outcomes), len(chosen))
    killers = {outcome.check for outcome in outcomes if outcome.killed}
    with poisoned():
        wrong = [check.name for check in shown_to
                 if check.name in killers and check.run is not None and complaint(check)]
    if wrong:
        raise AssertionError(f"checks: expected them to pass without a mutant, got failures of "
                             f"{', '.join(wrong)}")
    return sorted(outcomes, key=lambda outcome: outcome.mutant.name)


def check_mistake(name: str, **extent: Any) -> Report:
    """The report on a mistake of the papers, for the first derivation that it changes.

    Arguments: extent, as in `grads.check.check_case`. Raises ValueError if it changes no
    derivation.
    """
    mistake = MISTAKES[name]
    for check in checks_of_derivations():
        right = check.numbers()
        with replaced(mistake.function, mistake.old, mistake.new):
            if check.run is not None and not computes_the_same(check, right):
                return check.run(**extent)
    raise ValueError(f"{name}: expected it to change a derivation, none has other numbers")
