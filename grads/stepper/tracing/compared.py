"""Compares the gradients of a user's backward with their derivatives."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from grads.check.report import Report
from grads.check.result import Row
from grads.stepper.trace import Origin, Trace
from grads.stepper.tracing.entries import entries_for
from grads.stepper.tracing.numerical import Derivative, OwnRuns, entries_of
from grads.stepper.tracing.pairing import AssignedGradient, Pairs, Partner
from grads.stepper.tracing.replay import Bumps
from grads.stepper.tracing.returned import kept_gradients, returned_gradients
from grads.stepper.tracing.run import Run
from grads.stepper.tracing.values import KEEP, is_array, leaves
from grads.stepper.tracing.verify import bumps_of, chosen

WORK = 2**22  # numbers in all runs that perturb the entries of a large array once
FEWEST = 16  # entries of a gradient that are compared in any case
ROUNDING = 1e-6  # part of the largest gradient, the floor of relative errors


class Numbers(NamedTuple):
    """The derivative for one gradient variable, and the status that follows from it."""

    where: np.ndarray  # entries (flat) that were compared
    derivative: Derivative
    status: str  # "verified" | "wrong" | "undecided"
    error: float

    def exact(self, floor: float) -> np.ndarray:
        """The derivative that decides: by complex step where both methods agree, else by
        differences."""
        agree = self.derivative.agree(floor)
        return self.derivative.complex_step if agree else self.derivative.real


class Compared:
    """Runs a user's forward and backward and compares the gradients with their derivatives.

    Arguments: run, of both functions; most, how many entries of a gradient are compared (None: all,
    but of large arrays only some).
    """

    def __init__(self, run: Run, most: int | None) -> None:
        self.run, self.most = run, most_of(run) if most is None else most
        self.forward, self.backward = run.forward, run.backward
        self.pairs = Pairs(run.derivation.pairing, run.forward, run.backward)
        reader = run.derivation.kept
        self.returned = kept_gradients(reader, run.backward, run.after) if reader else (
            returned_gradients(run.forward, run.backward, tuple(run.arguments)))
        self.precision = precision_of(run.forward, run.backward)
        sizes = [np.abs(gradient.value).max(initial=0.0) for gradient in self.returned]
        self.floor = ROUNDING * float(max(sizes, default=0.0)) or 1e-300
        self.known: dict[Any, Derivative] = {}
        self.report, self.is_analytic = run.derivation.report, False
        plain = self.of_returned()
        agrees = self.report is not None and all(
            numbers.derivative.sure(self.floor) for numbers in plain) and self.report.verdict == (
                "wrong" if any(numbers.status == "wrong" for numbers in plain) else "ok")
        if self.report is not None and not agrees:
            self.report = run.derivation.diagnosed()
        self.is_analytic = self.report is not None and suits_complex_step(self.report)
        self.results = plain if self.report is None else [
            judged(self.report, gradient.partner.name, numbers)
            for gradient, numbers in zip(self.returned, self.of_returned(), strict=True)]

    def of_returned(self) -> list[Numbers]:
        """The derivatives for the returned gradients."""
        asked = [(gradient.partner, gradient.value, gradient.value.shape,
                  worst(self.report, gradient.partner.name, gradient.value.shape))
                 for gradient in self.returned]
        self.prepare(self.forward, [self.bump(*one) for one in asked])
        return [self.numbers(*one) for one in asked]

    def bump(self, partner: Partner, value: np.ndarray, shape: tuple[int, ...],
             others: Sequence[int] = ()) -> Bumps:
        """The entries of the forward variable that are compared with a gradient of this value."""
        return bumps_of(partner, np.shape(value), shape, self.where(value, others))

    def where(self, value: np.ndarray, others: Sequence[int]) -> np.ndarray:
        """The entries (flat positions) of a gradient that are compared: `others` in any case."""
        where = chosen(np.asarray(value), self.most)
        return np.union1d(where, np.asarray(others, where.dtype))

    def numbers(self, partner: Partner, value: np.ndarray, shape: tuple[int, ...],
                others: Sequence[int] = ()) -> Numbers:
        """The derivatives for a gradient with this value. The trace may keep only a part of the
        value. Argument others: entries that are compared in any case."""
        where = self.where(value, others)
        derivative = self.derivative(self.forward, self.bump(partner, value, shape, others))
        return Numbers(where, derivative, *self.verdict(derivative, value, where))

    def derivative(self, forward: Trace, bump: Bumps) -> Derivative:
        """The derivative of the loss for entries of a forward variable, computed once, with a trace
        of the forward."""
        self.prepare(forward, [bump])
        return self.known[self.key(forward, bump)]._replace(is_analytic=self.is_analytic)

    def prepare(self, forward: Trace, bumps: Sequence[Bumps]) -> None:
        """Compute the derivatives that are not known yet, of many variables in shared runs."""
        new = {key: bump for bump in bumps if (key := self.key(forward, bump)) not in self.known}
        if not new:
            return
        runs = self.run.runs(forward)
        assert isinstance(runs, OwnRuns)
        self.known |= zip(new, runs.derivatives(
            list(new.values()), [entries_of(forward, bump) for bump in new.values()],
            self.precision), strict=True)

    def key(self, forward: Trace, bump: Bumps) -> tuple[Any, ...]:
        """The key of a derivative in `known`."""
        return forward is self.forward, bump.places, bump.entries.tobytes()

    def verdict(self, derivative: Derivative, value: Any, where: np.ndarray) -> tuple[str, float]:
        """The status and the error of a gradient with this value, given the derivative of some
        entries."""
        return derivative.verdict(np.asarray(value, float).ravel()[where], self.floor,
                                  self.precision)

    def status(self, number: int, value: Any) -> str:
        """The status that a returned gradient would have with another value. It is given by its
        number."""
        numbers = self.results[number]
        return self.verdict(numbers.derivative, value, numbers.where)[0]

    def inside(self, gradients: Mapping[Origin, AssignedGradient]
               ) -> dict[Origin, tuple[Partner | None, Numbers | None]]:
        """The forward variable with each gradient's name and its derivative, if there is such a
        variable."""
        asked = {origin: (partner, target.value, target.shape or ())
                 for origin, gradient in gradients.items() if (
                     target := self.backward.target(origin)).is_real
                 and (partner := self.partner(gradient)) is not None}
        self.prepare(self.forward, [self.bump(*one) for one in asked.values()])
        return {origin: (asked[origin][0], self.numbers(*asked[origin])) if origin in asked else (
            None, None) for origin in gradients}

    def partner(self, gradient: AssignedGradient) -> Partner | None:
        """The forward variable with a gradient's name, if it can have a gradient."""
        partner = gradient.partner or entries_for(self.pairs, gradient)
        if partner is None or gradient.status in ("partial", "zero"):
            return None
        return partner if self.is_real(partner) else None

    def is_real(self, partner: Partner) -> bool:
        """Whether a forward variable can have a gradient: an index or a mask cannot."""
        return all(target.is_real
                   for target in self.forward.steps[partner.step].targets
                   if target.name.partition("[")[0] == partner.name.partition("[")[0])

    def is_whole(self, origin: Origin, numbers: Numbers) -> bool:
        """Whether the derivative was computed for all entries of a variable."""
        return len(numbers.where) == np.size(self.backward.target(origin).value)


