"""The attention heads of a run: for each its weights as a map, and the gradients of its scores."""

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
CELLS = 8000  # of all maps; of more the first and the last layer's are shown


class Place(NamedTuple):
    """Which head of a model a step is in."""

    side: str  # "encoder" or "decoder"; "" of a head by itself
    source: bool  # whether it asks the encoder's output
    loops: frozenset[tuple[str, int]]


def heads_json(table: Table, steps: Steps) -> list[dict[str, Any]]:
    """A map for each head: side, source, layer and head; words of rows and columns; and of both
    passes the tensor, the first and the last step of the head, and all numbers where the tensor has
    the first only; of the forward pass what is masked. Empty where there are no heads."""
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
    """Of each head in a pass: where it is, and its map."""
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
    """Where a head's words must not look, counted row by row."""
    for step in trace.steps:
        for i, target in enumerate(step.targets):
            if (step.kind, step.frame, target.name) == ("call", frame, "dead"):
                mask = trace.alive.get((step.number, i), target.value)
                return [int(position) for position in np.flatnonzero(mask)]
    return []


def place_of(called: Sequence[str], step: Step) -> Place:
    """Where a step of a head is, by the functions around it."""
    side = next((f"{half}r" for half in called if half in ("encode", "decode")), "")
    return Place(side, "source_attention" in called, frozenset(step.loops))


def heading(table: Table, place: Place) -> dict[str, Any]:
    """What a map is of, and the words of its rows and columns; numbers where there are none."""
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
