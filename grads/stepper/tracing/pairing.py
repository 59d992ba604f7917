"""Finds, for each gradient variable, the forward variable that it is the gradient of.

A backward function differentiates a forward function. The variable `dX` of the backward belongs to
`X` of the forward, in the same iterations of the same loops: `do` in `lstm_grad` at t = 2 belongs
to `o` in `lstm` at t = 2. A derivation lists the names that do not follow this rule in a table.

A weight is read in every iteration of a loop, so its gradient is a sum that grows in every
iteration of the backward's loop. After the backward's iterations 4 and 3, the sum is the gradient
for the weight as the forward's iterations 4 and 3 read it. In this way every stage of the sum can
be verified.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from grads.stepper.trace import Step, Target, Trace
from grads.stepper.tracing.record import Loops, Origin
from grads.stepper.tracing.replay import Places, assigned


@dataclass(frozen=True)
class Pairing:
    """Declares which names of a backward belong to which names of its forward."""

    partners: Mapping[str, str]  # backward function -> the forward function it differentiates
    pairs: Mapping[str, str] = field(default_factory=dict)  # "function.gradient" -> see below
    shares: Mapping[str, str] = field(default_factory=dict)  # "function.gradient" -> reason

    # A pair is "T" for a variable of another name, "T:first columns" for a part of it (PARTS), or
    # "h in v" for the gradient of h through the statement that assigns v. A share is a term of a
    # gradient and has no forward variable: the gradient that it is added to is verified.


class Partner(NamedTuple):
    """The forward variable that a gradient belongs to."""

    name: str
    step: int  # number of the step that assigned it
    places: Places  # where a perturbation is added to it
    shape: tuple[int, ...]
    entries: np.ndarray  # flat positions of the gradient's entries in the variable


class AssignedGradient(NamedTuple):
    """A gradient variable as one step of the backward assigned it."""

    origin: Origin
    status: str  # "final" | "partial" | "same" | "share" | "zero" | "unpaired"
    partner: Partner | None  # the forward variable of a "final" gradient
    other: Origin | None  # of a partial one where it is completed, of a "same" one the original


NOWHERE = Places()  # the places of a variable that cannot be perturbed
Key = tuple[tuple[str, ...], frozenset[tuple[str, int]]]


class Pairs:
    """Finds the forward variable of every gradient in a backward trace.

    Arguments: pairing, the rules for names; forward and backward, the two traces.
    """

    def __init__(self, pairing: Pairing, forward: Trace, backward: Trace) -> None:
        self.pairing, self.forward, self.backward = pairing, forward, backward
        self.frames: dict[Key, list[int]] = defaultdict(list)
        self.backward_frames: dict[Key, list[int]] = defaultdict(list)
        for call in backward.calls:
            path = self.path(backward, call.number, pairing.partners)
            self.backward_frames[path, frozenset(call.loops)].append(call.number)
        self.owners: dict[tuple[str, int | None], list[int]] = defaultdict(list)
        for call in forward.calls:
            self.owners[call.function, call.owner].append(call.number)
            self.frames[self.path(forward, call.number), frozenset(call.loops)].append(call.number)
        self.variables: dict[int, dict[str, list[Origin]]] = defaultdict(lambda: defaultdict(list))
        for step in forward.steps:
            if step.kind != "return":
                for i, target in enumerate(step.targets):
                    if target.shape is not None:
                        self.variables[step.frame][target.name].append((step.number, i))
        for names in self.variables.values():  # self.h is also known as h
            names.update({name.removeprefix("self."): origins for name, origins in names.items()
                          if name.removeprefix("self.") not in names})

    def path(self, trace: Trace, frame: int, partners: Mapping[str, str] | None = None
             ) -> tuple[str, ...]:
        """The functions from the outermost call to this one, each under its forward name."""
        names: list[str] = []
        number: int | None = frame
        while number is not None:
            call = trace.calls[number]
            name = call.function if partners is None else partners.get(call.function, "?")
            if not names or names[-1] != name:
                names.append(name)
            number = call.caller
        return tuple(reversed(names))

    # --- gradients

    def gradients(self) -> list[AssignedGradient]:
        """Every gradient that the backward assigned, in the order of assignment."""
        later: dict[tuple[int, str], list[Origin]] = defaultdict(list)
        targets = [(step, i) for step in self.backward.steps
                 if step.kind == "assign" and self.backward.is_backward(step.number)
                 for i, target in enumerate(step.targets)
                 if target.shape is not None and self.forward_name(step, target) is not None
                 and not self.is_carried(step, target)]
        for step, i in targets:
            later[step.frame, step.targets[i].name].append((step.number, i))
        return [self.gradient(step, i, later[step.frame, step.targets[i].name])
                for step, i in targets]

    def is_carried(self, step: Step, target: Target) -> bool:
        """Whether the step puts an entry back into a container under the name it already had."""
        if target.same_as is None or target.name == target.written:
            return False
        before = self.backward.steps[target.same_as[0]]
        return before.frame == step.frame and before.targets[target.same_as[1]].name == target.name

    def gradient(self, step: Step, i: int, namesakes: list[Origin]) -> AssignedGradient:
        """Classifies one gradient: how it is to be verified, and against which variable."""
        target, origin = step.targets[i], (step.number, i)
        completed = self.completed(step, target, origin, namesakes)
        zero = not np.any(np.asarray(target.value))
        if completed is not None and zero and not step.own_loops:
            return AssignedGradient(origin, "zero", None, completed)
        original = self.original(target)
        partner = self.partner(step, target)
        if completed is not None and (partner is not None or original is None):
            return AssignedGradient(origin, "partial", None, completed)
        if partner is not None:
            return AssignedGradient(origin, "final", partner, None)
        if original is not None:
            return AssignedGradient(origin, "same", None, original)
        if f"{step.function}.{root_of(target.name)}" in self.pairing.shares:
            return AssignedGradient(origin, "share", None, None)
        helper = step.function not in self.pairing.partners
        return AssignedGradient(origin, "zero" if zero and helper else "unpaired", None, None)

    def original(self, target: Target) -> Origin | None:
        """The gradient that a target passes on. It was assigned earlier, or it is an argument."""
        origin = target.same_as
        while origin is not None:
            step, same_array = self.backward.steps[origin[0]], self.backward.target(origin)
            if self.forward_name(step, same_array) is not None and (
                    step.kind == "assign" or (step.kind == "call" and step.depth == 0)):
                return origin
            origin = same_array.same_as
        return None

    def completed(self, step: Step, target: Target, origin: Origin, namesakes: list[Origin]
                  ) -> Origin | None:
        """The last assignment of a sum, if this gradient is only an earlier stage of it."""
        after = [later for later in namesakes if later > origin]
        if "[" not in target.written:  # each iteration assigns a plain name anew
            loops = step.own_loops
            after = [later for later in after
                     if self.backward.steps[later[0]].own_loops[: len(loops)] == loops]
        return after[-1] if after else None

    # --- partners

    def forward_name(self, step: Step, target: Target) -> str | None:
        """The forward variable that a gradient's name refers to."""
        name = target.name.removeprefix("self.")
        root, listed = root_of(name), self.listed(step, target)
        if listed:
            return re.split(" in |:", listed)[0] + name[len(root):]
        return name[1:].lstrip("_") if root.startswith("d") and len(root) > 1 else None

    def listed(self, step: Step, target: Target) -> str:
        """The entry of a gradient in the table of pairs; "" if there is none."""
        return self.pairing.pairs.get(f"{step.function}.{root_of(target.name)}", "")

    def frame_of(self, step: Step) -> int | None:
        """The number of the forward call that a backward step differentiates, if it is known."""
        call = self.backward.calls[step.frame]
        of_object = self.owners[self.pairing.partners.get(call.function, "?"), call.owner]
        if call.owner is not None and len(of_object) == 1:
            return of_object[0]
        key = self.path(self.backward, step.frame, self.pairing.partners), frozenset(call.loops)
        frames = self.frames.get(key, [])
        if step.frame in frames:  # both passes in one function
            return step.frame
        if len(frames) == 1:
            return frames[0]
        calls = self.backward_frames.get(key, [])
        return frames[::-1][calls.index(step.frame)] if len(frames) == len(calls) else None

    def partner(self, step: Step, target: Target) -> Partner | None:
        """The forward variable of a gradient, searched for in the forward call that matches the
        step's."""
        frame, name = self.frame_of(step), self.forward_name(step, target)
        if frame is None or name is None:
            return None
        reader = self.listed(step, target).partition(" in ")[2].partition(":")[0]
        if reader:
            return self.through(frame, name, reader, step, target)
        origins = self.variables[frame].get(name, [])
        loops = frozenset(step.own_loops)
        current = [origin for origin in origins if frozenset(self.steps(origin).own_loops) == loops]
        if current:
            return self.direct(current[-1], step, target)
        if origins and self.is_entry(origins[-1]):
            return self.direct(origins[-1], step, target)
        if origins and "[" not in target.written and step.own_loops:
            summed = self.summed(frame, name, step, target)
            if summed is not None:
                return summed
        indexed = [origin for loop in reversed(step.own_loops)
                   for all_steps in (name, f"{name}s")
                   for origin in self.variables[frame].get(f"{all_steps}[{loop[1]}]", [])]
        if not origins and indexed:
            return self.direct(indexed[-1], step, target)
        return self.direct(origins[-1], step, target) if origins and (
            "[" in target.written or not step.own_loops) else None

    def is_entry(self, origin: Origin) -> bool:
        """Whether one iteration of a loop assigned this forward variable as an entry, as in `h[l] =
        ...`."""
        step = self.forward.steps[origin[0]]
        return bool(step.own_loops) and "[" in step.targets[origin[1]].written

    def steps(self, origin: Origin) -> Step:
        """The forward step that an origin points to."""
        return self.forward.steps[origin[0]]

    def whole(self, origin: Origin) -> Partner | None:
        """A forward variable with all its entries as the partner; None for a starred target."""
        variable = self.steps(origin).targets[origin[1]]
        if variable.place is None or variable.shape is None:
            return None
        entries = np.arange(int(np.prod(variable.shape)))
        return Partner(variable.name, origin[0], assigned(self.forward, origin),
                       tuple(variable.shape), entries)

    def fitting_whole(self, origin: Origin, target: Target) -> Partner | None:
        """A forward variable with all its entries, if its shape is that of the gradient."""
        partner = self.whole(origin)
        fits = partner and squeezed(partner.shape) == squeezed(target.shape or ())
        return partner if fits else None

    def direct(self, origin: Origin, step: Step, target: Target) -> Partner | None:
        """The partner whose variable is perturbed where it is assigned."""
        is_held = self.forward.target(origin).place is None  # by an object
        places = NOWHERE if is_held else assigned(self.forward, origin)
        return self.fitting(origin, places, step, target)

    def summed(self, frame: int, name: str, step: Step, target: Target) -> Partner | None:
        """The partner whose variable is perturbed in those iterations that the backward has
        reached."""
        walked = {frozenset(earlier.own_loops) for earlier in self.backward.steps[: step.number + 1]
                  if earlier.frame == step.frame and earlier.own_loops
                  and self.backward.is_backward(earlier.number)}
        now = frozenset(step.own_loops)
        readings = [(number, frozenset(reading.own_loops), *reading.known[name])
                    for number, reading in enumerate(self.forward.readings)
                    if reading.frame == frame and name in reading.known
                    and root_of(name) == reading.name]
        current = [origin for _, loops, origin, _ in readings if loops == now]
        if not current:
            return None
        places = Places(readings=tuple((number, path) for number, loops, origin, path in readings
                                       if origin == current[0] and loops in walked))
        return self.fitting(current[0], places, step, target)

    def through(self, frame: int, name: str, reader: str, step: Step, target: Target
                ) -> Partner | None:
        """The partner whose variable is perturbed only where the statement that assigns `reader`
        reads it."""
        origins = [origin for origin in self.variables[frame].get(reader, [])
                   if self.steps(origin).own_loops == step.own_loops]
        if not origins:
            return None
        chains = self.forward.program.sites[self.steps(origins[-1]).site].chains
        readings = [(number, *reading.known[name])
                    for number, reading in enumerate(self.forward.readings)
                 if reading.frame == frame and reading.chain in chains
                 and root_of(name) == reading.name
                 and reading.own_loops == step.own_loops and name in reading.known]
        places = Places(readings=tuple((number, path) for number, _, path in readings))
        return self.fitting(readings[0][1], places, step, target) if readings else None

    def fitting(self, origin: Origin, places: Places, step: Step, target: Target
                ) -> Partner | None:
        """The partner, if the variable's shape fits the gradient's; None otherwise."""
        variable = self.steps(origin).targets[origin[1]]
        if places == NOWHERE:
            return None
        part_name = self.listed(step, target).partition(":")[2]
        shape, gradient_shape = variable.shape or (), target.shape or ()
        if not shape and variable.shape is not None:
            shape = gradient_shape  # a scalar that stands for an array: the bias 0.0
        positions = np.arange(int(np.prod(shape))).reshape(shape)
        if part_name:
            positions = PARTS[part_name](positions, gradient_shape)
        if squeezed(positions.shape) != squeezed(gradient_shape):
            return None
        return Partner(variable.name, origin[0], places, tuple(shape), positions.ravel())


PARTS: dict[str, Callable[[np.ndarray, Any], np.ndarray]] = {
    "first columns": lambda whole, shape: whole[:, : shape[1]],
    "last columns": lambda whole, shape: whole[:, whole.shape[1] - shape[1]:],
    "first rows": lambda whole, shape: whole[: shape[0]],
    "last rows": lambda whole, shape: whole[whole.shape[0] - shape[0]:],
}


def squeezed(shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape without axes of length 1."""
    return tuple(n for n in shape if n != 1)


def root_of(name: str) -> str:
    """The name of the variable in a path: "h" for "h[2][1]"."""
    return name.split("[")[0].split(".")[0]


def loops_text(loops: Loops) -> str:
    """Loop indices as text: "t=2, l=1"."""
    return ", ".join(f"{name}={value}" for name, value in loops)
