"""What the command lines of the suite's benchmarks share."""

from __future__ import annotations

import argparse
from pathlib import Path

from backend.errors import UserError
from benchmarks.record import RESULTS


def make_parser(name: str, description: str | None) -> argparse.ArgumentParser:
    """The parser of `python -m benchmarks <name>` with the options that all have."""
    parser = argparse.ArgumentParser(
        prog=f"python -m benchmarks {name}", description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true",
                        help="tiny sizes, in seconds: to see that it runs, not how fast")
    parser.add_argument("--seconds", type=positive, default=4.0,
                        help="about how long each comparison may be timed, default 4")
    parser.add_argument("--output", type=Path, metavar="DIR",
                        help="folder of the record and the picture, default benchmarks/results")
    return parser


def parse(parser: argparse.ArgumentParser, arguments: list[str]) -> argparse.Namespace:
    """The options, with the folder that the results go to.

    Raises UserError where a part of a benchmark would take the place of the whole one's record.
    """
    options = parser.parse_args(arguments)
    for name in ("quick", "only"):
        if getattr(options, name, None) and options.output is None:
            raise UserError(f"--{name}: expected --output DIR beside it, so that the record of a "
                            "whole run stays; got none")
    options.output = options.output or RESULTS
    return options


def positive(text: str) -> float:
    """A number above zero, for argparse."""
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"expected a number above 0, got {text}")
    return value
