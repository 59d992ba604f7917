"""What is known of every gradient, as the page gets it: numbers, V curves, lines of the loss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from grads.stepper.explorer.partners import forward_origin
from grads.stepper.explorer.steps import Steps
from grads.stepper.explorer.tensors import BACKWARD, FORWARD, Table, flat, number
from grads.stepper.tracing.derivations import Run
from grads.stepper.tracing.prove import LANES, MEMORY, Proof, bumps_of
from grads.stepper.tracing.record import Target
from grads.stepper.tracing.replay import Bumps, rerun

H = 10.0 ** -np.arange(16)  # step sizes of the V curves
X = np.linspace(-0.5, 0.5, 9)  # what is added to an entry for a line of the loss
COMPARED = 7  # significant digits of a derivative by complex step
CENTRAL = 6  # of one by central differences, which have no more
ROUGH = 2  # of an error
MANY = 600  # gradients that all have a V curve
LARGE = 50_000  # numbers of a variable that is not run again and again


def proofs_json(
    run: Run, table: Table, steps: Steps, proofs: Sequence[Proof]
) -> list[dict[str, Any]]:
    """One object for each gradient the backward assigned, in order; marks their tensors."""
    shown = [proof for proof in proofs if proof.error is not None]
    entries = {id(proof): representative(proof) for proof in with_curve(run, shown)}
    drawn = [proof for proof in shown if id(proof) in entries]
    curves = dict(zip(entries, error_curves(run, drawn, entries), strict=True))
    weights = [proof for proof in shown if is_whole_parameter(run, proof)]
    lines = dict(zip(map(id, weights), loss_lines(run, weights), strict=True))
    found = []
    for proof in proofs:
        target = table.ids[BACKWARD, (proof.step, proof.target)]
        table.entries[target]["gradient"] = True
        one: dict[str, Any] = {
            "step": steps.numbers[BACKWARD, proof.step], "target": target, "name": proof.name,
            "of": None, "of_name": proof.forward, "status": proof.status, "reason": proof.reason,
            "other": None if proof.other is None else steps.assigned(BACKWARD, proof.other),
            "complex": None, "central": None, "error": None, "central_error": None, "curve": None,
        }
        if proof.error is not None:
            one |= {
                "of": table.find(FORWARD, forward_origin(run, proof)),
                "complex": same_or_list(proof), "error": number(proof.error, ROUGH),
                "curve": curves.get(id(proof)),
            }
            if proof.central is not None and proof.central_error is not None:
                one |= {"central": flat(proof.central, CENTRAL),
                        "central_error": number(proof.central_error, ROUGH)}
            if proof.checked < np.prod(proof.shape):
                one["checked"] = proof.checked
            if id(proof) in lines:
                one["lines"] = lines[id(proof)]
        found.append(one)
    return found


def same_or_list(proof: Proof) -> Any:
    """The derivatives by complex step; True where they are the gradient to all digits given."""
    exact = flat(proof.complex_step, COMPARED)
    return exact == flat(proof.analytic, COMPARED) or exact


def is_whole_parameter(run: Run, proof: Proof) -> bool:
    """Whether a gradient is that of a parameter, complete: all of what the caller gave."""
    assert proof.partner is not None
    return proof.partner.step == 0


def with_curve(run: Run, proofs: Sequence[Proof]) -> list[Proof]:
    """The gradients that get a V curve: all; where they are many or large, one of each line, and
    the parameters', unless the variable is very large."""
    sampled = any(proof.checked < np.prod(proof.shape) for proof in proofs)
    if len(proofs) <= MANY and not sampled:
        return list(proofs)
    lines = {(proof.function, proof.line, proof.name.partition("[")[0]): id(proof)
             for proof in reversed(proofs)}
    chosen = set(lines.values())
    return [proof for proof in proofs
            if (id(proof) in chosen or is_whole_parameter(run, proof)) and size(proof) <= LARGE]


