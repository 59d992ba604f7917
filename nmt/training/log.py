"""The training log: one JSON object per line."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from backend.errors import UserError
from nmt.data.corpus import decode_lines
from nmt.files import write_text

AMOUNTS = ("target_tokens", "target_tokens_per_second", "cpu_seconds", "elapsed_seconds")
LARGEST = 1e308


class Log:
    """Appends records to a file, one JSON object per line.

    Records of updates have `"event": "update"`, records of epochs `"event": "epoch"`. Both have the
    numbers of the epoch and of the last update, "epoch" and "step", which count from 1. Infinity
    and NaN are null.
    """

    def __init__(self, path: Path, check: Callable[[], None] = lambda: None) -> None:
        """check: called before each record is written; it may raise UserError."""
        self._path, self._check = path, check

    def write(self, event: str, **record: Any) -> None:
        """Append a record. Raises UserError if the file cannot be written."""
        self._check()
        line = json.dumps(_strict({"event": event, **record}), allow_nan=False)
        try:
            with open(self._path, "a", encoding="utf-8") as file:
                file.write(line + "\n")
        except OSError as error:
            raise UserError(f"{self._path}: cannot write the log: {error}") from error

    def keep(self, is_kept: Callable[[dict[str, Any]], bool]) -> None:
        """Drop the records for which `is_kept` is false, and lines that a crash cut off."""
        if not self._path.is_file():
            return
        lines = self._path.read_bytes().decode("utf-8", "replace").split("\n")
        kept = [record for record in map(_parse, lines) if record is not None and is_kept(record)]
        write_text(self._path, "".join(json.dumps(record) + "\n" for record in kept))


class NoLog(Log):
    """The log of a process that does not write, because another one does."""

    def write(self, event: str, **record: Any) -> None:
        """Do nothing."""

    def keep(self, is_kept: Callable[[dict[str, Any]], bool]) -> None:
        """Do nothing."""


def read_log(path: Path) -> list[dict[str, Any]]:
    """The records of a log. Raises UserError if there is no log, and, with the line, if it is not a
    training log."""
    records = []
    for number, line in enumerate(decode_lines(path), 1):
        record = _parse(line)
        if record is None:
            raise UserError(f"{path}:{number}: expected a record of a training log, got "
                            f"{line[:60]!r}")
        records.append(record)
    return records


def _strict(value: Any) -> Any:
    """The value with None in place of infinity and NaN, which JSON does not have."""
    if isinstance(value, dict):
        return {key: _strict(item) for key, item in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _parse(line: str) -> dict[str, Any] | None:
    """The record of a line; None for an incomplete line and for anything else."""
    try:
        record = json.loads(line, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return None
    return record if _is_record(record) else None


def _is_record(record: Any) -> bool:
    """Whether a record has the required entries, of the required types."""
    if not isinstance(record, dict) or not isinstance(record.get("event"), str):
        return False
    counts = [record.get("step"), record.get("epoch", 0)]
    if any(type(count) is not int or not 0 <= count < 2**63 for count in counts):
        return False
    scores = record.get("scores", {})
    if not isinstance(scores, dict) or not all(map(_is_score, scores.values())):
        return False
    return (_is_score(record.get("loss")) and scores.get("perplexity", 1) != 0
            and all(record[name] is not None and _is_score(record[name])
                    for name in AMOUNTS if name in record))


def _is_score(value: Any) -> bool:
    """Whether a value is a number of at least 0 that an array can hold, or None, which stands for a
    number that was not finite."""
    return value is None or (type(value) is int and 0 <= value < 2**63) or (
        type(value) is float and 0 <= value < LARGEST)


def _no_constant(name: str) -> None:
    """Raise ValueError for NaN and Infinity, which Python reads although JSON does not have them.
    """
    raise ValueError(name)
