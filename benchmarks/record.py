"""The result files: what was run, where, and what came out, as JSON beside the pictures."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from backend.errors import UserError
from backend.files import write_text
from benchmarks.timing import environment, mode

RESULTS = Path(__file__).parent / "results"


def save_rows(
    name: str, options: Mapping[str, Any], rows: Iterable[Mapping[str, Any]], *,
    folder: Path = RESULTS, gpu: bool = False,
) -> Path:
    """Write `<name>-<mode>.json`, or `<name>-gpu.json` where a GPU's columns are in it.

    Arguments: name of the benchmark; options it ran with, by name (`output`, a path of this
    machine, is left out); rows, one mapping a measurement, seconds and other plain values;
    folder, made where it is missing. Returns the file's path.
    """
    record = {
        "benchmark": name,
        "options": {key: value for key, value in options.items() if key != "output"},
        "environment": environment(),
        "rows": [dict(row) for row in rows],
    }
    path = record_path(name, folder=folder, gpu=gpu)
    write_text(path, json.dumps(record, indent=1) + "\n")
    return path


def record_path(name: str, *, folder: Path = RESULTS, gpu: bool = False) -> Path:
    """Where this run's record goes: BLAS mode H and S have a file each, a GPU one of its own."""
    return folder / f"{name}-{'gpu' if gpu else mode()}.json"


def load_rows(path: Path) -> dict[str, Any]:
    """The record in the file `path`: "benchmark", "options", "environment" and "rows".

    Raises UserError where there is no such file, or it is not a record.
    """
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{path}: expected a benchmark's record, got {error.strerror}") from error
    except ValueError as error:
        raise UserError(f"{path}: expected a benchmark's record in JSON, got {error}") from error
    expected = ("benchmark", "options", "environment", "rows")
    if not isinstance(record, dict) or not all(key in record for key in expected):
        raise UserError(f"{path}: expected a record with {', '.join(expected)}")
    return record
