"""The subcommands of `grads`, except `check` (`grads.checking`).

Each imports its modules when it runs: importing the explorer or models takes longer than a check.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from backend.errors import UserError
from grads.derivations.errata import MISTAKES
from nmt.console import progress
from nmt.console.messages import nearest, several
from nmt.console.terminal import Console, print
from nmt.files import write_text

WIDE = 200  # columns of a table in a pipe


def console() -> Console:
    """The terminal; a pipe gets wide lines without colours."""
    terminal = Console(highlight=False)
    return terminal if terminal.is_terminal else Console(highlight=False, width=WIDE)


def matrix(options: argparse.Namespace) -> int:
    """`grads matrix`."""
    from grads.verification import matrix as gradient_matrix

    return gradient_matrix.write(options.output, options.seed)


def mutants(options: argparse.Namespace) -> int:
    """`grads mutants`: 0 if the checks notice every mistake that is one."""
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
    """Make the papers' mistakes of those names, and print what the check says."""
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


def equations(options: argparse.Namespace) -> int:
    """`grads equations`: 0 if every number has a line, every line a number and a check."""
    from grads.verification import equations as index

    source = index.read_source()
    with progress.busy("equations"):
        write_text(options.output, index.to_markdown(source))
        found = index.problems(source)
    print("\n".join([*found, f"{options.output}: written, {several(len(found), 'problem')}"]))
    return int(bool(found))


EXAMPLE = ("sentence", "target", "hidden", "embedding", "layers", "score", "window", "feeding",
           "seed", "model", "checkpoint")  # options of the example to step through
SEARCH = "search"  # a name that is no derivation
SHARED = ("sentence", "model", "checkpoint")  # options that it has too
OF_SEARCH = ("ensemble", "average", "beam", "nbest", "length_normalisation", "length_factor")


def walk(options: argparse.Namespace) -> int:
    """`grads walk`."""
    from grads.stepper.walk import walk as walk_in_terminal

    if options.name == SEARCH:
        _walk_search(options)
        return 0
    walk_in_terminal(options.name, all=options.all, **_of_derivation(options))
    return 0


def explore(options: argparse.Namespace) -> int:
    """`grads explore`."""
    from grads.stepper.explorer.data import explore as write_page

    if options.name == SEARCH:
        path = _explore_search(options)
    else:
        chosen = _of_derivation(options)
        with progress.busy(f"verifying {options.name}"):
            path = write_page(options.name, options.output, **chosen)
    print(f"{path}: written")
    return 0


def _of_derivation(options: argparse.Namespace) -> dict[str, Any]:
    """The options of a derivation. Raises UserError for its name, or an option of a search."""
    from grads.stepper.explorer.own import is_own
    from grads.stepper.tracing.derivations import DERIVATIONS

    known, name = [*DERIVATIONS, SEARCH], options.name
    if name not in known and not is_own(name):
        raise UserError(f"NAME: expected one of {', '.join(known)}, or FILE.py:NAME, got {name!r}"
                        f"{nearest(name, known)}")
    _only(options, OF_SEARCH, name, "; search has")
    return {key: getattr(options, key) for key in EXAMPLE}


# --- a search -------------------------------------------------------------------------------------


def _walk_search(options: argparse.Namespace) -> None:
    """A search, printed."""
    from grads.stepper.explorer.search import SearchSettings, build_search
    from grads.stepper.explorer.search_text import as_text

    print(as_text(build_search(SearchSettings(**_of_search(options)))))


def _explore_search(options: argparse.Namespace) -> Path:
    """The page of a search, written."""
    from grads.stepper.explorer.search import SearchSettings, explore_search

    return explore_search(options.output, SearchSettings(**_of_search(options)))


def _of_search(options: argparse.Namespace) -> dict[str, Any]:
    """The options of a search. Raises UserError for an option that it does not have."""
    _only(options, set(EXAMPLE) - {*SHARED}, SEARCH, "")
    return {name: getattr(options, name) for name in (*SHARED, *OF_SEARCH)
            if getattr(options, name) is not None}


def _only(options: argparse.Namespace, others: Iterable[str], name: str, who: str) -> None:
    """Raise UserError if an option of `others` was given."""
    for key in sorted(others):
        if getattr(options, key) is not None:
            raise UserError(f"{key.replace('_', '-')}: {name} has none{who}")
