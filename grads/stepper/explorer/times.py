"""Chooses the steps of a long run that a page shows: the first and last times of its loops."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from grads.stepper.explorer.tensors import BACKWARD, FORWARD
from grads.stepper.trace import Step
from grads.stepper.tracing.derivations import Run
from grads.stepper.tracing.verify import Verification

STEPS = 4000  # assignments of a page, unless one time at either end already has more
ENDS = (10, 7, 5, 3, 2, 1)  # times at either end of a loop: the most that fit


class Shown(NamedTuple):
    """The assignments that a page shows."""

    steps: Mapping[str, frozenset[int]]  # by pass: their numbers in its trace
    note: str  # which times are left out; "" if none are

    def with_first_wrong(self, verifications: Sequence[Verification]) -> Shown:
        """The same, plus the step of the first wrong gradient."""
        wrong = min((verification.step for verification in verifications
                     if verification.status == "wrong"), default=None)
        if wrong is None:
            return self
        return self._replace(steps={**self.steps, BACKWARD: self.steps[BACKWARD] | {wrong}})


def shown_steps(run: Run) -> Shown:
    """The steps to show: all assignments of both passes if there are at most STEPS. Otherwise the
    first and the last iterations of each outermost loop, as many as fit."""
    every = {name: run.assigned(name) for name in (FORWARD, BACKWARD)}
    total = sum(map(len, every.values()))
    times = times_of([step for steps in every.values() for step in steps])
    ends, chosen = 0, every
    for ends in ENDS if total > STEPS else ():
        chosen = {name: [step for step in steps if is_near(step, times, ends)]
                 for name, steps in every.items()}
        if sum(map(len, chosen.values())) <= STEPS:
            break
    shown = {name: frozenset(step.number for step in steps) for name, steps in chosen.items()}
    count = sum(map(len, chosen.values()))
    note = "" if count == total else (
        f"Shown in part: {count} of {total} steps, of each loop over time the first and the last "
        f"{ends} iterations ({', '.join(said(name, times[name], ends) for name in times)}). "
        "Sums over time and weights of attention are those of all.")
    return Shown(shown, note)


def times_of(steps: list[Step]) -> dict[str, list[int]]:
    """The values that the index of each outermost loop takes, in order."""
    indices: dict[str, set[int]] = defaultdict(set)
    for step in steps:
        for name, value in step.loops[:1]:
            indices[name].add(value)
    return {name: sorted(values) for name, values in indices.items()}


def is_near(step: Step, times: Mapping[str, list[int]], ends: int) -> bool:
    """Whether a step is outside of all loops, or near an end of the outermost one around it."""
    return all(value in times[name][:ends] or value in times[name][-ends:]
               for name, value in step.loops[:1])


def said(name: str, values: list[int], ends: int) -> str:
    """A loop and how many iterations it has."""
    return f"{name}: {min(len(values), 2 * ends)} of {len(values)}"
