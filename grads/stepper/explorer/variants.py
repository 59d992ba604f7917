"""Compares wrong backward passes with the right one: which tensors become wrong, and from which
step."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from grads.stepper.explorer.examples import RunExample
from grads.stepper.explorer.expand import expansions
from grads.stepper.explorer.steps import Steps, file_name
from grads.stepper.explorer.tensors import BACKWARD, Table, flat, number
from grads.stepper.trace import Origin, Step, Target, Trace, relative_error
from grads.stepper.tracing.run import Break
from grads.stepper.tracing.verify import Verification, floor_of

DIFFERENT = 1e-9  # relative difference from which a tensor counts as changed
DIGITS = 4  # significant ones of a wrong number
ROUGH = 2  # of an error


class Wrong:
    """A wrong backward pass, with its steps aligned to those of the right one."""

    def __init__(self, trace: Trace, numbers: list[int]) -> None:
        self.trace, self.numbers = trace, numbers  # by step of the right pass: step of this one

    def target(self, origin: Origin) -> Target:
        """The target of this pass that corresponds to a target of the right pass."""
        return self.trace.steps[self.numbers[origin[0]]].targets[origin[1]]


def variants_json(
    example: RunExample, table: Table, steps: Steps, verifications: Sequence[Verification]
) -> list[dict[str, Any]]:
    """An object for each of the derivation's mistakes that runs through the same lines and changes
    a number."""
    right, variants = example.run.backward, []
    for mistake in example.run.derivation.breaks:
        trace = example.rerun(mistake.edits)
        numbers = aligned(right, trace)
        wrong = Wrong(trace, numbers or [])
        origins = [origin
                   for origin in differing(right, wrong) if origin[0] in table.shown[BACKWARD]
                   ] if numbers else []
        if origins:
            variants.append({
                **described(mistake, right),
                "wrong": [table.ids[BACKWARD, origin] for origin in origins],
                "values": {table.ids[BACKWARD, origin]: flat(wrong.target(origin).value, DIGITS)
                           for origin in origins if needs_value(table, wrong, origin)},
                "verifications": failing(verifications, wrong, example.tolerance),
                "edited": edited(mistake, wrong, table, steps),
            })
    return variants


def aligned(right: Trace, wrong: Trace) -> list[int] | None:
    """The steps of a wrong pass that correspond to those of the right one, which may have
    additional steps; None if the wrong pass takes another path."""
    numbers, waiting = [], iter(wrong.steps)
    for step in right.steps:
        match = next((candidate.number for candidate in waiting if same_place(candidate, step)),
                     None)
        if match is None:
            return None
        numbers.append(match)
    return numbers


def same_place(step: Step, other: Step) -> bool:
    """Whether two steps are of the same line in the same iterations of loops."""
    return (step.kind, step.function, step.line, step.loops) == (
        other.kind, other.function, other.line, other.loops) and (
        [target.name for target in step.targets] == [target.name for target in other.targets])


def differing(right: Trace, wrong: Wrong) -> list[Origin]:
    """The assigned targets whose numbers a wrong pass changes, in order."""
    return [(step.number, i) for step in right.steps if step.kind == "assign"
            for i, target in enumerate(step.targets) if target.shape is not None
            and not close(target, wrong.target((step.number, i)))]


def close(target: Target, other: Target) -> bool:
    """Whether two targets have the same numbers up to rounding."""
    right, wrong = (np.asarray(value, float) for value in (target.value, other.value))
    return target.shape == other.shape and (
        right.tobytes() == wrong.tobytes() or relative_error(right, wrong) <= DIFFERENT)


def described(mistake: Break, trace: Trace) -> dict[str, Any]:
    """The mistake in words: where it is, the old and the new text, and why it matters."""
    (function, ((old, new),)), = mistake.edits.items()
    file = next(Path(traced.__code__.co_filename) for traced in trace.program.copies
                if traced.__name__ == function)
    return {"id": slug(mistake.name), "title": mistake.name, "why": mistake.explanation,
            "function": function, "from": old, "to": new, "file": file_name(file)}


def slug(name: str) -> str:
    """A name for a link: "g' at the activation" is "g-at-the-activation"."""
    return "-".join("".join(c if c.isalnum() else " " for c in name.lower()).split())


def needs_value(table: Table, wrong: Wrong, origin: Origin) -> bool:
    """Whether a wrong tensor has numbers of its own, and not those of another tensor."""
    tensor = table.ids[BACKWARD, origin]
    root = table.root(tensor)
    where, place = table.origins[root]
    return root == tensor or where != BACKWARD or not np.array_equal(
        np.ravel(wrong.target(origin).value), np.ravel(wrong.target(place).value))


def failing(
    verifications: Sequence[Verification], wrong: Wrong, tolerance: float
) -> dict[int, Any]:
    """The errors of the verifications that fail; the derivatives are those of the right run."""
    errors: dict[int, Any] = {}
    floor = floor_of(np.asarray(verification.complex_step)
                     for verification in verifications if verification.error is not None)
    for i, verification in enumerate(verifications):
        if verification.error is None:
            continue
        exact = np.ravel(verification.complex_step)
        known = ~np.isnan(exact)
        value = np.ravel(np.asarray(wrong.target((verification.step, verification.target)).value))
        error = relative_error(value[known], exact[known], floor)
        if not error <= tolerance:
            errors[i] = number(error, ROUGH)
    return errors


def edited(mistake: Break, wrong: Wrong, table: Table, steps: Steps) -> list[dict[str, Any]]:
    """The steps whose line was edited, with the edited text."""
    places = {other: right for right, other in enumerate(wrong.numbers)}
    lines = []
    for step in wrong.trace.steps:
        right = steps.numbers.get((BACKWARD, places.get(step.number, -1)))
        if right is None or step.function not in mistake.edits:
            continue
        if step.text != steps.entries[right]["text"]:
            reads = {read.written.removesuffix(".T"): table.find(BACKWARD, (places[from_], i))
                     for read in step.reads if len(read.origins) == 1
                     for from_, i in read.origins if from_ in places}
            lines.append({"step": right, "text": step.text,
                          "expansions": expansions(step.text, reads, len(step.targets))})
    return lines