def size(proof: Proof) -> int:
    """How many numbers the forward variable of a gradient has."""
    assert proof.partner is not None
    return int(np.prod(proof.partner.shape))


def representative(proof: Proof) -> int:
    """The entry (flat) that the V curve is of: the largest of those compared."""
    known = np.nan_to_num(np.abs(np.ravel(proof.complex_step)), nan=-1.0)
    return int(np.argmax(known))


def bump(proof: Proof, entries: np.ndarray) -> Bumps:
    """The perturbations of some entries (flat) of a gradient's forward variable."""
    assert proof.partner is not None
    target = Target(proof.name, "", proof.analytic, proof.shape, False, None)
    return bumps_of(proof.partner, target, entries)


def losses(run: Run, bumps: Sequence[Bumps], steps: np.ndarray) -> list[np.ndarray]:
    """The loss with each of `steps` added, one after another, to the one entry of each of the
    bumps; many bumps share one run."""
    computed = largest_computed(run)
    found: list[np.ndarray] = []
    group: list[Bumps] = []
    for bump_, following in zip(bumps, [*bumps[1:], None], strict=True):
        group.append(bump_)
        largest = max([computed, *(int(np.prod(one.shape)) for one in group)])
        if following is None or (len(group) + 1) * len(steps) > min(LANES, MEMORY // largest):
            found += rerun(run.forward, run.example.arguments, group, np.tile(steps, len(group)),
                           run.example.named, run.loss)
            group = []
    return found


def largest_computed(run: Run) -> int:
    """The size of the largest array that the forward computes: it is what lanes multiply."""
    return max((int(np.prod(target.shape)) for step in run.forward.steps if step.kind == "assign"
                for target in step.targets if target.shape and target.same_as is None), default=1)


def error_curves(
    run: Run, proofs: Sequence[Proof], entries: dict[int, int]
) -> list[dict[str, Any]]:
    """For each proof how the error of numerical derivatives of one entry depends on the step."""
    every = [bump(proof, np.full(2 * len(H) + 1, entries[id(proof)])) for proof in proofs]
    real = losses(run, every, np.concatenate([H, -H, [0.0]]))
    every = [bump(proof, np.full(len(H), entries[id(proof)])) for proof in proofs]
    along = losses(run, every, 1j * H)
    return [curve(proof, entries[id(proof)], *found)
            for proof, *found in zip(proofs, real, along, strict=True)]


def curve(proof: Proof, entry: int, real: np.ndarray, along: np.ndarray) -> dict[str, Any]:
    """Relative errors as powers of ten, one decimal; null where there is none."""
    exact = float(np.ravel(proof.analytic)[entry])
    right, left, middle = real[: len(H)], real[len(H) : -1], real[-1]

    def powers(slopes: np.ndarray) -> list[float | None]:
        errors = np.abs(slopes - exact) / (abs(exact) or 1.0)
        return [round(float(np.log10(error)), 1) if error else None for error in errors]

    return {"entry": entry, "complex": powers(along.imag / H),
            "central": powers((right - left) / (2 * H)), "forward": powers((right - middle) / H)}


def loss_lines(run: Run, proofs: Sequence[Proof]) -> list[list[list[Any] | None]]:
    """For each proof, for each entry that was compared, of a very large variable for one, the
    change of the loss along it; null for the others."""
    at = run.loss(run.forward.result)
    compared = [np.flatnonzero(~np.isnan(np.ravel(proof.complex_step))) if size(proof) <= LARGE
                else np.array([representative(proof)]) for proof in proofs]
    every = [bump(proof, np.full(len(X), entry))
             for proof, entries in zip(proofs, compared, strict=True) for entry in entries]
    found = iter(losses(run, every, X))
    made = []
    for proof, entries in zip(proofs, compared, strict=True):
        lines: list[list[Any] | None] = [None] * np.size(proof.analytic)
        for entry in entries:
            lines[entry] = flat(next(found) - at, 4)
        made.append(lines)
    return made
