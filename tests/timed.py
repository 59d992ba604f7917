"""Runs benchmarks for tests: by name, with the arguments of a command line."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.__main__ import find
from benchmarks.case import Case
from benchmarks.devices import Device
from benchmarks.registry import MODULES
from benchmarks.runner import Benchmark
from benchmarks.runner import parse as parse_options


def declared(name: str) -> Benchmark:
    """The declaration of a benchmark."""
    return import_module(f"benchmarks.{MODULES[name]}").BENCHMARKS[name]


def parse(name: str, arguments: list[str]) -> argparse.Namespace:
    """Its options."""
    return parse_options(name, declared(name), None, arguments)


def cases(name: str, arguments: list[str]) -> Iterator[Case]:
    """Its cases."""
    return iter(declared(name).cases(parse(name, arguments)))


def run(name: str, directory: Path, *arguments: str) -> tuple[Path, dict[str, Any]]:
    """A quick run into a directory: the path of its record, and what that holds."""
    find(name)(["--quick", "--output", str(directory), *arguments])
    (path,) = directory.glob("*.json")
    return path, json.loads(path.read_text(encoding="utf-8"))


def prepare(case: Case, device: Device) -> dict[str, Any]:
    """A case's differences, after each of its calls was made once."""
    import backend

    with backend.using(device.backend):
        prepared = case.prepare(device)
    for call in prepared.calls.values():
        call()
    return dict(prepared.differences)
