"""Verifies a user's own backward pass without calling right variables wrong.

The backward's results belong to the inputs, so each result is right or wrong. Inside the backward,
only names show what a variable is, and a user's `ds` may be a part of d loss / d s, or be scaled
later. An inner variable is therefore called wrong only if a result is wrong and becomes right when
the backward runs again with the derivative in place of that variable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from grads.check.report import Report
from grads.stepper.trace import Origin, Target
from grads.stepper.tracing.blame import COMPLETE, Blame, same_variable
from grads.stepper.tracing.causes import remarks, with_causes
from grads.stepper.tracing.compared import Compared, Numbers
from grads.stepper.tracing.filled import written_over
from grads.stepper.tracing.guesses import Candidate
from grads.stepper.tracing.pairing import AssignedGradient, Partner, squeezed
from grads.stepper.tracing.returned import Returned, returned_at
from grads.stepper.tracing.run import Run
from grads.stepper.tracing.suspects import is_initial, suspects, unused
from grads.stepper.tracing.verify import Verification, line_of, placed, unverified

OTHER = ("is not d loss / d {}: a part of it, or another quantity of that name; what the backward "
         "returns does not depend on it being so")
COMPLETED = "complete here: d loss / d {}"
FILLED = "filled later, by a function that is called"
RETURNED_AS = "it is d loss / d {}, and {:.1e} from d loss / d {}, as which it is returned"
WRITTEN_OVER = ("written over: this array is the upstream gradient, which the caller still has; "
                "assign to a new one")
SUSPECT = ("not verified by itself; {}, the first wrong one, in line {}, is computed from it: the "
           "mistake may be here")
CHECKED = {"nothing": "NOTHING WAS VERIFIED: none of what the backward returns fits an input.",
           "right": "What the backward returns is right, as grads check finds.",
           "undecided": "What the backward returns is undecided, as grads check finds.",
           "wrong": "What the backward returns is WRONG, as grads check finds."}
KINK = "the methods disagree, and the differences do not settle: is there a kink?"


class Own:
    """Verifies a user's forward and backward.

    Arguments: run, of both functions; most, how many entries of a gradient are compared (None:
    all).
    """

    def __init__(self, run: Run, most: int | None) -> None:
        self.pair = Compared(run, most)
        self.blame = Blame(self.pair)
        self.backward, self.floor, self.report = run.backward, self.pair.floor, self.pair.report
        self.refused = run.derivation.refused
        has_upstream = run.example.upstream is not None
        self.written_over = written_over(run.backward, run.given) if has_upstream else None

    @property
    def verdict(self) -> str:
        """That of `grads check`. If the check refuses the inputs or does not finish, that of the
        returned gradients; nothing if none was compared. What is refused is never right."""
        said = "" if self.report is None else self.report.verdict
        known = {numbers.status for numbers in self.pair.results}
        if "wrong" in known | {said} or self.written_over is not None:
            return "wrong"
        if not known and not said:
            return "nothing"
        if self.refused or said == "undecided" or (said != "ok" and "undecided" in known):
            return "undecided"
        return "right"

    def notes(self) -> list[str]:
        """Sentences on the returned gradients."""
        names = {status: [gradient.partner.name for gradient, numbers in zip(
            self.pair.returned, self.pair.results, strict=True) if numbers.status == status]
            for status in ("verified", "wrong", "undecided")}
        templates = {"verified": "right for {}", "wrong": "WRONG for {}",
                     "undecided": "undecided for {} (the methods disagree)"}
        parts = [templates[status].format(", ".join(inputs))
                 for status, inputs in names.items() if inputs]
        notes = [f"What the backward returns is {'; '.join(parts)}." if parts else
                 CHECKED[self.verdict]]
        if self.written_over is not None:
            line = self.backward.steps[self.written_over[0]].line
            notes.append(f"WRONG: line {line} writes over the upstream gradient, which the caller "
                         "still has.")
        refusals = [f"grads check refuses what the backward returns: {self.refused}"]
        return [*notes, *refusals * bool(self.refused), *self.causes()]

    def causes(self) -> list[str]:
        """What `grads check` says about a wrong gradient: the mistake, where it finds it."""
        if self.diagnosed is None:
            return []
        return [f"WRONG, as grads check finds: {line}" for line in remarks(self.diagnosed)]

    @cached_property
    def diagnosed(self) -> Report | None:
        """The report of `grads check` with its diagnosis; None if it finds nothing wrong."""
        report = None if self.verdict != "wrong" else self.pair.run.derivation.diagnosed()
        return report if report is not None and report.verdict == "wrong" else None

    # --- every gradient

    def verifications(self) -> list[Verification]:
        """The verification of every gradient variable that the backward assigned, in order."""
        ends = {gradient.last: (gradient, numbers) for gradient, numbers in zip(
            self.pair.returned, self.pair.results, strict=True) if gradient.last is not None}
        gradients = {gradient.origin: gradient for gradient in self.pair.pairs.gradients()}
        for origin in ends:
            gradients.setdefault(origin, AssignedGradient(origin, "final", None, None))
        self.blame.made = made = self.pair.inside(
            {origin: gradients[origin] for origin in sorted(gradients)})
        differing = {origin: pair for origin, pair in made.items()
                     if pair[1] is not None and pair[1].status == "wrong" and origin not in ends}
        filled = self.blame.filled([origin for origin in sorted(gradients) if origin not in ends])
        guilty = self.blame.guilty(differing)
        carried = self.blame.carried(
            [origin for origin in sorted(gradients)
             if origin not in ends and not is_initial(self.backward, origin)],
            min([*guilty, *filled], default=None))
        explained = bool(guilty or filled or carried)
        unknown = [origin for origin in sorted(gradients)
                   if origin not in {*ends, *filled, *carried, *guilty}
                   and ((numbers := made[origin][1]) is None or numbers.status == "wrong")]
        written = {origin: completed for origin, completed in self.blame.written(unknown).items()
                   if completed[1].status == "verified"}
        carried |= self.confirmed([origin for origin in unknown if origin not in written])
        verifications = []
        for origin in sorted(gradients):
            if origin == self.written_over:
                verifications.append(unverified(self.backward, origin, "wrong", WRITTEN_OVER))
            elif origin in ends:
                verifications += self.ends(origin, *ends[origin], explained)
            elif origin in filled:
                verifications.append(unverified(self.backward, origin, "wrong", filled[origin]))
            elif origin in carried:
                verifications.append(self.guess(origin, *carried[origin]))
            elif origin in written:
                verifications.append(unverified(self.backward, origin, "verified", COMPLETED.format(
                    written[origin][0].name)))
            else:
                verifications.append(self.said(gradients[origin], *made[origin], origin in guilty))
        known = {(verification.step, verification.target): verification
                 for verification in self.with_sources(verifications)}
        narrowed = self.narrowed(self.with_suspects(known, all_of_them=True))
        verifications = self.with_suspects(known | narrowed)
        return verifications if self.diagnosed is None else with_causes(
            self.backward, self.diagnosed, verifications, {*carried, *narrowed, *ends})

    def narrowed(self, verifications: Sequence[Verification]) -> dict[Origin, Verification]:
        """The first line that a guess shows to be wrong, of those that may have made the first
        wrong value. Its variable need not be named as a gradient."""
        marked = {status: [(verification.step, verification.target) for verification
                           in verifications if verification.status == status]
                  for status in ("wrong", "suspect")}
        arrays = [origin for origin in marked["suspect"]
                  if self.backward.target(origin).shape is not None]
        guessed = self.blame.carried(arrays, min(marked["wrong"], default=None))
        return {origin: self.guess(origin, *pair) for origin, pair in guessed.items()}

    def with_sources(self, verifications: list[Verification]) -> list[Verification]:
        """The verifications, with those of arrays that a call returned repeated where the called
        function made the array: a helper's `dw` that its caller names `grads["W"]`.

        Only assignments without a forward variable of their name get them.
        """
        known = {(verification.step, verification.target): verification
                 for verification in verifications}
        for verification in verifications:
            if verification.status not in ("verified", "wrong") or verification.analytic is None:
                continue
            named = self.backward.target((verification.step, verification.target))
            source = self.maker(named)
            if source is None or (source in known and known[source].status != "unpaired"):
                continue
            made, step = self.backward.target(source), self.backward.steps[source[0]]
            if made.shape == named.shape:
                known[source] = verification._replace(
                    name=made.name, function=step.function, line=step.line, text=step.text,
                    loops=step.loops, step=source[0], target=source[1])
        return [known[origin] for origin in sorted(known)]

    def maker(self, target: Target) -> Origin | None:
        """The assignment in a called function that made an array which its caller names; None if
        the caller computed it."""
        origin = target.same_as
        if origin is None or self.backward.steps[origin[0]].kind != "return":
            return None
        while origin is not None and self.backward.steps[origin[0]].kind == "return":
            origin = self.backward.target(origin).same_as
        return origin

    def confirmed(self, origins: Sequence[Origin]) -> dict[Origin, tuple[Candidate, Numbers]]:
        """The gradients that a guess confirms: their name has no forward variable, but an
        expression has.

        If all results are right, this includes gradients that differ from the variable of their
        name. A variable that passes on the array of another (`dz = dy`) is never confirmed.
        """
        confirmed: dict[Origin, tuple[Candidate, Numbers]] = {}
        chosen = [origin
                  for origin in origins if self.backward.target(origin).same_as is None and not (
            self.blame.mending.needed and self.blame.made[origin][1] is not None)]
        for line in self.blame.lines(chosen):
            confirmed |= self.blame.confirmed(line)
        return confirmed

    def with_suspects(self, known: Mapping[Origin, Verification], all_of_them: bool = False
                      ) -> list[Verification]:
        """The verifications, with the lines marked that may have caused the first wrong value.

        Argument all_of_them: whether also those are marked that right values are computed from.
        """
        verifications = [known[origin] for origin in sorted(known)]
        wrong = [(verification.step, verification.target)
                 for verification in verifications if verification.status == "wrong"]
        if not wrong:
            return verifications
        first = [origin for origin in wrong if origin[0] == wrong[0][0]]
        right = {(verification.step, verification.target)
                 for verification in verifications if verification.status == "verified"}
        name, step = self.backward.target(first[0]).name, self.backward.steps[first[0][0]]
        reason = SUSPECT.format(name, step.line)
        marked = suspects(self.pair.forward, self.backward, first, right)
        if not all_of_them:
            marked = unused(self.backward, marked, right, first)
        suspected = {origin: unverified(self.backward, origin, "suspect", reason)
                     for origin in marked if origin not in wrong}
        return sorted([*(verification for verification in verifications
                         if (verification.step, verification.target) not in suspected),
                       *suspected.values()],
                       key=lambda verification: (verification.step, verification.target))

    # --- what is said

    def ends(self, origin: Origin, returned: Returned, numbers: Numbers, explained: bool
             ) -> list[Verification]:
        """The verification of the assignment that completed a result; with that of the `return`
        if it is right for a forward variable of its name, and returned as another's gradient."""
        own = self.blame.guesses.named(origin) if numbers.status == "wrong" else None
        if own is None or own.name == returned.partner.name or (
                squeezed(own.shape) != squeezed(returned.value.shape)):
            return [self.end(origin, returned, numbers, explained)]
        named = self.pair.numbers(own, returned.value, returned.value.shape)
        if named.status != "verified" or not np.any(returned.value):
            return [self.end(origin, returned, numbers, explained)]
        reason = RETURNED_AS.format(own.name, numbers.error, returned.partner.name)
        behind = returned_at(self.backward, returned.value)
        if behind is None:
            return [unverified(self.backward, origin, "wrong", reason)]
        return [unverified(self.backward, origin, "verified", COMPLETED.format(own.name)),
                unverified(self.backward, behind, "wrong", reason)]

    def end(self, origin: Origin, returned: Returned, numbers: Numbers, explained: bool
            ) -> Verification:
        """The verification of the assignment that completed a result.

        Argument explained: whether another assignment is known to be wrong.
        """
        target, name = self.backward.target(origin), returned.partner.name
        if np.size(target.value) == returned.value.size and not target.sliced:
            if np.array_equal(np.ravel(target.value), np.ravel(returned.value), equal_nan=True):
                return self.compared(origin, returned.partner, numbers)
            if numbers.status == "wrong" and explained:
                return unverified(self.backward, origin, "partial", FILLED)
        reasons = {"verified": f"complete here: d loss / d {name}",
                   "wrong": COMPLETE.format(numbers.error, name), "undecided": KINK}
        if np.size(target.value) == returned.value.size and not target.sliced:
            reasons |= {"verified": f"{FILLED}; then it is d loss / d {name}",
                        "wrong": f"{FILLED}; then it is {numbers.error:.1e} from d loss / d {name}"}
        return unverified(self.backward, origin, numbers.status, reasons[numbers.status])

    def said(self, gradient: AssignedGradient, partner: Partner | None, numbers: Numbers | None,
             guilty: bool) -> Verification:
        """The verification of any other assignment."""
        origin = gradient.origin
        last = next((result.last for result in self.pair.returned if result.last is not None
                     and same_variable(self.backward, result.last, origin)), None)
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

    def guess(self, origin: Origin, candidate: Candidate, numbers: Numbers) -> Verification:
        """The verification of a gradient whose forward variable was guessed and confirmed by its
        numbers. The guess may be a part of an expression, which is not a variable of the forward's
        trace."""
        verification = self.compared(origin, candidate.partner, numbers)
        is_variable = (candidate.trace is self.pair.forward
                       and not candidate.partner.places.readings)
        return verification if is_variable else verification._replace(
            partner=None, expression=candidate.partner.name)

    def variable(self, partner: Partner) -> dict[str, Any]:
        """The fields that name the forward variable of a gradient. An array that an object holds is
        named as an expression."""
        return {"expression": partner.name} if partner.places.arrays else {"partner": partner}

    def compared(self, origin: Origin, partner: Partner, numbers: Numbers) -> Verification:
        """The verification of a gradient by comparison with its derivative."""
        analytic = np.asarray(self.backward.target(origin).value, float)
        derivative, agree = numbers.derivative, numbers.derivative.agree(self.floor)
        scale = derivative.scale(self.floor)
        apart = float(np.abs(derivative.real - numbers.exact(self.floor)).max(initial=0.0)) / scale
        plain = unverified(self.backward, origin, numbers.status,
                           KINK if numbers.status == "undecided" else "")
        return plain._replace(
            **self.variable(partner), analytic=analytic, error=numbers.error,
            checked=len(numbers.where),
            complex_step=placed(numbers.exact(self.floor), numbers.where, analytic),
            central=placed(derivative.real, numbers.where, analytic) if agree else None,
            central_error=apart if agree else None,
            method="complex step" if agree else "differences")
