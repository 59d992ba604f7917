"""The arrays and numbers of a forward and its backward, each once, by number.

Every variable that a line assigns has an entry. One that only passes on another's numbers (an
argument, what a function returned) refers to it by `same_as`; an argument of a function is not an
entry of its own but the caller's variable.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from grads.stepper.trace import Origin, Target, Trace
from grads.stepper.tracing.derivations import Run
from grads.stepper.tracing.values import in_words

DIGITS = 9  # significant ones of a number on the page
COMPLEX_DIGITS = 4  # of each part of a complex number, shown as text
TEXT = 80  # characters of a value that is not numeric

FORWARD, BACKWARD = "forward", "backward"


class Table:
    """The tensors that the shown steps of a run assign or read. The page gets `entries`."""

    def __init__(self, run: Run, shown: Mapping[str, Collection[int]]) -> None:
        self.run, self.shown = run, shown
        self.traces: dict[str, Trace] = {FORWARD: run.forward, BACKWARD: run.backward}
        self.entries: list[dict[str, Any]] = []
        self.origins: list[tuple[str, Origin]] = []  # of each entry, the pass and the place
        self.ids: dict[tuple[str, Origin], int] = {}
        for i, target in enumerate(run.forward.steps[0].targets):
            if target.shape is not None:
                self.add(FORWARD, (0, i), target)
        for name, trace in self.traces.items():
            for step in trace.steps:
                if step.number in shown[name]:
                    for i, target in enumerate(step.targets):
                        self.add(name, (step.number, i), target)

    def add(self, name: str, origin: Origin, target: Target) -> int:
        """Add a tensor and return its number. An original that it passes on, and that is not known
        yet, is located here too."""
        same, passed = self.follow(name, target.same_as) if target.same_as else (None, [])
        entry: dict[str, Any] = {"name": target.name, "shape": None}
        if target.shape is None:
            entry |= {"value": [], "text": shortened(in_words(target.value))}
        else:
            entry["shape"] = list(np.shape(target.value))
            original = None if same is None else self.entries[self.root(same)]
            if original and np.size(target.value) != int(np.prod(original["shape"])):
                same = None  # the trace keeps another part of it
            entry["value"] = None if same is not None else flat(target.value)
        if target.shape is not None and is_integer(target.value):
            entry["integer"] = True
        if target.sliced and target.shape is not None:
            entry["full_shape"] = list(target.shape)
        entry |= {"gradient": False, "same_as": same}
        self.ids[name, origin] = len(self.entries)
        self.ids |= dict.fromkeys(passed, len(self.entries) if same is None else same)
        self.entries.append(entry)
        self.origins.append((name, origin))
        return len(self.entries) - 1

    def find(self, name: str, origin: Origin) -> int:
        """The number of the tensor that a target holds. The target may be of a call or a return."""
        tensor, passed = self.follow(name, origin)
        if tensor is None:
            given = [place
                     for place in passed if self.traces[place[0]].steps[place[1][0]].kind == "call"]
            where, place = (given or passed)[-1]
            tensor = self.add(where, place, self.traces[where].target(place))
        self.ids |= dict.fromkeys(passed, tensor)
        return tensor

    def follow(self, name: str, origin: Origin) -> tuple[int | None, list[tuple[str, Origin]]]:
        """The noted tensor that a target passes on, if any, and the targets on the way to it."""
        passed: list[tuple[str, Origin]] = []
        while (name, origin) not in self.ids:
            passed.append((name, origin))
            trace = self.traces[name]
            target = trace.target(origin)
            if name == BACKWARD and origin in self.run.links:
                name, origin = FORWARD, self.run.links[origin]
            elif target.same_as is not None and trace.steps[origin[0]].kind != "assign":
                origin = target.same_as
            else:
                return None, passed
        return self.ids[name, origin], passed

    def root(self, number: int) -> int:
        """The tensor whose numbers a tensor passes on; the tensor itself if the numbers are its
        own."""
        while self.entries[number]["same_as"] is not None:
            number = self.entries[number]["same_as"]
        return number

    def is_parameter(self, number: int) -> bool:
        """Whether the numbers were given to the forward pass."""
        name, origin = self.origins[self.root(number)]
        return name == FORWARD and origin[0] == 0

    def is_cached(self, number: int) -> bool:
        """Whether the forward pass computed the numbers."""
        return self.origins[self.root(number)][0] == FORWARD and not self.is_parameter(number)

    def values(self, number: int) -> np.ndarray:
        """The kept numbers of a tensor, flat."""
        name, origin = self.origins[number]
        return np.ravel(np.asarray(self.traces[name].target(origin).value))


def is_integer(value: Any) -> bool:
    """Whether numbers are integers by their type."""
    return np.asarray(value).dtype.kind in "iu"


def flat(values: Any, digits: int = DIGITS) -> list[Any]:
    """Numbers in a list for JSON, row by row, rounded; as strings if complex or not finite."""
    return [number(value, digits) for value in np.ravel(np.asarray(values)).tolist()]


def number(value: Any, digits: int = DIGITS) -> Any:
    """One number for JSON, rounded to significant digits; a string if complex or not finite."""
    if isinstance(value, (bool, int)):
        return int(value)
    if isinstance(value, complex):
        return f"{value:.{COMPLEX_DIGITS}g}"
    if not np.isfinite(value):
        return str(value)
    rounded = float(f"{value:.{digits}g}")
    return int(rounded) if rounded == int(rounded) and abs(rounded) < 1e6 else rounded


def shortened(text: str) -> str:
    """The beginning of a text."""
    return text if len(text) <= TEXT else text[: TEXT - 3] + "..."
