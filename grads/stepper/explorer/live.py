"""Records a run on a tape. The page replays it when the reader changes a number."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from inspect import signature
from typing import Any

import numpy as np

from grads.check.nesting import fields_of, with_values
from grads.stepper.explorer.examples import RunExample
from grads.stepper.explorer.tape import Tape, Taped, Untaped
from grads.stepper.explorer.tensors import BACKWARD, FORWARD, Table
from grads.stepper.trace import Trace, record
from grads.stepper.tracing.derivations import Run
from grads.stepper.tracing.values import is_named

MOST = 40_000  # numbers of all inputs together
EVERY = 2**62  # numbers of an array that are kept: all
RECURRENT = re.compile(r"T|(?:en|de)coder\.\d+\.W|(?:.*\.)?U(?:_[zr])?")  # weights of h_{t-1}
BIASES = re.compile(r"b|(?:en|de)coder\.\d+\.b")


def live_json(example: RunExample, table: Table) -> dict[str, Any] | None:
    """The operations of a forward and its backward, with their inputs in full precision. None if a
    number decides which operations are run, or if there are too many numbers.

    "lines", "shapes" and "tables" are those of a `Tape`. "inputs" are its leaves with "line",
    "name" and "values"; "single" marks float32 numbers, written in as few digits as they need.
    "nodes" gives the line that computes each tensor of the page, null for a tensor that depends on
    no input. "loss" is the line that computes the loss. "words" and "knobs" are described in
    `words_json` and `knobs_json`.
    """
    run = example.run
    try:
        taped = TapedRun(run)
    except Untaped:
        return None
    leaves = taped.leaves
    if sum(leaf.size for leaf in leaves.values()) > MOST:
        return None
    nodes = [taped.node(table, number) for number in range(len(table.entries))]
    return {
        "lines": taped.tape.lines, "shapes": taped.tape.shapes, "tables": taped.tape.tables,
        "inputs": [{"line": leaf.node, "name": name, **written(np.asarray(leaf))}
                   for name, leaf in leaves.items()],
        "nodes": nodes, "loss": taped.loss.node,
        "words": words_json(run, leaves), "knobs": knobs_json(run, leaves)}


class TapedRun:
    """A run of a derivation that is recorded on a tape. Raises `Untaped` for an operation that a
    tape cannot record."""

    def __init__(self, run: Run) -> None:
        self.run, self.tape = run, Tape()
        self.leaves: dict[str, Taped] = {}
        derivation, given = run.derivation, run.example
        example = replace(
            given, upstream=self.with_leaves("upstream", given.upstream),
            arguments=tuple(map(self.with_leaves, signature(derivation.forward).parameters,
                                given.arguments)))
        forward = record(run.forward.program, example.arguments, example.named, EVERY)
        backward = record(run.backward.program, derivation.given(example, forward.result), {},
                          EVERY)
        self.traces: dict[str, Trace] = {FORWARD: forward, BACKWARD: backward}
        self.loss: Taped = derivation.loss(example, forward.result)
        if not isinstance(self.loss, Taped):
            raise Untaped("a loss that depends on no input")

    def with_leaves(self, name: str, value: Any) -> Any:
        """An argument in which arrays, and numbers in lists, are replaced by leaves. Parameters
        keep the forward's names."""
        if isinstance(value, Mapping):
            return {key: self.with_leaves(key if isinstance(key, str) else f"{name}[{key}]", entry)
                    for key, entry in value.items()}
        if is_named(value):
            return with_values(value, {key: self.with_leaves(key, entry)
                                       for key, entry in fields_of(value).items()})
        if isinstance(value, (list, tuple)):
            return type(value)(self.leaf(f"{name}[{i}]", entry) if type(entry) is int
                               else self.with_leaves(f"{name}[{i}]", entry)
                               for i, entry in enumerate(value))
        real = isinstance(value, np.ndarray) and value.dtype.kind == "f"
        return self.leaf(name, value) if real else value

    def leaf(self, name: str, value: Any) -> Taped:
        """A leaf for an input, under a unique name."""
        while name in self.leaves:
            name += "'"
        self.leaves[name] = self.tape.leaf(value)
        return self.leaves[name]

    def node(self, table: Table, number: int) -> int | None:
        """The line that computes a tensor of the page, or the part of it that is shown."""
        entry, (name, (step, place)) = table.entries[number], table.origins[number]
        trace = self.traces[name]
        if entry["shape"] is None:
            return None
        named = [i for i, target in enumerate(trace.steps[step].targets)
                 if target.name == entry["name"]]
        if len(named) == 1:  # a list of words is one target, of leaves it is several
            place, = named
        value = trace.alive.get((step, place))
        if not isinstance(value, Taped):
            return None
        if "full_shape" in entry:
            value = value[tuple(slice(0, size) for size in entry["shape"])]
        return int(value.node)


