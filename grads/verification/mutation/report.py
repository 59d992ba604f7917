"""docs/mutants.md: the number of mutants, which checks kill them, why the others survive."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from grads.verification.mutation.equivalents import reason
from grads.verification.mutation.execution import Outcome
from grads.verification.mutation.operators import OPERATORS
from grads.verification.mutation.record import PRODUCT
from nmt.console.messages import several

HEADER = """# Mutation testing

Written by `grads mutants -o docs/mutants.md`. A tracer finds the functions that run in backward
passes, and the helpers that go through arrays block by block; operators over the syntax tree change
them at every site that is no index, shape or constant, one at a time; the entries of the catalogue
that execute the changed line are checked, fastest first, until one complains. *Gradient*: a wrong
value. *Finding*: written into an argument, padding with a gradient, another dtype and the like.
*Reference*: another result than PyTorch's where clipping acts, which is no gradient.
*Exception*: nothing but an error was raised, so such a mutant shows little. *Time*: it never ends.
A mutant that survives is equivalent, for the reason given, or shows what the catalogue lacks.
"""
KILLED = ("gradient", "finding", "reference", "exception", "time")
UNEXPLAINED = "**no check notices it**"


def page(outcomes: Sequence[Outcome], equivalents: Mapping[str, str]) -> str:
    """The page as Markdown."""
    headings = ["operator", *PRODUCT, *KILLED, "survive"]
    counts = {name: _counts([o for o in outcomes if o.mutant.operator == name])
              for name in OPERATORS}
    counts["all"] = _counts(outcomes)
    lines = [headings, ["---", *["---:"] * (len(headings) - 1)],
             *([name, *(str(of[heading] or "") for heading in headings[1:])]
               for name, of in counts.items())]
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
    return f"{HEADER}\n{summary(outcomes, equivalents)}\n\n{table}\n\n" \
           f"## Survivors\n\n{_survivors(outcomes, equivalents)}\n"


def _counts(outcomes: Iterable[Outcome]) -> Counter[str]:
    """How many in each package, and by what they were killed."""
    outcomes = list(outcomes)
    by = [o.by if o.by in ("", *KILLED) else "finding" for o in outcomes]
    return Counter([o.mutant.package for o in outcomes]) + Counter(b or "survive" for b in by)


def summary(outcomes: Sequence[Outcome], equivalents: Mapping[str, str]) -> str:
    """One sentence."""
    functions = len({o.mutant.function for o in outcomes})
    alive = [o.mutant.name for o in outcomes if not o.killed]
    explained = sum(reason(name, equivalents) is not None for name in alive)
    return (f"{several(len(outcomes), 'mutant')} of {several(functions, 'function')}: "
            f"{len(outcomes) - len(alive)} "
            f"killed, {explained} equivalent, {len(alive) - explained} survive.")


def problems(
    outcomes: Sequence[Outcome], equivalents: Mapping[str, str], whole: bool = True
) -> list[str]:
    """The problems: survivors without a reason, and reasons without a survivor.

    whole: whether the outcomes are those of all mutants; for a sample, the second kind is unknown.
    """
    alive = [o for o in outcomes if not o.killed]
    needed = {explanation[0] for o in alive if (explanation := reason(o.mutant.name, equivalents))}
    return [*(f"{o.mutant.name}: survives; {o.check}" for o in alive
              if reason(o.mutant.name, equivalents) is None),
            *(f"{key}: called equivalent, but no such mutant survives"
              for key in equivalents if whole and key not in needed)]


def _survivors(outcomes: Iterable[Outcome], equivalents: Mapping[str, str]) -> str:
    """A list by function."""
    by_function: dict[str, list[str]] = {}
    for o in outcomes:
        if not o.killed:
            explanation = reason(o.mutant.name, equivalents)
            why = f"{UNEXPLAINED} ({o.check})" if explanation is None else explanation[1]
            change = o.mutant.name.removeprefix(f"{o.mutant.function}: ")
            by_function.setdefault(o.mutant.function, []).append(f"- `{change}`: {why}")
    return "\n\n".join("\n".join([f"`{function}`", "", *lines])
                       for function, lines in sorted(by_function.items())) or "None."
