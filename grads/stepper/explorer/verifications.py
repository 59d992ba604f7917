"""Prepares the verification of every gradient for the page: numbers, V curves, lines of the
loss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from grads.stepper.explorer.partners import forward_origin
from grads.stepper.explorer.step_sizes import STEPS, step_errors
from grads.stepper.explorer.steps import Steps
from grads.stepper.explorer.tensors import BACKWARD, FORWARD, Table, flat, number
from grads.stepper.tracing.derivations import Run
from grads.stepper.tracing.replay import Bumps
from grads.stepper.tracing.verify import Verification, bumps_of

H = STEPS  # of the V curves
X = np.linspace(-0.5, 0.5, 9)  # what is added to an entry for a line of the loss
COMPARED = 7  # significant digits of a derivative by complex step
CENTRAL = 6  # of a derivative by central differences, which have no more
ROUGH = 2  # of an error
MANY = 600  # gradients that all have a V curve
LARGE = 20_000  # a variable with more numbers is not run repeatedly
GIVEN = 100_000  # if the inputs have more numbers, only parameters are run repeatedly


def verifications_json(
    run: Run, table: Table, steps: Steps, verifications: Sequence[Verification]
) -> list[dict[str, Any]]:
    """An object for each gradient that the backward assigned, in order. Their tensors are
    marked."""
    shown = [verification for verification in verifications
             if verification.error is not None and verification.partner is not None
             and size(verification)]
    entries = {id(verification): representative(verification)
               for verification in with_curve(run, shown)}
    drawn = [verification for verification in shown if id(verification) in entries]
    curves = dict(zip(entries, error_curves(run, drawn, entries), strict=True))
    weights = [verification for verification in shown if is_whole_parameter(verification)]
    lines = dict(zip(map(id, weights), loss_lines(run, weights), strict=True))
    objects = []
    for verification in verifications:
        target = table.ids[BACKWARD, (verification.step, verification.target)]
        table.entries[target]["gradient"] = True
        entry: dict[str, Any] = {
            "step": steps.numbers[BACKWARD, verification.step], "target": target,
            "name": verification.name, "of": None, "of_name": verification.forward,
            "status": verification.status, "reason": verification.reason,
            "other": None if verification.other is None
            else steps.assigned(BACKWARD, verification.other),
            "complex": None, "central": None, "error": None, "central_error": None, "curve": None,
        }
        if verification.error is not None:
            entry |= {
                "of": None if verification.partner is None
                else table.find(FORWARD, forward_origin(run, verification)),
                "complex": same_or_list(verification), "error": number(verification.error, ROUGH),
                "curve": curves.get(id(verification)),
            }
            if verification.central is not None and verification.central_error is not None:
                entry |= {"central": flat(verification.central, CENTRAL),
                        "central_error": number(verification.central_error, ROUGH)}
            if verification.method != "complex step":
                entry["method"] = verification.method
            if verification.checked < np.prod(verification.shape):
                entry["checked"] = verification.checked
            if id(verification) in lines:
                entry["lines"] = lines[id(verification)]
        objects.append(entry)
    mark_passed_on(table)
    return objects


def mark_passed_on(table: Table) -> None:
    """Mark the tensors of the backward that pass on a gradient's numbers, as saved['...'] does."""
    for number_, entry in enumerate(table.entries):
        if table.origins[number_][0] == BACKWARD and table.entries[table.root(number_)]["gradient"]:
            entry["gradient"] = True


def same_or_list(verification: Verification) -> Any:
    """The derivatives by complex step; True if they equal the gradient in all digits that are
    shown."""
    exact = flat(verification.complex_step, COMPARED)
    return exact == flat(verification.analytic, COMPARED) or exact


def is_whole_parameter(verification: Verification) -> bool:
    """Whether a gradient is the complete gradient of a parameter, as the caller gave it."""
    assert verification.partner is not None
    return verification.partner.step == 0


