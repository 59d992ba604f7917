"""All mutants, or a fixed sample of them; and the papers' mistakes by name."""

from __future__ import annotations

from collections.abc import Callable

from grads.check.report import Report
from grads.derivations.errata import MISTAKES
from grads.verification.mutation.checks import checks, checks_of_derivations
from grads.verification.mutation.equivalents import EQUIVALENTS, reason
from grads.verification.mutation.execution import Outcome, complaint, execute, same, sample
from grads.verification.mutation.injection import replaced
from grads.verification.mutation.record import mutants, poisoned, record


def run(number: int | None = None, jobs: int = 1,
        told: Callable[[int, int], None] = lambda done, of: None) -> list[Outcome]:
    """Run all mutants, or `number` of those that are mistakes, in the order of their functions.

    Arguments: jobs, processes at a time; told, called with how many are done, of how many. Raises
    AssertionError where a check that killed a mutant fails without it too, and where a key of
    EQUIVALENTS names no mutant.
    """
    shown_to = checks()
    recording = record(shown_to)
    chosen = mutants(recording.functions)
    gone = set(EQUIVALENTS) - {key[0] for mutant in chosen if (key := reason(mutant.name))}
    assert not gone, f"equivalents: expected mutants, there are none of {sorted(gone)}"
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


def check_mistake(name: str) -> Report:
    """The report on one of the papers' mistakes for the first derivation that it changes.

    Raises ValueError if it changes none.
    """
    mistake = MISTAKES[name]
    for check in checks_of_derivations():
        right = check.numbers()
        with replaced(mistake.function, mistake.old, mistake.new):
            if check.run is not None and not same(check, right):
                return check.run()
    raise ValueError(f"{name}: expected it to change a derivation, none has other numbers")
