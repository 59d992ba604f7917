"""Seeded bugs: a gradient checker is worth what it catches.

Each mutant is a mistake that people make in a backward pass. `planted` puts it into the product's
own function while a context lasts, `run` lets the catalogue's check look for it, and `table` is
docs/mutants.md. A survivor is a defect of the checker or of the catalogue, never of the list.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from types import FunctionType
from typing import Any, NamedTuple

from grads import catalogue
from grads.case import Entry
from grads.mutants.attention import ATTENTIONS
from grads.mutants.kernels import KERNELS, Mutant
from grads.mutants.models import DERIVATIONS, GATED_MODELS, MODELS
from grads.report import HEADINGS as HEADINGS_OF_METHODS
from grads.report import Report, Row

MUTANTS: tuple[Mutant, ...] = (
    *KERNELS, *ATTENTIONS, *MODELS, *GATED_MODELS, *DERIVATIONS,
)
ENTRIES: dict[str, Entry] = {
    entry.name: entry for entry in (*catalogue.ENTRIES, *catalogue.DERIVATIONS)
}


PARTS = ("__code__", "__defaults__", "__kwdefaults__")  # of a function, that its source decides


class Outcome(NamedTuple):
    """What the check said about one mutant."""

    mutant: Mutant
    caught: bool
    report: Report


# --- planting -----------------------------------------------------------------------------------


@contextmanager
def planted(mutant: Mutant) -> Iterator[None]:
    """Run the product with one mistake in it; the function is itself again afterwards.

    The function's code is changed in place, so whoever has imported or stored it sees the
    mistake too; it is one function of the process, so not for threads. Raises ValueError when
    the mutant names no Python function, when `old` does not occur in its source exactly once, and
    when the change is no function any more or needs other outer variables.
    """
    function = find(mutant.function)
    changed = mutated(function, mutant)
    before = {part: getattr(function, part) for part in PARTS}
    try:
        for part in PARTS:
            setattr(function, part, getattr(changed, part))
        yield
    finally:
        for part, value in before.items():
            setattr(function, part, value)


def find(path: str) -> FunctionType:
    """The function or method of a dotted path; decorators that keep `__wrapped__` are undone."""
    parts = path.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        try:
            found: Any = import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for name in parts[cut:]:
            found = getattr(found, name, None)
        found = inspect.unwrap(found) if callable(found) else found
        if isinstance(found, FunctionType):
            return found
        break
    raise ValueError(f"function: expected the path of a Python function, got {path!r}")


def mutated(function: FunctionType, mutant: Mutant) -> FunctionType:
    """A function compiled from the changed source, where the old one stands."""
    try:
        source = textwrap.dedent(inspect.getsource(function))
    except OSError:  # such as the source of a mutant
        raise ValueError(f"{mutant.name}: expected {mutant.function} to have a source file, and "
                         "no other mutant planted in it") from None
    count = source.count(mutant.old)
    if count != 1:
        raise ValueError(f"{mutant.name}: expected {mutant.old!r} exactly once in "
                         f"{mutant.function}, found it {count} times")
    tree = ast.parse(source.replace(mutant.old, mutant.new))
    definition = tree.body[0]
    if not isinstance(definition, ast.FunctionDef):
        raise ValueError(f"{mutant.name}: expected {mutant.function} to be written with def")
    definition.decorator_list.clear()
    outer = function.__code__.co_freevars
    scope = dict(function.__globals__)
    exec(compile(_enclosed(definition, outer), f"<mutant: {mutant.name}>", "exec",
                 annotations.compiler_flag), scope)
    changed = scope["_enclosing"](*outer)
    if changed.__code__.co_freevars != outer:
        raise ValueError(f"{mutant.name}: expected the outer variables {outer} to be used still")
    return changed


def _enclosed(definition: ast.FunctionDef, outer: tuple[str, ...]) -> ast.Module:
    """`def _enclosing(*outer): <definition>; return it`, so that outer variables stay outer."""
    tree = ast.parse(f"def _enclosing({', '.join(outer)}):\n    return {definition.name}")
    enclosing = tree.body[0]
    assert isinstance(enclosing, ast.FunctionDef)
    enclosing.body.insert(0, definition)
    return ast.fix_missing_locations(tree)


# --- looking for them ---------------------------------------------------------------------------


def run(mutant: Mutant) -> Outcome:
    """Plant one mutant and check the entry that must notice it."""
    with planted(mutant):
        report = catalogue.check(ENTRIES[mutant.entry], mutant.shape)
    return Outcome(mutant, not report.ok, report)


def outcomes(mutants: Iterable[Mutant] = MUTANTS) -> Iterator[Outcome]:
    """`run` of each in turn."""
    return map(run, mutants)


# --- telling of it ------------------------------------------------------------------------------

HEADER = """# Seeded bugs, and how the checker tells of them

