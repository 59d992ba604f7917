"""Reads timings, ratios and speeds from a record, for charts and tables.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from backend.errors import UserError
from nmt.files import read_file

LARGEST = 1 << 26  # bytes of a result file, or of a page with its tables
Row = Mapping[str, Any]
Record = Mapping[str, Any]
Timing = Mapping[str, float]
Value = float | tuple[float, float, float]  # or a median with its quartiles


def read_record(path: Path) -> dict[str, Any]:
    """The record of a result file. Raises UserError if it is none, or as `read_file`."""
    try:
        record: dict[str, Any] = json.loads(read_file(path, LARGEST, "a result file"))
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: expected a result file, got no JSON: {error}") from error
    return record


def nested(entries: Iterable[tuple[Any, ...]]) -> dict[Any, Any]:
    """Values by the keys before them: (a, b, value) becomes {a: {b: value}}, in the order met."""
    tree: dict[Any, Any] = {}
    for *keys, last, value in entries:
        branch = tree
        for key in keys:
            branch = branch.setdefault(key, {})
        branch[last] = value
    return tree


def timings(record: Record) -> Iterator[tuple[Row, str, Timing]]:
    """Each implementation of each row: the row, the implementation's name, its timing."""
    for row in record["rows"]:
        for name, timing in row["seconds"].items():
            yield row, name, timing


def ratios(row: Row) -> dict[str, float]:
    """Our median divided by that of each other implementation. Ours is the first."""
    ours, *peers = medians(row).items()
    return {name: ours[1] / seconds for name, seconds in peers}


def medians(row: Row) -> dict[str, float]:
    """Seconds by implementation, or of a sweep by size."""
    return {name: timing["median"] for name, timing in row["seconds"].items()}


def speeds(row: Row) -> dict[str, float]:
    """The amount per second, by implementation."""
    return {name: row["amount"] / seconds for name, seconds in medians(row).items()}


def middle(timing: Timing, scale: float = 1e3) -> Value:
    """A time and its quartiles, in milliseconds."""
    scaled = [scale * timing.get(key, timing["median"]) for key in ("median", "low", "high")]
    return scaled[0], scaled[1], scaled[2]


def sizes_of(row: Row, between: str = " ") -> str:
    """The sizes of a row by letter."""
    return between.join(f"{name}={size}" for name, size in row["sizes"].items())


def exponent(row: Row, amounts: Mapping[str, float]) -> float:
    """p of amount = a size^p by least squares of the logarithms, over a row's fitted sizes.

    Fixed costs of a call lower the exponent of times. Arrays that no longer fit a cache raise it.
    """
    x, y = (np.log([float(value) for value in values]) for values in
            (row["fitted"], [amounts[size] for size in row["fitted"]]))
    return round(float(np.polyfit(x, y, 1)[0]), 6) + 0.0
