"""Prints a step in the terminal: the lines around it, its operands and results, its
verification."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Sequence
from itertools import groupby
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from rich.text import Text

from grads.check.report import Report
from grads.stepper.explorer.cited import cited, said
from grads.stepper.explorer.formulas import formulas
from grads.stepper.explorer.logits import predictions, said_logits
from grads.stepper.explorer.steps import equation, file_name
from grads.stepper.trace import Origin, Read, Step, Target, Trace
from grads.stepper.tracing.causes import found_lines, paths, remarks
from grads.stepper.tracing.derivations import Run
from grads.stepper.tracing.pairing import loops_text
from grads.stepper.tracing.values import in_words
from grads.stepper.tracing.verify import Verification
from nmt.console.messages import several

ROWS, COLUMNS = 12, 8  # of a tensor that are printed
COMPARED = 6  # entries of a verification that are printed
MARGIN = 10  # columns of a name
PROSE = 78  # columns of a text
STYLES = {"verified": "green", "wrong": "bold red", "undecided": "yellow", "suspect": "red"}
SAID = {"other": "not compared", "unpaired": "not compared", "suspect": "the mistake may be here"}


class Shown:
    """The assignments of one or two traces, in the order in which they are walked through.

    Argument report: that of `grads check` on a user's wrong functions, with its diagnosis.
    """

    def __init__(
        self, traces: dict[str, Trace], verifications: Sequence[Verification] = (),
        run: Run | None = None, verdict: str = "right", report: Report | None = None,
    ) -> None:
        self.traces, self.run, self.verdict, self.report = traces, run, verdict, report
        self.steps: list[tuple[str, Step]] = [
            (name, step) for name, trace in traces.items()
            for step in (run.assigned(name) if run else trace.steps) if step.kind == "assign"]
        self.verifications = {(verification.step, verification.target): verification
                              for verification in verifications}
        self.numbers = {(name, step.number): i for i, (name, step) in enumerate(self.steps, 1)}
        self.sources: dict[tuple[str, str], tuple[int, list[str]]] = {}
        self.logits = {prediction.scores: prediction.logits
                       for prediction in predictions(run)} if run else {}

    def __len__(self) -> int:
        return len(self.steps)

    def next_time(self, number: int, direction: int) -> int:
        """The nearest step in a direction that begins another time step or pass."""
        def place(k: int) -> tuple[str, Any]:
            name, step = self.steps[k]
            return name, step.loops[:1]

        neighbour = number
        while 0 <= neighbour < len(self) and place(neighbour) == place(number):
            neighbour += direction
        if not 0 <= neighbour < len(self):
            return number if direction > 0 else 0
        while direction < 0 and neighbour and place(neighbour - 1) == place(neighbour):
            neighbour -= 1
        return neighbour

    def backward(self) -> int:
        """The first step of the backward pass; the last step where there is none."""
        return next((k for k, (name, _) in enumerate(self.steps) if name == "backward"),
                    len(self) - 1)

    def begin(self) -> int:
        """The step to begin with: the first wrong step, else the first with an equation, else 0."""
        return max(self.next_equation(-1), 0) if self.first_wrong is None else self.first_wrong

    @property
    def first_wrong(self) -> int | None:
        """The number of the first step that is wrong, if there is one. A loss that is computed in
        the `return`, after its gradient, makes all steps forward ones."""
        return next(((self.numbers.get(("backward", verification.step))
                      or self.numbers["forward", verification.step]) - 1
                     for verification in self.verifications.values()
                     if verification.status == "wrong"), None)

    def summary(self) -> list[str]:
        """The verdict in one line."""
        count = sum(verification.status == "verified"
                    for verification in self.verifications.values())
        verified = f"{several(count, 'gradient')} verified"
        if self.verdict == "nothing":
            return ["NOTHING WAS VERIFIED"]
        if self.verdict == "right" and not count:
            return ["RIGHT: what the backward returns is verified; no line of it has a gradient"]
        if self.first_wrong is None and self.verdict == "wrong":
            said = [] if self.report is None else remarks(self.report)
            return [(f"WRONG, as grads check finds: {said[0]}" if said else
                     "WRONG in what the backward returns, in no line that was compared"
                     ) + f"; {verified}"]
        if self.first_wrong is None:
            return [f"{self.verdict.upper()}: {verified}"]
        return [self.wrong_at(self.first_wrong, verified)]

    def wrong_at(self, number: int, verified: str) -> str:
        """Where the mistake is: at this first wrong step, in a line that `grads check` has found,
        or in a line that the wrong value is computed from and that was not compared."""
        _, step = self.steps[number]
        wrong = [target.name for i, target in enumerate(step.targets)
                 if (step.number, i) in self.verifications
                 and self.verifications[step.number, i].status == "wrong"]
        found = found_lines(self.report)
        inside = [line for line in found if step.line <= line <= step.end_line]
        seen = f"{file_name(Path(step.file))}:{[*inside, step.line][0]}, step {number + 1}: " + (
            ", ".join(wrong) + f" ({loops_text(step.loops)})" * bool(step.loops))
        if inside:
            return f"WRONG first at {seen}; {verified}"
        if earlier := [line for line in found if not self.is_later(line, number)]:
            return (f"WRONG in {lines_text(earlier)}, as grads check finds; first wrong value at "
                    f"{seen}; {verified}")
        others = sorted({verification.line for verification in self.verifications.values()
                         if verification.status == "suspect"} - {step.line})
        were = "which was" if len(others) == 1 else "which were"
        either = f", or in {lines_text(found or others)}, " + (
            "as grads check finds" if found else f"{were} not compared")
        return "; ".join([f"WRONG first at {seen}" + either * bool(found or others), verified,
                          *paths(self.report) * (not found)])

    def is_later(self, line: int, number: int) -> bool:
        """Whether a line first assigns something after this step: a change of it may only make up
        for a mistake before."""
        return min((other for other, (_, step) in enumerate(self.steps)
                    if step.line <= line <= step.end_line), default=number) > number

    def next_equation(self, number: int) -> int:
        """The next step with an equation; the same one where no other follows."""
        return next((k for k in range(number + 1, len(self)) if self.equation(*self.steps[k])),
                    number)

    def equation(self, name: str, step: Step) -> str | None:
        """The key of a step's equation; None for a line that is bookkeeping."""
        return None if self.run is None else equation(self.traces[name], step, self.run)

    def page(self, number: int, context: int, told: set[str] | None = None) -> Text:
        """A step with lines of its function around it.

        Arguments: number of the step, from 0; context, how many lines around it; told, the names of
        citations that were already printed in full, which grows.
        """
        name, step = self.steps[number]
        where = f"step {number + 1} of {len(self)} · {name} · {step.function}, " \
                f"{file_name(Path(step.file))}:{step.line}"
        where += f" · {loops_text(step.loops)}" * bool(step.loops)
        text = Text(where + "\n", style="bold")
        if step.equations:
            text.append(f"equation {', '.join(step.equations)}\n")
        text.append_text(self.words(name, step, told))
        text.append("\n").append_text(self.listing(name, step, context)).append("\n")
        reads = {(self.read_name(name, read, origin), origin): None
                 for read in step.reads for origin in read.origins[:COLUMNS]}
        for variable, origin in reads:
            text.append_text(self.tensor("reads", variable, self.traces[name].target(origin)))
        for i, target in enumerate(step.targets):
            text.append_text(self.tensor("makes", target.name, target, "bold"))
            verification = self.verifications.get((step.number, i)) if name == "backward" else None
            if verification is not None:
                text.append_text(self.verification(verification))
        if name == "forward" and step.number in self.logits:
            text.append(said_logits(self.logits[step.number]))
        return text

    def words(self, name: str, step: Step, told: set[str] | None) -> Text:
        """What a step's line does, and what it cites. A citation is printed in full the first time
        only."""
        equation = self.equation(name, step)
        note = formulas()[equation]["note"] if equation else ""
        text = Text()
        if note:
            text.append(textwrap.fill(note, PROSE) + "\n", style="italic")
        for citation in cited(f"{step.comment} {note}"):
            cite = said(citation) or {}
            full = [] if told is not None and citation in told else cite["text"]
            text.append(textwrap.fill(": ".join([cite["title"], " ".join(full)]).strip(": "),
                                      PROSE, initial_indent="  ", subsequent_indent="  ") + "\n",
                        style="dim")
            if told is not None:
                told.add(citation)
        return text

    def read_name(self, name: str, read: Read, origin: Origin) -> str:
        """The name of a variable that was read, with the values of its indices. If it holds several
        tensors, or is an entry of an array, the names of what it holds follow."""
        known, target = read.name.removesuffix(".T"), self.traces[name].target(origin).name
        return target if len(read.origins) > 1 or known.startswith(f"{target}[") else known

    def listing(self, name: str, step: Step, context: int) -> Text:
        """The function's lines around a step's, which is marked."""
        first, lines = self.source(name, step)
        text = Text()
        start = max(first, step.line - context)
        end = min(first + len(lines) - 1, step.end_line + context)
        for number in range(start, end + 1):
            is_marked = step.line <= number <= step.end_line
            text.append(f"{'>' if is_marked else ' '} {number:4} │ {lines[number - first]}\n",
                        style="bold reverse" if is_marked else "dim")
        return text

    def source(self, name: str, step: Step) -> tuple[int, list[str]]:
        """The number of the first line of a step's function, and its lines."""
        if (name, step.function) not in self.sources:
            lines, first = inspect.getsourcelines(
                self.traces[name].program.function_at(step.file, step.line))
            self.sources[name, step.function] = first, [line.rstrip("\n") for line in lines]
        return self.sources[name, step.function]

    def tensor(self, label: str, name: str, target: Target, style: str = "") -> Text:
        """A value with its shape, its first rows and columns."""
        text = Text(f"{label}  ").append(name, style=style)
        if target.shape is None:
            return text.append(f" = {in_words(target.value)}\n")
        size = " × ".join(map(str, target.shape)) or "number"
        text.append(f"  ({size})", style="dim")
        rows = rows_of(np.asarray(target.value))
        is_partial = target.sliced or np.size(target.value) > sum(len(row) for row in rows)
        if len(rows) == 1:
            text.append("  " + joined(rows[0]))
        else:
            for row in rows:
                text.append("\n" + " " * MARGIN + joined(row))
        return text.append("  ... (first entries only)\n" if is_partial else "\n")

    def verification(self, verification: Verification) -> Text:
        """What is known about a gradient, in words and numbers."""
        if verification.error is None:
            return Text(f"  {SAID.get(verification.status, verification.status)}: "
                        f"{verification.reason}\n", style=STYLES.get(verification.status, "dim"))
        of = f"d loss / d {verification.forward}"
        made = None if verification.partner is None else self.numbers.get(
            ("forward", verification.partner.step))
        text = Text(f"  {verification.status}: {of}" + (f" (made at step {made})" if made else ""),
                    style=STYLES[verification.status])
        text.append(f", {verification.checked} of {int(np.prod(verification.shape))} entries, "
                    f"relative error {magnitude(verification.error)} ({reference(verification)})\n")
        text.append(f"{'':{MARGIN}}{'':10}{'analytic':>19}{verification.method:>19}"
                    + f"{'central':>19}" * (verification.central is not None) + "\n", style="dim")
        exact = np.ravel(verification.complex_step)
        for entry in np.flatnonzero(~np.isnan(exact))[:COMPARED]:
            index = np.unravel_index(int(entry), np.shape(verification.analytic))
            central = ([] if verification.central is None
                       else [np.ravel(verification.central)[entry]])
            numbers = [np.ravel(verification.analytic)[entry], exact[entry], *central]
            text.append(f"{'':{MARGIN}}{'[' + ', '.join(map(str, index)) + ']':10}"
                        + "".join(f"{value:19.12g}" for value in numbers) + "\n")
        return text


