"""The training log: one JSON object per line."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from backend.errors import UserError
from backend.files import write_text
from nmt.data.corpus import decode_lines


class Log:
    """Appends records to a file, each line complete on its own.

    Records of updates have `"event": "update"`, records of epochs `"event": "epoch"`; both carry
    the numbers of the epoch and of the last update ("epoch", "step", from 1). A perplexity too
    large for a float is null.
    """

    def __init__(self, path: Path, check: Callable[[], None] = lambda: None) -> None:
        """Arguments: path; check, called before each record, raises UserError."""
        self._path, self._check = path, check

    def write(self, event: str, **record: Any) -> None:
        """Append one record. Raises UserError when the file cannot be written."""
        self._check()
        line = json.dumps(_strict({"event": event, **record}), allow_nan=False)
        try:
            with open(self._path, "a", encoding="utf-8") as file:
                file.write(line + "\n")
        except OSError as error:
            raise UserError(f"{self._path}: cannot write the log: {error}") from error

    def keep(self, wanted: Callable[[dict[str, Any]], bool]) -> None:
        """Drop the records that are not `wanted`, and lines cut off by a crash."""
        if not self._path.is_file():
            return
        kept = [record for record in map(_parse, self._path.read_text("utf-8").splitlines())
                if record is not None and wanted(record)]
        write_text(self._path, "".join(json.dumps(record) + "\n" for record in kept))


def read_log(path: Path) -> list[dict[str, Any]]:
    """The records of a log. Raises UserError: there is none, or, with the line, it is not ours."""
    records = []
    for number, line in enumerate(decode_lines(path), 1):
        record = _parse(line)
        if not isinstance(record, dict) or not {"event", "step"} <= record.keys():
            raise UserError(f"{path}:{number}: expected a record of a training log, got "
                            f"{line[:60]!r}")
        records.append(record)
    return records


def _strict(value: Any) -> Any:
    """The value with null for numbers that JSON does not have: infinity and NaN."""
    if isinstance(value, dict):
        return {key: _strict(part) for key, part in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _parse(line: str) -> dict[str, Any] | None:
    """The record of a line; None for half a line."""
    try:
        return json.loads(line)
    except ValueError:
        return None
