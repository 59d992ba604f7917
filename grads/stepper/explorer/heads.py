"""The attention heads of a run: each head's weights, and the gradients of its scores, as a map."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from grads.derivations.examples import END
from grads.stepper.explorer.formulas import functions
from grads.stepper.explorer.steps import Steps
from grads.stepper.explorer.tensors import BACKWARD, FORWARD, Table, flat
from grads.stepper.trace import Step, Trace

HEAD = "head_forward"  # the function that is a head
WEIGHTS, GRADIENTS = "A", "dE"  # what is drawn of it, forward and backward
LOOPS = {"l": "layer", "i": "head"}
ROUGH = 3  # significant digits of a number that no tensor shows
CELLS = 8000  # of all maps; if there are more, only the first and the last layer are shown


class Place(NamedTuple):
    """The head of a model in which a step works."""

    side: str  # "encoder" or "decoder"; "" of a head by itself
    source: bool  # whether it attends to the encoder's output
    loops: frozenset[tuple[str, int]]


def heads_json(table: Table, steps: Steps) -> list[dict[str, Any]]:
    """A map for each head; empty if the model has no heads.

    A map has the side, source, layer and head, and the words of its rows and columns. For each pass
    it has the tensor, the first and last step of the head, and all numbers if the tensor is shown
    in part. The forward pass also lists the masked entries.
    """
    maps_by_place = {place: heading(table, place) | {"weights": weights}
             for place, weights in maps(table, steps, FORWARD, WEIGHTS)}
    for place, gradients in maps(table, steps, BACKWARD, GRADIENTS):
        maps_by_place[place]["gradients"] = gradients
    layers = [head["layer"] for head in maps_by_place.values()]
    cells = sum(len(head["rows"]) * len(head["columns"]) for head in maps_by_place.values())
    return [head for head in maps_by_place.values()
            if cells <= CELLS or head["layer"] in (min(layers), max(layers))]


def maps(
    table: Table, steps: Steps, name: str, variable: str
) -> Iterator[tuple[Place, dict[str, Any]]]:
    """The place and the map of each head in one pass."""
    trace, shown = table.traces[name], sorted(table.shown[name])
    frames: dict[int, list[int]] = {}
    for step in trace.steps:
        if step.kind == "assign" and functions(trace, step)[0] == HEAD:
            after = shown[min(bisect_left(shown, step.number), len(shown) - 1)]
            frames.setdefault(step.frame, []).append(steps.numbers[name, after])
    for step in trace.steps:
        if step.frame in frames and step.kind == "assign" and step.targets[0].name == variable:
            head: dict[str, Any] = {
                "tensor": table.find(name, (step.number, 0)),
                "first": min(frames[step.frame]), "last": max(frames[step.frame])}
            if step.targets[0].sliced:
                head["numbers"] = flat(trace.alive.get((step.number, 0), ()), ROUGH)
            if name == FORWARD:
                head["dead"] = masked(trace, step.frame)
            yield place_of(functions(trace, step), step), head


def masked(trace: Trace, frame: int) -> list[int]:
    """The masked entries of a head, counted row by row."""
    for step in trace.steps:
        for i, target in enumerate(step.targets):
            if (step.kind, step.frame, target.name) == ("call", frame, "dead"):
                mask = trace.alive.get((step.number, i), target.value)
                return [int(position) for position in np.flatnonzero(mask)]
    return []


def place_of(called: Sequence[str], step: Step) -> Place:
    """The head in which a step works, given by the functions around it."""
    side = next((f"{half}r" for half in called if half in ("encode", "decode")), "")
    return Place(side, "source_attention" in called, frozenset(step.loops))


def heading(table: Table, place: Place) -> dict[str, Any]:
    """A map's title, and the words of its rows and columns, or numbers if there are no words."""
    loops = dict(place.loops)
    title = {"side": place.side, "source": place.source} | {
        name: loops.get(loop, 1) for loop, name in LOOPS.items()}
    words, example = list(table.run.example.words.values()), table.run.example
    if not place.side:
        rows, columns = (list(map(str, range(1, len(argument) + 1)))
                         for argument in example.arguments[:2])
        return title | {"rows": rows, "columns": columns}
    x, y = ([vocabulary[i] for i in ids] for vocabulary, ids in zip(
        words, example.arguments[1:], strict=True))
    end = words[-1][END]
    if place.source:
        return title | {"rows": [*y, end], "columns": x}
    labels = x if place.side == "encoder" else [end, *y]
    return title | {"rows": labels, "columns": labels}