def suits_complex_step(report: Report) -> bool:
    """Whether `grads check` has differentiated all inputs by complex step, without a kink."""
    return bool(report.rows) and all("complex" in row.errors and row.status in ("ok", "wrong")
                                     for row in report.rows)


def judged(report: Report, name: str, numbers: Numbers) -> Numbers:
    """The numbers of a returned gradient with the status that `grads check` gives it: it is never
    wrong where the check is not sure that it is, and verified where the check says so. What the
    walk cannot decide is wrong where the check says so.

    Argument name: of the input in the walk.
    """
    rows = rows_of(report, name)
    known = {row.status for row in rows or report.rows}
    if not known:  # nothing was compared, as the function is random
        is_refuted = report.findings and numbers.status == "wrong"
        return numbers._replace(status="undecided") if is_refuted else numbers
    if known == {"ok"} and (rows or report.ok):
        return numbers._replace(status="verified")
    if numbers.status == "undecided" and any(row.status == "wrong" for row in rows):
        return numbers._replace(status="wrong")
    is_sure = "wrong" in known or numbers.status != "wrong"
    return numbers if is_sure else numbers._replace(status="undecided")


def most_of(run: Run) -> int | None:
    """How many entries of a gradient are compared; None for all. Each entry needs runs of the whole
    forward, which take long with large arrays."""
    sizes = [leaf.size for _, leaf in leaves(tuple(run.arguments)) if is_array(leaf)]
    largest = max([run.forward.largest_after[0], *sizes])
    return None if largest <= KEEP else max(FEWEST, WORK // largest)


def rows_of(report: Report, name: str) -> list[Row]:
    """The rows of an input, which the walk calls `p['W']` and the check p.W, or W."""
    path = re.sub(r"\[['\"]?(.*?)['\"]?\]", r".\1", name)
    return [row for row in report.rows if row.name in (path, path.partition(".")[2])]


def worst(report: Report | None, name: str, shape: tuple[int, ...]) -> list[int]:
    """The worst entries of an input by the check, as flat positions. Of a large input only some
    entries are compared, and these must be among them."""
    return [] if report is None else [
        int(np.ravel_multi_index(row.at, shape)) for row in rows_of(report, name)
        if row.shape == shape and len(row.at) == len(shape)]


def precision_of(*traces: Trace) -> float:
    """The relative precision of the coarsest real number type in the computation."""
    kinds = {np.asarray(target.value).dtype for trace in traces for step in trace.steps
             for target in step.targets if target.shape is not None}
    return max((float(np.finfo(kind).eps) for kind in kinds if kind.kind == "f"),
               default=float(np.finfo(float).eps))
