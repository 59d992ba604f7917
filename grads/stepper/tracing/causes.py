"""Marks the lines in which `grads check` finds the mistake.

The check tries changes of the source: `1 - h ** 2` in place of `1 - h` in line 8. If a change makes
a gradient right, its line is marked with it, even if it assigns no gradient. The next line that can
be compared with a derivative may come much later.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from grads.check.diagnosis.edits import ONLY_HERE
from grads.check.report import Report
from grads.stepper.trace import Origin, Trace
from grads.stepper.tracing.verify import Verification, unverified

FOUND = re.compile(r"it is right with.* in line (\d+)")  # with or without
PATH = "what comes through"  # in a hint on a term that is missing or wrong
LEAVES = "which leaves"  # of a change that makes another gradient wrong
REASON = "grads check: {}"
ELSEWHERE = "grads check finds the mistake elsewhere: {}"


def remarks(report: Report) -> list[str]:
    """What the check says of what is wrong, without its notes on the methods."""
    said = report.remarks()
    return said[:len(said) - len(report.notes)]


def causes(report: Report) -> dict[int, str]:
    """What the check says of changes that make a gradient right, by the number of the line."""
    hints = [(row.name, hint) for row in report.wrong for hint in row.hints]
    return {int(found[1]): f"{name}: {hint}" for name, hint in reversed(hints)
            if (found := FOUND.search(hint)) and LEAVES not in hint}


def found_lines(report: Report | None) -> list[int]:
    """The lines in which a change makes a gradient right, where the check is sure of it."""
    return [] if report is None else sorted(
        line for line, hint in causes(report).items() if ONLY_HERE not in hint)


def paths(report: Report | None) -> list[str]:
    """What the check says of the first gradient that has a term missing or wrong. No line may be
    at fault: a forgotten term is in none."""
    return [] if report is None else [
        REASON.format(f"{row.name}: {hint}")
        for row in report.wrong for hint in row.hints if PATH in hint][:1]


def with_causes(backward: Trace, report: Report, verifications: Sequence[Verification],
                guessed: Collection[Origin]) -> list[Verification]:
    """The verifications, with the lines marked that the check has found.

    Before the first wrong value a line keeps its question mark and gets what the check says: a
    change there may only make up for a mistake behind it.

    Argument guessed: the gradients that are compared with the derivative of a guess, or of what is
    returned. If the check has found a line for each wrong gradient, they are not red before the
    first of those lines.
    """
    found, known = causes(report), {(v.step, v.target): v for v in verifications}
    first = min((origin for origin, v in known.items() if v.status == "wrong"), default=(0, 0))
    compared = {origin for origin, v in known.items() if v.status in ("verified", "wrong")}
    red: dict[Origin, str] = {}
    at_line: list[Origin] = []  # wrong values of lines that the check has found
    for step in backward.steps:
        hint = next((hint for line, hint in found.items()
                     if step.line <= line <= step.end_line), None)
        if hint is not None and step.kind == "assign" and backward.is_backward(step.number) and (
                step.file == backward.program.start.__code__.co_filename):
            origins = [(step.number, i) for i, target in enumerate(step.targets)
                       if target.same_as not in compared]
            wrong = [origin for origin in origins if origin in known
                     and known[origin].status == "wrong"]
            at_line += wrong
            red |= {origin: hint for origin in origins * (not wrong)
                    if (known[origin].status == "suspect" if origin in known else origin > first)}
    known |= {origin: unverified(backward, origin, "suspect" if origin < first else "wrong",
                                 REASON.format(hint)) for origin, hint in red.items()}
    if red and all(any(FOUND.search(hint) for hint in row.hints) for row in report.wrong):
        known |= {origin: unverified(backward, origin, "other", ELSEWHERE.format(red[min(red)]))
                  for origin in guessed if origin < min([*red, *at_line])
                  and known[origin].status == "wrong"}
    return [known[origin] for origin in sorted(known)]
