"""The common options of the benchmarks."""

from __future__ import annotations

import argparse
from collections.abc import Collection
from pathlib import Path

from backend.command import PlainParser
from backend.command import seconds as time_above_zero
from backend.errors import UserError
from benchmarks.record import RESULTS

FREE = ("output", "seconds", "device", "gemm")  # make no other measurement, or have other files


def make_parser(
    name: str, description: str | None, seconds: float = 4.0
) -> argparse.ArgumentParser:
    """The parser of `python -m benchmarks <name>` with the common options."""
    parser = PlainParser(
        prog=f"python -m benchmarks {name}", description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true",
                        help="tiny sizes, in seconds: to see that it runs, not how fast")
    parser.add_argument("--seconds", type=time_above_zero, default=seconds,
                        help=f"about how long each comparison may be timed, default {seconds:g}")
    parser.add_argument("--output", type=Path, metavar="DIR",
                        help="directory of the record and the picture, default benchmarks/results")
    return parser


def parse(
    parser: argparse.ArgumentParser, arguments: list[str], free: Collection[str] = ()
) -> argparse.Namespace:
    """The options, with the directory that the results go to.

    Arguments: free, options beside those of `FREE` that the benchmark's record may have.
    Raises UserError if a part of a benchmark, or another size of it, would overwrite its record.
    """
    options = parser.parse_args(arguments)
    if options.output is None:
        for name, value in vars(options).items():
            if name not in (*FREE, *free) and value != parser.get_default(name):
                raise not_whole(name)
    options.output = options.output or RESULTS
    return options


def not_whole(name: str) -> UserError:
    """The error for an option that the committed record must not have."""
    return UserError(f"--{name.replace('_', '-')}: expected --output DIR beside it, so that the "
                     "record of the usual run stays; got none")
