"""What the subcommands of `grads` do."""

from __future__ import annotations

import argparse
import difflib
import fnmatch
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from backend.errors import UserError
from backend.files import write_text
from backend.terminal import Console
from grads.check import METHODS, SAMPLE
from grads.check.page import html_page
from grads.check.report import Report, json_page
from grads.check.user_code import check_file
from grads.derivations.errata import MISTAKES
from grads.progress import watching
from grads.stepper import walk as terminal
from grads.stepper.explorer.data import explore as write_page_of
from grads.verification import catalogue, derivations
from grads.verification import equations as index
from grads.verification import matrix as gradient_matrix
from grads.verification.mutation.equivalents import EQUIVALENTS
from grads.verification.mutation.report import page as page_of_mutants
from grads.verification.mutation.report import problems, summary
from grads.verification.mutation.run import check_mistake
from grads.verification.mutation.run import run as run_mutants

METHOD = "complex step and Ridders' differences, where the function suits them"
WIDE = 200  # columns of a table in a pipe


def console() -> Console:
    """The terminal; a pipe gets wide lines without colours."""
    terminal = Console(highlight=False)
    return terminal if terminal.is_terminal else Console(highlight=False, width=WIDE)


def check(options: argparse.Namespace) -> int:
    """`grads check`: 0 if all is right, 1 if something is wrong, 3 if something is undecided, or
    the time was up."""
    tiers = (options.tier,) if options.tier else ("tiny", "real")
    known = {**_catalogue(tiers, options.seed), **_derivations()}
    if options.list:
        print("\n".join(known))
        return 0
    if options.method is not None and options.method not in METHODS:
        raise UserError(f"--method: expected one of {', '.join(METHODS)}, got {options.method!r}")
    extent: dict[str, Any] = {"every_entry": options.all, "sample": options.sample}
    extent |= {"method": options.method} if options.method else {}
    if options.rtol is not None:
        if not 0 <= options.rtol < 1:
            raise UserError(f"--rtol: expected a number between 0 and 1, got {options.rtol:g}")
        extent["rtol"] = options.rtol
    if options.time_limit is not None and options.time_limit <= 0:
        raise UserError(f"--time-limit: expected seconds above 0, got {options.time_limit:g}")
    screen, reports = console(), []
    for report in _reports(options, known, extent):
        reports.append(report)
        if len(options.names) == 1 or not report.ok:
            screen.print(report)
        else:
            print(report.summary())
    wrong, undecided, stopped = (sum(report.verdict == word for report in reports)
                                 for word in ("wrong", "undecided", "unfinished"))
    print(f"{len(reports)} check{'s' * (len(reports) != 1)}, {wrong} wrong"
          + f", {undecided} undecided" * bool(undecided)
          + f", {stopped} not finished" * bool(stopped))
    if options.json:
        write_text(options.json, json_page(reports))
    if options.html:
        write_text(options.html, html_page(reports, _facts(options)))
    return 1 if wrong else 3 if undecided or stopped else 0


def _facts(options: argparse.Namespace) -> dict[str, str]:
    """What the page says of how it was made."""
    facts = {"seed": str(options.seed), "method": options.method or METHOD}
    facts["accepted"] = "what rounding explains" + (
        f", or a relative error of {options.rtol:g}" if options.rtol else "")
    if options.time_limit is not None:
        facts["time limit"] = f"{options.time_limit:g} s for each check"
    return facts


Checks = dict[str, Callable[..., Report]]  # name -> how it is run, given an extent


def _catalogue(tiers: Sequence[str], seed: int) -> Checks:
    """The checks of some tiers. Raises UserError on a tier that there is not."""
    for tier in tiers:
        if tier not in catalogue.TIERS:
            raise UserError(f"--tier: expected one of {', '.join(catalogue.TIERS)}, got {tier!r}")
    return {entry.name: partial(catalogue.check, entry, seed)
            for entry in catalogue.entries(*tiers)}


def _derivations() -> Checks:
    """The checks of the literal algorithms, each on its own example."""
    return {entry.name: partial(derivations.check, entry) for entry in derivations.entries()}


