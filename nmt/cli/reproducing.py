"""`nmt reproduce`: list the papers' main results, or try one again."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

from backend.errors import UserError
from nmt.claims import Claim, load_claims, page
from nmt.console.messages import nearest
from nmt.console.terminal import print
from nmt.run_files import check_new


def add_reproduce(parser: argparse.ArgumentParser) -> None:
    """The arguments of `nmt reproduce`."""
    parser.add_argument("name", nargs="?", help="a claim of the list (default: print the list)")
    parser.add_argument("--data", type=Path, metavar="DIR",
                        help="read Multi30k's tokenised files here; claims of parsing also "
                             "read gum/*.ptb")
    parser.add_argument("--output", type=Path, metavar="DIR",
                        help="make this directory for the runs")
    parser.add_argument("--dry-run", action="store_true", help="print the commands of the claim")
    parser.add_argument("--doc", action="store_true", help="print docs/claims.md")


def run_reproduce(options: argparse.Namespace) -> None:
    """`nmt reproduce`.

    List the papers' claims beside the results of two seeds of the small recipes, or train and
    evaluate the systems of one claim.
    """
    claims = load_claims()
    if options.doc:
        print(page(claims), end="")
    elif options.name is None:
        for claim in claims.values():
            print(f"{claim.name}: {claim.verdict}; {claim.minutes} minutes\n  {claim.claim}\n"
                  f"  {claim.source}: {claim.paper}; here {claim.here} (docs/{claim.page})")
    elif options.name not in claims:
        raise UserError(f"{options.name}: expected one of {', '.join(claims)}"
                        f"{nearest(options.name, claims)}")
    elif options.dry_run:
        print(_commands(claims[options.name]), end="")
    else:
        _run(claims[options.name], options)


def _commands(claim: Claim) -> str:
    """A claim's script with the variables that do not depend on options."""
    recipes = files("nmt") / "recipes"
    return f"RECIPES={recipes}\nSYSTEMS='{' '.join(claim.systems)}'\n{claim.script}"


def _run(claim: Claim, options: argparse.Namespace) -> None:
    """Run a claim's script in sh, with this Python's `nmt` first on the path. Raises UserError if a
    command fails."""
    if options.output is None or (options.data is None and "$DATA" in claim.script):
        raise UserError(f"{claim.name}: needs --data DIR and --output DIR")
    check_new(options.output)
    options.output.mkdir(parents=True)
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
        "DATA": str(options.data), "RUNS": str(options.output)}
    done = subprocess.run(["sh", "-e", "-c", _commands(claim)], env=environment)
    if done.returncode:
        raise UserError(f"{claim.name}: a command failed (exit status {done.returncode})")
    print(f"{claim.claim}\n{claim.source}: {claim.paper}; so far {claim.here}, {claim.verdict}")
