"""Verifies a user's own backward pass, and accuses nothing that is right.

What the backward returns is known to belong to the inputs: it is right or wrong. Inside, names are
all there is to go by, and a user's `ds` may be a part of d loss / d s, or the same before it is
scaled. So a variable inside is called wrong only where something returned is wrong, and the
backward, run again with the derivative put in that variable's place, returns it right.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from backend.errors import UserError
from grads.stepper.trace import Origin, Trace
from grads.stepper.tracing.numerical import Derivative, derivative, entries_of
from grads.stepper.tracing.pairing import (
    AssignedGradient,
    Pairing,
    Pairs,
    Partner,
    root_of,
    squeezed,
)
from grads.stepper.tracing.replay import Replay
from grads.stepper.tracing.returned import Returned, returned_gradients
from grads.stepper.tracing.values import at
from grads.stepper.tracing.verify import (
    Verification,
    bumps_of,
    chosen,
    line_of,
    placed,
    unverified,
)

GUESSES = 256  # derivatives that are taken for guesses at forward variables
ROUNDING = 1e-6  # of the largest gradient: what is below is compared as if it were as large
INDEX = re.compile(r"\[(-?\d+)\]")
OTHER = ("is not d loss / d {}: a part of it, or another quantity of that name; what the backward "
         "returns does not depend on it being so")
KINK = "the methods disagree, and the differences do not settle: is there a kink?"


class Numbers(NamedTuple):
    """The derivative for one gradient variable, and what follows."""

    where: np.ndarray  # entries (flat) that were compared
    found: Derivative
    status: str  # "verified" | "wrong" | "undecided"
    error: float

    def exact(self, floor: float) -> np.ndarray:
        """The derivative that decides."""
        return self.found.complex_step if self.found.agree(floor) else self.found.real


class Put(Replay):
    """A run in which variables are given other values where they are assigned."""

    def other(self, old: Any, added: Any) -> Any:
        return np.reshape(added, np.shape(old))[()]


class Own:
    """One user's forward and backward, run and to be verified."""

    def __init__(
        self, pairing: Pairing, forward: Trace, backward: Trace, arguments: Sequence[Any],
        given: Sequence[Any], loss: Callable[[Any], Any], named: dict[str, Any], most: int | None,
    ) -> None:
        self.pairing, self.forward, self.backward = pairing, forward, backward
        self.arguments, self.given, self.loss, self.named = arguments, given, loss, named
        self.most = most
        self.pairs = Pairs(pairing, forward, backward)
        self.returned = returned_gradients(forward, backward, tuple(arguments))
        self.precision = precision_of(forward, backward)
        sizes = [np.abs(one.value).max(initial=0.0) for one in self.returned]
        self.floor = ROUNDING * float(max(sizes, default=0.0)) or 1e-300
        self.results = [self.numbers(one.partner, one.value, one.value.shape)
                        for one in self.returned]

    # --- numbers

    def numbers(self, partner: Partner, value: np.ndarray, shape: tuple[int, ...]) -> Numbers:
        """The derivatives for a gradient of this value, which is kept perhaps in part."""
        where = chosen(np.asarray(value), self.most)
        bump = bumps_of(partner, np.shape(value), shape, where)
        found = derivative(self.forward, bump, self.arguments, self.loss, self.named,
                           entries_of(self.forward, bump), self.precision)
        status, error = self.verdict(found, value, where)
        return Numbers(where, found, status, error)

    def verdict(self, found: Derivative, value: Any, where: np.ndarray) -> tuple[str, float]:
        """What follows for a gradient of this value from the derivative of some entries."""
        return found.verdict(np.asarray(value, float).ravel()[where], self.floor, self.precision)

    def notes(self) -> list[str]:
        """What is to be said of the gradients returned."""
        names = {status: [one.partner.name for one, numbers in zip(
            self.returned, self.results, strict=True) if numbers.status == status]
            for status in ("verified", "wrong", "undecided")}
        said = {"verified": "right for {}", "wrong": "WRONG for {}",
                "undecided": "undecided for {} (the methods disagree)"}
        parts = [said[status].format(", ".join(one)) for status, one in names.items() if one]
        return [f"What the backward returns is {'; '.join(parts)}."] if parts else [
            "None of what the backward returns fits an input: nothing returned was compared."]

    # --- every gradient

    def verifications(self) -> list[Verification]:
        """One for each gradient variable that the backward assigned, in order."""
        ends = {one.last: (one, numbers) for one, numbers in zip(
            self.returned, self.results, strict=True) if one.last is not None}
        gradients = {one.origin: one for one in self.pairs.gradients()}
        for origin in ends:
            gradients.setdefault(origin, AssignedGradient(origin, "final", None, None))
        made = {origin: self.inside(gradients[origin]) for origin in sorted(gradients)}
        differing = {origin: found for origin, found in made.items()
                     if found[1] is not None and found[1].status == "wrong" and origin not in ends}
        guilty = self.guilty(differing)
        carried = self.carried([origin for origin in sorted(gradients) if origin not in ends],
                               min(guilty, default=None))
        found = []
        for origin in sorted(gradients):
            if origin in ends:
                found.append(self.end(origin, *ends[origin]))
            elif origin in carried:
                found.append(self.compared(origin, *carried[origin]))
            else:
                found.append(self.said(gradients[origin], *made[origin], origin in guilty))
        return found

    def inside(self, gradient: AssignedGradient) -> tuple[Partner | None, Numbers | None]:
        """The forward variable of a gradient and its derivative, where there is one by name."""
        target = self.backward.target(gradient.origin)
        partner = gradient.partner or self.part(gradient)
        if partner is None or gradient.status in ("partial", "same", "zero"):
            return None, None
        if np.asarray(target.value).dtype.kind != "f" or not self.is_real(partner):
            return None, None
        return partner, self.numbers(partner, target.value, target.shape or ())

    def part(self, gradient: AssignedGradient) -> Partner | None:
        """The entries x[2] of a forward array that dx[2] is the gradient of."""
        step, target = self.backward.steps[gradient.origin[0]], self.backward.target(
            gradient.origin)
        name, frame = self.pairs.forward_name(step, target), self.pairs.frame_of(step)
        if gradient.status != "unpaired" or name is None or frame is None:
            return None
        if "[" not in name:  # dn in the iteration t of a loop, for n[t]
            found = [one for _, index in reversed(step.own_loops)
                     for one in self.pairs.variables[frame].get(f"{name}[{index}]", [])]
            return self.pairs.fitting_whole(found[-1], target) if found else None
        root, index = name.partition("[")[0], tuple(int(i) for i in INDEX.findall(name))
        known = self.pairs.variables[frame].get(root, [])
        if not known or f"{root}{''.join(f'[{i}]' for i in index)}" != name:
            return None
        whole = self.pairs.whole(known[-1])
        if whole is None:
            return None
        try:
            entries = whole.entries.reshape(whole.shape)[index]
        except IndexError:
            return None
        if squeezed(entries.shape) != squeezed(target.shape or ()):
            return None
        return whole._replace(name=name, entries=entries.ravel())

    def is_real(self, partner: Partner) -> bool:
        """Whether a forward variable has a gradient: no index, no mask."""
        return all(np.asarray(target.value).dtype.kind == "f"
                   for target in self.forward.steps[partner.step].targets
                   if target.name.partition("[")[0] == partner.name.partition("[")[0])

    # --- which of them is to blame

    def guilty(self, differing: dict[Origin, tuple[Any, Any]]) -> set[Origin]:
        """Of the variables that differ from their derivative those that make a result wrong."""
        if all(one.status != "wrong" for one in self.results):
            return set()
        return {origin for origins in self.lines(differing)
                if self.mends({one: differing[one][1] for one in origins}) for origin in origins}

    def lines(self, origins: Iterable[Origin]) -> list[list[Origin]]:
        """Assignments by the line and the variable that they are of."""
        found: dict[tuple[int, str], list[Origin]] = defaultdict(list)
        for origin in origins:
            root = root_of(self.backward.target(origin).name)
            found[self.backward.steps[origin[0]].site, root].append(origin)
        return list(found.values())

    def carried(self, origins: Sequence[Origin], before: Origin | None
                ) -> dict[Origin, tuple[Partner, Numbers]]:
        """The first line of a loop whose variable, paired by the order of the iterations, makes a
        result wrong, if it stands before the first one that is known to.

        A gradient that is carried from step to step belongs to the variable of another iteration
        than the one it is assigned in, or to no iteration of that name. What it is compared with is
        a guess, but that its correction makes the results right is none.
        """
        if all(one.status != "wrong" for one in self.results):
            return {}
        left = GUESSES
        for line in self.lines(origins):
            if before is not None and line[0] > before:
                continue
            for partners in self.by_order(line):
                left -= len(partners)
                if left < 0:
                    return {}
                made = {origin: (partner, self.numbers(
                    partner, self.backward.target(origin).value,
                    self.backward.target(origin).shape or ()))
                    for origin, partner in partners.items()}
                wrong = {origin: numbers for origin, (_, numbers) in made.items()
                         if numbers.status == "wrong"}
                if wrong and self.mends(wrong):
                    return made
        return {}

    def by_order(self, line: list[Origin]) -> Iterator[dict[Origin, Partner]]:
        """Guesses at the forward variables of a line's assignments: the last first, that with one
        left out, and the only one for the last."""
        step, target = self.backward.steps[line[0][0]], self.backward.target(line[0])
        frame, name = self.pairs.frame_of(step), self.pairs.forward_name(step, target)
        if frame is None or name is None or np.asarray(target.value).dtype.kind != "f":
            return
        found = sorted(origin for key, known in self.pairs.variables[frame].items()
                       if root_of(key) == root_of(name) for origin in known)
        whole = [one for one in map(self.pairs.whole, found) if one is not None
                 and squeezed(one.shape) == squeezed(target.shape or ()) and self.is_real(one)]
        if len(whole) > 1:
            yield dict(zip(line, reversed(whole), strict=False))
            yield dict(zip(line, reversed(whole[:-1]), strict=False))
        elif whole:  # of a sum, what it comes to
            yield {line[-1]: whole[-1]}

    def mends(self, numbers: dict[Origin, Numbers]) -> bool:
        """Whether the derivative in the place of what a line assigns makes a wrong result right,
        and no right one wrong."""
        replay = Put(self.backward, [], np.zeros(0))
        for origin, one in numbers.items():
            target = self.backward.target(origin)
            size = np.size(target.value)
            if target.sliced or target.place is None or len(one.where) < size:
                return False
            replay.steps[origin[0]].append((target.place, one.exact(self.floor)))
        try:
            with np.errstate(all="ignore"):
                result = replay.run(self.given, {})
            after = [self.verdict(old.found, at(result, one.path), old.where)[0]
                     for one, old in zip(self.returned, self.results, strict=True)]
        except (UserError, ArithmeticError, LookupError, TypeError, ValueError):
            return False
        before = [one.status for one in self.results]
        return not any(one != "wrong" and other == "wrong"
                       for one, other in zip(before, after, strict=True)) and any(
            one == "wrong" and other != "wrong" for one, other in zip(before, after, strict=True))

    # --- what is said

    def end(self, origin: Origin, returned: Returned, numbers: Numbers) -> Verification:
        """Of the assignment that completed what was returned."""
        target = self.backward.target(origin)
        if np.size(target.value) == returned.value.size and not target.sliced:
            return self.compared(origin, returned.partner, numbers)
        wrong = f"complete here, and {numbers.error:.1e} from d loss / d {returned.partner.name}"
        said = {"verified": f"complete here: d loss / d {returned.partner.name}", "wrong": wrong,
                "undecided": KINK}
        return unverified(self.backward, origin, numbers.status, said[numbers.status])

    def said(self, gradient: AssignedGradient, partner: Partner | None, numbers: Numbers | None,
             guilty: bool) -> Verification:
        """Of any other."""
        origin = gradient.origin
        last = next((one.last for one in self.returned if one.last is not None
                     and self.same_variable(one.last, origin)), None)
        if numbers is not None and partner is not None:
            if numbers.status != "wrong" or guilty:
                return self.compared(origin, partner, numbers)
            if last is None:
                return unverified(self.backward, origin, "other", OTHER.format(partner.name))
        if last is not None and last > origin:
            return unverified(self.backward, origin, "partial", line_of(self.backward, last,
                              "a part of"), last)
        if gradient.other is not None:
            kind = "a part of" if gradient.status == "partial" else "the same array as"
            kind = "zero, before the first term of" if gradient.status == "zero" else kind
            return unverified(self.backward, origin, gradient.status,
                              line_of(self.backward, gradient.other, kind), gradient.other)
        status = gradient.status if gradient.status in ("zero", "share") else "unpaired"
        return unverified(self.backward, origin, status,
                          "the forward has no variable of this name")

    def same_variable(self, one: Origin, other: Origin) -> bool:
        """Whether two targets are of one variable of one call."""
        names = [self.backward.target(origin).name.partition("[")[0] for origin in (one, other)]
        frames = [self.backward.steps[origin[0]].frame for origin in (one, other)]
        return names[0] == names[1] and frames[0] == frames[1]

    def compared(self, origin: Origin, partner: Partner, numbers: Numbers) -> Verification:
        """A gradient beside its derivative."""
        analytic = np.asarray(self.backward.target(origin).value, float)
        found, agree = numbers.found, numbers.found.agree(self.floor)
        scale = found.scale(self.floor)
        apart = float(np.abs(found.real - numbers.exact(self.floor)).max(initial=0.0)) / scale
        plain = unverified(self.backward, origin, numbers.status,
                           KINK if numbers.status == "undecided" else "")
        return plain._replace(
            partner=partner, analytic=analytic, error=numbers.error, checked=len(numbers.where),
            complex_step=placed(numbers.exact(self.floor), numbers.where, analytic),
            central=placed(found.real, numbers.where, analytic) if agree else None,
            central_error=apart if agree else None,
            method="complex step" if agree else "differences")


def precision_of(*traces: Trace) -> float:
    """The relative precision of the coarsest real numbers that were computed with."""
    kinds = {np.asarray(target.value).dtype for trace in traces for step in trace.steps
             for target in step.targets if target.shape is not None}
    return max((float(np.finfo(kind).eps) for kind in kinds if kind.kind == "f"),
               default=float(np.finfo(float).eps))