def with_curve(run: Run, verifications: Sequence[Verification]) -> list[Verification]:
    """The gradients that get a V curve.

    Normally these are all. If they are many or large, they are the first of each line and those of
    the parameters, except of a very large variable. In a large model they are only those of the
    parameters.
    """
    sampled = any(verification.checked < np.prod(verification.shape)
                  for verification in verifications)
    inputs = sum(int(np.prod(target.shape)) for target in run.forward.steps[0].targets
                 if target.shape)
    if len(verifications) <= MANY and not sampled:
        return list(verifications)
    lines = {(verification.function, verification.line,
              verification.name.partition("[")[0]): id(verification)
             for verification in reversed(verifications)}
    chosen = set(lines.values()) if inputs <= GIVEN else set()
    return [verification for verification in verifications
            if (id(verification) in chosen or is_whole_parameter(verification))
            and size(verification) <= LARGE]


def size(verification: Verification) -> int:
    """How many numbers the forward variable of a gradient has."""
    assert verification.partner is not None
    return int(np.prod(verification.partner.shape))


def representative(verification: Verification) -> int:
    """The entry (flat) that the V curve is of: the largest of those compared."""
    known = np.nan_to_num(np.abs(np.ravel(verification.complex_step)), nan=-1.0)
    return int(np.argmax(known))


def bump(verification: Verification, entries: np.ndarray) -> Bumps:
    """The perturbations of some entries (flat) of a gradient's forward variable."""
    assert verification.partner is not None
    return bumps_of(verification.partner, np.shape(verification.analytic), verification.shape,
                    entries)


def losses(run: Run, bumps: Sequence[Bumps], steps: np.ndarray) -> list[np.ndarray]:
    """The losses with each of `steps` added, one after another, to the single entry of each of the
    bumps. Many bumps share one run. A loss is NaN if a user's function cannot be run with a
    step."""
    return run.runs(run.forward).losses(bumps, [steps] * len(bumps))


def error_curves(
    run: Run, verifications: Sequence[Verification], entries: dict[int, int]
) -> list[dict[str, Any]]:
    """For each verification the error of numerical derivatives of one entry, by step size."""
    every = [bump(verification, np.full(2 * len(H) + 1, entries[id(verification)]))
             for verification in verifications]
    real = losses(run, every, np.concatenate([H, -H, [0.0]]))
    every = [bump(verification, np.full(len(H), entries[id(verification)]))
             for verification in verifications]
    along = losses(run, every, 1j * H)
    return [curve(verification, entries[id(verification)], *ends)
            for verification, *ends in zip(verifications, real, along, strict=True)]


def curve(
    verification: Verification, entry: int, real: np.ndarray, along: np.ndarray
) -> dict[str, Any]:
    """Relative errors as powers of ten, one decimal; null where there is none."""
    errors = step_errors(real, along, float(np.ravel(verification.analytic)[entry]), H)

    def powers(values: np.ndarray) -> list[float | None]:
        return [round(float(np.log10(error)), 1) if 0 < error < np.inf else None
                for error in values]

    return {"entry": entry, **{kind: powers(getattr(errors, kind))
                               for kind in ("complex", "central", "forward")}}


def loss_lines(run: Run, verifications: Sequence[Verification]) -> list[list[list[Any] | None]]:
    """For each verification, the change of the loss along each compared entry, or along a single
    entry of a very large variable; null for the other entries."""
    at = run.loss(run.forward.result)
    compared = [np.flatnonzero(~np.isnan(np.ravel(verification.complex_step)))
                if size(verification) <= LARGE
                else np.array([representative(verification)]) for verification in verifications]
    every = [bump(verification, np.full(len(X), entry))
             for verification, entries in zip(verifications, compared, strict=True)
             for entry in entries]
    changes = iter(losses(run, every, X))
    made = []
    for verification, entries in zip(verifications, compared, strict=True):
        lines: list[list[Any] | None] = [None] * np.size(verification.analytic)
        for entry in entries:
            lines[entry] = flat(next(changes) - at, 4)
        made.append(lines)
    return made
