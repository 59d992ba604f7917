"""All mutants, or a fixed sample of them; and the papers' mistakes by name."""

from __future__ import annotations

from collections.abc import Callable

from grads.check.report import Report
from grads.derivations.errata import MISTAKES
from grads.verification.mutation.checks import checks, checks_of_derivations
from grads.verification.mutation.judge import Outcome, complaint, judge, sample
from grads.verification.mutation.planting import replaced
from grads.verification.mutation.record import mutants, poisoned, record


def run(number: int | None = None, jobs: int = 1,
        told: Callable[[int, int], None] = lambda done, of: None) -> list[Outcome]:
    """Judge all mutants, or `number` of them, in the order of their functions.

    Arguments: jobs, processes at a time; told, called with how many are done, of how many. Raises
    AssertionError where a check that killed a mutant fails without it too.
    """
    shown_to = checks()
    recording = record(shown_to)
    found = mutants(recording.functions)
    if number is not None:
        found = sample(found, number)
    outcomes = []
    for outcome in judge(found, shown_to, recording, jobs):
        outcomes.append(outcome)
        told(len(outcomes), len(found))
    killers = {outcome.check for outcome in outcomes if outcome.killed}
    with poisoned():
        wrong = [check.name for check in shown_to if check.name in killers and complaint(check)]
    if wrong:
        raise AssertionError(f"checks: expected them to pass without a mutant, got failures of "
                             f"{', '.join(wrong)}")
    return sorted(outcomes, key=lambda outcome: outcome.mutant.name)


def check_mistake(name: str) -> Report:
    """What is said of one of the papers' mistakes: the first wrong report, or the last."""
    mistake = MISTAKES[name]
    with replaced(mistake.function, mistake.old, mistake.new):
        for check in checks_of_derivations():
            report = check.run()
            if not report.ok:
                break
    return report
