"""Finds the lines that may have made a value wrong.

These are the lines that the value is computed from, except those that are known to be right. A
missing term shows only where its sum is first compared: `dh_prev = du` is found at the next time
step, as `dh = dh_prev + ...`. So the lines between are marked too, back to the last verified ones.
Lines that right values are computed from, too, are marked only if no others are left.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from itertools import islice

import numpy as np

from grads.stepper.trace import Origin, Trace
from grads.stepper.tracing.pairing import root_of


def suspects(forward: Trace, trace: Trace, wrong: Collection[Origin], right: Collection[Origin]
             ) -> list[Origin]:
    """The assignments that wrong values are computed from, in order.

    The search goes back to assignments that are verified, and to those whose numbers the forward
    has under the same name.
    """
    waiting, seen, known = list(wrong), {*wrong, *right}, values_by_name(forward)
    marked = []
    while waiting:
        origin = waiting.pop()
        for source in sources(trace, origin):
            step = trace.steps[source[0]]
            if source in seen or not trace.is_backward(source[0]) or is_initial(trace, source) or (
                    is_given(trace, source, known)):
                continue
            seen.add(source)
            waiting.append(source)
            if step.kind == "assign":
                marked.append(source)
    return sorted(marked)


def unused(trace: Trace, marked: Collection[Origin], right: Collection[Origin],
           wrong: Collection[Origin]) -> list[Origin]:
    """The marked assignments that no right value is computed from: a mistake in another would
    mostly make that value wrong. All of them if none is left."""
    used = used_for(trace, right, wrong)
    return [origin for origin in marked if origin not in used] or [*marked]


def used_for(trace: Trace, right: Collection[Origin], wrong: Collection[Origin]) -> set[Origin]:
    """The assignments that right values are computed from, except through wrong ones. The search
    goes only through lines that make one value of single arrays: of others it is not known what
    each value is computed from."""
    waiting, seen = list(right), {*wrong}
    while waiting:
        step = trace.steps[(origin := waiting.pop())[0]]
        if len(step.targets) == 1:
            read = {reading.origins[0] for reading in step.reads if len(reading.origins) == 1}
            new = (read | {*accumulated(trace, origin)}) - seen
            seen |= new
            waiting += new
    return seen


def sources(trace: Trace, origin: Origin) -> Iterator[Origin]:
    """The origins that a value is computed from: the variables that its line read, everything
    written into them before, and the results of the functions that the line called."""
    step, passed = trace.steps[origin[0]], trace.target(origin).same_as
    read = {source for reading in step.reads for source in reading.origins}
    yield from read | ({passed} if passed else set())
    names = {(trace.steps[source[0]].frame, root_of(trace.target(source).name)) for source in read}
    yield from accumulated(trace, origin)
    for before in reversed(trace.steps[: step.number]):
        if before.kind == "assign":
            for i, target in enumerate(before.targets):
                if "[" in target.written and (before.frame, root_of(target.name)) in names:
                    yield before.number, i


def accumulated(trace: Trace, origin: Origin) -> list[Origin]:
    """The assignment before of x, for a value made by `x += e`; empty for other values."""
    step, name = trace.steps[origin[0]], trace.target(origin).name
    made = ((before.number, i) for before in reversed(trace.steps[: step.number])
            if before.kind == "assign" and before.frame == step.frame
            for i, target in enumerate(before.targets) if target.name == name)
    return [*islice(made, 1)] if trace.program.sites[step.site].augmented else []


def values_by_name(trace: Trace) -> dict[str, list[np.ndarray]]:
    """All values that each variable has had, by the variable's name."""
    values: dict[str, list[np.ndarray]] = defaultdict(list)
    for step in trace.steps:
        for target in step.targets:
            if target.shape is not None and step.kind != "return":
                values[target.name].append(np.asarray(target.value))
    return values


def is_given(trace: Trace, origin: Origin, known: Mapping[str, list[np.ndarray]]) -> bool:
    """Whether a variable only repeats known numbers: those of an argument of the backward (as the
    cache), or of a forward variable. A gradient that passes on another one (`dz = dy`) does not
    count."""
    passed: Origin | None = origin
    if root_of(trace.target(origin).name.removeprefix("self.")).startswith("d"):
        return trace.steps[origin[0]].kind == "call"
    while passed is not None:
        target = trace.target(passed)
        if passed[0] == 0 or not trace.is_backward(passed[0]) or any(
                np.array_equal(value, target.value) for value in known[target.name]):
            return True
        passed = target.same_as
    return False


def is_initial(trace: Trace, origin: Origin) -> bool:
    """Whether a value is the start of a sum: zero, and assigned outside all loops."""
    return not trace.steps[origin[0]].own_loops and not np.any(
        np.asarray(trace.target(origin).value) != 0)
