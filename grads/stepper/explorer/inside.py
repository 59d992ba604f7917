"""Chooses the drawing that shows a step from inside, and the tensors that flow on its lines."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from grads.stepper.explorer.drawings import DRAWINGS, svg
from grads.stepper.explorer.steps import Steps
from grads.stepper.explorer.tensors import BACKWARD, FORWARD, Table
from grads.stepper.trace import Step, Trace

LAYER = "layer"  # the function that calls a Transformer's sublayers, each in its iteration of K
K = "k"
RETURNED = "return"  # the name of a returned value that no variable of the function holds
PLACED = {"pre_norm": "pre", "post_norm": "post"}
NAMED = {"z": ("dr", "dy")}  # a branch's result z is added: its gradient has the sum's name


def inside_json(table: Table, steps: Steps) -> dict[str, Any]:
    """The drawings by name, and the tensors on them.

    Each call of a function with a drawing lists, by variable, the tensor, the step that computes
    it, the tensor of its gradient and the step that computes the gradient. Each step inside such a
    call gets the number of the call and the variables that it writes and reads.
    """
    forward, backward = Frames(table, steps, FORWARD), Frames(table, steps, BACKWARD)
    waiting: dict[Any, list[int]] = defaultdict(list)
    for frame in forward.drawn:
        waiting[forward.place(frame)].append(frame)
    back = {waiting[backward.place(frame)].pop(): frame for frame in backward.drawn
            if waiting[backward.place(frame)]}
    runs = []
    for number, (frame, name) in enumerate(forward.drawn.items()):
        names = [flow.variable for flow in DRAWINGS[name].flows]
        flows = {}
        for variable in dict.fromkeys(names):
            gradient = backward.gradient(back[frame], variable) if frame in back else (None, None)
            flows[variable] = [*forward.variable(frame, variable), *gradient]
        runs.append({"drawing": name, "flows": flows})
        forward.mark(frame, number, flows)
        if frame in back:
            backward.mark(back[frame], number, flows)
    used = dict.fromkeys(forward.drawn.values())
    return {"drawings": {name: svg(DRAWINGS[name]) for name in used}, "runs": runs}


class Frames:
    """The calls of one pass whose functions have a drawing, and the steps inside each call."""

    def __init__(self, table: Table, steps: Steps, name: str) -> None:
        self.table, self.shown, self.name = table, steps, name
        self.trace: Trace = table.traces[name]
        self.inside: dict[int, list[Step]] = defaultdict(list)
        self.drawn: dict[int, str] = {}  # frame -> its drawing
        for step in self.trace.steps:
            owner = self.owner(step.frame)
            if owner is not None:
                self.inside[owner].append(step)
        for frame, steps_inside in self.inside.items():
            drawing = self.drawing(frame, steps_inside)
            if drawing in DRAWINGS:
                self.drawn[frame] = drawing
        self.known = {frame: self.variables(frame) for frame in self.drawn}

    def function(self, frame: int) -> str:
        """The function that is drawn: `lstm` also for `lstm_grad`."""
        return self.trace.calls[frame].function.removesuffix("_grad")

    def owner(self, frame: int | None) -> int | None:
        """The innermost call around a step whose function has a drawing."""
        wanted = "" if self.name == FORWARD else "_grad"
        while frame is not None:
            call = self.trace.calls[frame]
            if call.function.endswith(wanted) and (
                    self.function(frame) in DRAWINGS or self.function(frame) == LAYER):
                return frame
            frame = call.caller
        return None

    def drawing(self, frame: int, steps: list[Step]) -> str:
        """The name of a call's drawing. A layer's drawing depends on its sublayers."""
        if self.function(frame) != LAYER:
            return self.function(frame)
        calls = [step.function.removesuffix("_grad") for step in steps if step.kind == "call"]
        placed = [PLACED[name] for name in calls if name in PLACED]
        return f"{LAYER} {placed[0]} {len(placed)}" if placed else ""

    def place(self, frame: int) -> tuple[str, frozenset[tuple[str, int]]]:
        """What a call has in common with the call of its backward: the function and the loop
        iterations."""
        return self.function(frame), frozenset(self.trace.calls[frame].loops)

    def name_of(self, step: Step, frame: int, written: str) -> str:
        """A variable's name in a drawing. Inside a sublayer it includes the sublayer's number."""
        number = dict(step.loops).get(K)
        if self.function(frame) != LAYER or step.frame == frame or number is None:
            return written
        return f"{written}.{number}"

    def targets(self, frame: int) -> Iterator[tuple[str, int | None, int | None]]:
        """The variables with their tensors and steps: those of the innermost functions first, then
        those that the call returned."""
        for step in sorted(self.inside[frame], key=lambda step: -step.depth):
            for i, target in enumerate(step.targets):
                tensor = self.table.follow(self.name, (step.number, i))[0]
                if target.shape is not None and tensor is not None:
                    named = self.name_of(step, frame, target.name)
                    yield RETURNED if step.kind == "return" else named, tensor, self.maker(
                        frame, tensor, step)

    def maker(self, frame: int, tensor: int, step: Step) -> int | None:
        """The step inside a call that computed a tensor.

        If there is none, this is the given step. For a returned value without a name it is the step
        outside the call that names the value.
        """
        name, origin = self.table.origins[self.table.root(tensor)]
        made = self.trace.steps[origin[0]] if name == self.name else None
        inside = made is not None and made.kind == "assign" and self.owner(made.frame) == frame
        number = origin[0] if inside or step.kind == "return" else step.number
        return self.shown.numbers.get((self.name, number))

    def variables(self, frame: int) -> dict[str, tuple[int | None, int | None]]:
        """The last tensor of each variable and its step. For an argument, the step is the first
        that reads it."""
        known = {name: (tensor, step) for name, tensor, step in self.targets(frame)}
        for name, (tensor, step) in known.items():
            if step is None:
                readers = (self.shown.numbers.get((self.name, reader.number))
                           for reader in self.inside[frame] if reader.kind == "assign"
                           and name in self.read(reader, frame))
                known[name] = tensor, next((reader for reader in readers if reader is not None),
                                           None)
        return known

    def read(self, step: Step, frame: int) -> set[str]:
        """The variables that a step reads."""
        return {self.name_of(step, frame, read.name.removesuffix(".T")) for read in step.reads}

    def variable(self, frame: int, name: str) -> tuple[int | None, int | None]:
        """The tensor of a variable and the step that computes it."""
        known = self.known[frame]
        name_inside = RETURNED if name == DRAWINGS[self.drawn[frame]].flows[-1].variable else name
        return known.get(name, known.get(name_inside, (None, None)))

    def gradient(self, frame: int, name: str) -> tuple[int | None, int | None]:
        """The tensor of a variable's gradient and the step that computes it."""
        known, (letter, dot, number) = self.known[frame], name.partition(".")
        tried = [f"d{name}", f"d_{name}",
                 *(f"{letters}{dot}{number}" for letters in NAMED.get(letter, ()))]
        return next((known[gradient] for gradient in tried if gradient in known), (None, None))

    def mark(self, frame: int, number: int, flows: Mapping[str, Any]) -> None:
        """Note which variables and gradients each step of a call writes and reads."""
        names = {"x": "u[0]"} if self.function(frame) == LAYER else {}
        names |= {f"{prefix}{name}": name for name in flows for prefix in ("", "d", "d_")}
        for step in self.inside[frame]:
            shown = self.shown.numbers.get((self.name, step.number))
            if shown is not None:
                written = {self.name_of(step, frame, target.name) for target in step.targets}
                self.shown.entries[shown]["inside"] = [number, *(
                    sorted({names[variable] for variable in variables if variable in names})
                    for variables in (written, self.read(step, frame)))]
