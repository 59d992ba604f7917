"""Verifies a user's own backward pass, and accuses nothing that is right.

What the backward returns is known to belong to the inputs: it is right or wrong. Inside, names are
all there is to go by, and a user's `ds` may be a part of d loss / d s, or the same before it is
scaled. So a variable inside is called wrong only where something returned is wrong, and the
backward, run again with the derivative put in that variable's place, returns it right.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from grads.stepper.trace import Origin, Trace
from grads.stepper.tracing.entries import entries_for
from grads.stepper.tracing.filled import held, readings_after, written_over
from grads.stepper.tracing.guesses import Candidate, Guesses, joined_of, joints
from grads.stepper.tracing.mending import Mending
from grads.stepper.tracing.numerical import Derivative, derivative, entries_of
from grads.stepper.tracing.pairing import (
    AssignedGradient,
    Pairing,
    Pairs,
    Partner,
    root_of,
)
from grads.stepper.tracing.replay import Places
from grads.stepper.tracing.returned import Returned, returned_gradients
from grads.stepper.tracing.verify import (
    Verification,
    bumps_of,
    chosen,
    line_of,
    placed,
    unverified,
)

GUESSED = 6144  # entries whose derivatives are taken for guesses at what has no name
NAMED = 16  # entries that a guess at a forward variable of the same name counts for
ROUNDING = 1e-6  # of the largest gradient: what is below is compared as if it were as large
OTHER = ("is not d loss / d {}: a part of it, or another quantity of that name; what the backward "
         "returns does not depend on it being so")
COMPLETE = "complete here, and {:.1e} from d loss / d {}"
FILLED = "filled later, by a function that is called"
WRITTEN_OVER = ("written over: this array is the upstream gradient, which the caller still has; "
                "assign to a new one")
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


class Judged(NamedTuple):
    """What the best guess at a line's variable has shown."""

    guess: dict[Origin, tuple[Candidate, Numbers]]
    first: Origin | None  # of its assignments that differs from the derivative
    mended: int  # results that its correction makes right
    is_right: bool  # whether the line is right by another guess
    is_named: bool = False  # whether the guess is at a variable of that name