def lines_text(lines: Sequence[int]) -> str:
    """Numbers of lines in words: "lines 3 to 5, 8"."""
    runs = [[line for _, line in run] for _, run in groupby(
        enumerate(lines), lambda pair: pair[1] - pair[0])]
    return "line" + "s" * (len(lines) > 1) + " " + ", ".join(
        f"{run[0]} to {run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def reference(verification: Verification) -> str:
    """The derivative that a gradient's error is measured against, and how sure it is."""
    if verification.method != "complex step":
        return verification.reason or (
            "differences alone; the complex step does not apply to this function")
    if verification.central_error is None:
        return verification.method
    return ("complex step; central differences agree with it to "
            f"{magnitude(verification.central_error)}")


def magnitude(error: float) -> str:
    """An error to two digits."""
    return f"{error:.2f}" if error >= 0.1 else f"{error:.1e}"


def rows_of(value: np.ndarray) -> list[list[float]]:
    """The first rows and columns of an array; one row for a vector, and for a column."""
    if value.ndim == 2 and value.shape[1] == 1:
        value = value[:, 0]
    if value.ndim < 2:
        return [np.atleast_1d(value)[:COLUMNS].tolist()]
    flat = value.reshape(len(value), prod(value.shape[1:]))
    return [row[:COLUMNS].tolist() for row in flat[:ROWS]]


def joined(row: list[Any]) -> str:
    """Numbers in columns of one width."""
    return " ".join(f"{value:11.5g}" if isinstance(value, float) else f"{value!s:>11}"
                    for value in row)
