"""Draws the pictures of result files again, without measuring: `python -m benchmarks redraw`.

As PNG beside the files, or in the formats and the directory that are named; SVG and PDF suit
papers.
"""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

from backend.command import PlainParser
from backend.errors import UserError
from benchmarks.pictures import draw
from benchmarks.record import RESULTS, Picture
from benchmarks.table import LABELS

FORMATS = ("png", "svg", "pdf")


def main(arguments: list[str]) -> None:
    """Draw every file of a directory in every format."""
    parser = PlainParser(prog="python -m benchmarks redraw", description=__doc__)
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME",
                        help="of result files without .json (default: all)")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where the files are")
    parser.add_argument("--format", choices=FORMATS, nargs="+", default=["png"], dest="formats")
    parser.add_argument("--output", type=Path, metavar="DIR", help="default: beside the files")
    options = parser.parse_args(arguments)
    paths = [options.results / f"{name}.json" for name in options.only]
    for path in paths or sorted(options.results.glob("*.json")):
        redraw(path, options.output or options.results, options.formats)


def redraw(path: Path, directory: Path, formats: list[str]) -> None:
    """Draw the pictures of one file. Raises UserError if it is not the result file of a
    benchmark."""
    try:
        record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{path.name}: expected a result file, got: {error}") from error
    directory.mkdir(parents=True, exist_ok=True)
    make = picture_of(path.stem)
    for ending in formats:
        draw(directory / f"{path.stem}.{ending}", lambda plt: make(plt, record))


def picture_of(stem: str) -> Picture:
    """The function that draws a file, by its name: that of a benchmark and, behind -, a suffix."""
    name = stem.removesuffix("-" + stem.rpartition("-")[2])
    if stem.rpartition("-")[2] not in LABELS:
        raise UserError(f"{stem}.json: expected a name that ends in -{', -'.join(LABELS)}")
    if name == "variants":
        made: Picture = import_module("benchmarks.step").picture_of_variants
        return made
    first = name.partition("-")[0]
    try:
        made = import_module(f"benchmarks.{'naive.run' if first == 'naive' else first}").picture
    except (ImportError, AttributeError):
        raise UserError(f"{stem}.json: expected the name of a benchmark, got {name!r}") from None
    return made
