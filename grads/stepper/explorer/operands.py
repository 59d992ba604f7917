"""Finds what the names of a user's own lines stand for: tensors of the page, and other numbers."""

from __future__ import annotations

import ast
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping
from types import FunctionType
from typing import Any

import numpy as np

from grads.check.substitution import attributes_of
from grads.stepper.explorer.expand import Tree
from grads.stepper.explorer.numbers import Line
from grads.stepper.explorer.shaped import Shaped, constant, gathered, joined, moved
from grads.stepper.explorer.tensors import Table
from grads.stepper.trace import Origin, Step
from grads.stepper.tracing.derivations import Run
from grads.stepper.tracing.entries import positions
from grads.stepper.tracing.pairing import root_of
from grads.stepper.tracing.record import belongs
from grads.stepper.tracing.syntax import chain_of

DEEP = 6  # objects inside objects


class Operands:
    """Finds the tensors and numbers behind the names of a user's lines.

    Arguments: run, its traces; table, the page's tensors.
    """

    def __init__(self, run: Run, table: Table) -> None:
        self.run, self.table = run, table
        self.functions = {name: value for space in run.forward.program.namespaces.values()
                          for name, value in space.items() if isinstance(value, FunctionType)}
        self.objects = dict(objects_in(run.example.arguments))
        self.made: dict[str, dict[tuple[int, str], list[Origin]]] = {}
        self.parts: dict[str, dict[tuple[int, str], list[tuple[Origin, str]]]] = {}
        for name, trace in table.traces.items():
            made = self.made[name] = defaultdict(list)
            parts = self.parts[name] = defaultdict(list)
            for step in trace.steps:
                for i, target in enumerate(step.targets if step.kind != "return" else ()):
                    made[step.frame, target.name].append((step.number, i))
                    if "[" in target.name:
                        parts[step.frame, root_of(target.name)].append(
                            ((step.number, i), target.name))

    def trees(self, name: str, step: Step) -> list[Tree | None]:
        """The tree of each target of a step."""
        reads = self.reads(name, step)

        def operand(text: str) -> Shaped | None:
            origin = reads.get(text) or self.latest(name, step, text)
            if origin is not None and self.table.traces[name].target(origin).shape is not None:
                return self.now(name, step, origin, text)
            return self.held(name, step, text)

        def value(text: str) -> Any:
            loops = dict(step.own_loops)
            if text in loops:
                return loops[text]
            origin = self.latest(name, step, text)
            if origin is not None and not self.table.traces[name].target(origin).sliced:
                return self.table.traces[name].target(origin).value
            return self.globals(name, step)[text]

        shapes = [target.shape for target in step.targets]
        augmented = self.table.traces[name].program.sites[step.site].augmented
        return Line(operand, value, self.functions).trees(
            step.text, self.before(name, step) if augmented else None, shapes,
            "[" not in step.targets[0].written)

    def reads(self, name: str, step: Step) -> dict[str, Origin]:
        """The assignment of each variable that a step read. For `p[y, 0]` it is that of `p`, unless
        the entry itself was assigned."""
        trace, origins = self.table.traces[name], {}
        for read in step.reads:
            if len(read.origins) == 1:
                node: ast.expr = ast.parse(read.written.removesuffix(".T"), mode="eval").body
                known, whole = read.name.removesuffix(".T"), trace.target(read.origins[0]).name
                while belongs(known, whole) and known != whole and isinstance(node, ast.Subscript):
                    node, known = node.value, known.rpartition("[")[0]
                origins[ast.unparse(node)] = read.origins[0]
        return origins

    def before(self, name: str, step: Step) -> Shaped | None:
        """The variable before `x += e`: the longest name that is an array, and its entries."""
        written, wanted = step.targets[0].written, step.targets[0].name
        known = wanted
        while (origin := self.latest(name, step, known)) is None or (
                known != wanted and self.table.traces[name].target(origin).shape is None):
            if "[" not in known:
                return None
            known = known.rpartition("[")[0]
        root = known.partition("[")[0]
        whole = self.latest(name, step, root)  # an array, whose entries were set before
        if whole is not None and self.table.traces[name].target(whole).shape:
            origin, known = whole, root
        before = self.now(name, step, origin, written if known == wanted else known)
        places = None if before is None else positions(wanted[len(known):], before.shape)
        return None if before is None or places is None else moved(
            before, lambda entries: entries.ravel()[places])

    def now(self, name: str, step: Step, origin: Origin, text: str) -> Shaped | None:
        """An array as a step reads it, including the entries that were set since it was
        assigned."""
        trace = self.table.traces[name]
        target, frame = trace.target(origin), trace.steps[origin[0]].frame
        whole = self.tensor(self.table.find(name, origin), text)
        if whole is None or not target.shape:
            return whole
        entries, parts = np.arange(int(np.prod(target.shape))).reshape(target.shape), [whole]
        for assignment, known in self.parts[name].get((frame, root_of(target.name)), ()):
            if origin < assignment < (step.number, 0) and belongs(known, target.name) and (
                    known != target.name):
                places = positions(known[len(target.name):], target.shape)
                set_to = self.tensor(self.table.find(name, assignment), known)
                if places is not None and set_to is not None:
                    start = sum(int(np.prod(piece.shape)) for piece in parts)
                    entries.flat[places] = start + np.arange(places.size).reshape(places.shape)
                    parts.append(set_to)
        return whole if len(parts) == 1 else gathered(
            joined([moved(piece, np.ravel) for piece in parts], 0), entries)

    def latest(self, name: str, step: Step, text: str) -> Origin | None:
        """The last assignment of a variable of a step's function before the step."""
        assignments = self.made[name].get((step.frame, text), [])
        place = bisect_left(assignments, (step.number, 0))
        return assignments[place - 1] if place else None

    def tensor(self, number: int, text: str) -> Shaped | None:
        """The page's tensor; None if it is not an array, or if the page has only a part of it."""
        shape = self.table.entries[number]["shape"]
        if shape is None or "full_shape" in self.table.entries[number]:
            return None
        return Shaped(["t", number, text], tuple(shape))

    def globals(self, name: str, step: Step) -> Mapping[str, Any]:
        """The global variables of a step's function."""
        return self.table.traces[name].program.function_at(step.file, step.line).__globals__

    def held(self, name: str, step: Step, text: str) -> Shaped | None:
        """The numbers of a global variable, or of a variable that an object holds."""
        chain = chain_of(ast.parse(text, mode="eval").body)
        if chain is None:
            return None
        root, parts, indices = chain
        owner = self.table.traces[name].calls[step.frame].owner
        value = self.objects.get(owner or 0) if root.id == "self" else (
            self.globals(name, step).get(root.id))
        keys = iter(indices)
        for accessor in parts:
            key = next(keys) if accessor == "[" else None
            if isinstance(key, ast.Constant) and isinstance(value, Mapping):
                value = value[key.value]
            elif key is None and not isinstance(value, np.ndarray):
                value = getattr(value, accessor[1:], None)
            else:
                return None
        return constant(value, text) if isinstance(value, (np.ndarray, float)) else None


def objects_in(value: Any, depth: int = DEEP) -> Iterator[tuple[int, Any]]:
    """The objects among values and inside them, by id()."""
    inner = list(attributes_of(value).values()) if hasattr(value, "__dict__") else list(
        value.values() if isinstance(value, Mapping) else value) if isinstance(
            value, (Mapping, list, tuple)) else []
    yield id(value), value
    for held in inner if depth else ():
        yield from objects_in(held, depth - 1)
