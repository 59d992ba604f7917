"""Gives a reader many inputs under limits on memory and time, and collects the findings."""

from __future__ import annotations

import resource
import signal
import tempfile
import time
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from fuzz.readers import READERS, Reader

from backend.errors import UserError

MORE = 1 << 30  # bytes of memory in addition to the process's
SECONDS = 10.0  # seconds for one input
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None  # a file system that needs no disk


class TooSlow(Exception):
    """An input took longer than SECONDS."""


@dataclass
class Outcome:
    """The results for a reader's inputs."""

    accepted: int = 0
    refused: int = 0
    findings: list[tuple[str, str, bytes]] = field(default_factory=list)  # which, what, the input
    seconds: float = 0.0
    slowest: float = 0.0


def inputs(name: str, count: int, seed: int = 0, first: int = 0) -> Iterator[tuple[str, bytes]]:
    """The inputs of a reader by number, the same in every run."""
    for number in range(first, first + count):
        yield f"{name}/{seed}/{number}", READERS[name].make(Random(f"{name}/{seed}/{number}"))


def fuzz(reader: Reader, given: Iterable[tuple[str, bytes]], most: int = 20) -> Outcome:
    """Read all inputs, or until there are `most` findings."""
    outcome = Outcome()
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder, limited():
        path = Path(folder) / reader.file
        for which, data in given:
            path.write_bytes(data)
            start = time.perf_counter()
            problem = _problem(reader, path, outcome)
            taken = time.perf_counter() - start
            outcome.seconds += taken
            outcome.slowest = max(outcome.slowest, taken)
            if problem:
                outcome.findings.append((which, problem, data))
                if len(outcome.findings) >= most:
                    break
    return outcome


def _problem(reader: Reader, path: Path, outcome: Outcome) -> str:
    """What is wrong with the reader on this input; "" if nothing is."""
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        reader.read(path)
        outcome.accepted += 1
    except UserError as error:
        outcome.refused += 1
        return "" if str(path) in str(error) else f"the file is not named: {error}"
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__}: {error} at {last.filename}:{last.lineno}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return ""


@contextmanager
def limited() -> Iterator[None]:
    """Context with little additional memory, and with an alarm that ends code that takes too
    long."""

    def ring(*_: object) -> None:
        raise TooSlow(f"longer than {SECONDS:g} s")

    pages = int(Path("/proc/self/statm").read_text().split()[0])
    before, alarm = resource.getrlimit(resource.RLIMIT_AS), signal.signal(signal.SIGALRM, ring)
    resource.setrlimit(resource.RLIMIT_AS,
                       (pages * resource.getpagesize() + MORE, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
        signal.signal(signal.SIGALRM, alarm)
