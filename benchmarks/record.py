"""The result files: options, environment and measurements, as JSON beside the pictures."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from backend.files import write_text
from benchmarks.pictures import draw
from benchmarks.timing import blas_kernels, environment

RESULTS = Path(__file__).parent / "results"

Picture = Callable[[Any, dict[str, Any]], Any]  # pyplot and a record to a figure


def publish_rows(
    name: str, options: Mapping[str, Any], rows: Iterable[Mapping[str, Any]], picture: Picture, *,
    directory: Path = RESULTS, gpu: bool = False,
) -> None:
    """Publish `<name>-<kernels>.json`, or `<name>-gpu.json` if it has results of a GPU.

    Arguments: name of the benchmark; options it ran with, by name (`output`, a path of this
    machine, is left out); rows, one mapping a measurement, seconds and other plain values;
    picture, as `publish`; directory, made where it is missing.
    """
    publish(directory / f"{name}-{'gpu' if gpu else blas_kernels()}.json", {
        "benchmark": name,
        "options": {key: value for key, value in options.items() if key != "output"},
        "environment": environment(),
        "rows": [dict(row) for row in rows],
    }, picture)


def publish(path: Path, record: Mapping[str, Any], picture: Picture) -> None:
    """Write a record as JSON, print its path, and draw its `picture` beside it."""
    text = json.dumps(record, indent=1)
    write_text(path, text + "\n")
    print(f"written: {path.name}")
    draw(path.with_suffix(".png"), lambda plt: picture(plt, json.loads(text)))
