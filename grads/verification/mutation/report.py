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

{summary}
A mutant is the code of a backward pass with one change, such as another sign or a missing term. A
gradient check that fails *kills* it. The checks that run the changed line are tried, fastest first,
until one fails. Each row of the table is a kind of change; the columns on the right count what
killed the mutants:

- *gradient*: a wrong value;
- *finding*: another fault, such as an argument that was written to, or a gradient at padding;
- *reference*: another result than PyTorch's under clipping, which no numerical gradient shows;
- *exception*: an error, which proves little about the check;
- *time*: the mutant does not end;
- *survive*: no check fails. These mutants are equivalent, for the reasons below.

`grads mutants -o docs/mutants.md` writes this page.
"""
SURVIVORS = """\
## Survivors

These mutants compute the same, or differ in something that a gradient check need not see.
`grads/verification/mutation/equivalents.py` lists them.
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
    head = HEADER.format(summary=summary(outcomes, equivalents))
    return f"{head}\n{table}\n\n{SURVIVORS}\n{survivors(outcomes, equivalents)}\n"


def _counts(outcomes: Iterable[Outcome]) -> Counter[str]:
    """The number of mutants in each package, and what killed them."""
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


def survivors(outcomes: Iterable[Outcome], equivalents: Mapping[str, str]) -> str:
    """A table of the reasons, with the number of mutants that survive for each. One without a
    reason has a row of its own, with the change."""
    reasons: Counter[str] = Counter()
    for o in outcomes:
        if not o.killed:
            explanation = reason(o.mutant.name, equivalents)
            reasons[f"{UNEXPLAINED} ({o.check}): `{o.mutant.name}`" if explanation is None
                    else explanation[1]] += 1
    rows = [f"| {count} | {why} |" for why, count in reasons.most_common()]
    return "\n".join(["| survivors | why |", "|---:|---|", *rows]) if rows else "None."
