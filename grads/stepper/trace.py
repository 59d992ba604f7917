"""Runs a function and records every assignment: its line, its equation, its value, what it read.

    trace(lstm.forward, parameters, x, y, follow=[lstm, rnn, calculus]).steps

The function itself is not changed: a copy whose assignments are recorded is made from its source
(`grads.stepper.tracing`). Assignments in different iterations of a loop are distinguished by the
loop's index, calls of a function by their number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from grads.stepper.tracing.program import Edits, Program
from grads.stepper.tracing.record import (
    STEPS,
    Call,
    Loops,
    Origin,
    Read,
    Reading,
    Recorder,
    Step,
    Target,
)
from grads.stepper.tracing.rewrite import Site
from grads.stepper.tracing.values import KEEP

__all__ = ["Call", "Comparison", "Difference", "Edits", "Loops", "Origin", "Read", "Step",
           "Target", "Trace", "compare", "relative_error", "trace"]


@dataclass(frozen=True)
class Trace:
    """The record of one run of a function."""

    steps: list[Step]
    calls: list[Call]  # by number: the function, who called it, in which loops
    result: Any  # what the function returned
    program: Program = field(repr=False)  # the rewritten function, to be run again
    readings: list[Reading] = field(repr=False)  # every variable read, in order
    memory: dict[Origin, tuple[Any, ...]] = field(repr=False)  # the memory of a target's numbers
    alive: dict[Origin, Any] = field(repr=False)  # what lies there, where it was held
    references: list[Any] = field(repr=False)  # to what was not: they end its entry in `memory`
    end: Origin | None = None  # the loss, where it is assigned on the way: a replay ends there
    gradients: frozenset[int] | None = None  # of one run of both passes: steps of the backward

    def is_backward(self, number: int) -> bool:
        """Whether a step belongs to the backward pass, in the trace of a backward."""
        return self.gradients is None or number in self.gradients

    def target(self, origin: Origin) -> Target:
        """The target that an origin points to."""
        return self.steps[origin[0]].targets[origin[1]]

    @cached_property
    def largest_after(self) -> list[int]:
        """For each step the size of the largest array that is computed from it on."""
        sizes, largest = [], 1
        for step in reversed(self.steps):
            if step.kind == "assign":
                largest = max([largest, *(math.prod(target.shape) for target in step.targets
                                          if target.shape and target.same_as is None)])
            sizes.append(largest)
        return sizes[::-1]

    def shortened(self, keep: int) -> Trace:
        """The same trace with fewer numbers of an array: as if recorded with this `keep`."""
        steps = [step._replace(targets=tuple(target.shortened(keep) for target in step.targets))
                 for step in self.steps]
        return replace(self, steps=steps)

    def to_json(self, repeat: bool = True, digits: int | None = None) -> dict[str, Any]:
        """The trace in lists, dicts, numbers and strings; NaN and infinities are strings.

        Arguments: repeat, whether a target that is `same_as` another has its value again (if not,
        its value is null, and the other's, in the order of entries, is meant); digits, significant
        ones of each number, None for all.
        Returns "sites", the statements (line, text, equations ...) that "steps" refer to, and
        "calls". A step's targets are without their place in the value assigned.
        """
        return {"sites": [_site_json(site) for site in self.program.sites],
                "calls": [{**call._asdict(), "owner": None} for call in self.calls],
                "steps": [_step_json(step, repeat, digits) for step in self.steps]}


def trace(
    function: Callable[..., Any], *arguments: Any, follow: Iterable[Any] = (),
    edits: Edits | None = None, keep: int = KEEP, max_steps: int = STEPS, parts: bool = False,
    held: float = math.inf, returns: bool = False, **named: Any,
) -> Trace:
    """Run a function and record each of its assignments, and those of the functions it calls.

    Arguments: function, written in Python with def, and its arguments; follow, modules and
    functions whose calls are recorded too, while all others run unrecorded; edits, pieces of
    source to be replaced, by function name: {"predict_grad": [("p - one_hot", "one_hot - p")]};
    keep, how many numbers of an array are kept; max_steps, the number of assignments and loop
    iterations after which the run is stopped; parts, whether the parts of expressions are recorded
    like assignments (`grads.stepper.tracing.parts`); held, the size of arrays above which they are
    not kept alive, to save memory, unless they are arguments; returns, whether an expression that
    the function returns is recorded like an assignment, to `return`.
    Returns the trace; its result is bit for bit that of the function run without tracing.
    Raises `UserError` for a function without source, an edit that does not fit, and a run that
    does not end.
    """
    program = Program(function, follow, parts, returns)
    return record(program.edited(edits) if edits else program, arguments, named, keep, held,
                  max_steps)


def record(program: Program, arguments: Sequence[Any], named: dict[str, Any], keep: int = KEEP,
           held: float = math.inf, max_steps: int = STEPS) -> Trace:
    """The trace of one run of a rewritten function; arguments as those of `trace`."""
    recorder = Recorder(program, keep, max_steps, held, (arguments, named))
    result = program.run(recorder, *arguments, **named)
    return Trace(recorder.steps, recorder.calls, result, program, recorder.readings,
                 recorder.memory, recorder.alive, recorder.references)


# --- comparing two traces -----------------------------------------------------------------------


class Difference(NamedTuple):
    """A target that differs between two traces."""

    step: int
    target: int
    name: str
    error: float  # largest difference, relative to the largest entry; infinite for other shapes


class Comparison(NamedTuple):
    """The differences between two traces of one function."""

    differences: list[Difference]  # in the order of steps
    diverged: int | None  # the first step that is of another line, or in one trace only

    @property
    def first(self) -> int | None:
        """The first step at which anything differs; None if nothing does."""
        steps = [difference.step for difference in self.differences[:1]]
        return min([*steps, *([] if self.diverged is None else [self.diverged])], default=None)

    @property
    def names(self) -> list[str]:
        """The variables that differ, in the order in which they first do."""
        return list(dict.fromkeys(difference.name for difference in self.differences))


def compare(a: Trace, b: Trace, tolerance: float = 0.0) -> Comparison:
    """Every target of two traces that differs by more than `tolerance`, relative.

    The traces are of one function, one of them with lines changed by `edits` or with other
    arguments; they are compared step by step, as far as both run through the same lines.
    """
    differences: list[Difference] = []
    for step, changed in zip(a.steps, b.steps, strict=False):
        names = [target.name for target in changed.targets]
        if (step.function, step.line) != (changed.function, changed.line) or names != [
                target.name for target in step.targets]:
            return Comparison(differences, step.number)
        for i, (left, right) in enumerate(zip(step.targets, changed.targets, strict=True)):
            error = _disagreement(left, right)
            if error > tolerance:
                differences.append(Difference(step.number, i, left.name, error))
    shorter = min(len(a.steps), len(b.steps))
    return Comparison(differences, None if len(a.steps) == len(b.steps) else shorter)


def relative_error(values: Any, expected: Any, floor: float = 0.0) -> float:
    """The largest difference, relative to the largest entry, or to `floor` if that is larger; 0
    where all are zero."""
    values, expected = np.asarray(values), np.asarray(expected)
    if not values.size:
        return 0.0
    with np.errstate(invalid="ignore"):
        scale = float(max(np.abs(values).max(), np.abs(expected).max(), floor))
        return float(np.abs(values - expected).max() / scale) if scale else 0.0


def _disagreement(left: Target, right: Target) -> float:
    """By how much two targets differ."""
    if left.shape is None or right.shape is None:
        return 0.0 if left.value == right.value else float("inf")
    if left.shape != right.shape:
        return float("inf")
    if np.array_equal(left.value, right.value, equal_nan=True):
        return 0.0
    error = relative_error(left.value, right.value)
    return error if error == error else float("inf")


# --- JSON ---------------------------------------------------------------------------------------


ROOT = Path(__file__).resolve().parents[2]  # files below it are named from here


def _site_json(site: Site) -> dict[str, Any]:
    """A statement in plain values."""
    path = Path(site.file)
    file = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.name
    return {"kind": site.kind, "function": site.function, "file": file, "line": site.line,
            "end_line": site.end_line, "text": site.text, "comment": site.comment,
            "equations": list(site.equations)}


def _step_json(step: Step, repeat: bool, digits: int | None) -> dict[str, Any]:
    """A step in plain values."""
    targets = [{"name": target.name, "written": target.written, "shape": target.shape,
                "sliced": target.sliced, "same_as": target.same_as,
                "value": plain(target.value, digits) if repeat or not target.same_as else None}
               for target in step.targets]
    return {"number": step.number, "site": step.site, "frame": step.frame, "depth": step.depth,
            "loops": plain(step.loops), "own_loops": plain(step.own_loops), "targets": targets,
            "reads": [read._asdict() for read in step.reads]}


def plain(value: Any, digits: int | None = None) -> Any:
    """An array, number or container as lists, numbers and strings that JSON can hold."""
    if isinstance(value, (np.ndarray, np.generic)):
        return plain(value.tolist(), digits)
    if isinstance(value, dict):
        return {str(key): plain(entry, digits) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(entry, digits) for entry in value]
    if isinstance(value, float):
        if not np.isfinite(value):
            return str(value)
        return value if digits is None else float(f"{value:.{digits}g}")
    return value if value is None or isinstance(value, (bool, int, str)) else str(value)