def _reports(
    options: argparse.Namespace, known: Checks, extent: dict[str, Any]
) -> Iterator[Report]:
    """One report for each file's function, and for each check whose name fits a pattern."""
    for name in options.names or ["*"]:
        if ".py:" in name or name.endswith(".py"):
            target = name if ".py:" in name else f"{name}:"
            rng = np.random.default_rng(options.seed)
            with watching(name, options.time_limit) as watch:
                yield check_file(target, rng, watch=watch, **_mapped(extent, options.html))
            continue
        found = [one for one in known if fnmatch.fnmatchcase(one, name)
                 or fnmatch.fnmatchcase(one.partition(";")[0], name)]
        if not found:
            raise UserError(f"NAME: expected an entry of the catalogue or FILE.py:NAME, got "
                            f"{name!r}{nearest(name, [one.partition(';')[0] for one in known])} "
                            "(see grads check --list)")
        for one in found:
            with watching(one, options.time_limit) as watch:
                yield known[one](watch=watch, **extent)


def _mapped(extent: dict[str, Any], page: Any) -> dict[str, Any]:
    """The extent for a page: its maps show entries that were differentiated one by one."""
    if page is None:
        return extent
    asked = extent["every_entry"] or extent["sample"] is not None
    return {**extent, "steps": True} | ({} if asked else {"sample": SAMPLE})


def nearest(name: str, known: list[str]) -> str:
    """A hint at the known name that looks most like it."""
    close = difflib.get_close_matches(name, known, 1, 0.5)
    return f"; did you mean {close[0]!r}?" if close else ""


def matrix(options: argparse.Namespace) -> int:
    """`grads matrix`."""
    return gradient_matrix.write(options.output, options.seed)


def mutants(options: argparse.Namespace) -> int:
    """`grads mutants`: 0 if the checks notice every mistake that is one."""
    if options.names:
        return _mistakes(options.names)
    outcomes = run_mutants(options.sample, options.jobs, told=_progress)
    if options.output:
        write_text(options.output, page_of_mutants(outcomes, EQUIVALENTS))
    wrong = problems(outcomes, EQUIVALENTS, whole=options.sample is None)
    print("\n".join([*wrong, summary(outcomes, EQUIVALENTS)]))
    return int(bool(wrong))


def _progress(done: int, of: int) -> None:
    """A line every hundred mutants."""
    if done % 100 == 0:
        print(f"{done} of {of}", file=sys.stderr)


def _mistakes(names: list[str]) -> int:
    """Make the papers' mistakes of those names, and print what the check says."""
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
    print(f"{len(names)} mistake{'s' * (len(names) != 1)}, {len(unnoticed)} not noticed"
          + (f": {', '.join(unnoticed)}" if unnoticed else ""))
    return int(bool(unnoticed))


def equations(options: argparse.Namespace) -> int:
    """`grads equations`: 0 if every number has a line, every line a number and a check."""
    source = index.read_source()
    write_text(options.output, index.to_markdown(source))
    found = index.problems(source)
    print("\n".join([*found, f"{options.output}: written, {len(found)} problems"]))
    return int(bool(found))


EXAMPLE = ("sentence", "target", "hidden", "embedding", "layers", "score", "window", "feeding",
           "seed", "model", "checkpoint")  # options that say what is stepped through
SEARCH = "search"  # the name of what is no derivation
SHARED = ("sentence", "model", "checkpoint")  # options that it has too
OF_SEARCH = ("ensemble", "average", "beam", "nbest", "length_normalisation", "length_factor")


def walk(options: argparse.Namespace) -> int:
    """`grads walk`."""
    if options.name == SEARCH:
        _walk_search(options)
        return 0
    _only(options, OF_SEARCH, options.name, "; search has")
    chosen = {name: getattr(options, name) for name in EXAMPLE}
    terminal.walk(options.name, all=options.all, **chosen)
    return 0


def explore(options: argparse.Namespace) -> int:
    """`grads explore`."""
    if options.name == SEARCH:
        path = _explore_search(options)
    else:
        _only(options, OF_SEARCH, options.name, "; search has")
        chosen = {name: getattr(options, name) for name in EXAMPLE}
        path = write_page_of(options.name, options.output, **chosen)
    print(f"{path}: written")
    return 0


# --- a search, whose modules are imported here: nmt's tokenisers take a while to load -------------


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
    """What was said of a search. Raises UserError for an option that it has not."""
    _only(options, set(EXAMPLE) - {*SHARED}, SEARCH, "")
    return {name: getattr(options, name) for name in (*SHARED, *OF_SEARCH)
            if getattr(options, name) is not None}


def _only(options: argparse.Namespace, others: Iterable[str], name: str, who: str) -> None:
    """Raise UserError for an option of others that was given."""
    for key in sorted(others):
        if getattr(options, key) is not None:
            raise UserError(f"{key.replace('_', '-')}: {name} has none{who}")
