"""The lines that a run executed, one after another, with the source in which they stand."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from pathlib import Path
from types import FunctionType
from typing import Any

from grads.stepper.explorer.cited import cited
from grads.stepper.explorer.expand import Tree, expansions
from grads.stepper.explorer.formulas import formulas, functions, key
from grads.stepper.explorer.mathml import typeset
from grads.stepper.explorer.network import cell
from grads.stepper.explorer.operands import Operands
from grads.stepper.explorer.partners import Partners
from grads.stepper.explorer.tensors import BACKWARD, FORWARD, Table, is_integer
from grads.stepper.trace import Origin, Step, Trace
from grads.stepper.tracing.derivations import Run
from grads.stepper.tracing.verify import Verification

ROOT = Path(__file__).resolve().parents[3]  # a file below it is named by its path from here
NAMES = re.compile(r"[A-Za-z_]\w*")
OPERANDS = 16  # most tensors of one container that are listed as read by a step


class Steps:
    """The assignments of both passes that are shown, numbered from 0. The page gets `entries`."""

    def __init__(self, run: Run, table: Table, verifications: list[Verification]) -> None:
        self.run, self.table = run, table
        self.numbers: dict[tuple[str, int], int] = {}  # pass and number in the trace -> number
        self.entries: list[dict[str, Any]] = []
        self.sources: list[dict[str, Any]] = []
        self.typeset: dict[str, dict[str, str]] = {}  # of a user's lines, like `formulas()`
        self.operands = Operands(run, table)
        self.partners = Partners(run, table, verifications)
        for name, trace in table.traces.items():
            for step in trace.steps:
                if step.number in table.shown[name]:
                    self.numbers[name, step.number] = len(self.entries)
                    self.entries.append(self.entry(name, step))

    def entry(self, name: str, step: Step) -> dict[str, Any]:
        """The page's entry for a step."""
        formula = equation(self.table.traces[name], step, self.run)
        note = formulas()[formula]["note"] if formula else ""
        reads = [(read.written.removesuffix(".T"), self.table.find(name, origin))
                 for read in step.reads for origin in read.origins[:OPERANDS]]
        is_bookkeeping = formula is None and self.is_bookkeeping(step)
        if self.run.derivation.is_users and not is_bookkeeping:
            formula = self.own_formula(name, step)
        ids = list(dict.fromkeys(tensor for _, tensor in reads))
        return {
            "pass": name, "source": self.source(name, step), "line": step.line,
            "end_line": step.end_line, "loops": [list(loop) for loop in step.loops],
            "text": step.text, "comment": step.comment, "formula": formula,
            **({"bookkeeping": True} if is_bookkeeping else {}),
            "cited": cited(f"{step.comment} {note}"),
            "targets": [self.table.ids[name, (step.number, i)] for i in range(len(step.targets))],
            "reads": [{"written": written, "tensor": tensor} for written, tensor in reads],
            "cached": [tensor for tensor in ids
                       if name == BACKWARD and self.table.is_cached(tensor)],
            "partner": self.partner(step) if name == BACKWARD else None,
            "cell": cell(step, self.table.traces[name], self.run),
            "expansions": self.expansions(name, step),
        }

    def expansions(self, name: str, step: Step) -> list[Tree | None]:
        """The tree of each target."""
        if self.run.derivation.is_users:
            return self.operands.trees(name, step)
        return expansions(step.text, self.single_reads(name, step), len(step.targets))

    def own_formula(self, name: str, step: Step) -> str | None:
        """The key of a user's own line in `typeset`; None for one that has no notation."""
        trace, text = self.table.traces[name], step.text
        numbers = {read.written for read in step.reads
                   if all(trace.target(origin).shape == () for origin in read.origins)}
        if text not in self.typeset and (written := typeset(text, numbers)):
            self.typeset[text] = {"html": written, "tag": "", "note": ""}
        return text if text in self.typeset else None

    def is_bookkeeping(self, step: Step) -> bool:
        """Whether a reader may skip a line. Such a line has no equation; in a user's function it
        assigns no real number."""
        if not self.run.derivation.is_users:
            return True
        return all(target.shape is None or is_integer(target.value) for target in step.targets)

    def single_reads(self, name: str, step: Step) -> dict[str, int]:
        """The tensor of each variable that a step read, by the variable's text, if it is a single
        array or number: for `p[y, 0]` and `h.T` those of `p`, `y` and `h`."""
        trace, tensors = self.table.traces[name], {}
        for read in step.reads:
            known, written = read.name.removesuffix(".T"), read.written.removesuffix(".T")
            indices = []
            while known != trace.target(read.origins[0]).name and written.endswith("]"):
                known, _, _ = known.rpartition("[")
                written, _, index = written.rpartition("[")
                indices += NAMES.findall(index)
            if len(read.origins) == 1:
                tensors[written] = self.table.find(name, read.origins[0])
            tensors |= {index: self.table.find(name, origin) for index in indices
                      if (origin := self.operands.latest(name, step, index)) is not None}
        return tensors

    def partner(self, step: Step) -> int | None:
        """The number of the forward step that a backward step differentiates."""
        partner = self.partners.find(step)
        return None if partner is None else self.numbers.get((FORWARD, partner))

    def assigned(self, name: str, origin: Origin) -> int | None:
        """The number of the step that assigned a target; None for an argument."""
        where, place = self.table.origins[self.table.find(name, origin)]
        return self.numbers.get((where, place[0]))

    def source(self, name: str, step: Step) -> int:
        """The number of the function that a step is in. Its source is added to the page."""
        for source in self.sources:
            if (source["pass"], source["function"]) == (name, step.function):
                return int(source["id"])
        self.sources.append({"id": len(self.sources), "pass": name, "function": step.function,
                             **source_of(self.function(name, step))})
        return len(self.sources) - 1

    def function(self, name: str, step: Step) -> FunctionType:
        """The function a step is in."""
        return self.table.traces[name].program.function_at(step.file, step.line)


def equation(trace: Trace, step: Step, run: Run) -> str | None:
    """The key of a step's equation; None for a user's own line, which may mean something else."""
    if run.derivation.is_users:
        return None
    variant = [] if run.variant is None else [run.variant.score, *["unfed"] * (not run.fed)]
    return key(step.text, [*functions(trace, step), run.derivation.name, *variant])


def source_of(function: FunctionType) -> dict[str, Any]:
    """A function's file, first line and lines, where its docstring stands and what it says."""
    lines, first = inspect.getsourcelines(function)
    said, text = None, inspect.cleandoc(function.__doc__ or "")
    if text:  # not of a lambda
        tree = ast.parse(textwrap.dedent("".join(lines))).body[0]
        assert isinstance(tree, ast.FunctionDef)
        said = tree.body[0]
    return {
        "file": file_name(Path(function.__code__.co_filename)),
        "first": first, "lines": [line.rstrip("\n") for line in lines],
        "doc": [said.lineno + first - 1, (said.end_lineno or said.lineno) + first - 1]
        if said else None,
        "title": " ".join(text.partition("\n\n")[0].split()),
    }


def file_name(path: Path) -> str:
    """A file as it is named on the page: from the repository's root, if it is below it."""
    return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.name