def written(values: np.ndarray) -> dict[str, Any]:
    """Numbers for JSON without loss of precision. float32 numbers get only the digits that they
    need."""
    flat = np.ravel(values)
    single = flat.astype(np.float32)
    if flat.dtype.kind == "f" and np.array_equal(single.astype(np.float64), flat):
        return {"values": [float(str(number)) for number in single], "single": True}
    return {"values": flat.tolist()}


def words_json(run: Run, leaves: Mapping[str, Taped]) -> list[dict[str, Any]]:
    """The words of a sentence that can be replaced.

    Each has "word", its number; "vocabulary", input or output; "lines", the leaves that hold it;
    "read" and "next", the columns of the network that read it and predict it.
    """
    tables, words = list(run.example.words), []
    if tables not in (["W_e"], ["encoder.W_e", "decoder.W_e"]) or not run.derivation.recurrent:
        return []  # where no network is drawn the words stand in many places
    x, y = run.example.arguments[1:3]
    source, target = [*signature(run.derivation.forward).parameters][1:3]
    if not all(type(word) is int for word in (*x, *y)):
        return []
    one_side = len(tables) == 1
    for k, word in enumerate(x):
        names = [f"{source}[{k}]", *([f"{target}[{k - 1}]"] if one_side and k else [])]
        words.append({"word": word, "vocabulary": "input", "read": k,
                      "next": k - 1 if one_side and k else None,
                      "lines": [leaves[name].node for name in names]})
    for k, word in enumerate([] if one_side else y):
        words.append({"word": word, "vocabulary": "output", "read": len(x) + k + 1,
                      "next": len(x) + k, "lines": [leaves[f"{target}[{k}]"].node]})
    return words


def knobs_json(run: Run, leaves: Mapping[str, Taped]) -> list[dict[str, Any]]:
    """The knobs, each of which changes many numbers at once.

    Each has "kind", scale or shift; its current "value", "least" and "most"; and "blocks", each
    with the line of a leaf, the first row, the row after the last, and the columns.
    """
    gates = run.derivation.gates
    if not gates:
        return []
    knobs = []
    weights = {key: leaf for key, leaf in leaves.items() if RECURRENT.fullmatch(key)}
    blocks = [(leaf.node, rows, rows + size, leaf.shape[1] - size, leaf.shape[1])
              for leaf in weights.values() for size in [leaf.shape[0] // len(gates)]
              for rows in range(0, leaf.shape[0], size)]
    at = {leaf.node: np.asarray(leaf) for leaf in weights.values()}
    radius = max((spectral_radius(at[node][top:end, left:right])
                  for node, top, end, left, right in blocks), default=0.0)
    if radius:
        knobs.append({"name": "spectral radius", "kind": "scale", "value": radius, "least": 0,
                      "most": max(2.0, 2 * radius), "blocks": blocks,
                      "what": "Of the recurrent weights; of several blocks, the largest. All "
                              "blocks are scaled alike."})
    biases = [leaf for key, leaf in leaves.items() if BIASES.fullmatch(key)]
    if "f" in gates and biases:
        parts = [(leaf.node, gates.index("f") * size, (gates.index("f") + 1) * size, 0, 1)
                 for leaf in biases for size in [len(leaf) // len(gates)]]
        mean = float(np.mean([np.asarray(leaf)[top:end]
                              for leaf, (_, top, end, *_) in zip(biases, parts, strict=True)]))
        knobs.append({"name": "forget bias", "kind": "shift", "value": mean, "least": -6, "most": 6,
                      "blocks": parts, "what": "The mean of the forget gate's biases; all of them "
                                               "are shifted alike."})
    return knobs


def spectral_radius(W: np.ndarray) -> float:
    """The largest absolute eigenvalue of a square matrix."""
    return float(np.abs(np.linalg.eigvals(W)).max())
