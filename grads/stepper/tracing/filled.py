"""Finds arrays that a user's backward fills part by part, and arguments that it overwrites."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from grads.stepper.trace import Origin, Trace
from grads.stepper.tracing.pairing import root_of
from grads.stepper.tracing.record import belongs
from grads.stepper.tracing.values import at, is_array


def held(trace: Trace, assignments: Sequence[Origin]) -> np.ndarray | None:
    """The array that these assignments filled, as it is at the end of the run; None if it is not
    known."""
    step, root = trace.steps[assignments[0][0]], root_of(trace.target(assignments[0]).name)
    for origin, value in trace.alive.items():
        written = trace.steps[origin[0]]
        if written.frame == step.frame and trace.target(origin).name == root:
            return np.asarray(value)
    return None


def readings_after(trace: Trace, last: Origin) -> Iterator[int]:
    """The numbers of the readings of a variable that come after its last assignment."""
    frame, root = trace.steps[last[0]].frame, root_of(trace.target(last).name)
    for number, reading in enumerate(trace.readings):
        if reading.frame == frame and reading.name == root and any(
                origin == last
                for name, (origin, _) in reading.known.items() if belongs(name, root)):
            yield number


def written_over(trace: Trace, arguments: Sequence[Any]) -> Origin | None:
    """The first assignment that wrote into the upstream gradient, which is the first argument."""
    held_by, first = trace.alive, len(trace.program.bound)
    changed = [i for i, target in enumerate(trace.steps[0].targets)
               if target.place and target.place[0] == first and (0, i) in held_by and is_array(
                   held_by[0, i]) and not np.array_equal(
                   held_by[0, i], at(arguments, (0, *target.place[1:])), equal_nan=True)]
    for i in changed:
        for origin, value in trace.alive.items():
            step = trace.steps[origin[0]]
            into = trace.program.sites[step.site].augmented or (
                "[" in trace.target(origin).written)
            if step.kind == "assign" and into and np.shares_memory(value, held_by[0, i]):
                return origin
    return None
