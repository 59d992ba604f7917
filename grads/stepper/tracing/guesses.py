"""Guesses which forward variable a line of a user's backward differentiates, if its name does not
say.

A gradient that is passed from step to step belongs to the variable of another iteration. A `dz` may
belong to the argument of a tanh, which no variable holds. A guess alone proves nothing: it counts
only if the numbers confirm it (`grads.stepper.tracing.blame`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from grads.stepper.trace import Origin, Step, Target, Trace
from grads.stepper.tracing.pairing import Pairs, Partner, root_of, squeezed
from grads.stepper.tracing.parts import PART
from grads.stepper.tracing.replay import Places, assigned
from grads.stepper.tracing.values import Path


class Candidate(NamedTuple):
    """A candidate for the forward variable of a gradient, in one trace of the forward."""

    trace: Trace
    partner: Partner  # its name is the text of an expression where no variable holds it
    named: bool  # whether it has the name that the gradient's name refers to


Guess = dict[Origin, Candidate]  # one for each assignment of a line


class Guesses:
    """Makes guesses for the lines of one backward.

    Arguments: pairs, of the two traces; parts, a function that traces the forward with the parts of
    its expressions, called at most once.
    """

    def __init__(self, pairs: Pairs, parts: Callable[[], Trace]) -> None:
        self.pairs, self.forward, self.backward = pairs, pairs.forward, pairs.backward
        self.make = parts

    def of(self, line: Sequence[Origin]) -> Iterator[Guess]:
        """The guesses for the assignments of one line. Guesses by name come first."""
        step, target = self.backward.steps[line[0][0]], self.backward.target(line[0])
        if not target.is_real:
            return
        seen = set()
        for trace, sequence, is_named in self.sequences(step, target):
            for guess in self.orders(line, trace, sequence):
                places = tuple((origin, id(trace), *variable) for origin, variable in guess.items())
                if places not in seen and self.fits(guess, trace):
                    seen.add(places)
                    yield {origin: Candidate(trace, self.partner(trace, variable), is_named)
                           for origin, variable in guess.items()}
        for origin in {line[0], line[-1]}:
            shape = squeezed(self.backward.target(origin).shape or ())
            for candidate in self.terms:
                if squeezed(candidate.partner.shape) == shape:
                    yield {origin: candidate}

    @cached_property
    def terms(self) -> list[Candidate]:
        """The expressions that read an argument, if several do. Each adds a term to its gradient,
        as a layer and a penalty do for a weight."""
        sites = [self.forward.program.sites[number]
                 for number in sorted({step.site for step in self.forward.steps})]
        lines = {chain: site.line for site in sites for chain in site.chains}
        readings: dict[Origin, dict[int, list[tuple[int, Path]]]] = defaultdict(
            lambda: defaultdict(list))
        for number, reading in enumerate(self.forward.readings):
            if reading.name in reading.known and reading.chain in lines:
                origin, path = reading.known[reading.name]
                readings[origin][reading.chain].append((number, path))
        return [Candidate(self.forward, self.term(origin, lines[chain], tuple(places)), False)
                for origin, chains in readings.items() if origin[0] == 0 and len(chains) > 1
                and self.forward.target(origin).is_real
                for chain, places in chains.items()]

    def term(self, origin: Origin, line: int, readings: tuple[tuple[int, Path], ...]) -> Partner:
        """A variable as a partner that is perturbed only in these readings, which are in one
        line."""
        target = self.forward.target(origin)
        shape = tuple(target.shape or ())
        return Partner(f"{target.name} in line {line}", origin[0], Places(readings=readings),
                       shape, np.arange(int(np.prod(shape))))

    def whole(self, assignments: Sequence[Origin]) -> Partner | None:
        """The forward variable of an array that these assignments fill, if the forward assigns that
        variable in one statement, not entry by entry."""
        target = self.backward.target(assignments[-1])
        return self.named(assignments[-1]) if "[" in target.name else None

    def named(self, origin: Origin) -> Partner | None:
        """The last forward variable of a gradient's name, without an index."""
        step, target = self.backward.steps[origin[0]], self.backward.target(origin)
        frame, name = self.pairs.frame_of(step), self.pairs.forward_name(step, target)
        if frame is None or name is None:
            return None
        origins = self.pairs.variables[frame].get(root_of(name), [])
        return self.pairs.whole(origins[-1]) if origins and (
            self.forward.target(origins[-1]).is_real) else None

    # --- what the forward assigned, one after another

    def sequences(self, step: Step, target: Target
                  ) -> Iterator[tuple[Trace, list[Origin], bool]]:
        """Candidate sequences: the assignments of the variable by name, then those of each
        expression part."""
        function = self.pairs.pairing.partners.get(step.function)
        name = self.pairs.forward_name(step, target) or ""
        assignments = self.assignments(function, root_of(name or target.name))
        if assignments:
            yield self.forward, assignments, True
        parts = [origins for origins in self.parts.values()
                 if self.trace.steps[origins[0][0]].function == function]
        parts.sort(key=lambda origins: -len(self.partner(self.trace, origins[0]).name))
        for is_named in (True, False):
            for origins in parts:
                text = self.partner(self.trace, origins[0]).name
                if (root_of(text) == root_of(name)) == is_named:
                    yield self.trace, origins, is_named

    def assignments(self, function: str | None, name: str) -> list[Origin]:
        """The assignments of one variable in one function of the forward."""
        return [(step.number, i) for step in self.forward.steps
                if step.kind != "return" and step.function == function
                for i, target in enumerate(step.targets)
                if root_of(target.name) == name and target.is_real]

    @cached_property
    def trace(self) -> Trace:
        """The trace of the forward with the parts of its expressions."""
        return self.make()

    @cached_property
    def parts(self) -> dict[int, list[Origin]]:
        """The values of each expression part that is an array or a number, by its place in the
        source."""
        values: dict[int, list[Origin]] = defaultdict(list)
        for step in self.trace.steps:
            if step.kind == "assign" and len(step.targets) == 1 and (
                    step.targets[0].name.startswith(PART) and step.targets[0].is_real):
                values[step.site].append((step.number, 0))
        return values

    # --- which of them belongs to which assignment of the line

    def orders(self, line: Sequence[Origin], trace: Trace, sequence: list[Origin]
               ) -> Iterator[dict[Origin, Origin]]:
        """The ways to pair a line's assignments with a sequence of the forward.

        They are: in reverse order, with the last assignment of the forward or without it; call by
        call; or, for a complete sum, only its last assignment with the last one of the forward.
        """
        if len(sequence) > 1:
            yield dict(zip(line, reversed(sequence), strict=False))
            yield dict(zip(line, reversed(sequence[:-1]), strict=False))
        gradient_calls, calls = self.by_call(self.backward, line), self.by_call(trace, sequence)
        if len(gradient_calls) > 1 and len(gradient_calls) == len(calls):
            for order in (calls, calls[::-1]):
                yield {gradient: variable
                       for gradients, variables in zip(gradient_calls, order, strict=True)
                       for gradient, variable in zip(gradients, reversed(variables), strict=False)}
        yield {line[-1]: sequence[-1]}

    def by_call(self, trace: Trace, origins: Iterable[Origin]) -> list[list[Origin]]:
        """The assignments, grouped by the call that made them."""
        calls: dict[int, list[Origin]] = defaultdict(list)
        for origin in origins:
            calls[trace.steps[origin[0]].frame].append(origin)
        return list(calls.values())

    def fits(self, guess: dict[Origin, Origin], trace: Trace) -> bool:
        """Whether the shapes of all pairs agree."""
        return bool(guess) and all(
            trace.target(variable).place is not None and (
                squeezed(self.backward.target(gradient).shape or ())
                == squeezed(trace.target(variable).shape or ()))
            for gradient, variable in guess.items())

    def partner(self, trace: Trace, origin: Origin) -> Partner:
        """The variable at an origin as a partner, perturbed where it is assigned."""
        target = trace.target(origin)
        name = target.name
        if name.startswith(PART) and trace.program.parts is not None:
            name = trace.program.parts[int(name.removeprefix(PART))]
        shape = tuple(target.shape or ())
        return Partner(name, origin[0], assigned(trace, origin), shape,
                       np.arange(int(np.prod(shape))))
