"""Finds the line of the forward pass that a line of the backward pass differentiates.

`df = c_prev * dc` computes df from dc, so it differentiates the line that reads f and assigns c. If
the backward's line reads no gradient of such a line's result, it is paired with the line that reads
f, or with the line that assigned f.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from grads.stepper.explorer.tensors import FORWARD, Table
from grads.stepper.trace import Origin, Step
from grads.stepper.tracing.derivations import Run
from grads.stepper.tracing.verify import Verification

Frame = tuple[str, frozenset[tuple[str, int]]]  # a function, and iterations of loops


class Partners:
    """Finds the forward step of a backward step. Both are given by their numbers in the traces."""

    def __init__(self, run: Run, table: Table, verifications: list[Verification]) -> None:
        self.run, self.table = run, table
        self.variables = {origin: table.root(table.find(FORWARD, variable))
                          for origin, variable in variables(run, verifications).items()}
        self.steps: dict[Frame, list[Step]] = defaultdict(list)
        for step in run.assigned(FORWARD):
            self.steps[step.function, frozenset(step.loops)].append(step)

    def find(self, step: Step) -> int | None:
        """The number of the forward step that a backward step differentiates; None if there is
        none."""
        function = self.run.derivation.pairing.partners.get(step.function, "")
        same_loops = self.steps[function, frozenset(step.loops)]
        for i in range(len(step.targets)):
            x = self.variables.get((step.number, i))
            if x is not None:
                line = self.differentiated(step, same_loops, x)
                return self.assigned(x) if line is None else line
        return None

    def differentiated(self, step: Step, here: list[Step], x: int) -> int | None:
        """The line of the forward function, in the same iterations, that a step differentiates."""
        readers = [line.number for line in here if x in self.read(line)]
        made = [self.variables[origin] for origin in self.gradients(step)
                if self.variables[origin] != x]
        makers = [line.number for y in made for line in here if y in self.assigns(line)]
        both = [number for number in makers if number in readers]
        return next(iter([*both, *makers, *readers]), None)

    def gradients(self, step: Step) -> Iterator[Origin]:
        """The gradients that a step has read, under the place that knows their variable."""
        trace = self.run.backward
        for read in step.reads:
            for source in read.origins:
                origin: Origin | None = source
                while origin is not None and origin not in self.variables:
                    origin = trace.target(origin).same_as
                if origin is not None:
                    yield origin

    def read(self, step: Step) -> set[int]:
        """The tensors that a forward step has read."""
        return {self.table.root(self.table.find(FORWARD, origin))
                for read in step.reads for origin in read.origins}

    def assigns(self, step: Step) -> set[int]:
        """The tensors that a forward step assigned."""
        return {self.table.root(self.table.find(FORWARD, (step.number, i)))
                for i in range(len(step.targets))}

    def assigned(self, x: int) -> int | None:
        """The forward step that assigned a tensor; None for an argument."""
        name, origin = self.table.origins[x]
        made = self.run.forward.steps[origin[0]].kind == "assign"
        return origin[0] if name == FORWARD and made else None


def variables(run: Run, verifications: list[Verification]) -> dict[Origin, Origin]:
    """The forward variable of each gradient, as (step, target) of each trace."""
    variables = {(verification.step, verification.target): forward_origin(run, verification)
             for verification in verifications if verification.partner is not None}
    for verification in verifications:
        if verification.other in variables:
            variables.setdefault((verification.step, verification.target),
                                 variables[verification.other])
    return variables


def forward_origin(run: Run, verification: Verification) -> Origin:
    """Where the forward variable of a verified gradient was assigned."""
    assert verification.partner is not None
    step, places = verification.partner.step, verification.partner.places.steps
    targets = run.forward.steps[step].targets
    names = [target.name for target in targets]
    if verification.partner.name in names:
        return step, names.index(verification.partner.name)
    return step, [target.place for target in targets].index(places[0][1])  # a part of it

