"""`grads matrix`, `grads mutants` and `grads equations`: they write pages on all that is verified.

Each command imports its modules when it runs: importing models takes longer than a check.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from backend.errors import UserError
from grads.derivations.errata import MISTAKES
from nmt.console import progress
from nmt.console.arguments import natural, positive
from nmt.console.messages import nearest, several
from nmt.console.terminal import Console, print
from nmt.files import write_text

WIDE = 200  # columns of a table in a pipe


def console() -> Console:
    """The terminal. A pipe gets wide lines without colours."""
    terminal = Console(highlight=False)
    return terminal if terminal.is_terminal else Console(highlight=False, width=WIDE)


def add_matrix(parser: argparse.ArgumentParser) -> None:
    """The arguments of `grads matrix`."""
    parser.add_argument("-o", "--output", type=Path, default=Path("docs/gradient-matrix.md"),
                        help="write the page here, and a .json of the same name beside it")
    parser.add_argument("--seed", type=natural, default=0, help="seed all inputs (default: 0)")


def run_matrix(options: argparse.Namespace) -> int:
    """`grads matrix`."""
    from grads.verification import matrix as gradient_matrix

    return gradient_matrix.write(options.output, options.seed)


def add_mutants(parser: argparse.ArgumentParser) -> None:
    """The arguments of `grads mutants`."""
    parser.description = (
        "Change the backward passes, one place at a time, and run the checks on each mutant; or "
        "make a paper's mistake, by its name in docs/errata.md, in a derivation. Exit status 1: "
        "a mutant survives that should have been killed."
    )
    parser.add_argument("names", nargs="*", metavar="NAME",
                        help="make these mistakes of the papers and print the reports")
    parser.add_argument("--sample", type=positive, metavar="N",
                        help="try a fixed choice of N mutants (default: all)")
    parser.add_argument("--jobs", type=positive, default=1, metavar="N",
                        help="use N processes (default: 1)")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE",
                        help="write the page docs/mutants.md there")


def run_mutants(options: argparse.Namespace) -> int:
    """`grads mutants`: 0 if the checks notice every real mistake."""
    from grads.verification.mutation.equivalents import EQUIVALENTS
    from grads.verification.mutation.report import page, problems, summary
    from grads.verification.mutation.run import run as run_mutants

    if options.names:
        return _mistakes(options.names)
    with progress.told("mutants") as tell:
        outcomes = run_mutants(options.sample, options.jobs, told=tell)
    if options.output:
        write_text(options.output, page(outcomes, EQUIVALENTS))
    wrong = problems(outcomes, EQUIVALENTS, whole=options.sample is None)
    print("\n".join([*wrong, summary(outcomes, EQUIVALENTS)]))
    return int(bool(wrong))


def _mistakes(names: list[str]) -> int:
    """Make the papers' mistakes of these names, and print the reports of the checks."""
    from grads.verification.mutation.run import check_mistake

    for name in names:
        if name not in MISTAKES:
            raise UserError(f"NAME: expected one of the papers' mistakes, got {name!r}"
                            f"{nearest(name, list(MISTAKES))}")
    unnoticed = []
    for name in names:
        mistake, report = MISTAKES[name], check_mistake(name)
        print(f"{name}: {mistake.why}\n  in {mistake.function}: {mistake.old!r} became "
              f"{mistake.new!r}")
        console().print(report)
        unnoticed += [name] * report.ok
    print(f"{several(len(names), 'mistake')}, {len(unnoticed)} not noticed"
          + (f": {', '.join(unnoticed)}" if unnoticed else ""))
    return int(bool(unnoticed))


def add_equations(parser: argparse.ArgumentParser) -> None:
    """The arguments of `grads equations`."""
    parser.add_argument("-o", "--output", type=Path, default=Path("docs/equations.md"),
                        help="write the page here")


def run_equations(options: argparse.Namespace) -> int:
    """`grads equations`: 0 if every number has a line, and every line has a number and a check."""
    from grads.verification import equations as index

    source = index.read_source()
    with progress.busy("equations"):
        write_text(options.output, index.to_markdown(source))
        problems = index.problems(source)
    print("\n".join([*problems, f"{options.output}: written, {several(len(problems), 'problem')}"]))
    return int(bool(problems))