Made by `python -m grads mutants`; a test holds it to the mutants that exist. Each line is one
mistake, put into the product's own function while the entry of the catalogue named beside it is
checked as `python -m grads check` checks it. *Caught by* says which opinions and checks
complained, *wrong* which tensors' gradients, *worst* the tensor that the diagnosis is about: its
relative error and its worst entry. The changes themselves are in `grads/mutants/kernels.py` and
`grads/mutants/models.py`.
"""
HEADINGS = ("mutant", "where", "the mistake", "entry", "caught by", "wrong", "worst", "diagnosis")
SAYS_LITTLE = ("the error is spread", "a random direction")  # how hints begin that fit anything
SURVIVED = "**nobody: it survived**"


def table(found: Iterable[Outcome] | None = None) -> str:
    """docs/mutants.md: every mutant, who caught it, and how it was diagnosed; None runs all."""
    found = list(outcomes() if found is None else found)
    lines = [HEADINGS, ("---",) * len(HEADINGS), *map(_line, found)]
    body = "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
    return f"{HEADER}\n{summary(found)}\n\n{body}\n"


def summary(found: Iterable[Outcome]) -> str:
    """One sentence: how many there are, how many were caught, how many by what."""
    found = list(found)
    counts = Counter(check for outcome in found for check in caught_by(outcome.report))
    by = ", ".join(f"{number} by {check}" for check, number in counts.most_common())
    caught = sum(outcome.caught for outcome in found)
    return f"{len(found)} mutants, {caught} caught" + (f": {by}." if by else ".")


def caught_by(report: Report) -> list[str]:
    """Which checks complain: opinions on the values, and kinds of findings."""
    methods = [HEADINGS_OF_METHODS.get(method, method) for row in report.wrong
               for method in sorted(row.errors)]
    return list(dict.fromkeys([*methods, *(found.kind for found in report.findings)]))


def telling_row(report: Report) -> Row | None:
    """The wrong row to show: one whose hint says something if there is one, then the worst."""
    return max(report.wrong, default=None, key=lambda row: (
        bool(_hint(row)) and not _hint(row).startswith(SAYS_LITTLE), row.upstream == "all",
        row.error))


def _hint(row: Row) -> str:
    """The most specific hint, which comes first unless it says little."""
    telling = [hint for hint in row.hints if not hint.startswith(SAYS_LITTLE)]
    return (telling or [*row.hints, ""])[0]


def _extent(report: Report) -> str:
    """How many tensors are wrong, and which, when they are few."""
    names = list(dict.fromkeys(row.name for row in report.wrong))
    tensors = len({row.name for row in report.rows})
    return f"{len(names)} of {tensors}" + (f": {', '.join(names)}" if 0 < len(names) <= 3 else "")


def _line(outcome: Outcome) -> tuple[str, ...]:
    """The cells of one mutant."""
    mutant, report, row = outcome.mutant, outcome.report, telling_row(outcome.report)
    where = f"`{mutant.function.removeprefix('grads.')}`"
    entry = mutant.entry if mutant.shape == "ragged" else f"{mutant.entry} ({mutant.shape})"
    worst, hint = "", ""
    if row is not None:
        worst = f"d{row.name}, {row.error:.0e}" + (f", {row.place}" if row.place else "")
        hint = _hint(row)
    elif report.findings:
        worst, hint = report.findings[0].name, report.findings[0].message
    caught = ", ".join(caught_by(report)) if outcome.caught else SURVIVED
    cells = (mutant.name, where, mutant.why, entry, caught, _extent(report), worst, hint)
    return tuple(cell.replace("|", "\\|").replace("\n", " ") for cell in cells)
