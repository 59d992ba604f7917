"""Runs a function and records every assignment: its line, its equation, its value, what it read.

    trace(lstm.forward, parameters, x, y, follow=[lstm, rnn, calculus]).steps

The function itself is not changed. The tracer makes a copy of its source in which assignments are
recorded (`grads.stepper.tracing`). Assignments in different iterations of a loop are distinguished
by the loop's index; calls of a function are distinguished by their number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from grads.check.state import State
from grads.stepper.tracing.program import Edits, Program
from grads.stepper.tracing.record import (
    Call,
    Loops,
    Origin,
    Read,
    Reading,
    Recorder,
    Step,
    Target,
)
from grads.stepper.tracing.values import KEEP

__all__ = ["Call", "Edits", "Loops", "Origin", "Read", "Step", "Target", "Trace",
           "relative_error", "trace"]


@dataclass(frozen=True)
class Trace:
    """The record of one run of a function."""

    steps: list[Step]
    calls: list[Call]  # by number: the function, who called it, in which loops
    result: Any  # what the function returned
    program: Program = field(repr=False)  # the rewritten function, to be run again
    readings: list[Reading] = field(repr=False)  # every variable read, in order
    memory: dict[Origin, tuple[Any, ...]] = field(repr=False)  # the memory of a target's numbers
    alive: dict[Origin, Any] = field(repr=False)  # the arrays in that memory that were held
    references: list[Any] = field(repr=False)  # to other arrays; on release they clear `memory`
    before: State = field(repr=False)  # what the function can change, as it was before the run
    end: Origin | None = None  # where the loss is assigned before the run ends; a replay ends there
    gradients: frozenset[int] | None = None  # the backward's steps, if one run has both passes

    @contextmanager
    def rewound(self) -> Iterator[None]:
        """Context for running the function again: from the same counters, buffers and random
        generators. What the run changes is undone afterwards."""
        now = State(self.program.entry)
        self.before.restore()
        try:
            yield
        finally:
            now.restore()

    def is_backward(self, number: int) -> bool:
        """Whether a step of a backward's trace belongs to the backward pass."""
        return self.gradients is None or number in self.gradients

    def target(self, origin: Origin) -> Target:
        """The target that an origin points to."""
        return self.steps[origin[0]].targets[origin[1]]

    @cached_property
    def largest_after(self) -> list[int]:
        """For each step, the size of the largest array that this step or a later one computes."""
        sizes, largest = [], 1
        for step in reversed(self.steps):
            if step.kind == "assign":
                largest = max([largest, *(math.prod(target.shape) for target in step.targets
                                          if target.shape and target.same_as is None)])
            sizes.append(largest)
        return sizes[::-1]

    def shortened(self, keep: int) -> Trace:
        """The same trace with fewer numbers of each array, as if it had been recorded with this
        `keep`."""
        steps = [step._replace(targets=tuple(target.shortened(keep) for target in step.targets))
                 for step in self.steps]
        return replace(self, steps=steps)


def trace(
    function: Callable[..., Any], *arguments: Any, follow: Iterable[Any] = (),
    edits: Edits | None = None, keep: int = KEEP, parts: bool = False, held: float = math.inf,
    returns: bool = False, **named: Any,
) -> Trace:
    """Run a function and record each of its assignments, and those of the functions it calls.

    Arguments: function, written in Python with def, and its arguments; follow, modules and
    functions whose calls are recorded too, while all others run unrecorded; edits, replacements in
    the source by function name: {"predict_grad": [("p - one_hot", "one_hot - p")]}; keep, how many
    numbers of an array are kept; parts, whether the parts of expressions are recorded like
    assignments (`grads.stepper.tracing.parts`); held, the size of arrays above which they are not
    kept alive, to save memory (arguments always are); returns, whether an expression that the
    function returns is recorded like an assignment to `return`. Returns the trace. Its result is
    bit for bit that of the function run without tracing. Raises `UserError` for a function without
    source, for an edit that does not fit, and for a run that does not end.
    """
    program = Program(function, follow, parts, returns)
    return record(program.edited(edits) if edits else program, arguments, named, keep, held)


def record(program: Program, arguments: Sequence[Any], named: dict[str, Any], keep: int = KEEP,
           held: float = math.inf, noted: Collection[str] | None = None) -> Trace:
    """Record one run of a rewritten function. The arguments are those of `trace`, and `noted` of
    `Recorder`."""
    recorder = Recorder(program, keep, held, (arguments, named), noted)
    before = State(program.entry)
    result = program.run(recorder, *arguments, **named)
    return Trace(recorder.steps, recorder.calls, result, program, recorder.readings,
                 recorder.memory, recorder.alive, recorder.references, before)


def relative_error(values: Any, expected: Any, floor: float = 0.0) -> float:
    """The largest difference of two arrays, relative to the largest entry of both.

    Argument floor: the smallest number that errors are relative to. The error is 0 if all entries
    are zero.
    """
    values, expected = np.asarray(values), np.asarray(expected)
    if not values.size:
        return 0.0
    with np.errstate(invalid="ignore"):
        scale = float(max(np.abs(values).max(), np.abs(expected).max(), floor))
        return float(np.abs(values - expected).max() / scale) if scale else 0.0
