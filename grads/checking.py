"""The subcommand `grads check`: a report for each name.

Only the modules that the names need are imported: a user's file is checked without the catalogue.
"""

from __future__ import annotations

import argparse
import fnmatch
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from backend.errors import UserError
from grads.check import METHODS, SAMPLE
from grads.check.page import html_page
from grads.check.report import Report, json_page
from grads.check.user_code import check_file
from grads.commands import console
from grads.progress import watching
from nmt.console.arguments import at_least_zero, natural, positive, seconds
from nmt.console.messages import nearest, several
from nmt.console.progress import busy, counted
from nmt.console.terminal import print
from nmt.files import write_text

METHOD = "complex step and Ridders' differences, where the function suits them"


def add_check(parser: argparse.ArgumentParser) -> None:
    """The arguments of `grads check`."""
    parser.description = (
        "Check entries of the catalogue by name or pattern ('luong*local-p*'), or your own code: "
        "FILE.py:NAME, where the file has NAME_inputs(rng), and NAME_forward(*inputs) -> outputs, "
        "cache with NAME_backward(d_outputs, cache), or NAME(*inputs) with NAME_gradient(*inputs), "
        "or NAME alone: a layer with forward and backward, or a function that returns a loss with "
        "its gradients. Exit status 0: right; 1: wrong; 2: it could not be checked; 3: "
        "undecided (two methods disagree), or the time was up."
    )
    parser.add_argument("names", nargs="*", metavar="NAME",
                        help="check these (default: the whole catalogue)")
    parser.add_argument("--list", action="store_true", help="print the catalogue's names")
    parser.add_argument("--tier", help="check sizes tiny, real or every (default: tiny and real)")
    parser.add_argument("--all", action="store_true", help="differentiate every entry (default: "
                        "two random directions and one entry a tensor)")
    parser.add_argument("--sample", type=positive, metavar="N",
                        help="differentiate N entries of each larger tensor")
    parser.add_argument("--method", help="use both, complex, ridders, central or forward (default: "
                        "complex step, and central differences where that is not enough)")
    parser.add_argument("--rtol", type=at_least_zero, metavar="R",
                        help="accept relative errors up to R (default: those that rounding "
                             "explains)")
    parser.add_argument("--time-limit", type=seconds, metavar="SECONDS",
                        help="end each check after this time and report what was covered: "
                             "exit status 3, unless a gradient is wrong")
    parser.add_argument("--seed", type=natural, default=0,
                        help="seed inputs and directions (default: 0)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the reports there")
    parser.add_argument("--html", type=Path, metavar="FILE", help="also write a page there, with a "
                        "map of the relative error over each tensor; for your own code it "
                        "differentiates every entry of tensors with up to 256, and some of others")


def run_check(options: argparse.Namespace) -> int:
    """`grads check`: 0 if all is right, 1 if something is wrong, 3 if something is undecided, or
    the time was up."""
    if options.list:
        print("\n".join(_fitting("*", options)))
        return 0
    _tiers(options)
    extent = _extent(options)
    screen, reports = console(), []
    for report in _reports(options, extent):
        reports.append(report)
        if len(options.names) == 1 or not report.ok:
            screen.print(report)
        else:
            print(report.summary())
    wrong, undecided, stopped = (sum(report.verdict == word for report in reports)
                                 for word in ("wrong", "undecided", "unfinished"))
    print(f"{several(len(reports), 'check')}, {wrong} wrong"
          + f", {undecided} undecided" * bool(undecided)
          + f", {stopped} not finished" * bool(stopped))
    if options.json:
        write_text(options.json, json_page(reports))
    if options.html:
        write_text(options.html, html_page(reports, _facts(options)))
    return 1 if wrong else 3 if undecided or stopped else 0


def _extent(options: argparse.Namespace) -> dict[str, Any]:
    """The fields of `Extent` from the options. Raises UserError for invalid ones."""
    if options.method is not None and options.method not in METHODS:
        raise UserError(f"--method: expected one of {', '.join(METHODS)}, got {options.method!r}")
    if options.rtol is not None and not 0 <= options.rtol < 1:
        raise UserError(f"--rtol: expected a number between 0 and 1, got {options.rtol:g}")
    if options.time_limit is not None and options.time_limit <= 0:
        raise UserError(f"--time-limit: expected seconds above 0, got {options.time_limit:g}")
    extent: dict[str, Any] = {"every_entry": options.all, "sample": options.sample}
    extent |= {"method": options.method} if options.method else {}
    return extent if options.rtol is None else {**extent, "rtol": options.rtol}


def _facts(options: argparse.Namespace) -> dict[str, str]:
    """The facts on how the page was made, which it shows."""
    facts = {"seed": str(options.seed), "method": options.method or METHOD}
    facts["accepted"] = "what rounding explains" + (
        f", or a relative error of {options.rtol:g}" if options.rtol else "")
    if options.time_limit is not None:
        facts["time limit"] = f"{options.time_limit:g} s for each check"
    return facts


Checks = dict[str, Callable[..., Report]]  # name -> how it is run, given an extent


def _tiers(options: argparse.Namespace) -> tuple[str, ...]:
    """The requested tiers. Raises UserError for an unknown one."""
    if not options.tier:
        return ("tiny", "real")
    from grads.verification.catalogue import TIERS

    if options.tier not in TIERS:
        raise UserError(f"--tier: expected one of {', '.join(TIERS)}, got {options.tier!r}")
    return (options.tier,)


def _fitting(pattern: str, options: argparse.Namespace) -> Checks:
    """The checks of the catalogue and of the derivations whose names match a pattern. Only
    architectures that can match are built."""
    from grads.verification import catalogue, derivations

    start = re.split(r"[*?[]", pattern)[0]
    known: Checks = {entry.name: partial(catalogue.check, entry, options.seed)
                     for entry in catalogue.entries(*_tiers(options), start=start)}
    known |= {entry.name: partial(derivations.check, entry) for entry in derivations.entries()}
    return {name: entry for name, entry in known.items()
            if fnmatch.fnmatchcase(name, pattern)
            or fnmatch.fnmatchcase(name.partition(";")[0], pattern)}


def _reports(options: argparse.Namespace, extent: dict[str, Any]) -> Iterator[Report]:
    """A report for each function of a file, and for each check whose name fits a pattern."""
    for name in options.names or ["*"]:
        if ".py:" in name or name.endswith(".py"):
            target = name if ".py:" in name else f"{name}:"
            rng = np.random.default_rng(options.seed)
            with watching(name, options.time_limit) as watch:
                yield check_file(target, rng, watch=watch, **_mapped(extent, options.html))
            continue
        with busy("putting the catalogue together"):
            checks = _fitting(name, options)
        if not checks:
            known = [title.partition(";")[0] for title in _fitting("*", options)]
            raise UserError(f"NAME: expected an entry of the catalogue or FILE.py:NAME, got "
                            f"{name!r}{nearest(name, known)} (see grads check --list)")
        for title, run in counted(checks.items(), "checks"):
            with watching(title, options.time_limit) as watch:
                yield run(watch=watch, **extent)


def _mapped(extent: dict[str, Any], page: Any) -> dict[str, Any]:
    """The extent for a page. Its maps need entries that are differentiated one by one."""
    if page is None:
        return extent
    asked = extent["every_entry"] or extent["sample"] is not None
    return extent if asked else {**extent, "sample": SAMPLE}