class Own:
    """One user's forward and backward, run and to be verified."""

    def __init__(
        self, pairing: Pairing, forward: Trace, backward: Trace, arguments: Sequence[Any],
        given: Sequence[Any], loss: Callable[[Any], Any], named: dict[str, Any], most: int | None,
        parts: Callable[[], Trace], upstream: bool,
    ) -> None:
        self.pairing, self.forward, self.backward = pairing, forward, backward
        self.arguments, self.loss, self.named, self.most = arguments, loss, named, most
        self.pairs = Pairs(pairing, forward, backward)
        self.returned = returned_gradients(forward, backward, tuple(arguments))
        self.precision = precision_of(forward, backward)
        sizes = [np.abs(one.value).max(initial=0.0) for one in self.returned]
        self.floor = ROUNDING * float(max(sizes, default=0.0)) or 1e-300
        self.results = [self.numbers(one.partner, one.value, one.value.shape)
                        for one in self.returned]
        self.guesses, self.left = Guesses(self.pairs, parts), GUESSED
        self.known: dict[Any, Derivative] = {}
        self.made: dict[Origin, tuple[Partner | None, Numbers | None]] = {}
        self.written_over = written_over(backward, given) if upstream else None
        self.mending = Mending(backward, given, self.returned,
                               [one.status for one in self.results], self.status)

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

    def status(self, number: int, value: Any) -> str:
        """What another value of a gradient returned would be, by its number."""
        numbers = self.results[number]
        return self.verdict(numbers.found, value, numbers.where)[0]

    def notes(self) -> list[str]:
        """What is to be said of the gradients returned."""
        names = {status: [one.partner.name for one, numbers in zip(
            self.returned, self.results, strict=True) if numbers.status == status]
            for status in ("verified", "wrong", "undecided")}
        said = {"verified": "right for {}", "wrong": "WRONG for {}",
                "undecided": "undecided for {} (the methods disagree)"}
        parts = [said[status].format(", ".join(one)) for status, one in names.items() if one]
        found = [f"What the backward returns is {'; '.join(parts)}."] if parts else [
            "None of what the backward returns fits an input: nothing returned was compared."]
        if self.written_over is not None:
            line = self.backward.steps[self.written_over[0]].line
            found.append(f"WRONG: line {line} writes over the upstream gradient, which the caller "
                         "still has.")
        return found

    # --- every gradient

    def verifications(self) -> list[Verification]:
        """One for each gradient variable that the backward assigned, in order."""
        ends = {one.last: (one, numbers) for one, numbers in zip(
            self.returned, self.results, strict=True) if one.last is not None}
        gradients = {one.origin: one for one in self.pairs.gradients()}
        for origin in ends:
            gradients.setdefault(origin, AssignedGradient(origin, "final", None, None))
        self.made = made = {origin: self.inside(gradients[origin]) for origin in sorted(gradients)}
        differing = {origin: found for origin, found in made.items()
                     if found[1] is not None and found[1].status == "wrong" and origin not in ends}
        filled = self.filled([origin for origin in sorted(gradients) if origin not in ends])
        guilty = self.guilty(differing)
        carried = self.carried([origin for origin in sorted(gradients) if origin not in ends],
                               min([*guilty, *filled], default=None))
        explained = bool(guilty or filled or carried)
        found = []
        for origin in sorted(gradients):
            if origin == self.written_over:
                found.append(unverified(self.backward, origin, "wrong", WRITTEN_OVER))
            elif origin in ends:
                found.append(self.end(origin, *ends[origin], explained))
            elif origin in filled:
                found.append(unverified(self.backward, origin, "wrong", filled[origin]))
            elif origin in carried:
                found.append(self.guess(origin, *carried[origin]))
            else:
                found.append(self.said(gradients[origin], *made[origin], origin in guilty))
        return found

    def inside(self, gradient: AssignedGradient) -> tuple[Partner | None, Numbers | None]:
        """The forward variable of a gradient and its derivative, where there is one by name."""
        target = self.backward.target(gradient.origin)
        partner = gradient.partner or entries_for(self.pairs, gradient)
        if partner is None or gradient.status in ("partial", "zero"):
            return None, None
        if np.asarray(target.value).dtype.kind != "f" or not self.is_real(partner):
            return None, None
        return partner, self.numbers(partner, target.value, target.shape or ())

    def is_real(self, partner: Partner) -> bool:
        """Whether a forward variable has a gradient: no index, no mask."""
        return all(np.asarray(target.value).dtype.kind == "f"
                   for target in self.forward.steps[partner.step].targets
                   if target.name.partition("[")[0] == partner.name.partition("[")[0])

    # --- which of them is to blame

    def guilty(self, differing: dict[Origin, tuple[Any, Any]]) -> set[Origin]:
        """Of the variables that differ from their derivative those that make a result wrong: by
        line; and all entries of one array, where they go wrong before."""
        if not self.mending.needed:
            return set()
        exact = {origin: numbers.exact(self.floor) for origin, (_, numbers) in differing.items()
                 if self.is_whole(origin, numbers)}
        found: set[Origin] = set()
        entries = [origin for origin in exact if "[" in self.backward.target(origin).name
                   and not any(one.last is not None and self.same_variable(one.last, origin)
                               for one in self.returned)]
        for group in (*self.lines(exact), *self.grouped(entries, self.variable)):
            if (not found or group[0] < min(found) or self.is_line(group)) and (
                    self.mending.by({one: exact[one] for one in group})):
                found.update(group)
        return found

    def is_line(self, origins: Sequence[Origin]) -> bool:
        """Whether assignments are of one line."""
        return len({self.backward.steps[origin[0]].site for origin in origins}) == 1

    def filled(self, origins: Sequence[Origin]) -> dict[Origin, str]:
        """The last of the assignments to parts of an array that makes a result wrong once it is
        filled, and what is to be said of it."""
        found: dict[Origin, str] = {}
        if not self.mending.needed:
            return found
        for group in self.grouped(origins, self.variable):
            partner, value = self.guesses.whole(group), held(self.backward, group)
            if partner is None or value is None or value.shape != partner.shape or (
                    self.most is not None and value.size > self.most):
                continue
            numbers = self.numbers(partner, value, value.shape)
            read = {number: numbers.exact(self.floor)
                    for number in readings_after(self.backward, group[-1])}
            if numbers.status == "wrong" and read and self.mending.by({}, read):
                found[group[-1]] = COMPLETE.format(numbers.error, partner.name)
        return found

    def is_whole(self, origin: Origin, numbers: Numbers) -> bool:
        """Whether the derivative of all entries of a variable was taken."""
        return len(numbers.where) == np.size(self.backward.target(origin).value)

    def lines(self, origins: Iterable[Origin]) -> list[list[Origin]]:
        """Assignments by the line and the variable that they are of."""
        return self.grouped(origins, lambda origin: (
            self.backward.steps[origin[0]].site, root_of(self.backward.target(origin).name)))

    def variable(self, origin: Origin) -> tuple[Any, ...]:
        """The call and the variable that an assignment is of."""
        return self.backward.steps[origin[0]].frame, root_of(self.backward.target(origin).name)

    def grouped(self, origins: Iterable[Origin], key: Callable[[Origin], Any]
                ) -> list[list[Origin]]:
        """Assignments with the same key, each in a list."""
        found: dict[Any, list[Origin]] = defaultdict(list)
        for origin in origins:
            found[key(origin)].append(origin)
        return list(found.values())

    def carried(self, origins: Sequence[Origin], before: Origin | None
                ) -> dict[Origin, tuple[Candidate, Numbers]]:
        """The line that goes wrong first of those that, paired by a guess, make a result wrong, if
        it does before the first one that is known to.

        What it is compared with is a guess, but that its correction makes a result right is none.
        A line that is right by its name or by another guess is not taken: what is made of it may
        be wrong.
        """
        if not self.mending.needed:
            return {}
        judged = [self.judged(line) for line in self.lines(origins)
                  if (before is None or line[0] < before) and not all(map(self.is_right, line))]
        found = [one for one in judged if one.first is not None and not one.is_right
                 and (before is None or one.first < before)]
        return min(found, key=lambda one: one.first or (0, 0)).guess if found else {}

    def is_right(self, origin: Origin) -> bool:
        """Whether a gradient is that of the forward variable of its name."""
        numbers = self.made[origin][1]
        return numbers is not None and numbers.status == "verified"

    def judged(self, line: list[Origin]) -> Judged:
        """The guess at a line's variable that makes most results right, the named ones first."""
        best, right = Judged({}, None, 0, False), {True: False, False: False}
        for made in self.attempts(line):
            is_named = all(one.named for one, _ in made.values())
            if best.is_named and not is_named and len(best.guess) == len(line):
                break
            wrong = {origin: numbers.exact(self.floor) for origin, (_, numbers) in made.items()
                     if numbers.status == "wrong"}
            whole = len(made) == len(line)
            right[is_named] |= whole and not wrong and self.says_something(made)
            mended = self.mending.by(wrong) if wrong else 0
            if mended and (mended, len(made)) > (best.mended, len(best.guess)):
                best = Judged(made, min(wrong), mended, False, is_named)
        return best._replace(is_right=right[True] or (right[False] and not best.is_named))

    def attempts(self, line: list[Origin]) -> Iterator[dict[Origin, tuple[Candidate, Numbers]]]:
        """The guesses at a line's variable with their numbers, then what it may be joined of."""
        for guess in self.guesses.of(line):
            made = {origin: (one, found) for origin, one in guess.items()
                    if (found := self.guessed(origin, one)) is not None}
            if len(made) == len(guess):
                yield made
        pieces = {origin: self.pieces(origin) for origin in line}
        for order, axis in joints(pieces.values()):
            joined = {origin: joined_of(found, order, axis) for origin, found in pieces.items()}
            if all(np.shape(one) == self.backward.target(origin).shape
                   for origin, (_, one) in joined.items()):
                yield {origin: self.joined(origin, *one) for origin, one in joined.items()}

    def pieces(self, origin: Origin) -> list[tuple[Partner, np.ndarray]]:
        """The variables of the gradients that an assignment reads, with the derivatives."""
        found = []
        for read in self.backward.steps[origin[0]].reads:
            partner, numbers = self.made.get(read.origins[0], (None, None))
            if partner is None or numbers is None or not self.is_whole(read.origins[0], numbers):
                return []
            shape = np.shape(self.backward.target(read.origins[0]).value)
            found.append((partner, np.reshape(numbers.exact(self.floor), shape)))
        return found

    def joined(self, origin: Origin, name: str, exact: np.ndarray) -> tuple[Candidate, Numbers]:
        """The numbers of a gradient for several variables of the forward joined."""
        found, where = Derivative(exact.ravel(), exact.ravel(), 0.0), np.arange(exact.size)
        partner = Partner(name, 0, Places(), exact.shape, where)
        value = self.backward.target(origin).value
        return Candidate(self.forward, partner, False), Numbers(
            where, found, *self.verdict(found, value, where))

    def says_something(self, made: dict[Origin, tuple[Candidate, Numbers]]) -> bool:
        """Whether what a guess verifies is not zero throughout, nor pieces joined in some order."""
        return any(np.any(numbers.exact(self.floor)) and bool(one.partner.places.steps)
                   for one, numbers in made.values())

    def guessed(self, origin: Origin, one: Candidate) -> Numbers | None:
        """The numbers of a guess; None where it has too many, or too many were taken before."""
        target = self.backward.target(origin)
        value = np.asarray(target.value, float)
        key = (one.trace is self.forward, one.partner.step, one.partner.places)
        if key not in self.known:
            cost = NAMED if one.named else value.size
            if target.sliced or (self.most is not None and value.size > self.most) or (
                    self.left < cost):
                return None
            self.left -= cost
            bump = bumps_of(one.partner, one.partner.shape, one.partner.shape,
                            np.arange(value.size))
            self.known[key] = derivative(
                one.trace, bump, self.arguments, self.loss, self.named,
                entries_of(one.trace, bump), self.precision)
        where = np.arange(value.size)
        return Numbers(where, self.known[key], *self.verdict(self.known[key], value, where))

    # --- what is said

    def end(self, origin: Origin, returned: Returned, numbers: Numbers, explained: bool
            ) -> Verification:
        """Of the assignment that completed what was returned; explained, whether another one is
        known to be wrong."""
        target, name = self.backward.target(origin), returned.partner.name
        if np.size(target.value) == returned.value.size and not target.sliced:
            if np.array_equal(np.ravel(target.value), np.ravel(returned.value), equal_nan=True):
                return self.compared(origin, returned.partner, numbers)
            if numbers.status == "wrong" and explained:
                return unverified(self.backward, origin, "partial", FILLED)
        said = {"verified": f"complete here: d loss / d {name}",
                "wrong": COMPLETE.format(numbers.error, name), "undecided": KINK}
        if np.size(target.value) == returned.value.size and not target.sliced:
            said |= {"verified": f"{FILLED}; then it is d loss / d {name}",
                     "wrong": f"{FILLED}; then it is {numbers.error:.1e} from d loss / d {name}"}
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
            if last is None and gradient.other is None:
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

    def guess(self, origin: Origin, one: Candidate, numbers: Numbers) -> Verification:
        """Of one whose forward variable was found by its numbers; a part of an expression is no
        variable of the forward's trace."""
        found = self.compared(origin, one.partner, numbers)
        is_variable = one.trace is self.forward and bool(one.partner.places.steps)
        return found if is_variable else found._replace(
            partner=None, expression=one.partner.name)

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
